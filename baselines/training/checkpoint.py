"""Checkpoints: everything that a training needs to be resumed, in one file that is written completely or not at all.

A checkpoint holds only tensors and plain data, and the identity of the training that they belong to. Reading it runs no
code from it. The file is what ``torch.save`` writes, with the SHA-256 of its bytes in the comment at the end of the zip
archive: ``torch.load`` reads it as any other, and :func:`load_checkpoint` finds every flipped bit.
"""

import hashlib
import io
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ident3d.errors import Ident3DError
from ident3d.files import atomic_file

__all__ = [
    "Checkpoint",
    "DivergedError",
    "load_checkpoint",
    "load_optimiser",
    "load_state",
    "save_checkpoint",
]

_COMMENT = b"sha256:"
_COMMENT_BYTES = len(_COMMENT) + 64
_REMEDY = "remove it to start the training again, or put back a copy of it"


class DivergedError(Ident3DError):
    """A loss or a weight is no longer a finite number."""


def save_checkpoint(path: Path, identity: Mapping[str, Any], state: Mapping[str, Any]) -> None:
    """Write a checkpoint, wherever its tensors are; if that fails, the previous one is left unchanged.

    Args:
        path: the file; its folder is created.
        identity: identifies the training, as plain data; :func:`load_checkpoint` compares it.
        state: what the training needs to be resumed, by name: tensors and plain data, nested in any way. The name
            "identity" is reserved.

    Raises:
        DivergedError: if a number in a tensor is NaN or infinite, so that there is no use in resuming.
        Ident3DError: if the file cannot be written, for example because the disk is full.
    """
    state = _on_cpu(state)
    wrong = _not_finite(state)
    if wrong is not None:
        raise DivergedError(f"a checkpoint is not written: {wrong} holds numbers that are not finite")
    content = io.BytesIO()
    # In memory first: on a full disk, torch only reports an unexpected position.
    torch.save({"identity": dict(identity), **state}, content)
    signed = _signed(content.getvalue())
    try:
        with atomic_file(path) as file:
            file.write(signed)
    except OSError as error:
        before = "; the one before it is whole" if path.exists() else ""
        raise Ident3DError(f"the checkpoint {path} cannot be written: {error}{before}") from error


