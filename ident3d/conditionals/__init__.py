"""Conditionals: the distribution of a positive's latents around its anchor's, on every kind of space."""

from ident3d.conditionals.conditional import Conditional, Coordinate
from ident3d.conditionals.exponential import GeneralizedNormal, Laplace, Normal
from ident3d.conditionals.product import Product
from ident3d.conditionals.scales import Widths, WidthsLike, per_factor
from ident3d.conditionals.sphere import AnisotropicNormal, VonMisesFisher
from ident3d.conditionals.text import parse
from ident3d.conditionals.uniform import Uniform

__all__ = [
    "AnisotropicNormal",
    "Conditional",
    "Coordinate",
    "GeneralizedNormal",
    "Laplace",
    "Normal",
    "Product",
    "Uniform",
    "VonMisesFisher",
    "Widths",
    "WidthsLike",
    "parse",
    "per_factor",
]
