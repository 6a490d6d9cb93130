"""The numerics behind the conditionals, for this package alone: rejection sampling and quadrature.

* :func:`draw_by_rejection` draws what no inverse is known for, :func:`take` serves its rows;
* :func:`radial_integral` integrates along a ray from the origin, which turns densities of R^n into densities of
  directions;
* :func:`truncated` and what is built on it integrate any density of one displacement between two walls;
* :func:`power_integral` and what is built on it do so for exp(-|x|^p), in closed form as far as there is one.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ident3d.errors import Ident3DError

__all__ = [
    "LogDensity",
    "RadialIntegral",
    "Truncated",
    "draw_by_rejection",
    "gauss_legendre",
    "information_of_power",
    "mean_square_of_power",
    "power_integral",
    "radial_integral",
    "take",
    "truncated",
    "truncated_information",
    "truncated_mean_square",
]

_Array = npt.NDArray[np.float64]

_MOST_ROUNDS = 100_000


def draw_by_rejection(
    like: Tensor, propose: Callable[[Tensor], tuple[Tensor, Tensor]], generator: torch.Generator
) -> Tensor:
    """Propose for every row, keep what is accepted, and propose again for the rows that are left.

    Args:
        like: (B, ...) tensor with the shape, dtype and device of the result.
        propose: given the indices (W,) of the rows that wait, returns a proposal for each, (W, ...), and the logarithm
            (W,) of the probability that it is kept.
        generator: source of the randomness.

    Returns:
        Accepted proposals, in the shape of ``like``.

    Raises:
        Ident3DError: if rows are left after 100,000 rounds: the proposals are far from the density.
    """
    drawn = torch.empty_like(like)
    waiting = torch.arange(len(like), device=like.device)
    for _ in range(_MOST_ROUNDS):
        if not len(waiting):
            return drawn
        proposal, log_chance = propose(waiting)
        luck = torch.rand(len(waiting), dtype=log_chance.dtype, device=like.device, generator=generator)
        # All are written, for those that are not kept are written over: cheaper than to pick the others out.
        drawn = proposal if len(waiting) == len(drawn) else drawn.index_copy_(0, waiting, proposal)
        rejected = (~(luck.log_() < log_chance)).nonzero().squeeze(1)
        waiting = rejected if len(waiting) == len(drawn) else waiting[rejected]
    raise Ident3DError(
        f"rejection sampling found nothing for {len(waiting)} of {len(drawn)} rows in {_MOST_ROUNDS} rounds; the "
        "conditional's scales differ too much for it, or are far larger than the box: bring them closer together"
    )


_DROP = 38.0  # the integrand is cut where it has fallen by exp(-38), below float64's resolution
_NODES = 48
_MOST_STEPS = 64  # of the recurrence; the product of more ratios could leave the range of a float64
_STEEPEST = 1e6  # beyond it the recurrence's variance, a difference of near numbers, has lost six digits and more


class RadialIntegral(NamedTuple):
    """The integral of r^(n-1) exp(-a r^2 + 2 c r) over r > 0, and the mean and variance of r under its integrand."""

    log_value: Tensor
    mean: Tensor
    variance: Tensor


def radial_integral(a: Tensor, c: Tensor, n: int) -> RadialIntegral:
    """Integrate r^(n-1) exp(-a r^2 + 2 c r) over r > 0.

    It is the density of a normal vector of n dimensions, integrated along a ray. The integrand is log-concave with
    one mode; Gauss-Legendre quadrature between the points where it has all but vanished is exact to rounding. For
    c >= 0 and not too large an ``a`` so is a recurrence, in a twentieth of the time.

    Args:
        a: (...) float64, positive.
        c: (...) float64, any sign.
        n: 2 or larger.

    Returns:
        The logarithm of the integral, and the mean and variance of r, each (...).
    """
    if n > _MOST_STEPS:
        return _radial_quadrature(a, c, n)
    ray = _radial_recurrence(a, c.clamp(min=0), n)  # finite in every row, and so are its gradients
    # Row by row, so that no result depends on what other rows there are.
    hard = ((c < 0) | (a > _STEEPEST)).nonzero(as_tuple=True)
    if not len(hard[0]):
        return ray
    exact = _radial_quadrature(a[hard], c[hard], n)
    return RadialIntegral(*(value.index_put(hard, own) for value, own in zip(ray, exact, strict=True)))


def _radial_recurrence(a: Tensor, c: Tensor, n: int) -> RadialIntegral:
    """Integrate for c >= 0, where nothing is subtracted: I_1 is a normal law's, and ratios I_(k+1) / I_k follow.

    I_k is the integral with r^(k-1) before the exponential. By parts, 2 a I_(k+2) = 2 c I_(k+1) + k I_k.
    """
    pull = c / a
    beyond = torch.erf(c * a.rsqrt()).add_(1)
    log_value = pull * c + (beyond * (math.pi / a).sqrt() / 2).log()
    ratio = pull + torch.exp(-pull * c) / (beyond * (math.pi * a).sqrt())  # I_2 / I_1
    product = ratio
    for k in range(1, n):
        ratio = pull + (k / 2) / (a * ratio)
        product = product * ratio if k < n - 1 else product
    log_value = log_value + product.log()
    following = pull + (n / 2) / (a * ratio)  # I_(n+2) / I_(n+1), beside I_(n+1) / I_n
    return RadialIntegral(log_value, ratio, ratio * (following - ratio))


def _radial_quadrature(a: Tensor, c: Tensor, n: int) -> RadialIntegral:
    """Integrate by Gauss-Legendre quadrature around the mode."""
    root = torch.sqrt(c * c + 2 * a * (n - 1))
    mode = torch.where(c > 0, (c + root) / (2 * a), (n - 1) / (root - c))  # neither form subtracts like from like
    curvature = 2 * a * mode.square()
    # With r = mode (1 + x) the log integrand falls by (n - 1) (x - ln(1 + x)) + curvature x^2 / 2; the ends below
    # bound where that reaches the cut.
    third = 2 * _DROP / 3
    upper = torch.sqrt(2 * _DROP / curvature).clamp(max=(third + math.sqrt(third**2 + 2 * _DROP * (n - 1))) / (n - 1))
    lower = -torch.sqrt(2 * _DROP / (n - 1 + curvature)).clamp(max=1.0)
    nodes, weights = gauss_legendre(_NODES, a.device)
    half = (upper - lower) / 2
    x = ((upper + lower) / 2).unsqueeze(-1) + half.unsqueeze(-1) * nodes
    fall = (n - 1) * (x - torch.log1p(x)) + curvature.unsqueeze(-1) * x.square() / 2
    mass = torch.exp(-fall) * weights
    total = mass.sum(-1)
    mean = (mass * x).sum(-1) / total
    variance = (mass * (x - mean.unsqueeze(-1)).square()).sum(-1) / total
    log_value = n * mode.log() - a * mode.square() + 2 * c * mode + (total * half).log()
    return RadialIntegral(log_value, mode * (1 + mean), mode.square() * variance)


def gauss_legendre(count: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the nodes and weights of Gauss-Legendre quadrature on [-1, 1], each (count,) float64 on ``device``."""
    nodes, weights = _gauss_legendre(count)
    return torch.from_numpy(nodes).to(device), torch.from_numpy(weights).to(device)