def load_checkpoint(path: Path, identity: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Read the state of a checkpoint onto the CPU, without running any code from it.

    Modules and optimisers copy it to where they are. Adam keeps its count of steps on the CPU: on a GPU, it would be
    waited for once a parameter and step.

    Args:
        path: the file.
        identity: the expected training; None accepts any. A file without an identity is accepted too, because those of
            the first runs on images have none.

    Raises:
        FileNotFoundError: if the file does not exist.
        Ident3DError: if it is damaged, not a checkpoint, of another training, or holds numbers that are not finite.
    """
    if not path.is_file():
        raise FileNotFoundError(f"there is no checkpoint {path}")
    content = path.read_bytes()
    _check_signature(path, content)
    try:
        held = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception as error:  # torch and pickle raise errors of many types for a damaged file
        # Torch's own message stays in the traceback: it advises to read the file without weights_only.
        raise Ident3DError(f"{path} is damaged, or not a checkpoint of a training; {_REMEDY}") from error
    if not isinstance(held, dict):
        raise Ident3DError(f"{path} holds a {type(held).__name__}, not a checkpoint of a training; {_REMEDY}")
    own = held.pop("identity", None)
    # The first checkpoints of runs on latents held everything else under one name.
    state: dict[str, Any] = held["state"] if set(held) == {"state"} else held
    if identity and own and own != dict(identity):
        raise Ident3DError(
            f"{path} is the checkpoint of another training: expected {dict(identity)}, not {own}; remove it, or choose "
            "another folder"
        )
    wrong = _not_finite(state)
    if wrong is not None:
        raise Ident3DError(f"{path} cannot be resumed from: {wrong} holds numbers that are not finite; {_REMEDY}")
    return state


def _signed(content: bytes) -> bytes:
    """Return an archive that has no comment with the checksum of its bytes as its comment."""
    comment = _COMMENT + hashlib.sha256(content).hexdigest().encode()
    return content[:-2] + len(comment).to_bytes(2, "little") + comment


def _check_signature(path: Path, content: bytes) -> None:
    """Raise Ident3DError unless the bytes are those that were written."""
    damaged = Ident3DError(f"{path} is damaged: its bytes are not those that were written; {_REMEDY}")
    if content[-_COMMENT_BYTES:].startswith(_COMMENT):
        if _signed(content[: -_COMMENT_BYTES - 2] + b"\0\0") != content:
            raise damaged
        return
    # Files that were written before there was a checksum of the whole: every member of the archive has its own.
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if archive.testzip() is not None:
                raise damaged
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError, EOFError) as error:
        raise Ident3DError(f"{path} is damaged, or not a checkpoint of a training; {_REMEDY}") from error


def _on_cpu(value: Any) -> Any:
    """Return nested data with its tensors on the CPU."""
    if isinstance(value, Tensor):
        return value.cpu()
    if isinstance(value, Mapping):
        return {key: _on_cpu(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_on_cpu(item) for item in value)
    return value


def _not_finite(state: Any) -> str | None:
    """Return the name of the first tensor in nested data that holds NaN or infinity; None if there is none."""
    for where, tensor in _tensors(state, ""):
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            return where
    return None


def _tensors(value: Any, where: str) -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, Tensor):
        yield where, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _tensors(item, f"{where}.{key}" if where else str(key))
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from _tensors(item, f"{where}[{number}]")


def load_state(module: nn.Module, state: Mapping[str, Tensor], what: str) -> None:
    """Load tensors into a module.

    Args:
        module: the module.
        state: its tensors by name.
        what: name of what is loaded, for the message.

    Raises:
        ValueError: if names or shapes do not match; the message lists them.
    """
    own = module.state_dict()
    faults = [f"{key} is missing" for key in own if key not in state]
    faults += [f"{key} is not part of it" for key in state if key not in own]
    faults += [
        f"{key} is {_described(state[key])}, expected {_described(own[key])}"
        for key in own
        if key in state and _described(state[key]) != _described(own[key])
    ]
    _refuse(faults, f"{what} is of another architecture")
    module.load_state_dict(dict(state))


def load_optimiser(optimiser: torch.optim.Optimizer, state: Mapping[str, Any], what: str) -> None:
    """Load the state that an optimiser keeps of every parameter.

    Its settings are not loaded: a training may be resumed on another device, where they have another type.

    Args:
        optimiser: the optimiser.
        state: what its ``state_dict`` returned in the earlier training.
        what: name of what is loaded, for the message.

    Raises:
        ValueError: if groups, parameters or shapes do not match; the message lists them.
    """
    own = optimiser.state_dict()["param_groups"]
    if not {"param_groups", "state"} <= set(state):
        raise ValueError(f"{what} is not the state of an optimiser: param_groups or state is missing")
    held, moments = state["param_groups"], state["state"]
    sizes, expected = ([len(group["params"]) for group in groups] for groups in (held, own))
    if sizes != expected:
        raise ValueError(f"{what} is of another model: it has groups of {sizes} parameters, expected {expected}")
    parameters = [parameter for group in optimiser.param_groups for parameter in group["params"]]
    faults = []
    for number, remembered in moments.items():
        if number not in range(len(parameters)):
            faults.append(f"there is no parameter {number}")
            continue
        shape = tuple(parameters[number].shape)
        faults += [
            f"{name} of parameter {number} is {_described(value)}, expected {shape}"
            for name, value in remembered.items()
            if isinstance(value, Tensor) and value.ndim > 0 and tuple(value.shape) != shape
        ]
    _refuse(faults, f"{what} is of another model")
    groups = [{**group, "params": before["params"]} for group, before in zip(own, held, strict=True)]
    optimiser.load_state_dict({"state": moments, "param_groups": groups})


def _described(value: Any) -> Any:
    return tuple(value.shape) if isinstance(value, Tensor) else f"a {type(value).__name__}"


def _refuse(faults: list[str], what: str) -> None:
    if faults:
        more = f" and {len(faults) - 5} more" if len(faults) > 5 else ""
        raise ValueError(f"{what}: {'; '.join(faults[:5])}{more}")


@dataclass(frozen=True)
class Checkpoint:
    """The state of a run on images after a step.

    The data need no state: batch b of a stream depends on the seed and b alone, so the step is the position. Nothing
    else draws random numbers after the encoder is built.

    Attributes:
        step: number of steps done.
        encoder: tensors of the encoder by name.
        loss: tensors of the loss by name.
        optimiser: state of the optimiser.
    """

    step: int
    encoder: dict[str, Tensor]
    loss: dict[str, Tensor]
    optimiser: dict[str, Any]

    def write(self, path: Path, identity: Mapping[str, Any] | None = None) -> None:
        """Write the file; see :func:`save_checkpoint`."""
        save_checkpoint(path, identity or {}, vars(self))

    @classmethod
    def read(cls, path: Path, identity: Mapping[str, Any] | None = None) -> "Checkpoint":
        """Read the file; see :func:`load_checkpoint`."""
        state = load_checkpoint(path, identity)
        fields = set(cls.__annotations__)
        if set(state) != fields:
            raise Ident3DError(
                f"{path} is not the checkpoint of a run on images: it holds {', '.join(map(str, state))}, expected "
                f"{', '.join(sorted(fields))}"
            )
        return cls(**state)
