"""ident3d: the 3DIdent benchmark of contrastive learning and identifiability.

The names below are loaded when they are first used, so that ``import ident3d`` stays light.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ident3d.version import __version__

if TYPE_CHECKING:
    from ident3d import conditionals as conditionals
    from ident3d import marginals as marginals
    from ident3d import metrics as metrics
    from ident3d.conditionals import AnisotropicNormal as AnisotropicNormal
    from ident3d.conditionals import Conditional as Conditional
    from ident3d.conditionals import GeneralizedNormal as GeneralizedNormal
    from ident3d.conditionals import Laplace as Laplace
    from ident3d.conditionals import Normal as Normal
    from ident3d.conditionals import Product as Product
    from ident3d.conditionals import Uniform as Uniform
    from ident3d.conditionals import VonMisesFisher as VonMisesFisher
    from ident3d.conditionals.information import mutual_information_per_factor as mutual_information_per_factor
    from ident3d.conditionals.information import true_mutual_information as true_mutual_information
    from ident3d.dataset import ThreeDIdent as ThreeDIdent
    from ident3d.factors import FACTORS as FACTORS
    from ident3d.factors import Factor as Factor
    from ident3d.factors import Factors as Factors
    from ident3d.hub import from_hub as from_hub
    from ident3d.latents import from_physical as from_physical
    from ident3d.latents import sample_latents as sample_latents
    from ident3d.latents import to_physical as to_physical
    from ident3d.marginals import Marginal as Marginal
    from ident3d.pairs import AugmentedPairs as AugmentedPairs
    from ident3d.pairs import PairIndex as PairIndex
    from ident3d.pairs import PositivePairs as PositivePairs
    from ident3d.pairs import RealisedConditional as RealisedConditional
    from ident3d.pairs import RenderedPairs as RenderedPairs
    from ident3d.pairs import realised_conditional as realised_conditional
    from ident3d.spaces import Box as Box
    from ident3d.spaces import Sphere as Sphere
    from ident3d.spaces import Unbounded as Unbounded
    from ident3d.submission import Submission as Submission

_NAMES = {
    "conditionals": (
        "AnisotropicNormal",
        "Conditional",
        "GeneralizedNormal",
        "Laplace",
        "Normal",
        "Product",
        "Uniform",
        "VonMisesFisher",
    ),
    "dataset": ("ThreeDIdent",),
    "factors": ("FACTORS", "Factor", "Factors"),
    "hub": ("from_hub",),
    "latents": ("from_physical", "sample_latents", "to_physical"),
    "marginals": ("Marginal",),
    "conditionals.information": ("mutual_information_per_factor", "true_mutual_information"),
    "pairs": (
        "AugmentedPairs",
        "PairIndex",
        "PositivePairs",
        "RealisedConditional",
        "RenderedPairs",
        "realised_conditional",
    ),
    "spaces": ("Box", "Sphere", "Unbounded"),
    "submission": ("Submission",),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}
_MODULES = ("conditionals", "marginals", "metrics")

__all__ = [*_HOMES, *_MODULES, "__version__"]  # noqa: PLE0604 - names, spelled once above


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"ident3d.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'ident3d' has no attribute {name!r}")
    value = getattr(import_module(f"ident3d.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
