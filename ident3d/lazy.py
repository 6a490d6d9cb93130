"""Names of a package that are loaded when they are first used, so that importing the package stays light.

A package spells its names once, as imports in ``__init__.pyi``, where type checkers read them too. Its ``__init__.py``
says::

    __all__, __getattr__, __dir__ = lazy_names(__name__, __file__)

Only the standard library is needed, since a render worker imports these packages where there are NumPy and bpy alone.
"""

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = ["lazy_names"]


def lazy_names(package: str, file: str) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__all__``, ``__getattr__`` and ``__dir__`` of a package, from its stub.

    Args:
        package: the ``__name__`` of the package.
        file: the ``__file__`` of its ``__init__.py``; the stub is ``__init__.pyi`` beside it.
    """
    imports = _imports(Path(file).with_suffix(".pyi"))

    def load(name: str) -> Any:
        if name not in imports:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = imports[name]
        value = import_module(f"{package}.{name}") if home is None else getattr(import_module(home, package), name)
        setattr(sys.modules[package], name, value)
        return value

    def public_names() -> list[str]:
        version = [name for name in ("__version__",) if hasattr(sys.modules[package], name)]
        return sorted([*imports, *version])

    return list(imports), load, public_names


def _imports(stub: Path) -> dict[str, str | None]:
    """Return the module that each name of a stub is imported from; None for a name that is itself a module."""
    return {
        name.name: node.module and "." * node.level + node.module
        for node in ast.parse(stub.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
