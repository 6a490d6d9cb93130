"""Training on images: :func:`train` produces a run, and :func:`embed` a submission from it.

Each name is loaded when it is first used, so that options can be parsed without loading torch. ``__init__.pyi`` lists
the names.
"""

from ident3d.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
