"""Checkpoints of a training, which hold what they belong to."""

from pathlib import Path
from typing import Any

import torch

from ident3d.errors import Ident3DError
from ident3d.storage.atomic import atomic_file

__all__ = ["load_checkpoint", "save_checkpoint"]


def save_checkpoint(path: Path, identity: dict[str, Any], state: dict[str, Any]) -> None:
    """Write a checkpoint, whole or not at all.

    Args:
        path: the file; its folder is made.
        identity: what the training is, as plain data: experiment, seeds, budget.
        state: what it needs to go on: tensors and plain data.
    """
    with atomic_file(path) as file:
        torch.save({"identity": identity, "state": state}, file)


def load_checkpoint(path: Path, identity: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """Read the state of a checkpoint, without running any code from it.

    Raises:
        Ident3DError: if it belongs to another training.
    """
    held = torch.load(path, map_location=device, weights_only=True)
    if held["identity"] != identity:
        raise Ident3DError(
            f"{path} is the checkpoint of another training: it holds {held['identity']}, and {identity} was asked for; "
            "remove it, or choose another folder"
        )
    state: dict[str, Any] = held["state"]
    return state
