"""The density of a direction: what projecting a point of R^n onto the unit sphere makes of its density."""

from collections.abc import Callable

import torch
from torch import Tensor

from ident3d.conditionals.radial import gauss_legendre, radial_integral

__all__ = ["projected_log_density"]

_DROP = 40.0  # the integrand is cut where it has fallen by exp(-40)
_BISECTIONS = 60
_PANELS = 8
_NODES = 16
_NUMBERS = 2**22  # numbers held at a time, to bound the memory


def projected_log_density(u: Tensor, z: Tensor, scale: Tensor, p: float) -> Tensor:
    """Return ln of the integral of r^(n-1) exp(-sum |(r u - z) / scale|^p) over r > 0.

    Less the logarithm of the integral of exp(-sum |(x - z) / scale|^p) over R^n, that is the log density, with respect
    to the surface measure, of x / |x| for an x distributed as exp(-sum |(x - z) / scale|^p).

    Args:
        u: (B, n) float64 points on the unit sphere.
        z: (B, n) float64 anchors.
        scale: () or (n,) float64 widths.
        p: the exponent, 1 or larger, so that the integrand is log-concave.

    Returns:
        (B,) float64.
    """
    slope, offset = u / scale, z / scale
    if p == 2:
        ray = radial_integral(slope.square().sum(-1), (slope * offset).sum(-1), u.shape[-1])
        return ray.log_value - offset.square().sum(-1)
    n = u.shape[-1]
    rows = max(1, _NUMBERS // (n * _NODES * (n + _PANELS)))
    chunks = zip(torch.split(slope, rows), torch.split(offset, rows), strict=True)
    return torch.cat([_integrate(slope_rows, offset_rows, p) for slope_rows, offset_rows in chunks])


def _integrate(slope: Tensor, offset: Tensor, p: float) -> Tensor:
    """Integrate r^(n-1) exp(-sum |slope r - offset|^p) over r > 0: (B, n) and (B, n) to logarithms (B,)."""
    mode, lower, upper = _window(slope, offset, p)
    # The integrand has a kink wherever a coordinate of the ray passes the anchor's; no panel may hold one inside.
    kinks = torch.where(slope == 0, mode.unsqueeze(-1), offset / slope)
    grid = torch.linspace(0, 1, _PANELS + 1, dtype=slope.dtype, device=slope.device)
    even = lower.unsqueeze(-1) + (upper - lower).unsqueeze(-1) * grid
    edges = torch.cat([even, torch.minimum(torch.maximum(kinks, lower.unsqueeze(-1)), upper.unsqueeze(-1))], -1)
    edges = edges.sort(-1).values
    nodes, weights = gauss_legendre(_NODES, slope.device)
    half = edges.diff(dim=-1) / 2
    r = (edges[:, :-1] + half).unsqueeze(-1) + half.unsqueeze(-1) * nodes
    log_terms = _log_integrand(r.flatten(1), slope, offset, p) + (half.unsqueeze(-1) * weights).flatten(1).log()
    return log_terms.logsumexp(-1)


def _window(slope: Tensor, offset: Tensor, p: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return, for each ray, the integrand's mode and the points below and above where it has vanished, each (B,)."""

    def rises(r: Tensor) -> Tensor:
        gap = r.unsqueeze(-1) * slope - offset
        fall = p * (gap.abs().pow(p - 1) * gap.sign() * slope).sum(-1)
        return (slope.shape[-1] - 1) / r > fall

    def lives(r: Tensor) -> Tensor:
        return _log_integrand(r.unsqueeze(-1), slope, offset, p).squeeze(-1) > floor

    origin, one = slope.new_zeros(len(slope)), slope.new_ones(len(slope))
    descent = _double(rises, one)
    mode = _bisect(rises, origin, descent)
    floor = _log_integrand(mode.unsqueeze(-1), slope, offset, p).squeeze(-1) - _DROP
    return mode, _bisect(lives, mode, origin), _bisect(lives, mode, _double(lives, descent))


def _double(holds: Callable[[Tensor], Tensor], start: Tensor) -> Tensor:
    """Double ``start``, row by row, until ``holds`` no longer does."""
    end = start
    while bool((growing := holds(end)).any()):
        end = torch.where(growing, 2 * end, end)
    return end


def _bisect(holds: Callable[[Tensor], Tensor], inside: Tensor, outside: Tensor) -> Tensor:
    """Return, for each row, where ``holds`` ends between ``inside``, where it does, and ``outside``."""
    for _ in range(_BISECTIONS):
        middle = (inside + outside) / 2
        held = holds(middle)
        inside, outside = torch.where(held, middle, inside), torch.where(held, outside, middle)
    return outside


def _log_integrand(r: Tensor, slope: Tensor, offset: Tensor, p: float) -> Tensor:
    """Return (n-1) ln r - sum |slope r - offset|^p for radii (B, K): (B, K)."""
    gaps = r.unsqueeze(-1) * slope.unsqueeze(1) - offset.unsqueeze(1)  # (rows, radii, coordinates)
    return (slope.shape[-1] - 1) * r.log() - gaps.abs().pow(p).sum(-1)
