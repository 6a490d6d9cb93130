"""Devices: the one that was asked for, or a word on why it cannot be had."""

import torch

__all__ = ["named_device", "usable_device"]


def usable_device(device: torch.device | str) -> torch.device:
    """Return a device that tensors can be put on and read from, with its number where it has one.

    Args:
        device: its name, such as "cpu", "cuda" or "cuda:1", or the device itself.

    Raises:
        TypeError: if it is neither a name nor a device.
        ValueError: if there is no such kind of device, or none here; the message says which there are.
    """
    wanted = named_device(device)
    if wanted.type == "meta":
        raise ValueError(f"tensors on the device 'meta' hold no numbers; {_what_there_is()}")
    try:
        return torch.zeros(1, device=wanted).device
    except (RuntimeError, AssertionError) as error:  # a build of torch without CUDA fails an assertion
        reason = str(error).partition("\n")[0].partition(". ")[0].rstrip(".")
        raise ValueError(f"the device '{wanted}' cannot be used here ({reason}); {_what_there_is()}") from error


def named_device(device: torch.device | str) -> torch.device:
    """Return the device of that name, whether or not there is one here; for errors see :func:`usable_device`."""
    if not isinstance(device, torch.device | str):
        raise TypeError(f"a device is a name, such as 'cpu' or 'cuda:1', or a torch.device, not {device!r}")
    try:
        return torch.device(device)
    except RuntimeError as error:
        raise ValueError(f"there is no kind of device called {device!r}; {_what_there_is()}") from error


def _what_there_is() -> str:
    names = ["cpu", *(f"cuda:{number}" for number in range(torch.cuda.device_count()))]
    names += ["mps"] if torch.backends.mps.is_available() else []
    return f"what there is here: {', '.join(names)}"
