"""A batch of positive pairs, and what a dataset has to offer to make one."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Protocol, Self

import torch
from torch import Tensor

from ident3d.factors import Factors

__all__ = ["PairBatch", "PairData", "RenderedPairData", "check_data"]


class PairData(Protocol):
    """A dataset that pairs can be drawn from; :class:`ident3d.ThreeDIdent` is one.

    Where it has an attribute ``layout`` that is "decoded", its pictures are taken to cost no more than a copy.

    Attributes:
        latents: (N, d) float32.
        factors: what the columns of the latents are.
    """

    latents: Tensor
    factors: Factors

    def __len__(self) -> int:
        """Return N."""

    def pixels(self, rows: Tensor, *, positive: bool = False) -> Tensor:
        """Return the (B, H, W, 3) uint8 pictures of (B,) int64 rows, or of their exact positives."""


class RenderedPairData(PairData, Protocol):
    """A dataset that was rendered with an exact positive for every row.

    Attributes:
        latents_pos: (N, d) float32, the latents of the positives; None where there are none.
    """

    latents_pos: Tensor | None


_OFFERED = ("latents", "factors", "pixels", "__len__")


def check_data(data: Any) -> None:
    """Say what is wrong with what pairs are to be drawn from.

    Raises:
        TypeError: if it is no dataset that pairs can be drawn from.
        ValueError: if it is empty, or pictures, latents and factors differ in number.
    """
    if isinstance(data, str | Path):
        raise TypeError(
            f"pairs are drawn from a dataset, not from {data!r}: open it with ident3d.ThreeDIdent({data!r})"
        )
    missing = [name for name in _OFFERED if isinstance(data, type) or not hasattr(data, name)]
    if missing:
        raise TypeError(
            f"pairs are drawn from a dataset such as ident3d.ThreeDIdent(root), with {', '.join(_OFFERED)}; "
            f"{_kind(data)} lacks {', '.join(missing)}"
        )
    if not len(data):
        raise ValueError("pairs are drawn from a dataset of one picture or more, and this one is empty")
    latents = data.latents
    if not isinstance(latents, Tensor) or latents.shape != (len(data), len(data.factors)):
        found = f"one of shape {tuple(latents.shape)}" if isinstance(latents, Tensor) else _kind(latents)
        raise ValueError(
            f"expected a tensor of latents of shape ({len(data)}, {len(data.factors)}), for {len(data)} pictures and "
            f"the factors {', '.join(data.factors.names)}, not {found}"
        )


def _kind(value: Any) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"


@dataclass(frozen=True, eq=False)
class PairBatch:
    """B positive pairs.

    Pictures are (B, 3, H, W), laid out channels last in memory, as decoders write them and convolutions like them.

    Attributes:
        x: uint8 pictures of the anchors, or what a transform makes of them.
        x_pos: likewise, of the positives.
        z: (B, d) float32 latents of the anchors.
        z_pos: (B, d) float32 latents of the positives.
        ids: (B,) int64, rows of the dataset that the anchors are.
        ids_pos: (B,) int64, likewise of the positives; the anchors' own for exact and augmented pairs.
        number: the batch's place in the stream.
    """

    x: Tensor
    x_pos: Tensor
    z: Tensor
    z_pos: Tensor
    ids: Tensor
    ids_pos: Tensor
    number: int

    def __len__(self) -> int:
        return len(self.ids)

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> Self:
        """Return this batch on ``device``."""
        return self._each(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Self:
        """Return this batch in page-locked memory; a DataLoader with ``pin_memory=True`` calls it."""
        return self._each(Tensor.pin_memory)

    def share_memory(self) -> Self:
        """Return this batch in memory that processes share, whatever it was in before."""
        return self._each(Tensor.share_memory_)

    def _each(self, change: Callable[[Tensor], Tensor]) -> Self:
        tensors = {f.name: change(getattr(self, f.name)) for f in fields(self) if f.name != "number"}
        return type(self)(**tensors, number=self.number)
