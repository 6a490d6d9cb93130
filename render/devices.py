"""The devices that Cycles renders on."""

from enum import StrEnum

__all__ = ["GPUS", "Device"]


class Device(StrEnum):
    """What renders.

    Attributes:
        AUTO: the first of OPTIX, CUDA, HIP, METAL and ONEAPI that is there; else the CPU.
    """

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"
    OPTIX = "optix"
    HIP = "hip"
    METAL = "metal"
    ONEAPI = "oneapi"


GPUS = (Device.OPTIX, Device.CUDA, Device.HIP, Device.METAL, Device.ONEAPI)
"""The devices other than the CPU, the one that ``AUTO`` prefers first."""
