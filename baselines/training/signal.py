"""What a contrastive loss can learn of each factor from given pairs and negatives, found before any training.

InfoNCE with M negatives is at most ln(M + 1) nats better than chance. Factors that vary little within a pair use these
nats up: once a critic knows them, it tells the positive from all negatives, and what is left for the other factors is a
gradient near zero. This module computes both numbers from latents alone, without images and without an encoder.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch
from jaxtyping import Float64
from torch import Tensor

from baselines.losses import BatchNegatives
from baselines.pairs import matching_index
from ident3d import Box, PositivePairs
from ident3d.arguments import check_count
from ident3d.factors import FACTORS, Factors
from ident3d.randomness import torch_generator

if TYPE_CHECKING:
    from ident3d.conditionals import Conditional
    from ident3d.pairs.stream import PairData
    from ident3d.spaces import Space

__all__ = ["ContrastiveSignal", "FactorSignal", "contrastive_signal"]

_NUMBERS = 5_000_000  # differences held at a time: 40 MB
_FEWEST, _MOST = 64, 4096  # anchors
_NEWTON_STEPS = 30
_CONVERGED = 1e-9  # nats


@dataclass(frozen=True)
class FactorSignal:
    """What a contrastive loss can learn of one factor, or of a group of them.

    Attributes:
        gain: nats by which the loss of the best critic is lower than that of the best critic which does not see it.
        pull: the gradient on a small feature of it once the critic knows all else: minus the derivative of the loss by
            the factor's weight in the critic, at weight 0. The mean over a group's factors.
        pull_at_start: the same while the critic knows nothing.
    """

    gain: float
    pull: float
    pull_at_start: float

    @property
    def share(self) -> float:
        """What is left of the pull once all else is known; 1 at most, and near 0 where nothing can be learned."""
        return self.pull / self.pull_at_start if self.pull_at_start > 0 else 0.0


@dataclass(frozen=True)
class ContrastiveSignal:
    """What a contrastive loss can learn from pairs.

    Attributes:
        conditional: text of the conditional.
        images: images that positives are matched among; None where pairs are exact.
        negatives: M, the negatives of an anchor.
        gain: nats by which the loss of the best critic is lower than chance, ln(M + 1).
        realised_std: standard deviation of z_pos - z, by factor.
        factors: by factor; the critic knows all other factors.
        groups: by group of factors; the critic knows all other groups.
    """

    conditional: str
    images: int | None
    negatives: int
    gain: float
    realised_std: Mapping[str, float]
    factors: Mapping[str, FactorSignal]
    groups: Mapping[str, FactorSignal]

    @property
    def cap(self) -> float:
        """ln(M + 1), the most that the gain can be."""
        return math.log(self.negatives + 1)

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as plain data."""
        return {
            "conditional": self.conditional,
            "pairs": "exact" if self.images is None else "matched",
            "images": self.images,
            "negatives": self.negatives,
            "cap": self.cap,
            "gain": self.gain,
            "realised_std": dict(self.realised_std),
            "factors": {name: _signal_json(found) for name, found in self.factors.items()},
            "groups": {name: _signal_json(found) for name, found in self.groups.items()},
        }

    def table(self) -> str:
        """Return the numbers as text for a terminal."""
        how = "exact pairs" if self.images is None else f"matched among {self.images:,} images"
        lines = [
            f"{self.conditional}, {how}, {self.negatives:,} negatives",
            f"the best critic gains {self.gain:.2f} of ln {self.negatives + 1:,} = {self.cap:.2f} nats",
            "",
            f"{'':<18} {'std':>6} {'gain':>8} {'pull':>8} {'at start':>9} {'left':>6}",
        ]
        for name, found in self.factors.items():
            lines.append(_line(name, found, f"{self.realised_std[name]:6.3f}"))
        lines += ["", *(_line(name, found, "") for name, found in self.groups.items())]
        return "\n".join(lines)


def _signal_json(found: FactorSignal) -> dict[str, float]:
    return {"gain": found.gain, "pull": found.pull, "pull_at_start": found.pull_at_start, "share": found.share}


def _line(name: str, found: FactorSignal, std: str) -> str:
    return f"{name:<18} {std:>6} {found.gain:8.3f} {found.pull:8.3f} {found.pull_at_start:9.3f} {found.share:6.0%}"


