"""All pictures of a dataset in the memory of one device."""

import sys
from collections.abc import Iterable
from importlib.util import find_spec

import torch
from torch import Tensor

from ident3d.errors import DatasetError
from ident3d.pairs.batch import PairData

__all__ = ["ResidentPictures"]

_PICTURES_AT_ONCE = 1024


class ResidentPictures:
    """The pictures of a dataset, decoded once into one uint8 tensor on a device, and its latents.

    Args:
        data: the dataset.
        device: where the pictures are to be.
        positive: whether its exact positives are wanted too.

    Attributes:
        device: where the pictures are.
        latents: (N, d) float32, on the CPU: batches of latents are small, and drawn there.
        latents_pos: (N, d) float32, on the CPU, or None.
        factors: what the columns of the latents are.

    Raises:
        ValueError: if the pictures do not fit in the free memory of a CUDA device.
    """

    layout = "decoded"

    def __init__(self, data: PairData, device: torch.device, *, positive: bool) -> None:
        self.device = device
        self.latents = data.latents
        self.factors = data.factors
        self.latents_pos: Tensor | None = getattr(data, "latents_pos", None)
        sources = [False, True] if positive else [False]
        one = data.pixels(torch.zeros(1, dtype=torch.int64))
        _check_memory(len(data) * one.nbytes * len(sources), device)
        self._pixels = [_decoded(data, device, one.shape[1:], positive=source) for source in sources]

    def __len__(self) -> int:
        return len(self.latents)

    def pixels(self, rows: Tensor, *, positive: bool = False) -> Tensor:
        """Return the (B, H, W, 3) uint8 pictures of (B,) rows, or of their exact positives, on the device."""
        if positive and len(self._pixels) < 2:
            raise DatasetError(
                "the exact positives are not on the device; make this stream of pairs with RenderedPairs"
            )
        return self._pixels[positive].index_select(0, rows.to(self.device))


def _decoded(data: PairData, device: torch.device, shape: torch.Size, *, positive: bool) -> Tensor:
    pixels = torch.empty((len(data), *shape), dtype=torch.uint8, device=device)
    starts = range(0, len(data), _PICTURES_AT_ONCE)
    for start in _with_bar(starts, f"pictures to {device}"):
        rows = torch.arange(start, min(start + _PICTURES_AT_ONCE, len(data)))
        pixels[rows[0] : rows[-1] + 1] = data.pixels(rows, positive=positive)
    return pixels


def _with_bar(starts: Iterable[int], label: str) -> Iterable[int]:
    if not sys.stderr.isatty() or find_spec("tqdm") is None:
        return starts
    from tqdm import tqdm

    return tqdm(starts, desc=label, unit_scale=_PICTURES_AT_ONCE)


def _check_memory(needed: int, device: torch.device) -> None:
    if device.type != "cuda":
        return
    free, _ = torch.cuda.mem_get_info(device)
    if needed > free:
        raise ValueError(
            f"the pictures take {needed / 2**30:.1f} GiB and {device} has {free / 2**30:.1f} GiB free; "
            "serve them with .loader(num_workers=...) instead"
        )
