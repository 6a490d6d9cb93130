"""Output layers of encoders: maps into the space of the embeddings."""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from ident3d import Box, Sphere, Unbounded

__all__ = ["BoxOutput", "OutputSpace", "SphereOutput", "output_for"]

OutputSpace = Unbounded | Box | Sphere

_SMALLEST_NORM = 1e-6  # keeps the gradient of an embedding of norm 0 finite


class BoxOutput(nn.Module):
    """Squash every coordinate into a box, whose size may be learned.

    Coordinate k lies within s_k half widths of the centre, and the size s_k starts at 1, where the output covers the
    given box. The paper calls this an L-infinity normalisation with a learned magnitude; a literal normalisation would
    put every embedding on the surface of the box.

    Args:
        space: the box.
        learn_size: whether the sizes are trained; with a learned Lambda they must be fixed, because only the product of
            the two matters.

    Reference:
        Zimmermann et al., Contrastive Learning Inverts the Data Generating Process, section 4.1 and appendix A.3.
    """

    centre: Tensor
    half_width: Tensor

    def __init__(self, space: Box, *, learn_size: bool = True) -> None:
        super().__init__()
        self.register_buffer("centre", torch.full((space.dim,), (space.low + space.high) / 2))
        self.register_buffer("half_width", torch.full((space.dim,), (space.high - space.low) / 2))
        # The logarithm, so that a size stays positive.
        self.log_size = nn.Parameter(torch.zeros(space.dim), requires_grad=learn_size)

    def learned_numbers(self) -> dict[str, float]:
        """Return the mean size, for the metrics of a run."""
        return {"box_size": float(self.size.detach().mean())}

    @property
    def size(self) -> Float[Tensor, " dim"]:
        """(d,) size of the box, relative to the given one."""
        return self.log_size.exp()

    def forward(self, raw: Float[Tensor, "batch dim"]) -> Float[Tensor, "batch dim"]:
        """Map (B, d) numbers into the box."""
        return self.centre + self.half_width * self.size * torch.tanh(raw)


class SphereOutput(nn.Module):
    """Project onto a sphere, whose radius may be learned.

    Args:
        space: the sphere.
        learn_radius: whether the radius is trained, starting at that of the sphere. The optimal radius for InfoNCE with
            temperature tau on data with concentration kappa is sqrt(tau kappa).

    Reference:
        Zimmermann et al., Contrastive Learning Inverts the Data Generating Process, section 4.1, proposition 1.
    """

    def __init__(self, space: Sphere, *, learn_radius: bool = False) -> None:
        super().__init__()
        self.log_radius = nn.Parameter(torch.tensor(float(space.radius)).log(), requires_grad=learn_radius)

    def learned_numbers(self) -> dict[str, float]:
        """Return the radius, for the metrics of a run."""
        return {"radius": float(self.radius.detach())}

    @property
    def radius(self) -> Float[Tensor, ""]:
        """The radius, a scalar."""
        return self.log_radius.exp()

    def forward(self, raw: Float[Tensor, "batch dim"]) -> Float[Tensor, "batch dim"]:
        """Map (B, d) numbers onto the sphere; a zero vector stays zero."""
        return F.normalize(raw, dim=-1, eps=_SMALLEST_NORM) * self.radius


def output_for(space: OutputSpace, *, learn_scale: bool | None = None) -> nn.Module:
    """Return the module that maps (B, d) numbers into a space.

    Args:
        space: the space of the embeddings.
        learn_scale: whether the size of a box or the radius of a sphere is trained; where None as in the paper, which
            learns the size of the box and fixes the radius.

    Raises:
        TypeError: if the space is not one of these three kinds.
    """
    if type(space) not in _OUTPUTS:
        raise TypeError(f"expected a space of {', '.join(kind.__name__ for kind in _OUTPUTS)}, not {space!r}")
    return _OUTPUTS[type(space)](space, learn_scale)


_OUTPUTS: dict[type, Callable[[Any, bool | None], nn.Module]] = {
    Unbounded: lambda _, __: nn.Identity(),
    Box: lambda space, learned: BoxOutput(space, learn_size=True if learned is None else learned),
    Sphere: lambda space, learned: SphereOutput(space, learn_radius=bool(learned)),
}
