"""The errors that ident3d raises beside Python's own ValueError, TypeError and FileNotFoundError."""

__all__ = [
    "DatasetError",
    "EncoderError",
    "Ident3DError",
    "MissingDependencyError",
    "NotLoadedError",
    "SubmissionError",
]


class Ident3DError(Exception):
    """Base of every error that is ident3d's own."""


class DatasetError(Ident3DError):
    """A dataset on disk is damaged, incomplete, or not one that ident3d can read.

    Example:
        >>> import ident3d, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ident3d.ThreeDIdent(folder)
        Traceback (most recent call last):
        ident3d.errors.DatasetError: ...
    """


class EncoderError(Ident3DError):
    """An encoder cannot be loaded, or does not map images to embeddings."""


class SubmissionError(Ident3DError):
    """A submission is malformed, or does not belong to the dataset that it is scored against."""


class NotLoadedError(Ident3DError, ValueError):
    """A file names something of a module that is not imported, and reading a file imports none."""


class MissingDependencyError(Ident3DError, ImportError):
    """A library that only some tasks need is not installed.

    Args:
        library: the name of the missing library.
        task: what needs it, as the end of "... is needed to".
        extra: the extra of ident3d that brings it, or None when it is a dependency of ident3d itself.
    """

    def __init__(self, library: str, task: str, extra: str | None) -> None:
        target = "ident3d" if extra is None else f"'ident3d[{extra}]'"
        super().__init__(f"{library} is needed to {task} and is not installed: pip install {target}")
