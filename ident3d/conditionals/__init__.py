"""Conditionals: the distribution of a positive's latents around its anchor's, on every kind of space."""

from ident3d.conditionals.anisotropic_normal import AnisotropicNormal
from ident3d.conditionals.conditional import Conditional
from ident3d.conditionals.coordinate import Coordinate
from ident3d.conditionals.generalized_normal import GeneralizedNormal
from ident3d.conditionals.laplace import Laplace
from ident3d.conditionals.normal import Normal
from ident3d.conditionals.product import Product
from ident3d.conditionals.text import parse
from ident3d.conditionals.uniform import Uniform
from ident3d.conditionals.von_mises_fisher import VonMisesFisher
from ident3d.conditionals.widths import Widths, WidthsLike, per_factor

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
