# ruff: noqa: INP001 - run from a checkout, a part of no package
"""The address of the repository in the documents that hold it as text: README.md and CITATION.cff.

Run as ``python -m docs.links`` after ``Repository`` in ``[project.urls]`` of ``pyproject.toml`` was set or changed, and
``python -m leaderboard build`` for the leaderboard's page.
"""

import re
import sys
from pathlib import Path

from ident3d.files import write_text
from ident3d.repository import repository_address

__all__ = ["linked", "main"]

_ROOT = Path(__file__).parents[1]
_MARKED = re.compile(r"<!-- links -->.*?<!-- /links -->")
_CITED = re.compile(r"^repository-code: .*\n", re.MULTILINE)


def linked(name: str, text: str, address: str | None) -> str:
    """Return the text of a document with the repository's address, or without one where it is None.

    Args:
        name: the document: README.md or CITATION.cff.
        text: its text.
        address: the address, without a slash at its end.
    """
    if name == "CITATION.cff":
        plain = _CITED.sub("", text)
        line = "" if address is None else f'repository-code: "{address}"\n'
        return plain.replace("type: software\n", f"type: software\n{line}", 1)
    links = "" if address is None else f"[Repository]({address}) | [Issues]({address}/issues)"
    return _MARKED.sub(lambda _: f"<!-- links -->{links}<!-- /links -->", text)


def main() -> int:
    """Write the documents that have another address; return the exit status."""
    address = repository_address(_ROOT)
    for name in ("README.md", "CITATION.cff"):
        text = (_ROOT / name).read_text(encoding="utf-8")
        new = linked(name, text, address)
        if new != text:
            write_text(_ROOT / name, new)
            sys.stdout.write(f"wrote {name}\n")
    sys.stdout.write(f"{address or 'no address is set: nothing links to the repository'}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
