"""What all streams of positive pairs share: order, workers, ranks, resuming, and images that stay on a device."""

import copy
import html
import itertools
import logging
import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

import torch
import torch.distributed as dist
from jaxtyping import Int64, UInt8
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, Subset, get_worker_info

from ident3d.arguments import check_count
from ident3d.device import send, usable_device
from ident3d.display import as_images, contact_sheet, shapes, strip
from ident3d.factors import Factors
from ident3d.pairs.transforms import BatchTransform, as_floats, check_dtype, of_pil_images, transformed
from ident3d.progress import ProgressBar
from ident3d.randomness import torch_generator

__all__ = [
    "PairBatch",
    "PairData",
    "PairStream",
    "RenderedPairData",
    "ResidentImages",
    "StoredPairs",
    "check_data",
    "check_memory",
    "check_workers",
    "made",
]


T = TypeVar("T")

_LOG = logging.getLogger("ident3d.pairs")


class PairData(Protocol):
    """A dataset that pairs can be drawn from; :class:`ident3d.ThreeDIdent` is one.

    Where it has an attribute ``layout`` that is "decoded", its images are taken to cost no more than a copy. Where it
    has a ``transform`` or a ``target_transform``, they are applied to every image, as a PIL image, and to its latents.

    Attributes:
        latents: (N, d) float32.
        factors: what the columns of the latents are.
    """

    latents: Tensor
    factors: Factors

    def __len__(self) -> int:
        """Return N."""

    def pixels(self, rows: Int64[Tensor, " batch"]) -> UInt8[Tensor, "batch height width 3"]:
        """Return the images of rows."""


class RenderedPairData(PairData, Protocol):
    """A dataset that was rendered with an exact positive for every row."""

    @property
    def positives(self) -> PairData | None:
        """The positives: row i is the positive of row i; None where there are none."""


_OFFERED = ("latents", "factors", "pixels", "__len__")


def check_data(data: Any) -> None:
    """Say what is wrong with what pairs are to be drawn from.

    Raises:
        TypeError: if it is not a dataset that pairs can be drawn from.
        ValueError: if it is empty, or images, latents and factors differ in number.
    """
    if isinstance(data, str | Path):
        raise TypeError(
            f"pairs are drawn from a dataset, not from {data!r}: open it with ident3d.ThreeDIdent({data!r})"
        )
    missing = [name for name in _OFFERED if isinstance(data, type) or not hasattr(data, name)]
    if isinstance(data, Subset) and missing:
        raise TypeError(
            "pairs are drawn from a dataset, not from a Subset of one: data[indices] is a dataset of some rows"
        )
    if missing:
        raise TypeError(
            f"pairs are drawn from a dataset such as ident3d.ThreeDIdent(root), with {', '.join(_OFFERED)}; "
            f"{_kind(data)} lacks {', '.join(missing)}"
        )
    if not len(data):
        raise ValueError("pairs are drawn from a dataset of one image or more, and this one is empty")
    latents = data.latents
    if not isinstance(latents, Tensor) or latents.shape != (len(data), len(data.factors)):
        found = f"one of shape {tuple(latents.shape)}" if isinstance(latents, Tensor) else _kind(latents)
        raise ValueError(
            f"expected a tensor of latents of shape ({len(data)}, {len(data.factors)}), for {len(data)} images and "
            f"the factors {', '.join(data.factors.names)}, not {found}"
        )


def _kind(value: Any) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"


