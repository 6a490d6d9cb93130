"""Example calls for conditionals."""

import torch

from ident3d import AnisotropicNormal, Box, GeneralizedNormal, Laplace, Normal, Product, Sphere, Uniform, VonMisesFisher
from tests.ident3d.conditionals.student_t import StudentT
from tests.shapes.spaces import generator, points

HOME = "ident3d.conditionals"
BOX, SPHERE = Box(3), Sphere(3)
PRECISION = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)


def flat(space):
    return points(space).reshape(-1, space.dim)


def walls():
    return flat(BOX) + 1, 1 - flat(BOX)


EXAMPLES = {
    f"{HOME}.conditional.Conditional.sample": lambda: (Normal(0.1), points(BOX), BOX, generator()),
    f"{HOME}.conditional.Conditional.log_prob": lambda: (Normal(0.1), points(BOX), points(BOX), BOX),
    f"{HOME}.conditional.as_tensor": lambda: ((0.1, 0.2), torch.device("cpu")),
    f"{HOME}.exponential.projected_log_density": lambda: (flat(SPHERE), flat(SPHERE), PRECISION, 1.5),
    f"{HOME}.exponential.two_sided_uniform": lambda: (*walls(), generator()),
    f"{HOME}.exponential.ExponentialPower.log_density": lambda: (Laplace(0.1), points(BOX)),
    f"{HOME}.exponential.GeneralizedNormal.draw": lambda: (GeneralizedNormal(3, 0.1), 5, generator()),
    f"{HOME}.exponential.Laplace.draw": lambda: (Laplace(0.1), 5, generator()),
    f"{HOME}.exponential.Normal.draw": lambda: (Normal(0.1), 5, generator()),
    f"{HOME}.exponential.ExponentialPower.log_prob_unchecked": lambda: (
        Laplace(0.1),
        flat(SPHERE),
        flat(SPHERE),
        SPHERE,
    ),
    f"{HOME}.factorwise.FactorwiseConditional.draw_between": lambda: (StudentT(3), *walls(), generator()),
    f"{HOME}.factorwise.FactorwiseConditional.log_mass": lambda: (StudentT(3), *walls()),
    f"{HOME}.factorwise.FactorwiseConditional.sample_unchecked": lambda: (StudentT(3), flat(BOX), BOX, generator()),
    f"{HOME}.factorwise.FactorwiseConditional.log_prob_unchecked": lambda: (StudentT(3), flat(BOX), flat(BOX), BOX),
    f"{HOME}.sphere.sample_fisher_bingham": lambda: (flat(SPHERE), PRECISION, generator()),
    f"{HOME}.sphere.acceptance": lambda: (flat(SPHERE), PRECISION, generator()),
    f"{HOME}.sphere.log_normaliser": lambda: (flat(SPHERE), PRECISION),
    f"{HOME}.sphere.mean_square_displacement": lambda: (flat(SPHERE), PRECISION),
    f"{HOME}.sphere.AnisotropicNormal.on_unit_sphere": lambda: (AnisotropicNormal(2.0), SPHERE, torch.device("cpu")),
}
for conditional in (Normal(0.1), Laplace(0.1), GeneralizedNormal(3, 0.1)):
    name = f"{HOME}.exponential.{type(conditional).__name__}"
    EXAMPLES[f"{name}.draw_between"] = lambda conditional=conditional: (conditional, *walls(), generator())
    EXAMPLES[f"{name}.log_mass"] = lambda conditional=conditional: (conditional, *walls())
for home, conditional, space in (
    ("sphere", AnisotropicNormal(2.0), SPHERE),
    ("sphere", VonMisesFisher(2.0), SPHERE),
    ("uniform", Uniform(), BOX),
    ("product", Product({(0, 1): Normal(0.1), (2,): Uniform()}), BOX),
):
    name = f"{HOME}.{home}.{type(conditional).__name__}"
    EXAMPLES[f"{name}.sample_unchecked"] = lambda c=conditional, s=space: (c, flat(s), s, generator())
    EXAMPLES[f"{name}.log_prob_unchecked"] = lambda c=conditional, s=space: (c, flat(s), flat(s), s)
