"""ident3d: the 3DIdent benchmark of contrastive learning and identifiability.

Each name is loaded when it is first used, so that ``import ident3d`` stays light. ``__init__.pyi`` lists the names.
"""

from ident3d.lazy import lazy_names

__version__ = "0.1.0"

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
