"""Devices of torch: the one that was asked for, or an error that lists those that are available."""

import torch
from torch import Tensor

__all__ = ["Readback", "available_devices", "named_device", "send", "usable_device"]


def usable_device(device: torch.device | str) -> torch.device:
    """Return a device that tensors can be put on and read from, with its number where it has one.

    Args:
        device: its name, such as "cpu", "cuda" or "cuda:1", or the device itself; "auto" is the first CUDA device, and
            the CPU where there is none.

    Raises:
        TypeError: if it is neither a name nor a device.
        ValueError: if the device is unknown, or cannot be used here; the message lists those that can.
    """
    wanted = named_device(device)
    if wanted.type == "meta":
        raise ValueError(f"tensors on the device 'meta' hold no numbers; {_available()}")
    try:
        return torch.zeros(1, device=wanted).device
    except (RuntimeError, AssertionError) as error:  # a build of torch without CUDA fails an assertion
        reason = str(error).partition("\n")[0].partition(". ")[0].rstrip(".")
        raise ValueError(f"the device '{wanted}' cannot be used here ({reason}); {_available()}") from error


def named_device(device: torch.device | str) -> torch.device:
    """Return the device of that name, whether or not there is one here; for errors see :func:`usable_device`."""
    if not isinstance(device, torch.device | str):
        raise TypeError(f"a device is a name, such as 'cpu' or 'cuda:1', or a torch.device, not {device!r}")
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.device(device)
    except RuntimeError as error:
        raise ValueError(f"unknown device {device!r}; {_available()}") from error


def send(tensor: Tensor, device: torch.device) -> Tensor:
    """Return a tensor on ``device``, without waiting until it is there.

    What the device does next finds it there. To a CUDA device it goes by page-locked memory, from which alone a copy
    does not hold up the CPU.
    """
    if tensor.device.type == "cpu" and device.type == "cuda":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=device.type != "cpu")


class Readback:
    """The copy of a tensor to the CPU, which can do something else meanwhile.

    Args:
        tensor: on any device; from a CUDA device it goes behind what the current stream is doing.
    """

    def __init__(self, tensor: Tensor) -> None:
        self._copy = tensor.to("cpu", non_blocking=True)
        is_cuda = tensor.device.type == "cuda"
        self._event = torch.cuda.current_stream(tensor.device).record_event() if is_cuda else None

    def value(self) -> Tensor:
        """Return the copy on the CPU; wait for it if it has not arrived."""
        if self._event is not None:
            self._event.synchronize()
        return self._copy


def available_devices() -> tuple[str, ...]:
    """Return the names of the devices that can be used here, the CPU first."""
    names = ["cpu", *(f"cuda:{number}" for number in range(torch.cuda.device_count()))]
    names += ["mps"] if torch.backends.mps.is_available() else []
    return tuple(names)


def _available() -> str:
    return f"available devices: {', '.join(available_devices())}"
