"""A conditional as a user would write one: nothing but a log density and a sampler."""

import math
from dataclasses import dataclass

import torch

from ident3d.conditionals import FactorwiseConditional, Scales


@dataclass(frozen=True)
class StudentT(FactorwiseConditional):
    df: float
    scale: Scales = 1.0

    def log_density(self, x):
        return -(self.df + 1) / 2 * torch.log1p(x.square() / self.df)

    def draw(self, n, generator):
        # Bailey, "Polar generation of random variates with the t-distribution", 1994.
        radius, turn = torch.rand(2, n, dtype=torch.float64, device=generator.device, generator=generator)
        square = self.df * torch.expm1(-2 / self.df * torch.log(1 - radius))
        return square.sqrt() * torch.cos(2 * math.pi * turn)


def narrow(scale=0.05):
    """A builder that is not a class."""
    return StudentT(5, scale)
