"""ident3d: the 3DIdent benchmark of contrastive learning and identifiability.

The names below are loaded when they are first used, so that ``import ident3d`` stays light.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ident3d.dataset import ThreeDIdent as ThreeDIdent
    from ident3d.factors import FACTORS as FACTORS
    from ident3d.factors import Factor as Factor
    from ident3d.factors import Factors as Factors
    from ident3d.latents import from_physical as from_physical
    from ident3d.latents import sample_latents as sample_latents
    from ident3d.latents import to_physical as to_physical

__version__ = "0.1.0"

_HOMES = {
    "FACTORS": "factors",
    "Factor": "factors",
    "Factors": "factors",
    "ThreeDIdent": "dataset",
    "from_physical": "latents",
    "sample_latents": "latents",
    "to_physical": "latents",
}

__all__ = [*_HOMES, "__version__"]  # noqa: PLE0604 - names, spelled once above


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ident3d' has no attribute {name!r}")
    value = getattr(import_module(f"ident3d.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