class _Pairs(Protocol):
    def __call__(self, number: int) -> tuple[Tensor, Tensor]:
        """Return (B, d) anchors and (B, d) positives of a batch."""


def contrastive_signal(
    conditional: Conditional,
    data: PairData | None = None,
    *,
    batch_size: int = 512,
    negatives: BatchNegatives = "anchors",
    p: float = 2,
    space: Space | None = None,
    factors: Factors | None = None,
    in_own_metric: bool = False,
    seed: int = 0,
) -> ContrastiveSignal:
    r"""Return how much a contrastive loss can learn of each factor from pairs.

    The critic of a pair is $-\sum_k w_k |z'_k - z_k|^p$, the cost of delta-InfoNCE and AnInfoNCE for an encoder that
    returns the latents, with the weights w >= 0 that make the loss smallest. For exact normal pairs and p = 2 no critic
    is better; for matched pairs the weights follow what matching makes of the conditional. The loss is convex in w.

    Args:
        conditional: what positives are drawn from.
        data: the dataset that positives are matched in; None for exact pairs of anchors uniform on the space.
        batch_size: pairs in a batch, B.
        negatives: which of the batch's other items are negatives: "anchors" or "positives", B - 1 of them, or "both",
            2 (B - 1); see :class:`~baselines.losses.contrast.ContrastOptions`.
        p: exponent of the distance, at least 1.
        space: where exact pairs live; None: the box [-1, 1]^d.
        factors: the factors that are the coordinates; None: those of the data, or 3DIdent's.
        in_own_metric: whether matching divides each factor by the conditional's standard deviation in it.
        seed: seed of the draws, 0 or larger.

    Raises:
        ValueError: if the batch has fewer than two pairs, p is below 1, the negatives are unknown, a space is given
            with data or has not as many coordinates as there are factors, or the conditional is not defined on it.
        TypeError: if batch size or seed are not integers.
    """
    check_count(batch_size, "the batch size", 2)
    check_count(seed, "the seed", 0)
    if not (math.isfinite(p) and p >= 1):
        raise ValueError(f"expected a finite exponent p of at least 1, not {p}")
    if negatives not in {"anchors", "positives", "both"}:
        raise ValueError(f"unknown negatives {negatives!r}; choose from anchors, positives, both")
    if data is not None and space is not None:
        raise ValueError(f"a dataset's latents live in a box: leave {space} out, or the dataset")
    named = factors or (FACTORS if data is None else data.factors)
    where = space or Box(len(named))
    if where.dim != len(named):
        raise ValueError(f"{where} has {where.dim} coordinates for {len(named)} factors")
    conditional.check(where)
    pairs = (
        _exact_pairs(conditional, where, batch_size, seed)
        if data is None
        else _matched_pairs(conditional, data, batch_size, seed, in_own_metric=in_own_metric)
    )
    costs, displacements = _costs(pairs, batch_size, negatives, p)
    return _measured(costs, displacements, str(conditional), None if data is None else len(data), named)


def _exact_pairs(conditional: Conditional, space: Space, batch_size: int, seed: int) -> _Pairs:
    def batch(number: int) -> tuple[Tensor, Tensor]:
        anchors = space.uniform(batch_size, torch_generator(seed, "signal/anchors", number))
        return anchors, conditional.sample(anchors, space, torch_generator(seed, "signal/targets", number))

    return batch


def _matched_pairs(
    conditional: Conditional, data: PairData, batch_size: int, seed: int, *, in_own_metric: bool
) -> _Pairs:
    index = matching_index(conditional, data, in_own_metric=in_own_metric)
    stream = PositivePairs(data, conditional, batch_size, seed, index)

    def batch(number: int) -> tuple[Tensor, Tensor]:
        anchors, positives = stream.match(number)
        return data.latents[anchors].double(), data.latents[positives].double()

    return batch


