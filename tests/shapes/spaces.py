"""Example calls for spaces and marginals."""

import torch

from ident3d import Box, Normal, Sphere, Unbounded
from ident3d.marginals import Marginal
from ident3d.spaces import FactorSpace


def points(space):
    z = torch.randn(4, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).clamp(-1, 1)
    return z / z.norm(dim=-1, keepdim=True) if isinstance(space, Sphere) else z


def generator():
    return torch.Generator().manual_seed(0)


def of_two_factors():
    return FactorSpace(Box(2), ("object_hue", "position_x"))


EXAMPLES = {
    "ident3d.spaces.FactorSpace.complete": lambda: (of_two_factors(), torch.zeros(3, 2), generator()),
    "ident3d.spaces.FactorSpace.rows": lambda: (of_two_factors(), 3, 0),
    "ident3d.spaces.FactorSpace.uniform": lambda: (of_two_factors(), 3, generator()),
    "ident3d.spaces.FactorSpace.coordinates": lambda: (of_two_factors(), torch.zeros(4, 10)),
    "ident3d.spaces.FactorSpace.check": lambda: (of_two_factors(), torch.zeros(4, 10)),
    "ident3d.marginals.Marginal.sample": lambda: (Marginal(Normal(1.0)), 5, Box(3), generator()),
    "ident3d.marginals.Marginal.log_prob": lambda: (Marginal(Normal(1.0)), points(Box(3)), Box(3)),
    "ident3d.spaces.Space.cast": lambda: (Sphere(3), points(Sphere(3)), torch.float32),
    "ident3d.spaces.Box.cast": lambda: (Box(3), points(Box(3)), torch.float32),
}
for space in (Box(3), Sphere(3), Unbounded(3)):
    name = f"ident3d.spaces.{type(space).__name__}"
    EXAMPLES[f"{name}.contains"] = lambda space=space: (space, points(space))
    EXAMPLES[f"{name}.settle"] = lambda space=space: (space, points(space))
    if not isinstance(space, Unbounded):
        EXAMPLES[f"{name}.uniform"] = lambda space=space: (space, 5, generator())