@dataclass(frozen=True, eq=False)
class PairBatch:
    """B positive pairs.

    Images are (B, 3, H, W), laid out channels last in memory, as decoders write them and convolutions like them.

    Example:
        >>> import ident3d
        >>> pairs = ident3d.PositivePairs(ident3d.ThreeDIdent("sample"), ident3d.Normal(0.3), batch_size=3)
        >>> pairs.batch(0)
        PairBatch 0: 3 pairs on cpu
          x        uint8 (3, 3, 64, 64)
          x_pos    uint8 (3, 3, 64, 64)
          z        float32 (3, 10)
          z_pos    float32 (3, 10)
          ids      int64 (3,)
          ids_pos  int64 (3,)
        ...

    Attributes:
        x: uint8 images of the anchors, or what ``dtype`` and transforms make of them.
        x_pos: likewise, of the positives.
        z: (B, d) float32 latents of the anchors, or what the dataset's ``target_transform`` makes of them.
        z_pos: latents of the positives.
        ids: rows of the dataset that the anchors are.
        ids_pos: likewise of the positives; the anchors' own for exact and augmented pairs.
        number: the batch's place in the stream.
    """

    x: Tensor
    x_pos: Tensor
    z: Tensor
    z_pos: Tensor
    ids: Int64[Tensor, " batch"]
    ids_pos: Int64[Tensor, " batch"]
    number: int

    def __len__(self) -> int:
        return len(self.ids)

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> Self:
        """Return this batch on ``device``."""
        return self._each(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def sent(self, device: torch.device) -> Self:
        """Return this batch on ``device``, without waiting until it is there."""
        return self._each(lambda tensor: send(tensor, device))

    def pin_memory(self) -> Self:
        """Return this batch in page-locked memory; a DataLoader with ``pin_memory=True`` calls it."""
        return self._each(Tensor.pin_memory)

    def share_memory(self) -> Self:
        """Return this batch in memory that processes share, whatever it was in before."""
        return self._each(Tensor.share_memory_)

    def show(self, n: int = 8) -> Image.Image:
        """Return the first n anchors side by side, each above its positive: a notebook shows them.

        Args:
            n: how many pairs, 1 or more; all where there are fewer.

        Raises:
            ValueError: if a transform made something else than images.
        """
        check_count(n, "the number of pairs", 1)
        anchors, positives = as_images(self.x[:n]), as_images(self.x_pos[:n])
        if anchors is None or positives is None:
            raise ValueError(f"a batch shows images of shape (B, 3, H, W) or (B, 1, H, W), not {tuple(self.x.shape)}")
        return contact_sheet([anchors, positives])

    def __repr__(self) -> str:
        tensors = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "number"}
        lines = [f"PairBatch {self.number}: {len(self)} pairs on {self.ids.device}", *shapes(tensors)]
        more = ", ..." if len(self) > _SHOWN else ""
        lines += [
            f"  {name}: {', '.join(map(str, ids[:_SHOWN].tolist()))}{more}"
            for name, ids in (("ids", self.ids), ("ids_pos", self.ids_pos))
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        anchors, positives = as_images(self.x[:_SHOWN]), as_images(self.x_pos[:_SHOWN])
        head = f"<pre>{html.escape(repr(self))}</pre>"
        if anchors is None or positives is None:
            return head
        values = {"ids": self.ids[:_SHOWN], "ids_pos": self.ids_pos[:_SHOWN]}
        texts = {name: [str(row) for row in ids.tolist()] for name, ids in values.items()}
        if self.z.ndim == self.z_pos.ndim == 2:
            texts |= {
                f"z[{column}]": [f"{a:.2f} → {b:.2f}" for a, b in zip(*both, strict=True)]
                for column, both in enumerate(zip(*self._latents_shown(), strict=True))
            }
        return head + strip({"x": anchors, "x_pos": positives}, texts)

    def _latents_shown(self) -> tuple[list[list[float]], list[list[float]]]:
        """Return columns of the latents of the pairs that are shown, of anchors and of positives."""
        return self.z[:_SHOWN].T.tolist(), self.z_pos[:_SHOWN].T.tolist()

    def _each(self, change: Callable[[Tensor], Tensor]) -> Self:
        held = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "number"}
        changed = {id(tensor): change(tensor) for tensor in {id(t): t for t in held.values()}.values()}
        return type(self)(**{name: changed[id(tensor)] for name, tensor in held.items()}, number=self.number)


_IMAGES_AT_ONCE = 1024
_SHOWN = 8  # pairs that a notebook shows


