"""Registries: what can be named on a command line, and how anybody adds to it.

A registry maps names to entries. There is one for each kind of thing that ident3d is meant to be extended
by. An entry of your own can be added in two ways, and neither needs a change of ident3d:

* ``package.module:attribute`` imports the module and takes its attribute;
* an installed package that declares an entry point of the group ``ident3d``, naming a module that calls
  :meth:`Registry.register` when it is imported::

      [project.entry-points.ident3d]
      my_lab = "my_lab.contrastive"
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.metadata import distributions
from typing import Any, Generic, TypeVar

from ident3d.errors import NotLoadedError

__all__ = ["Registry", "load_attribute", "load_extensions"]

T = TypeVar("T")
GROUP = "ident3d"


class Registry(Mapping[str, T], Generic[T]):
    """Entries by name, open to additions.

    Args:
        what: what an entry is, as messages call it: "loss".
        entries: the entries to start with.
    """

    def __init__(self, what: str, entries: Mapping[str, T] | None = None) -> None:
        self.what = what
        self._entries: dict[str, T] = dict(entries or {})

    def register(self, name: str, entry: T) -> T:
        """Add an entry, and return it.

        Args:
            name: what the entry is called from now on, without a colon.
            entry: the entry.

        Raises:
            ValueError: if the name is taken by something else, empty, or holds a colon.
        """
        if not name or ":" in name:
            raise ValueError(f"{name!r} is not a name for a {self.what}; choose one without a colon")
        if self._entries.get(name, entry) is not entry:
            raise ValueError(f"there is a {self.what} {name!r} already; choose another name")
        self._entries[name] = entry
        return entry

    def __getitem__(self, name: str) -> T:
        """Return an entry by its name.

        Raises:
            KeyError: if there is none.
        """
        if name not in self._entries:
            load_extensions()
        return self._entries[name]

    def find(self, name: str, *, may_import: bool = True) -> T:
        """Return an entry by its name, or what ``package.module:attribute`` names.

        Args:
            name: the name.
            may_import: whether a module that is not imported yet may be. False for a name that comes from a file,
                which somebody else may have written.

        Raises:
            ValueError: if there is no such entry, module or attribute.
            NotLoadedError: the same where importing a module might have helped, and ``may_import`` is False.
        """
        if ":" in name:
            found: T = load_attribute(name, self.what, may_import=may_import)
            return found
        try:
            return self[name]
        except KeyError:
            close = get_close_matches(name, self._entries, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            kind = ValueError if may_import else NotLoadedError
            raise kind(
                f"unknown {self.what} {name!r}{hint}; choose from {', '.join(self)}, or name one of your own as "
                "package.module:attribute"
            ) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def load_attribute(name: str, what: str, *, may_import: bool = True) -> Any:
    """Return what ``package.module:attribute`` names.

    Args:
        name: the module, a colon, and the attribute, which may be dotted.
        what: what it should be, for the message.
        may_import: whether a module that is not imported yet may be.

    Raises:
        ValueError: if there is no such module or attribute, or the name has another form.
        NotLoadedError: if the module is not imported, and may not be.
    """
    module, _, path = name.partition(":")
    if not module or not path:
        raise ValueError(f"{name!r} names no {what}; expected package.module:attribute")
    if not may_import and module not in sys.modules:
        raise NotLoadedError(
            f"the {what} {name!r} is in the module {module!r}, which is not imported, and a name in a file imports "
            f"nothing: import {module} first, or register the {what} by an entry point of the group {GROUP}"
        )
    try:
        found: Any = import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and (module == error.name or module.startswith(f"{error.name}.")):
            raise ValueError(
                f"the {what} {name!r} cannot be loaded: there is no module {error.name!r}; install it, or run the "
                "command in the folder that holds it"
            ) from error
        raise
    for attribute in path.split("."):
        if not hasattr(found, attribute):
            raise ValueError(f"the {what} {name!r} cannot be loaded: {module!r} has no {path!r}")
        found = getattr(found, attribute)
    return found


@cache
def load_extensions() -> None:
    """Import the modules that installed packages declare as extensions of ident3d, once in a process.

    The current folder does not count, even where its modules can be named: it may hold somebody else's files.
    """
    installed = [folder for folder in sys.path if folder not in ("", os.curdir)]
    for distribution in distributions(path=installed):
        for entry_point in distribution.entry_points.select(group=GROUP):
            entry_point.load()
