"""Rejection sampling of whole batches."""

from collections.abc import Callable

import torch
from torch import Tensor

from ident3d.errors import Ident3DError

__all__ = ["draw_by_rejection"]

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
        kept = luck.log() < log_chance
        drawn[waiting[kept]] = proposal[kept]
        waiting = waiting[~kept]
    raise Ident3DError(
        f"rejection sampling found nothing for {len(waiting)} of {len(drawn)} rows in {_MOST_ROUNDS} rounds; the "
        "conditional's widths differ too much for it: bring the largest and the smallest closer together"
    )