class ResidentImages:
    """The images of a dataset, decoded once into one uint8 tensor on a device, and its latents.

    Args:
        data: the dataset.
        device: where the images are to be.
        positives: the exact positives of the rows, on the device already; or None.
        together: whether all processes of torch's default group make this at once, each decoding its share.

    Attributes:
        device: where the images are.
        latents: (N, d) float32, on the CPU: batches of latents are small, and drawn there.
        positives: the exact positives of the rows, or None.
        factors: what the columns of the latents are.

    Raises:
        ValueError: if the images do not fit in the free memory of a CUDA device.
    """

    layout = "decoded"

    def __init__(
        self,
        data: PairData,
        device: torch.device,
        positives: "ResidentImages | None" = None,
        *,
        together: bool = False,
    ) -> None:
        self.device = device
        self.latents = data.latents
        self.factors = data.factors
        self.positives = positives
        check_memory([data], device)
        self._pixels = _decoded(data, device, together=together)

    def __len__(self) -> int:
        return len(self.latents)

    def pixels(self, rows: Int64[Tensor, " batch"]) -> UInt8[Tensor, "batch height width 3"]:
        """Return the images of rows, on the device."""
        return self._pixels.index_select(0, send(rows, self.device))


def _first_image(data: PairData) -> Tensor:
    return data.pixels(torch.zeros(1, dtype=torch.int64, device="cpu"))


def _decoded(data: PairData, device: torch.device, *, together: bool) -> Tensor:
    pixels = torch.empty((len(data), *_first_image(data).shape[1:]), dtype=torch.uint8, device=device)
    is_first = not together or dist.get_rank() == 0
    with ProgressBar(len(data), unit="images", label=f"images to {device}", quiet=not is_first) as bar:
        for start in range(0, len(data), _IMAGES_AT_ONCE):
            rows = torch.arange(start, min(start + _IMAGES_AT_ONCE, len(data)), dtype=torch.int64, device="cpu")
            pixels[rows[0] : rows[-1] + 1] = _decoded_together(data, rows, device) if together else data.pixels(rows)
            bar.update(len(rows))
    return pixels