@lru_cache(maxsize=16)
def _gauss_legendre(
    count: int,
) -> tuple[np.ndarray[tuple[int], np.dtype[np.float64]], np.ndarray[tuple[int], np.dtype[np.float64]]]:
    from scipy import special  # here, because nothing that is drawn needs it

    nodes, weights = special.roots_legendre(count)
    return np.asarray(nodes, dtype=np.float64), np.asarray(weights, dtype=np.float64)


LogDensity = Callable[[Tensor], Tensor]
"""The logarithm, up to a constant, of the density of a displacement: (...) float64 to (...) float64."""

_FARTHEST = 1e130  # displacements beyond it are not looked at: their squares are still numbers
_STEP = 0.25  # of a panel, in asinh of the displacement: panels grow with the distance from the anchor
_PANEL_NODES = 8
_GRADED_NODES = 12


class Truncated(NamedTuple):
    """A law that is truncated to [-left, right]: logarithm of its mass, mean of x^2, and mean of the log density."""

    log_mass: Tensor
    mean_square: Tensor
    mean_log_density: Tensor


def truncated(log_density: LogDensity, left: Tensor, right: Tensor) -> Truncated:
    """Integrate the law of a displacement between walls, by Gauss-Legendre quadrature.

    The density may be heavy-tailed, and have a kink at 0. It should be smooth elsewhere, on the scale 1 near 0 and on
    the scale of the displacement far from it.

    Args:
        log_density: the law.
        left: (...) float64, distance to the lower wall, 0 or larger; infinite where there is none.
        right: (...) float64, distance to the upper wall.

    Returns:
        Each of its numbers in the shape of ``left``.
    """
    below, above = _cumulative(log_density, left, -1.0), _cumulative(log_density, right, 1.0)
    top = max(below.log_unit, above.log_unit)
    sums = below.sums * math.exp(below.log_unit - top) + above.sums * math.exp(above.log_unit - top)
    mass, square, surprise = sums
    return Truncated(mass.log() + top, square / mass, surprise / mass)


