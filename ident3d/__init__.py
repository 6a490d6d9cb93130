"""ident3d: the 3DIdent benchmark of contrastive learning and identifiability.

Each name is loaded when it is first used, so that ``import ident3d`` stays light. The names are listed in
``__init__.pyi``, for readers, for type checkers, and for the code below.
"""

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

__version__ = "0.1.0"

# Not with the package lazy-loader: a render worker imports ident3d where there are only NumPy and bpy.
_STUB = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
_HOMES = {name.name: node.module for node in _STUB.body if isinstance(node, ast.ImportFrom) for name in node.names}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ident3d' has no attribute {name!r}")
    home = _HOMES[name]
    value = import_module(f"ident3d.{name}") if home is None else getattr(import_module(f"ident3d.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
