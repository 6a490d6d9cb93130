"""What a contrastive loss can reach where the theory's assumptions do not hold: its optimum over radial maps.

Rows 11 and 12 of Table 1 draw latents from a marginal on unbounded space that is not uniform. The best critic of a
normal conditional is z . z_pos / sigma^2 plus a function of the anchor alone. A squared distance of embeddings also has
a term in the positive, which no encoder can remove, so that its optimum is not an affine map of the latents. For a
rotationally symmetric process it is a radial map f(z) = phi(|z|) z / |z|, a function of one variable: it is found here
without a mixing network and without an encoder, and bounds what an encoder can be expected to score.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Float64
from torch import Tensor

from baselines.losses import delta_info_nce
from baselines.synthetic.experiments import GenerativeProcess
from ident3d.arguments import check_count
from ident3d.randomness import torch_generator

__all__ = ["NegativesOfAnchor", "RadialMap", "radial_optimum"]

NegativesOfAnchor = Literal["anchors", "positives", "both", "published", "swapped"]
"""Which items an anchor is compared with, beside its positive:

* "anchors", "positives", "both": the other items of the batch, as in the losses of this package;
* "published": the anchors, the anchor's own embedding included, as in the published code;
* "swapped": positives take the place of anchors, so that the positive and its negatives come from the marginal. Then a
  squared distance has all terms that the best critic needs, and the optimum of a normal process is linear.
"""

_KNOTS = 16
_BATCHES = 8
_STEPS = 60
_ROWS_SCORED = 100_000


@dataclass(frozen=True)
class RadialMap:
    """A map f(z) = phi(|z|) z / |z|, with phi linear between knots.

    Attributes:
        radii: (K,) norms of latents, rising from 0.
        values: (K,) phi at these norms; beyond the last one phi goes on with its last slope.
        r2: R2 of the best affine map from embeddings to latents.
        loss: mean loss in nats.
    """

    radii: Float64[Tensor, " knots"]
    values: Float64[Tensor, " knots"]
    r2: float
    loss: float

    def __call__(self, z: Float64[Tensor, "batch dim"]) -> Float64[Tensor, "batch dim"]:
        """Map (B, d) latents to (B, d) embeddings."""
        return _mapped(z, self.radii, self.values)


def radial_optimum(
    process: GenerativeProcess, *, items: int = 1024, negatives: NegativesOfAnchor = "anchors", seed: int = 0
) -> RadialMap:
    """Return the radial map with the smallest delta-InfoNCE loss, p = 2, among finitely many items.

    The loss is minimised over the values of phi at 16 norms, by L-BFGS on eight batches that stay the same. The result
    is the optimum up to the noise of these batches where process and loss are rotationally symmetric; for others it is
    the best radial map.

    Args:
        process: the generative process.
        items: pairs in a batch, 2 or more.
        negatives: which items an anchor is compared with.
        seed: seed of the batches, 0 or larger.

    Raises:
        ValueError: if there are fewer than two items, or the negatives are unknown.
        TypeError: if items or seed are not integers.
    """
    check_count(items, "the number of items", 2)
    check_count(seed, "the seed", 0)
    if negatives not in get_args(NegativesOfAnchor):
        raise ValueError(f"unknown negatives {negatives!r}; choose from {', '.join(get_args(NegativesOfAnchor))}")
    batches = [process.pairs(items, torch_generator(seed, "optimum", number)).double() for number in range(_BATCHES)]
    norms = torch.cat(batches).norm(dim=-1).flatten().sort().values
    inner = norms[torch.linspace(0, len(norms) - 1, _KNOTS, dtype=torch.float64).long()]
    radii = torch.cat([inner.new_zeros(1), inner[1:]])
    displacement = torch.stack([(batch[:, 1] - batch[:, 0]).square().mean().sqrt() for batch in batches]).mean()
    slopes = torch.full_like(radii, float(1 / (2**0.5 * displacement)))  # phi / |z|: the conditional's own scale
    slopes.requires_grad_()
    optimiser = torch.optim.LBFGS([slopes], max_iter=_STEPS, line_search_fn="strong_wolfe", tolerance_change=1e-10)

    def mean_loss() -> Tensor:
        embedded = (_mapped(batch.flatten(0, 1), radii, slopes * radii).view_as(batch) for batch in batches)
        return torch.stack([_loss(embeddings, negatives) for embeddings in embedded]).mean()

    def closure() -> float:
        optimiser.zero_grad()
        loss = mean_loss()
        loss.backward()  # type: ignore[no-untyped-call]
        return float(loss.detach())

    optimiser.step(closure)  # type: ignore[no-untyped-call]  # torch leaves it untyped
    values = (slopes * radii).detach()
    with torch.no_grad():
        z = process.latents(_ROWS_SCORED, torch_generator(seed, "optimum/scored")).double()
        return RadialMap(radii, values, _affine_r2(_mapped(z, radii, values), z), float(mean_loss()))


def _mapped(z: Tensor, radii: Tensor, values: Tensor) -> Tensor:
    norm = z.norm(dim=1)
    right = torch.searchsorted(radii, norm).clamp(1, len(radii) - 1)
    low, high = radii[right - 1], radii[right]
    share = (norm - low) / (high - low)
    phi = values[right - 1] + share * (values[right] - values[right - 1])
    mapped: Tensor = z * (phi / norm.clamp_min(1e-12)).unsqueeze(1)
    return mapped


def _loss(embeddings: Tensor, negatives: NegativesOfAnchor) -> Tensor:
    """Return the loss of the (B, 2, d) embeddings of pairs."""
    anchors, positives = embeddings.unbind(1)
    if negatives == "swapped":
        return delta_info_nce(positives, anchors, negatives="positives")
    if negatives == "published":
        return delta_info_nce(anchors, positives, anchors)
    return delta_info_nce(anchors, positives, negatives=negatives)


def _affine_r2(embeddings: Tensor, z: Tensor) -> float:
    design = torch.cat([embeddings, embeddings.new_ones(len(z), 1)], dim=1)
    rest = z - design @ torch.linalg.lstsq(design, z).solution
    return float(1 - (rest.square().sum(0) / (z - z.mean(0)).square().sum(0)).mean())
