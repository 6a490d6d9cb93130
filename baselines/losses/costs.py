"""Costs of pairs of embeddings: the negative exponents of a contrastive loss.

Each cost is given in three forms: for pairs, with autograd; as a matrix between two sets; and as the gradient of that
matrix, contracted with weights. With the last two, :mod:`baselines.losses.contrast` computes a large matrix in blocks
without ever keeping it.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor

__all__ = ["Cost", "MinkowskiDistance", "MinkowskiPower", "NegativeDot", "SquaredEuclidean"]


@runtime_checkable
class Cost(Protocol):
    """A cost c(a, b) between embeddings.

    Attributes:
        translation_invariant: whether the cost stays the same when both embeddings are shifted alike.
    """

    translation_invariant: ClassVar[bool]

    def paired(self, a: Tensor, b: Tensor) -> Tensor:
        """Return c(a, b) of (..., d) embeddings, broadcast, as (...,); its gradient is finite at a = b."""

    def matrix(self, a: Tensor, b: Tensor) -> Tensor:
        """Return the (R, M) costs between (R, d) and (M, d) embeddings, as a new tensor."""

    def pull(self, weights: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradients of sum(weights * matrix(a, b)) in a and b.

        Args:
            weights: (R, M).
            a: (R, d).
            b: (M, d).

        Returns:
            (R, d) and (M, d).
        """

    def numbers_per_pair(self, dim: int) -> int:
        """Return how many numbers :meth:`matrix` holds at once per pair of ``dim`` dimensions."""


@dataclass(frozen=True)
class NegativeDot:
    """c(a, b) = -a.b, the cost of InfoNCE on the sphere."""

    translation_invariant: ClassVar[bool] = False

    def paired(self, a: Tensor, b: Tensor) -> Tensor:
        """See :class:`Cost`."""
        return -(a * b).sum(-1)

    def matrix(self, a: Tensor, b: Tensor) -> Tensor:
        """See :class:`Cost`."""
        return -a @ b.T

    def pull(self, weights: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        """See :class:`Cost`."""
        return -(weights @ b), -(weights.T @ a)

    def numbers_per_pair(self, dim: int) -> int:  # noqa: ARG002 - the protocol's signature
        """See :class:`Cost`."""
        return 1


@dataclass(frozen=True)
class SquaredEuclidean:
    """c(a, b) = |a - b|^2, by matrix multiplication.

    |a|^2 + |b|^2 - 2 a.b has a rounding error of the order of the machine's epsilon times the squared norms, so a
    batch far from the origin must be centred first, as :func:`~baselines.losses.contrast.contrast` does. No cost is
    negative.
    """

    translation_invariant: ClassVar[bool] = True

    def paired(self, a: Tensor, b: Tensor) -> Tensor:
        """See :class:`Cost`."""
        return (a - b).square().sum(-1)

    def matrix(self, a: Tensor, b: Tensor) -> Tensor:
        """See :class:`Cost`."""
        costs = torch.addmm(b.square().sum(1), a, b.T, alpha=-2)
        return costs.add_(a.square().sum(1, keepdim=True)).clamp_min_(0)

    def pull(self, weights: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        """See :class:`Cost`."""
        grad_a = weights.sum(1, keepdim=True) * a - weights @ b
        grad_b = weights.sum(0).unsqueeze(1) * b - weights.T @ a
        return 2 * grad_a, 2 * grad_b

    def numbers_per_pair(self, dim: int) -> int:  # noqa: ARG002 - the protocol's signature
        """See :class:`Cost`."""
        return 1


@dataclass(frozen=True)
class MinkowskiPower:
    """c(a, b) = sum_k |a_k - b_k|^p, the p-th power of the L^p distance.

    Attributes:
        p: at least 1 and finite.
    """

    translation_invariant: ClassVar[bool] = True
    p: float

    def __post_init__(self) -> None:
        _check_exponent(self.p)

    def paired(self, a: Tensor, b: Tensor) -> Tensor:
        """See :class:`Cost`."""
        return _power((a - b).abs(), self.p).sum(-1)

    def matrix(self, a: Tensor, b: Tensor) -> Tensor:
        """See :class:`Cost`."""
        return _power(_differences(a, b).abs_(), self.p).sum(0)

    def pull(self, weights: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        """See :class:`Cost`."""
        slopes = _signed_power(_differences(a, b), self.p - 1).mul_(weights)
        return self.p * slopes.sum(2).T, -self.p * slopes.sum(1).T

    def numbers_per_pair(self, dim: int) -> int:
        """See :class:`Cost`."""
        return dim


@dataclass(frozen=True)
class MinkowskiDistance:
    """c(a, b) = (sum_k |a_k - b_k|^p)^(1/p), the L^p metric; its gradient at a = b is zero by definition here.

    Differences are divided by the largest one of a pair before they are raised to p, so that nothing overflows or
    underflows.

    Attributes:
        p: at least 1 and finite.
    """

    translation_invariant: ClassVar[bool] = True
    p: float

    def __post_init__(self) -> None:
        _check_exponent(self.p)

    def paired(self, a: Tensor, b: Tensor) -> Tensor:
        """See :class:`Cost`."""
        differences = a - b
        largest = _positive(differences.detach().abs().amax(-1, keepdim=True))
        norm: Tensor = torch.linalg.vector_norm(differences / largest, self.p, dim=-1)
        return norm * largest.squeeze(-1)

    def matrix(self, a: Tensor, b: Tensor) -> Tensor:
        """See :class:`Cost`."""
        sizes = _differences(a, b).abs_()
        largest = sizes.amax(0)
        return _power(sizes.div_(_positive(largest)), self.p).sum(0).pow_(1 / self.p).mul_(largest)

    def pull(self, weights: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        """See :class:`Cost`."""
        ratios = _differences(a, b)
        ratios.div_(_positive(ratios.abs().amax(0)))
        # The sum is at least 1, one ratio being 1 in size, except between equal embeddings, whose ratios are all 0.
        roots = _power(ratios.abs(), self.p).sum(0).clamp_min_(1).pow_(1 / self.p - 1)
        slopes = _signed_power(ratios, self.p - 1).mul_(roots.mul_(weights))
        return slopes.sum(2).T, -slopes.sum(1).T

    def numbers_per_pair(self, dim: int) -> int:
        """See :class:`Cost`."""
        return dim


def _check_exponent(p: float) -> None:
    if not (math.isfinite(p) and p >= 1):
        raise ValueError(f"expected a finite exponent p of at least 1, not {p}")


def _differences(a: Tensor, b: Tensor) -> Tensor:
    # (d, R, M) and contiguous, so that every sum runs along whole rows, which is fast on a CPU.
    return a.T.contiguous().unsqueeze(2) - b.T.contiguous().unsqueeze(1)


def _positive(sizes: Tensor) -> Tensor:
    return sizes.clamp_min(torch.finfo(sizes.dtype).tiny)


def _power(sizes: Tensor, p: float) -> Tensor:
    # Small integer powers by multiplication: the general power is ten times slower on a CPU. May return its argument.
    if p == 1:
        return sizes
    if p == 2:
        return sizes.square()
    if p == 3:
        return sizes.square().mul_(sizes)
    return sizes.pow(p)


def _signed_power(differences: Tensor, q: float) -> Tensor:
    # sign(x) |x|^q; overwrites and may return its argument.
    if q == 0:
        return differences.sign_()
    if q == 1:
        return differences
    if q == 2:
        return differences.abs().mul_(differences)
    return differences.abs().pow_(q).mul_(differences.sign_())