class _Cumulative(NamedTuple):
    """Integrals of f, x^2 f and f ln f from 0 to each wall, (3, ...), in units of exp(log_unit)."""

    sums: Tensor
    log_unit: float


def _cumulative(log_density: LogDensity, wall: Tensor, side: float) -> _Cumulative:
    """Integrate from 0 to all walls at once: between neighbouring walls, and then in running sums."""
    walls = wall.reshape(-1).clamp(max=_FARTHEST)
    steps = math.ceil(math.asinh(float(walls.max())) / _STEP) if len(walls) else 0
    grid = (_STEP * torch.arange(steps + 1, dtype=wall.dtype, device=wall.device)).sinh()
    ends = torch.cat([grid, walls]).sort().values
    nodes, weights = gauss_legendre(_PANEL_NODES, wall.device)
    half = ends.diff().unsqueeze(-1) / 2
    x = side * (ends[:-1].unsqueeze(-1) + half * (1 + nodes))
    log_f = log_density(x)
    log_unit = float(log_f.max()) if log_f.numel() else 0.0
    log_unit = log_unit if math.isfinite(log_unit) else 0.0
    mass = (log_f - log_unit).exp() * (half * weights)
    terms = torch.stack([mass, mass * x.square(), torch.where(mass > 0, mass * log_f, 0.0)])
    sums = torch.nn.functional.pad(terms.sum(-1).cumsum(-1), (1, 0))
    place = torch.searchsorted(ends, walls, right=True) - 1
    return _Cumulative(sums[:, place].reshape(3, *wall.shape), log_unit)


def truncated_mean_square(log_density: LogDensity, width: float) -> float:
    """Return the mean of (z_pos - z)^2, over anchors z that are uniform on [0, width].

    Args:
        log_density: the law of z_pos - z without walls.
        width: the interval's width; infinite where there are no walls.

    Returns:
        The mean; infinite where the law has none.
    """
    if math.isinf(width):
        walls = torch.tensor([math.inf, math.sqrt(_FARTHEST)], dtype=torch.float64, device="cpu")
        whole, part = truncated(log_density, walls, walls).mean_square.tolist()
        return whole if math.isclose(whole, part, rel_tol=1e-6) else math.inf
    z, weights = _graded_interval(torch.tensor(width, dtype=torch.float64, device="cpu"))
    return float(truncated(log_density, z, width - z).mean_square @ weights) / width


