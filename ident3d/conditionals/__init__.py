"""Conditionals: the distribution of a positive's latents around its anchor's, on every kind of space.

Their interface is in :mod:`~ident3d.conditionals.conditional`, and their form as text in
:mod:`~ident3d.conditionals.text`. To add one whose factors are independent, with a density of any form, derive it from
:class:`~ident3d.conditionals.FactorwiseConditional`.
"""

from ident3d.conditionals.conditional import CONDITIONALS, Conditional, Coordinate, Scales, ScalesLike, per_factor
from ident3d.conditionals.exponential import GeneralizedNormal, Laplace, Normal
from ident3d.conditionals.factorwise import FactorwiseConditional
from ident3d.conditionals.information import mutual_information_per_factor, true_mutual_information
from ident3d.conditionals.product import Product
from ident3d.conditionals.sphere import AnisotropicNormal, VonMisesFisher
from ident3d.conditionals.text import parse
from ident3d.conditionals.uniform import Uniform

__all__ = [
    "CONDITIONALS",
    "AnisotropicNormal",
    "Conditional",
    "Coordinate",
    "FactorwiseConditional",
    "GeneralizedNormal",
    "Laplace",
    "Normal",
    "Product",
    "Scales",
    "ScalesLike",
    "Uniform",
    "VonMisesFisher",
    "mutual_information_per_factor",
    "parse",
    "per_factor",
    "true_mutual_information",
]