def _decoded_together(data: PairData, rows: Tensor, device: torch.device) -> Tensor:
    """Decode this process's share of some rows, and get the rest from the other processes."""
    ranks, rank = dist.get_world_size(), dist.get_rank()
    share = -(-len(rows) // ranks)
    padded = torch.cat([rows, rows[-1:].expand(share * ranks - len(rows))])
    own = data.pixels(padded[rank * share : (rank + 1) * share]).to(device)
    parts = [torch.empty_like(own) for _ in range(ranks)]
    dist.all_gather(parts, own)
    return torch.cat(parts)[: len(rows)]


def check_memory(sources: Iterable[PairData], device: torch.device) -> None:
    """Raise ValueError if all images of ``sources`` together do not fit in the free memory of a CUDA device."""
    if device.type != "cuda":
        return
    needed = sum(len(data) * _first_image(data).nbytes for data in sources)
    free, _ = torch.cuda.mem_get_info(device)
    if needed > free:
        raise ValueError(
            f"the images take {needed / 2**30:.1f} GiB and {device} has {free / 2**30:.1f} GiB free; "
            "serve them with .loader(num_workers=...) instead"
        )


class PairStream(IterableDataset[PairBatch], ABC):
    """An endless stream of batches of positive pairs.

    Batch b depends on the seed and b only. Iterating gives batches 0, 1, 2, ...; several ranks take turns: at step s,
    rank r of R gets batch s R + r, so that together they see the stream that one rank would see. Workers of a rank
    take turns at its steps in the same way. So the stream is the same for any number of workers, any way of starting
    them, and after any restart.

    Args:
        batch_size: pairs in a batch, for each rank.
        seed: seed of the stream, 0 or larger.
        transform: what is made of each image, a (3, H, W) tensor: a pipeline of torchvision's ``transforms.v2``, or any
            function; anchors and positives are changed separately. What it draws from the global generators of torch,
            NumPy or Python depends on (seed, batch, place in the batch) alone, with workers or without. One that is
            given whole batches says so: :class:`~ident3d.BatchTransform`. None leaves images as they are.
        dtype: what the images are served in, and given to the transform in: a dtype of floats scales them to [0, 1];
            None: uint8.

    Attributes:
        device: where batches are made.

    Raises:
        TypeError: if transform or dtype are of another type, or batch size or seed are not integers.
        ValueError: if the batch size is not positive, or the seed is negative.
    """

    def __init__(
        self,
        batch_size: int,
        seed: int,
        transform: Callable[[Tensor], Any] | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        check_count(batch_size, "batch_size", 1)
        check_count(seed, "the seed", 0)
        if transform is not None and not callable(transform):
            raise TypeError(f"a transform is a function of images, not {transform!r}")
        check_dtype(dtype)
        self.batch_size = int(batch_size)
        self.seed = int(seed)
        self.transform = transform
        self.dtype = dtype
        self.device = torch.device("cpu")
        self._step = 0
        self._end: int | None = None  # the step before which the stream ends
        self._rank, self._ranks = 0, 1

    def __repr__(self) -> str:
        served = "" if self.dtype is None else f", dtype={self.dtype}"
        made = f"{type(self).__name__}(batch_size={self.batch_size}, seed={self.seed}{served})"
        transform = [] if self.transform is None else [f"  transform: {' '.join(repr(self.transform).split())}"]
        return "\n".join([f"{made} on {self.device}", f"  {self.realises}", *transform])

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(repr(self))}</pre>{self.batch(0)._repr_html_()}"

    def batch(self, number: int) -> PairBatch:
        """Return batch ``number`` of the stream, 0 or larger, whatever was returned before."""
        check_count(number, "the number of a batch", 0)
        return self._begin(number)()

    def __iter__(self) -> Iterator[PairBatch]:
        if self.device.type != "cpu":
            yield from self._a_step_ahead()
            return
        in_worker = get_worker_info() is not None
        for number in self.numbers():
            batch = made(self.batch, number)
            # Left to the thread that feeds the queue, the copy to shared memory aborts a process that ends meanwhile.
            yield batch.share_memory() if in_worker else batch

    def _a_step_ahead(self) -> Iterator[PairBatch]:
        """Yield batches of a device, each when the next has been begun: what tells of it has arrived by then."""
        begun: Callable[[], PairBatch] | None = None
        for number in self.numbers():
            following = made(self._begin, number)
            if begun is not None:
                yield begun()
            begun = following
        if begun is not None:
            yield begun()

    def numbers(self) -> Iterator[int]:
        """Return the numbers of the batches that are this rank's, and in a DataLoader's worker this worker's."""
        worker = get_worker_info()
        first, stride = (0, 1) if worker is None else (worker.id, worker.num_workers)
        steps = itertools.count(self._step + first, stride)
        return (
            step * self._ranks + self._rank
            for step in itertools.takewhile(lambda step: self._end is None or step < self._end, steps)
        )

    def __len__(self) -> int:
        if self._end is None:
            raise TypeError("a stream of pairs is endless and has no length; an epoch of it has: pairs.epoch(0)")
        return max(0, self._end - self._step)

    def __bool__(self) -> bool:
        return True

    def from_step(self, step: int) -> Self:
        """Return this stream, starting at ``step``: what a training run resumes with after ``step`` steps."""
        check_count(step, "the step", 0)
        return self._with(_step=step)

    def epoch(
        self, number: int, num_workers: int = 0, *, steps: int | None = None, **options: Any
    ) -> DataLoader[PairBatch]:
        """Return a DataLoader of one part of this stream, with a length, for training by epochs.

        Epoch k are the steps from k times ``steps`` on, so that epochs one after another are the endless stream::

            for k in range(10):
                for batch in pairs.epoch(k):
                    ...

        Args:
            number: which epoch, 0 or larger.
            num_workers: processes that make batches; see :meth:`loader`.
            steps: its length in batches of this rank; None: as many as there are anchors in the dataset for all ranks,
                1 at least.
            **options: of the DataLoader; see :meth:`loader`.

        Returns:
            A DataLoader whose ``len`` is ``steps``.

        Raises:
            TypeError: if a count is not an integer.
            ValueError: if a count is too small, or there is no dataset whose size is that of an epoch.
        """
        check_count(number, "the epoch", 0)
        length = self._epoch_steps() if steps is None else check_count(steps, "the steps of an epoch", 1)
        return self._with(_step=number * length, _end=(number + 1) * length).loader(num_workers, **options)

    def _epoch_steps(self) -> int:
        """Return how many steps an epoch has where that is not said."""
        raise ValueError("these pairs never end, and no dataset says how long an epoch is: give steps=...")

    def shard(self, rank: int, world_size: int) -> Self:
        """Return the part of this stream for one of ``world_size`` ranks; see the class.

        Raises:
            ValueError: if the rank is not in [0, world_size).
        """
        check_count(world_size, "world_size", 1)
        check_count(rank, "rank", 0)
        if rank >= world_size:
            raise ValueError(f"rank is in [0, {world_size}) for {world_size} ranks, not {rank}")
        return self._with(_rank=rank, _ranks=world_size)

    @property
    @abstractmethod
    def realises(self) -> str:
        """What positives of this stream really follow, in a sentence; it is logged once, where the stream is made."""

    @abstractmethod
    def on_device(self, device: torch.device | str, *, together: bool = False) -> Self:
        """Return this stream with batches that are made on ``device``.

        Args:
            device: the device.
            together: whether all processes of torch's default group call this at once, for streams of the same images:
                each then decodes its share of them.

        Raises:
            TypeError: if it is not a device.
            ValueError: if there is no such device here, or it has too little memory.
        """

    def loader(
        self,
        num_workers: int = 0,
        *,
        start: int | None = None,
        pin_memory: bool | None = None,
        prefetch_factor: int | None = None,
        multiprocessing_context: Any = None,
    ) -> DataLoader[PairBatch]:
        """Return a DataLoader that yields this stream's batches in order, endlessly; :meth:`epoch` has an end.

        Args:
            num_workers: processes that match and decode; 0 does it in this one.
            start: the first step; None: where this stream starts.
            pin_memory: whether batches are put in page-locked memory; None: where there is a CUDA device to send
                them to.
            prefetch_factor: batches that a worker makes in advance; None for the DataLoader's own choice.
            multiprocessing_context: how workers are started: "fork", "spawn", "forkserver", or None for the default.

        Raises:
            TypeError: if a count is not an integer.
            ValueError: if a count is too small, or images are on a GPU and workers are asked for: they would not
                share it.
        """
        check_workers(num_workers, prefetch_factor)
        stream = self if start is None else self.from_step(start)
        if num_workers and self.device.type != "cpu":
            raise ValueError(f"images on {self.device} are served without workers; use num_workers=0")
        options = {
            "num_workers": num_workers,
            "prefetch_factor": prefetch_factor,
            "multiprocessing_context": multiprocessing_context,
        }
        serves_bytes = self.transform is None and self.dtype in (None, torch.uint8)
        if num_workers and stream.converts_quickly and not serves_bytes:
            return _ConvertingLoader(stream, pin_memory=self._pins(pin_memory), **options)
        return DataLoader(stream, batch_size=None, pin_memory=self._pins(pin_memory), **options)

    @property
    def converts_quickly(self) -> bool:
        """Whether what is made of bytes takes so little time that the process which iterates makes it itself."""
        return self.transform is None or (isinstance(self.transform, BatchTransform) and self.transform.is_quick)

    def _pins(self, pin_memory: bool | None) -> bool:
        return torch.cuda.is_available() and self.device.type == "cpu" if pin_memory is None else pin_memory

    @abstractmethod
    def _draw(self, number: int) -> PairBatch:
        """Return a batch before the transform: images where they are, the rest on the CPU."""

    def _begin(self, number: int) -> Callable[[], PairBatch]:
        """Begin to make a batch, without waiting for a device; return what finishes it."""
        batch = self._finished(self._draw(number))
        return lambda: batch

    def _finished(self, drawn: PairBatch) -> PairBatch:
        """Return a batch as it is served, all on one device."""
        x = self._served(drawn.x, drawn.number, "x")
        x_pos = self._served(drawn.x_pos, drawn.number, "x_pos")
        return replace(drawn, x=x, x_pos=x_pos).sent(x.device)

    def _served(self, images: Tensor, number: int, view: str) -> Tensor:
        """Return (B, 3, H, W) uint8 images as they are served."""
        return self._converted(images, number, view)

    def _converted(self, images: Tensor, number: int, view: str) -> Tensor:
        """Return (B, 3, H, W) images in the dtype that they are served in, and transformed."""
        images = images if self.dtype in (None, torch.uint8) else as_floats(images, self.dtype)
        if self.transform is None:
            return images
        purpose = f"pairs/transform/{view}/{number}"
        return transformed(self.transform, images, self.seed, purpose, "the transform of the pairs")

    def _say(self, level: int = logging.INFO) -> None:
        """Log what the positives follow; the last that the constructor of each kind of stream does."""
        _LOG.log(level, "%s", self.realises)

    def _generator(self, purpose: str, number: int) -> torch.Generator:
        return torch_generator(self.seed, f"pairs/{purpose}", number)

    def _with(self, **changes: Any) -> Self:
        changed = copy.copy(self)
        vars(changed).update(changes)
        return changed


class _ConvertingLoader(DataLoader[PairBatch]):
    """Yields the batches of a stream whose images become floats in little time.

    Workers send bytes, and the process that iterates makes floats of them: that takes less than sending floats.

    Args:
        pairs: the stream.
        pin_memory: whether batches are put in page-locked memory.
        options: of the DataLoader.
    """

    def __init__(self, pairs: PairStream, *, pin_memory: bool, **options: Any) -> None:
        super().__init__(pairs._with(transform=None, dtype=None), batch_size=None, **options)  # noqa: SLF001 - a part of it
        self._pairs = pairs
        self._pins = pin_memory

    def __iter__(self) -> Iterator[PairBatch]:  # type: ignore[override]  # any iterator will do
        for batch in super().__iter__():
            x = self._pairs._converted(batch.x, batch.number, "x")  # noqa: SLF001 - likewise
            x_pos = self._pairs._converted(batch.x_pos, batch.number, "x_pos")  # noqa: SLF001 - likewise
            converted = replace(batch, x=x, x_pos=x_pos)
            yield converted.pin_memory() if self._pins else converted


class StoredPairs(PairStream):
    """A stream of pairs of images that a dataset holds.

    Args:
        data: where latents and images come from.
        batch_size: pairs in a batch, for each rank.
        seed: seed of the stream, 0 or larger.
        transform: what is made of each image, after the dataset's own transform; see :class:`PairStream`.
        dtype: what the images are served in; see :class:`PairStream`.

    Raises:
        TypeError: if dataset, transform or dtype are of another type, or batch size or seed are not integers.
        ValueError: if the dataset is empty, the batch size is not positive, or the seed is negative.
    """

    def __init__(
        self,
        data: PairData,
        batch_size: int,
        seed: int,
        transform: Callable[[Tensor], Any] | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        check_data(data)
        super().__init__(batch_size, seed, transform, dtype)
        self.data = data
        self._latents_there = data.latents  # where ids may be found too
        self._of_items: Callable[[Any], Any] | None = getattr(data, "transform", None)
        self._of_targets: Callable[[Tensor], Any] | None = getattr(data, "target_transform", None)

    def on_device(self, device: torch.device | str, *, together: bool = False) -> Self:
        """Return this stream with all images in the memory of ``device``, where batches are then made.

        Every image is decoded once, now, by as many threads as torch has. Batches are those of this stream, number by
        number, and pixel by pixel but for the rounding of augmented views.

        Args:
            device: the device.
            together: whether all processes of torch's default group call this at once, for streams of the same images:
                each then decodes its share of them.

        Raises:
            TypeError: if it is not a device.
            ValueError: if there is no such device here, the images do not fit in its free memory, or the dataset has
                a transform, which takes PIL images, and the device is another than the CPU.
        """
        target = self._usable(device)
        there = self.data.latents.to(target)
        return self._with(
            data=ResidentImages(self.data, target, together=together), device=target, _latents_there=there
        )

    def _usable(self, device: torch.device | str) -> torch.device:
        target = usable_device(device)
        if self._of_items is not None and target.type != "cpu":
            raise ValueError(
                f"the dataset's transform takes PIL images, and images on {target} are tensors: give the transform to "
                "the pairs instead, which apply it to tensors"
            )
        return target

    def _epoch_steps(self) -> int:
        return max(1, len(self.data) // (self.batch_size * self._ranks))

    @property
    def data_layout(self) -> str | None:
        """How the images are stored, where the dataset says it: copies are made of those that are "decoded"."""
        return getattr(self.data, "layout", None)

    @property
    def takes_little_time(self) -> bool:
        """Whether nothing is made of the images but what the process that iterates makes of them in little time."""
        return self.converts_quickly and self._of_items is None

    def _finished(self, drawn: PairBatch) -> PairBatch:
        if self._of_targets is not None:
            z = self._target(self._of_targets, drawn.z, f"z/{drawn.number}")
            z_pos = self._target(self._of_targets, drawn.z_pos, f"z_pos/{drawn.number}")
            drawn = replace(drawn, z=z, z_pos=z_pos)
        return super()._finished(drawn)

    def _target(self, transform: Callable[[Tensor], Any], latents: Tensor, place: str) -> Tensor:
        return transformed(transform, latents, self.seed, f"pairs/targets/{place}", "the dataset's target_transform")

    def _served(self, images: Tensor, number: int, view: str) -> Tensor:
        if self._of_items is not None:
            purpose = f"pairs/items/{view}/{number}"
            images = transformed(of_pil_images(self._of_items), images, self.seed, purpose, "the dataset's transform")
        return super()._served(images, number, view)

    def _images(self, rows: Tensor) -> Tensor:
        """Return the (B, 3, H, W) uint8 images of (B,) rows, channels last in memory."""
        return self.data.pixels(rows).permute(0, 3, 1, 2)

    def _latents(self, rows: Tensor) -> Tensor:
        """Return the (B, d) latents of (B,) rows, where the rows are."""
        latents = self.data.latents if rows.device.type == "cpu" else self._latents_there
        return latents.index_select(0, rows)  # indexing with [] wakes all threads for a few kB

    def _anchors(self, number: int) -> Tensor:
        """Return (batch_size,) rows, drawn uniformly: stored latents follow the marginal already."""
        generator = self._generator("anchors", number)
        return torch.randint(
            len(self.data), (self.batch_size,), dtype=torch.int64, device=generator.device, generator=generator
        )


def made(make: Callable[[int], T], number: int) -> T:
    """Return ``make(number)``, and let no error pass for the end of a stream, or be lost between processes.

    StopIteration ends a loop without a word, and so does, in a DataLoader's worker, an exception that cannot be
    pickled. Both become a RuntimeError.

    Args:
        make: makes a batch, or a part of one.
        number: the batch's place in the stream.
    """
    try:
        return make(number)
    except Exception as error:
        if not isinstance(error, StopIteration) and (get_worker_info() is None or _survives_pickling(error)):
            raise
        raise RuntimeError(f"batch {number} cannot be made: {type(error).__name__}: {error}") from error


def _survives_pickling(error: Exception) -> bool:
    try:
        return pickle.loads(pickle.dumps(type(error))) is type(error)  # noqa: S301 - our own bytes
    except Exception:  # noqa: BLE001 - whatever a class raises when it is pickled
        return False


def check_workers(num_workers: int, prefetch_factor: int | None) -> None:
    """Raise TypeError or ValueError unless workers and prefetched batches are counts that a DataLoader can use."""
    check_count(num_workers, "num_workers", 0)
    if prefetch_factor is not None:
        check_count(prefetch_factor, "prefetch_factor", 1)