def truncated_information(log_density: LogDensity, width: float) -> float:
    """Return the mutual information of z and z_pos in nats, for anchors z that are uniform on [0, width].

    It is h(q) - E h(z), with h(z) the entropy of the positive given its anchor, and q the marginal density of the
    positive, which piles up less near the walls than elsewhere.

    Args:
        log_density: the law of z_pos - z without walls.
        width: the interval's width, finite.
    """
    x, weights = _graded_interval(torch.tensor(width, dtype=torch.float64, device="cpu"))
    law = truncated(log_density, x, width - x)
    entropy = law.log_mass - law.mean_log_density
    density = torch.zeros_like(x)
    for wall, side in ((x, -1.0), (width - x, 1.0)):
        distance, share = _graded_interval(wall)  # (points, nodes): from the positive to the anchor
        z = (x.unsqueeze(-1) + side * distance).clamp(0, width)
        log_ratio = log_density(-side * distance) - truncated(log_density, z, width - z).log_mass
        density += (log_ratio.exp() * share).sum(-1)
    density = density / width
    surprise = -width * torch.special.xlogy(density, density)
    return max(0.0, float((surprise - entropy) @ weights) / width)


def _graded_interval(length: Tensor) -> tuple[Tensor, Tensor]:
    """Return nodes and weights on [0, length] that are dense at both of its ends, each (..., nodes)."""
    top = torch.asinh(length / 2).unsqueeze(-1)
    panels = max(1, math.ceil(float(top.max()) / (2 * _STEP)))
    nodes, weights = gauss_legendre(_GRADED_NODES, length.device)
    unit = (
        (torch.arange(panels, dtype=length.dtype, device=length.device).unsqueeze(-1) + (1 + nodes) / 2) / panels
    ).flatten()
    near = (top * unit).sinh()
    weight = (top * unit).cosh() * top * (weights / (2 * panels)).repeat(panels)
    return torch.cat([near, length.unsqueeze(-1) - near.flip(-1)], -1), torch.cat([weight, weight.flip(-1)], -1)


def take(values: Tensor, rows: Tensor) -> Tensor:
    """Return the values of rows in increasing order, without a copy where those are all."""
    return values if len(rows) == len(values) else values[rows]


_TERMS = 18  # the series alternates, and its term k is below 1 / k!


def power_integral(wall: Tensor, p: float, order: int = 0) -> Tensor:
    """Return the integral of y^order exp(-y^p) from 0 to each wall, to rounding, however large p is.

    Up to y = 1 it is a series: there y^p may be less than any float64, while the integral is not. Beyond it is an
    incomplete gamma function.

    Args:
        wall: (...) float64, 0 or larger; infinite where there is none.
        p: the exponent, 1 or larger.
        order: m, 0 or larger.

    Returns:
        (...) float64.
    """
    shape = (order + 1) / p
    near = wall.clamp(max=1)
    power = near.pow(p)
    series, term = torch.full_like(near, 1 / (order + 1)), torch.ones_like(near)
    for k in range(1, _TERMS):
        term = -term * power / k
        series = series + term / (k * p + order + 1)
    share = torch.special.gammainc(torch.full_like(wall, shape), wall.clamp(min=1).pow(p))
    beyond = share * (math.gamma(1 + shape) / (order + 1))
    return torch.where(wall <= 1, near.pow(order + 1) * series, beyond)


_POWER_DROP = 42.0  # exp(-42) is below float64's resolution
_FLAT = 2.0**-53  # a width of the interval over which the density does not change
_OUTER_NODES = 128
_INNER_NODES = 96


@lru_cache(maxsize=4096)
def mean_square_of_power(p: float, width: float) -> float:
    """Return the mean of (z_pos - z)^2 for a density proportional to exp(-|z_pos - z|^p) on [0, width].

    Args:
        p: the exponent, 1 or larger.
        width: the interval's width, on which anchors are uniform; infinite where there are no walls.
    """
    if math.isinf(width):
        return math.gamma(3 / p) / math.gamma(1 / p)
    if width <= _FLAT:
        return width**2 / 6
    z, weights, interior = _from_wall(p, width)
    near, far = _walls(z, p, width)
    square = (_moment(2, near, p) + _moment(2, far, p)) / (_moment(0, near, p) + _moment(0, far, p))
    plain = math.gamma(3 / p) / math.gamma(1 / p)
    return float(2 / width * (square @ weights + interior * plain))


