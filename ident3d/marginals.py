"""Marginals: the distribution of the anchors' latents in the synthetic experiments."""

from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from ident3d.arguments import check_count
from ident3d.conditionals import Conditional, Uniform
from ident3d.conditionals import parse as parse_conditional
from ident3d.conditionals.conditional import check_generator
from ident3d.factors import FACTORS, Factors
from ident3d.spaces import Box, Space

__all__ = ["Marginal", "parse"]


@dataclass(frozen=True)
class Marginal:
    """The distribution p(z) of the anchors: a conditional around the centre of the space, or uniform.

    The centre is the middle of a box, the origin of the unbounded space, and the pole (radius, 0, ..., 0) of a sphere.
    So ``Marginal(Normal(1.0))`` is truncated on a box, plain on the unbounded space, and projected on a sphere, and
    ``Marginal(VonMisesFisher(10.0))`` is the concentrated marginal of the paper's Figure 2.

    Reference: Zimmermann et al., "Contrastive Learning Inverts the Data Generating Process", Tables 1 and 2, Figure 2.

    Attributes:
        law: the conditional; :class:`ident3d.Uniform` for the uniform marginal that the theory assumes.
    """

    law: Conditional = field(default_factory=Uniform)

    def __post_init__(self) -> None:
        if not isinstance(self.law, Conditional):
            raise TypeError(f"a marginal is made of a conditional, such as Normal(1.0), not of {self.law!r}")

    def sample(
        self, n: int, space: Space, generator: torch.Generator, dtype: torch.dtype = torch.float32
    ) -> Float[Tensor, "{n} {space.dim}"]:
        """Draw latents.

        Args:
            n: how many, 0 or more.
            space: the space that they live in.
            generator: source of the randomness; the latents are made on its device.
            dtype: their float dtype.

        Returns:
            Latents of ``dtype``.

        Raises:
            TypeError: if generator is not a torch.Generator, or dtype not a float dtype.
            ValueError: if n is negative, or the law is not defined on the space.
        """
        check_count(n, "the number of latents", 0)
        self.law.check(space)
        check_generator(generator)
        if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
            raise TypeError(f"latents have a floating-point dtype, not {dtype}")
        return self.law.sample(self._centres(n, space, generator.device, dtype), space, generator)

    def log_prob(self, z: Float[Tensor, "*batch dim"], space: Space) -> Float[Tensor, "*batch"]:
        """Return the normalised log density of latents, in nats.

        Args:
            z: latents, any float dtype; outside a box they have density 0.
            space: the space that they live in.

        Returns:
            Log densities with respect to the space's natural measure, in z's dtype but at least float32.

        Raises:
            TypeError: if z is not a floating-point tensor.
            ValueError: if the law is not defined on the space, or a latent is not finite or not on the sphere.
        """
        self.law.check(space)
        space.check(z, "the latents z", inside=not isinstance(space, Box))
        centres = self._centres(1, space, z.device, z.dtype).expand_as(z)
        return self.law.log_prob(z, centres, space)

    def distance_to_uniform(self, space: Space, generator: torch.Generator, draws: int = 100_000) -> float:
        """Estimate the share of the mass that must move to make this marginal uniform.

        It is the total variation distance, half the integral of |p - uniform|: 0 where the marginal is uniform, near 1
        where it is concentrated. The standard error is below 1 / (2 sqrt(draws)).

        Args:
            space: a box or a sphere.
            generator: source of the randomness.
            draws: number of latents that are drawn.

        Returns:
            A number from 0 to 1.

        Raises:
            ValueError: if the space has no uniform distribution, or draws is not positive.
        """
        check_count(draws, "the number of draws", 1)
        Uniform().check(space)
        z = self.sample(draws, space, generator, torch.float64)
        ratio = (-space.log_volume - self.log_prob(z, space)).exp()
        return float((1 - ratio).clamp(min=0).mean())

    def __str__(self) -> str:
        return str(self.law)

    @staticmethod
    def _centres(n: int, space: Space, device: torch.device, dtype: torch.dtype) -> Tensor:
        centre = torch.tensor(space.centre, dtype=torch.float64, device=device)
        return space.cast(centre, dtype).expand(n, space.dim)


def parse(text: str, factors: Factors = FACTORS) -> Marginal:
    """Return the marginal that a text describes, such as ``"uniform"`` or ``"normal(sigma=1.0)"``.

    Args:
        text: a conditional's text; see :func:`ident3d.conditionals.parse`.
        factors: the factors that names refer to.

    Raises:
        TypeError: if text is not a string.
        ValueError: if it cannot be read.
    """
    return Marginal(parse_conditional(text, factors))
