"""What can go wrong between the command and Blender."""

from ident3d.errors import Ident3DError

__all__ = ["BlenderMissingError", "DeviceMissingError", "RenderError", "WorkerDiedError"]


class RenderError(Ident3DError):
    """An image could not be rendered."""


class BlenderMissingError(RenderError):
    """Blender cannot be loaded by what was to render; the message says why, and what to do about it."""


class DeviceMissingError(RenderError):
    """The device that was asked for is not there."""


class WorkerDiedError(RenderError):
    """A worker process ended in the middle of its work."""
