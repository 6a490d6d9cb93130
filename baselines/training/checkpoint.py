"""Checkpoints: all that a run needs to go on, in one file that is whole or not there.

A checkpoint holds tensors and plain data only, under the modules' own names. Reading one runs no code from it.
"""

import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ident3d.errors import Ident3DError
from ident3d.files import atomic_file

__all__ = ["Checkpoint", "load_state"]


@dataclass(frozen=True)
class Checkpoint:
    """The state of a run after a step.

    The data need no state of their own: batch b of a stream depends on the seed and b alone, so the step is the
    position. Nothing else draws random numbers after the encoder is built.

    Attributes:
        step: steps done.
        encoder: the encoder's tensors by name.
        loss: the loss's tensors by name.
        optimiser: the optimiser's state.
    """

    step: int
    encoder: dict[str, Tensor]
    loss: dict[str, Tensor]
    optimiser: dict[str, Any]

    def write(self, path: Path) -> None:
        """Write the file, atomically.

        Raises:
            Ident3DError: if it cannot be written, on a full disk say; what was there before stays as it was.
        """
        content = io.BytesIO()
        torch.save(vars(self), content)  # in memory, for on a full disk torch speaks of an unexpected position
        try:
            with atomic_file(path) as file:
                file.write(content.getbuffer())
        except OSError as error:
            before = "; the one before it is whole" if path.exists() else ""
            raise Ident3DError(
                f"the checkpoint of step {self.step} cannot be written: {error}: {path}{before}"
            ) from error

    @classmethod
    def read(cls, path: Path, device: torch.device | str = "cpu") -> "Checkpoint":
        """Read the file.

        Raises:
            FileNotFoundError: if it is not there.
            Ident3DError: if it is damaged or no checkpoint.
        """
        if not path.is_file():
            raise FileNotFoundError(f"there is no checkpoint {path}")
        try:
            held = torch.load(path, map_location=device, weights_only=True)
            return cls(**held)
        except Exception as error:  # torch and pickle raise whatever a damaged file makes them trip over
            raise Ident3DError(f"{path} is damaged, or no checkpoint of a run: {error}") from error


def load_state(module: nn.Module, state: Mapping[str, Tensor], what: str) -> None:
    """Load tensors into a module, or say which do not fit.

    Args:
        module: the module.
        state: its tensors by name.
        what: what is loaded, for the message.

    Raises:
        ValueError: if names or shapes differ; they are named.
    """
    own = module.state_dict()
    faults = [f"{key} is missing" for key in own if key not in state]
    faults += [f"{key} is not part of it" for key in state if key not in own]
    faults += [
        f"{key} is {tuple(state[key].shape)} and must be {tuple(own[key].shape)}"
        for key in own
        if key in state and state[key].shape != own[key].shape
    ]
    if faults:
        more = f" and {len(faults) - 5} more" if len(faults) > 5 else ""
        raise ValueError(f"{what} is of another architecture: {'; '.join(faults[:5])}{more}")
    module.load_state_dict(dict(state))