@lru_cache(maxsize=4096)
def information_of_power(p: float, width: float) -> float:
    """Return the mutual information of z and z_pos for a density proportional to exp(-|z_pos - z|^p) on [0, width].

    Anchors are uniform. Positives are not, near the walls. It is h(q) - E h(z), with h(z) the entropy of the positive
    given its anchor, which is ln Z(z) + E |z_pos - z|^p in closed form, and q(x) the marginal density of the positive,
    the mean of exp(-|x - z|^p) / Z(z) over anchors.

    Args:
        p: the exponent, 1 or larger.
        width: the interval's width.
    """
    if width <= _FLAT:
        return 0.0
    x, weights, interior = _from_wall(p, width)
    near, far = _walls(x, p, width)
    mass = _moment(0, near, p) + _moment(0, far, p)
    edge = near * np.exp(-(near**p)) + far * np.exp(-(far**p))
    entropy = np.log(mass) + (1 - edge / mass) / p
    density = _marginal(x, p, width)
    surprise = -width * density * np.log(density)
    plain = math.log(2 * math.gamma(1 + 1 / p)) + 1 / p
    nats = float(2 / width * ((surprise - entropy) @ weights + interior * (math.log(width) - plain)))
    return max(0.0, nats)  # of a very wide conditional nothing but rounding is left


def _marginal(x: _Array, p: float, width: float) -> _Array:
    """Return the density of the positive at each x, for anchors uniform on [0, width]."""
    density = np.zeros_like(x)
    nodes, weights = _graded(_INNER_NODES, 3)
    for wall, side in ((x, -1.0), (width - x, 1.0)):
        reach = np.minimum(wall, _reach(p))[:, None]
        distance = reach * nodes  # (points, nodes): from the positive to the anchor
        anchor = x[:, None] + side * distance
        near, far = _walls(anchor, p, width)
        mass = _moment(0, near, p) + _moment(0, far, p)
        density += (np.exp(-(distance**p)) / mass * reach) @ weights
    return density / width


def _from_wall(p: float, width: float) -> tuple[_Array, _Array, float]:
    """Return nodes and weights for the part of [0, width / 2] that feels the wall at 0, and the length of the rest.

    Beyond twice the density's reach from both walls, everything is as if there were no walls.
    """
    end = min(width / 2, 2 * _reach(p))
    # The larger p is, the sharper is the bend of the density at a distance of 1 from a wall.
    bends = sorted({0.0, end, *(place for place in (1.0, width - 1) if 0 < place < end)})
    start, length = np.array(bends[:-1])[:, None], np.diff(bends)[:, None]
    nodes, weights = _graded(_OUTER_NODES, 2)
    return (start + length * nodes).ravel(), (length * weights).ravel(), width / 2 - end


def _walls(x: _Array, p: float, width: float) -> tuple[_Array, _Array]:
    """Return the distances from x to both walls, at most so far as the density reaches."""
    return np.clip(x, 0, _reach(p)), np.clip(width - x, 0, _reach(p))


def _reach(p: float) -> float:
    return float(_POWER_DROP ** (1 / p))


def _moment(order: int, wall: _Array, p: float) -> _Array:
    """Return the integral of y^order exp(-y^p) from 0 to ``wall``."""
    moment: _Array = power_integral(torch.from_numpy(wall), p, order).numpy()
    return moment


@lru_cache(maxsize=4)
def _graded(count: int, grade: int) -> tuple[_Array, _Array]:
    """Return nodes and weights over [0, 1] for functions that are rough at 0: Gauss-Legendre in x^(1 / grade)."""
    from scipy import special  # here, because nothing that is drawn needs it

    nodes, weights = special.roots_legendre(count)
    unit = (nodes + 1) / 2
    return unit**grade, grade * unit ** (grade - 1) * weights / 2
