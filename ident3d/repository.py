"""The address of the source repository: one setting, which all documents, the leaderboard's page and the doctor follow.

The setting is ``Repository`` in ``[project.urls]`` of ``pyproject.toml``; while it is not set, no address is shown
anywhere. ``python -m docs.links`` carries it to the documents that hold it as text.
"""

from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

from ident3d.codec import read_file

__all__ = ["repository_address"]

_NAME = "Repository"


def repository_address(folder: Path | None = None) -> str | None:
    """Return the address of the source repository, without a slash at its end; None while none is known.

    Args:
        folder: the folder of a checkout. Where None, the one that this module is in; or else, in an installed package,
            what its metadata say.

    Raises:
        ValueError: if the setting is not an address that begins with https://.
    """
    settings = (folder or Path(__file__).parents[1]) / "pyproject.toml"
    if settings.is_file():
        project = read_file(settings, "restore it from a copy").get("project", {})
        address = project.get("urls", {}).get(_NAME) if project.get("name") == "ident3d" else None
    else:
        address = _installed_address()
    if address is None:
        return None
    if not (isinstance(address, str) and address.startswith("https://")):
        raise ValueError(
            f"{settings}: {_NAME} in [project.urls] is an address that begins with https://, not {address!r}"
        )
    return address.rstrip("/")


def _installed_address() -> str | None:
    try:
        lines = metadata("ident3d").get_all("Project-URL") or []
    except PackageNotFoundError:
        return None
    named = dict(line.split(", ", 1) for line in lines if ", " in line)
    return named.get(_NAME)