def _costs(
    pairs: _Pairs, batch_size: int, negatives: BatchNegatives, p: float
) -> tuple[Float64[Tensor, "anchors candidates dim"], Float64[Tensor, "anchors dim"]]:
    """Return |z' - z|^p of every anchor with its positive, first, and with its negatives; and z_pos - z."""
    costs, displacements, done, number = list[Tensor](), list[Tensor](), 0, 0
    wanted = _FEWEST
    while done < wanted:
        z, z_pos = pairs(number)
        views = {"anchors": (z,), "positives": (z_pos,), "both": (z, z_pos)}[negatives]
        candidates = len(views) * (batch_size - 1) + 1
        wanted = max(_FEWEST, min(_MOST, _NUMBERS // (candidates * z.shape[1])))
        rows = torch.arange(min(batch_size, wanted - done))
        others = torch.arange(batch_size - 1).expand(len(rows), -1)
        others = others + (others >= rows.unsqueeze(1))  # all but the row itself
        compared = torch.cat([z_pos[rows].unsqueeze(1), *(view[others] for view in views)], dim=1)
        costs.append((compared - z[rows].unsqueeze(1)).abs().pow(p))
        displacements.append(z_pos[rows] - z[rows])
        done, number = done + len(rows), number + 1
    return torch.cat(costs), torch.cat(displacements)


def _measured(
    costs: Tensor, displacements: Tensor, conditional: str, images: int | None, factors: Factors
) -> ContrastiveSignal:
    start = -_slope(costs, costs.new_zeros(costs.shape[2]))
    # Where nothing is known yet, the curvature is that of the costs among all candidates.
    best, least = _best_weights(costs, range(costs.shape[2]), 1 / (2 * displacements.square().mean(0)))

    def without(columns: Sequence[int]) -> FactorSignal:
        others = [k for k in range(costs.shape[2]) if k not in columns]
        weights, loss = _best_weights(costs, others, best)
        pull = -_slope(costs, weights)
        return FactorSignal(loss - least, float(pull[columns].mean()), float(start[columns].mean()))

    groups = {factor.group: [k for k, own in enumerate(factors) if own.group == factor.group] for factor in factors}
    std = displacements.std(0).tolist()
    return ContrastiveSignal(
        conditional=conditional,
        images=images,
        negatives=costs.shape[1] - 1,
        gain=math.log(costs.shape[1]) - least,
        realised_std=dict(zip(factors.names, std, strict=True)),
        factors={name: without([k]) for k, name in enumerate(factors.names)},
        groups={group: without(columns) for group, columns in groups.items()},
    )


def _loss(costs: Tensor, weights: Tensor) -> float:
    logits = -(costs @ weights)
    return float((logits.logsumexp(1) - logits[:, 0]).mean())


def _slope(costs: Tensor, weights: Tensor) -> Float64[Tensor, " dim"]:
    """Return the gradient of the loss by the weights."""
    shares = torch.softmax(-(costs @ weights), dim=1)
    expected = torch.bmm(shares.unsqueeze(1), costs).squeeze(1)
    return (costs[:, 0] - expected).mean(0)


def _best_weights(costs: Tensor, columns: Sequence[int], start: Tensor) -> tuple[Tensor, float]:
    """Minimise the loss over non-negative weights of some columns, by Newton's method with halved steps.

    Returns:
        (d,) the weights, 0 outside the columns, and the loss.
    """
    weights = torch.zeros_like(start)
    weights[list(columns)] = start[list(columns)]
    loss = _loss(costs, weights)
    for _ in range(_NEWTON_STEPS if columns else 0):
        shares = torch.softmax(-(costs @ weights), dim=1)
        expected = torch.bmm(shares.unsqueeze(1), costs).squeeze(1)
        slope = (costs[:, 0] - expected).mean(0)
        # A weight at 0 that would fall stays there.
        free = [k for k in columns if weights[k] > 0 or slope[k] < 0]
        if not free:
            break
        centred = (costs[:, :, free] - expected[:, None, free]) * shares.sqrt().unsqueeze(2)
        curvature = centred.flatten(0, 1).T @ centred.flatten(0, 1) / len(costs)
        curvature += 1e-12 * torch.eye(len(free), dtype=curvature.dtype)
        step = torch.zeros_like(weights)
        step[free] = torch.linalg.solve(curvature, slope[free])
        length = 1.0
        while (tried := _loss(costs, (weights - length * step).clamp_min(0))) > loss and length > 2**-30:
            length /= 2
        if tried > loss - _CONVERGED:
            break
        weights, loss = (weights - length * step).clamp_min(0), tried
    return weights, loss
