"""Positive pairs that are rendered as they are asked for: fresh, exact, without end, without a dataset."""

import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Self

import torch
from jaxtyping import Float32, Int64, UInt8
from torch import Tensor

from ident3d.arguments import check_count
from ident3d.conditionals.conditional import Conditional, check_conditional
from ident3d.factors import Factors
from ident3d.latents import check_latents, sample_latents
from ident3d.marginals import Marginal
from ident3d.pairs.stream import PairBatch, PairStream, made
from ident3d.progress import ProgressBar
from ident3d.spaces import FactorSpace, Space

if TYPE_CHECKING:
    from ident3d.scene.world import World

__all__ = ["LivePairs", "LivePool"]

_IMAGES_AT_ONCE = 1024


class LivePairs(PairStream):
    """Fresh pairs that follow the conditional exactly, rendered by :mod:`ident3d.live`.

    Anchors are drawn from the marginal, positives from the conditional around them, and both are rendered. No pair
    comes twice, and nothing is matched, so that positives spread as the conditional says. A batch's ``ids`` number the
    pairs of the stream, and its ``ids_pos`` are the same.

    The space may have the coordinates of some factors alone, on a sphere for example: four factors on S^3 are what the
    theory of AnInfoNCE assumes.

    Streams, ranks, workers, resuming: see :class:`~ident3d.pairs.stream.PairStream`.

    Example:
        >>> import ident3d
        >>> names = ("position_x", "position_y", "object_hue", "ground_hue")
        >>> pairs = ident3d.LivePairs(
        ...     ident3d.AnisotropicNormal((5, 10, 20, 40)),
        ...     batch_size=4,
        ...     resolution=16,
        ...     device="cpu",
        ...     space=ident3d.Sphere(4),
        ...     factors=names,
        ...     others={"position_z": 0.0},
        ... )
        >>> batch = pairs.batch(0)
        >>> batch.x.shape, batch.z[:, 2].tolist()
        (torch.Size([4, 3, 16, 16]), [0.0, 0.0, 0.0, 0.0])

    Args:
        conditional: what positives are drawn from.
        batch_size: pairs in a batch, for each rank.
        seed: seed of the stream, 0 or larger.
        resolution: width and height of the images in pixels.
        device: where images are rendered: "cpu", "cuda", ..., or "auto": the first CUDA device, else the CPU.
        space: where the factors named live, within [-1, 1] in each coordinate; None: the box [-1, 1]^d.
        marginal: what anchors are drawn from; None: uniform on the space.
        factors: the names of the factors that are the space's coordinates, in their order; None: all of the world's.
        others: values in [-1, 1] at which factors that are not in the space are held, by their names. Those in neither
            are drawn uniformly, for anchor and positive separately.
        world: what scenes latents make; None: 3DIdent.
        grid: quality of the images; see :class:`ident3d.live.LiveRenderer`.
        transform: what is made of each image, (3, H, W); see :class:`~ident3d.pairs.stream.PairStream`.
        dtype: what the images are served in: a dtype of floats scales them to [0, 1]; None: uint8.

    Attributes:
        device: where images are rendered.
        factor_space: where the factors named live, and what becomes of the others.
        space: where the factors named live.
        columns: the columns of the latents that are the space's coordinates.

    Raises:
        TypeError: if an argument is of another type.
        ValueError: if the conditional or the marginal is not defined on the space, the space leaves [-1, 1] or has not
            as many coordinates as factors are named, a factor is unknown or named twice, or resolution, device, world
            or quality cannot be used.
        MissingDependencyError: if Warp is not installed.
    """

    def __init__(
        self,
        conditional: Conditional,
        batch_size: int = 512,
        seed: int = 0,
        *,
        resolution: int = 64,
        device: torch.device | str = "auto",
        space: Space | None = None,
        marginal: Marginal | None = None,
        factors: Sequence[str] | None = None,
        others: Mapping[str, float] | None = None,
        world: "World | None" = None,
        grid: int | str = "standard",
        transform: Callable[[Tensor], Any] | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        from ident3d.live import LiveRenderer  # Warp is large, and the other streams do without

        super().__init__(batch_size, seed, transform, dtype)
        check_conditional(conditional)
        self.conditional = conditional
        self.renderer = LiveRenderer(resolution, device, world, grid)
        self.device = self.renderer.device
        self.factors = self.renderer.world.factors
        self.factor_space = FactorSpace(space, factors, others, self.factors)
        self.columns, self.space = self.factor_space.columns, self.factor_space.space
        conditional.check(self.space)
        self.marginal = Marginal() if marginal is None else marginal
        self.marginal.law.check(self.space)
        self._say()

    @property
    def realises(self) -> str:
        """That positives follow the conditional that was asked for."""
        return f"live images, all fresh: positives follow {self.conditional} on {self.space}"

    def on_device(self, device: torch.device | str, *, together: bool = False) -> Self:  # noqa: ARG002 - no images
        """Return this stream with images that are rendered on ``device``.

        See :meth:`~ident3d.pairs.stream.PairStream.on_device`.
        """
        from ident3d.live import LiveRenderer

        old = self.renderer
        renderer = LiveRenderer(old.resolution, device, old.world, old.grid)
        return self._with(renderer=renderer, device=renderer.device)

    def prefetched(self, ahead: int = 2) -> Iterator[PairBatch]:
        """Iterate over this stream with batches that a thread makes in advance, on a CUDA stream of its own.

        Args:
            ahead: batches that are made in advance, 1 or more.
        """
        check_count(ahead, "the number of batches ahead", 1)
        return _prefetched(self, ahead)

    def latents(
        self, number: int
    ) -> tuple[Float32[Tensor, "{self.batch_size} d"], Float32[Tensor, "{self.batch_size} d"]]:
        """Return the latents of batch ``number``, of its anchors and its positives, without their images."""
        check_count(number, "the number of a batch", 0)
        anchors = self.marginal.sample(self.batch_size, self.space, self._generator("live/anchors", number))
        positives = self.conditional.sample(anchors, self.space, self._generator("live/targets", number))
        generator = self._generator("live/others", number)
        complete = self.factor_space.complete
        return complete(anchors, generator), complete(positives, generator)

    def _draw(self, number: int) -> PairBatch:
        z, z_pos = self.latents(number)
        images = self.renderer.render(torch.cat([z, z_pos]))
        ids = torch.arange(number * self.batch_size, (number + 1) * self.batch_size)
        return PairBatch(images[: len(z)], images[len(z) :], z, z_pos, ids, ids.clone(), number)


def _prefetched(pairs: LivePairs, ahead: int) -> Iterator[PairBatch]:
    is_cuda = pairs.device.type == "cuda"
    side = torch.cuda.Stream(pairs.device) if is_cuda else None  # type: ignore[no-untyped-call]  # torch has no types for it
    batches: queue.Queue[tuple[PairBatch | Exception, Any]] = queue.Queue(maxsize=ahead)
    stopped = threading.Event()
    # A transform draws from global generators, which the thread that iterates may be drawing from, too: it is left to
    # that thread.
    is_transformed = pairs.transform is not None
    make = pairs._draw if is_transformed else pairs.batch  # noqa: SLF001 - a part of the class

    def put(item: PairBatch | Exception, ready: Any) -> None:
        while not stopped.is_set():
            try:
                batches.put((item, ready), timeout=0.1)
            except queue.Full:
                continue
            return

    def work() -> None:
        try:
            with torch.cuda.stream(side) if side is not None else nullcontext():
                for number in pairs.numbers():
                    batch = made(make, number)
                    put(batch, side.record_event() if side is not None else None)
                    if stopped.is_set():
                        return
        except Exception as error:  # noqa: BLE001 - it is raised where the batch is asked for
            put(error, None)

    thread = threading.Thread(target=work, name="live pairs", daemon=True)
    thread.start()
    try:
        while True:
            item, ready = batches.get()
            if isinstance(item, Exception):
                raise item
            batch = item if ready is None else _received(item, ready)
            yield pairs._finished(batch) if is_transformed else batch  # noqa: SLF001 - likewise
    finally:
        stopped.set()
        thread.join()


def _received(batch: PairBatch, ready: Any) -> PairBatch:
    """Let the current CUDA stream wait for a batch, and its memory for the current stream."""
    current = torch.cuda.current_stream(batch.x.device)
    current.wait_event(ready)
    for tensor in (batch.x, batch.x_pos, batch.z, batch.z_pos, batch.ids, batch.ids_pos):
        tensor.record_stream(current)
    return batch


class LivePool:
    """A dataset in memory whose images are rendered once: to draw pairs from where a fresh image costs too much.

    Row i has the latents of row i of ``ident3d.sample_latents``, so that a pool is the same whatever device it was
    rendered on, but for one level of a colour. ``ident3d.PositivePairs(LivePool(50_000), conditional)`` draws partners
    anew for every batch.

    Example:
        >>> import ident3d
        >>> pool = ident3d.LivePool(20, resolution=16, device="cpu")
        >>> pool.pixels(ident3d.PairIndex(pool.latents).match(pool.latents[:3])[0]).shape
        torch.Size([3, 16, 16, 3])

    Args:
        n: number of images.
        seed: seed of the latents, 0 or larger.
        resolution: width and height of the images in pixels.
        device: where images are rendered and kept; see :class:`ident3d.live.LiveRenderer`.
        world: what scenes latents make; None: 3DIdent.
        grid: quality of the images.
        latents: (n, d) raw latents in place of those of the seed.

    Attributes:
        latents: (n, d) float32, on the CPU.
        factors: what the columns of the latents are.
        device: where the images are.

    Raises:
        TypeError: if n or seed are not integers.
        ValueError: if n is not positive, or what :class:`ident3d.live.LiveRenderer` says.
        MissingDependencyError: if Warp is not installed.
    """

    layout = "decoded"

    def __init__(
        self,
        n: int,
        seed: int = 0,
        *,
        resolution: int = 64,
        device: torch.device | str = "auto",
        world: "World | None" = None,
        grid: int | str = "standard",
        latents: Any = None,
    ) -> None:
        from ident3d.live import LiveRenderer

        check_count(n, "the number of images", 1)
        renderer = LiveRenderer(resolution, device, world, grid)
        self.device = renderer.device
        self.factors: Factors = renderer.world.factors
        rows = sample_latents(n, seed, factors=self.factors) if latents is None else latents
        self.latents = torch.from_numpy(check_latents(rows, self.factors))
        if len(self.latents) != n:
            raise ValueError(f"expected {n} rows of latents, not {len(self.latents)}")
        self._pixels = torch.empty((n, resolution, resolution, 3), dtype=torch.uint8, device=self.device)
        starts = range(0, n, _IMAGES_AT_ONCE)
        with ProgressBar(n, unit="images", label="live images", stays=False) as bar:
            for start in starts:
                part = slice(start, start + _IMAGES_AT_ONCE)
                self._pixels[part] = renderer.render(self.latents[part]).permute(0, 2, 3, 1)
                bar.reach(min(start + _IMAGES_AT_ONCE, n))

    def __len__(self) -> int:
        return len(self.latents)

    def pixels(self, rows: Int64[Tensor, " n"]) -> UInt8[Tensor, "n height width 3"]:
        """Return the images of rows, on the pool's device."""
        return self._pixels.index_select(0, rows.to(self.device))
