"""The sources of a recipe's pairs, by name: images of a dataset, or images that are rendered as they are asked for.

Your own source is a class derived from :class:`PairSource`; an instance is named as ``package.module:SOURCE``, or by a
short name after ``PAIR_SOURCES.register(name, source)``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from baselines.training.memory import choose_serving
from ident3d import AugmentedPairs, LivePairs, LivePool, PairIndex, PositivePairs, RenderedPairs, Uniform
from ident3d.codec import digest, to_json
from ident3d.factors import Factors, held_factors
from ident3d.pairs import PairBatch, PairStream, StoredPairs
from ident3d.pairs.stream import PairData
from ident3d.randomness import torch_generator
from ident3d.registry import Registry
from ident3d.scene.world import World
from ident3d.spaces import Box, FactorSpace, Space
from ident3d.storage.manifest import LatentSubset

if TYPE_CHECKING:
    from pathlib import Path

    from baselines.training.options import TrainingOptions
    from baselines.training.placement import Placement
    from ident3d import ThreeDIdent
    from ident3d.conditionals.conditional import Conditional

__all__ = [
    "PAIR_SOURCES",
    "DatasetPart",
    "DatasetSource",
    "LiveRendering",
    "LiveSource",
    "PairSource",
    "RunImages",
    "SingleImages",
    "find_source",
    "matching_index",
    "split_validation",
]


class DatasetPart:
    """Some rows of a dataset, as a dataset that pairs can be drawn from.

    Args:
        data: the dataset.
        rows: (N,) int64, the rows.
        space: the factors that the part has as latents, and where they live; None: all, on the box.

    Attributes:
        rows: the rows.
        latents: (N, d) float32.
        factors: the factors that the columns of the latents hold.
        positives: the same rows of the dataset's exact positives; None if it has none.
        layout: how the images are stored, if the dataset says so; copies are made of those that are "decoded".
        transform: the dataset's own, which streams of pairs and :func:`ident3d.embedding.embed` apply; None if it has
            none.
    """

    def __init__(self, data: PairData, rows: Tensor, space: FactorSpace | None = None) -> None:
        self._data = data
        self.rows = rows
        self.latents = data.latents[rows] if space is None else space.coordinates(data.latents[rows])
        self.factors = data.factors if space is None else space.own
        self.layout: str | None = getattr(data, "layout", None)
        self.transform = getattr(data, "transform", None)
        positives: PairData | None = getattr(data, "positives", None)
        self.positives = None if positives is None else DatasetPart(positives, rows, space)

    def __len__(self) -> int:
        return len(self.rows)

    def pixels(self, rows: Tensor) -> Tensor:
        """Return the (B, H, W, 3) uint8 images of (B,) rows of this part."""
        return self._data.pixels(self.rows[rows])


class SingleImages(StoredPairs):
    """Images with their latents and no positives, for supervised training; ``x_pos`` is ``x``.

    Order, ranks, workers and resuming: see :class:`~ident3d.pairs.PairStream`.
    """

    @property
    def realises(self) -> str:
        """That there are no positives."""
        return f"{len(self.data):,} single images: there are no positives"

    def _draw(self, number: int) -> PairBatch:
        ids = self._anchors(number)
        x, z = self._images(ids), self._latents(ids)
        return PairBatch(x, x, z, z, ids, ids, number)


class _SingleLiveImages(LivePairs):
    """Fresh images with the latents of the space's factors and no positives; ``x_pos`` is ``x``."""

    @property
    def realises(self) -> str:
        """That there are no positives."""
        return "single live images, all fresh: there are no positives"

    def _draw(self, number: int) -> PairBatch:
        latents, _ = self.latents(number)
        x, z = self.renderer.render(latents), self.factor_space.coordinates(latents)
        ids = torch.arange(number * self.batch_size, (number + 1) * self.batch_size)
        return PairBatch(x, x, z, z, ids, ids, number)


@dataclass(frozen=True)
class LiveRendering:
    """What live images are rendered with.

    Attributes:
        world: what scenes latents make.
        resolution: width and height in pixels.
        quality: a quality of :data:`ident3d.live.QUALITIES`.
        device: where images are rendered.
    """

    world: World
    resolution: int
    quality: str
    device: torch.device

    def pool(self, latents: Tensor) -> LivePool:
        """Return the images of (N, d) latents, rendered once."""
        return LivePool(
            len(latents),
            resolution=self.resolution,
            device=self.device,
            world=self.world,
            grid=self.quality,
            latents=latents.numpy(),
        )

    def pairs(
        self,
        conditional: Conditional,
        batch_size: int,
        seed: int,
        space: FactorSpace,
        kind: type[LivePairs] = LivePairs,
    ) -> LivePairs:
        """Return a stream of fresh images; see :class:`ident3d.LivePairs`."""
        return kind(
            conditional,
            batch_size,
            seed,
            resolution=self.resolution,
            device=self.device,
            space=space.space,
            factors=space.own.names,
            others={space.factors.names[column]: value for column, value in space.held.items()},
            world=self.world,
            grid=self.quality,
        )


@dataclass(frozen=True)
class RunImages:
    """The images of a run: what it is trained on, and what it is evaluated on.

    Attributes:
        stored: the stored images that pairs are drawn from; None where all are rendered afresh.
        held_out: the images that the encoder is evaluated on.
        resolution: height of the images in pixels.
        space: the factors that the encoder is to recover, and where they live.
        fingerprint: SHA-256 of all that decides what the training images show.
        root: folder of the dataset that is trained on; None for live images.
        rows: number of images that there are to train on; None where there is no end of them.
        exact_pairs: text of the conditional of the dataset's exact positives; None without.
        in_own_metric: whether matching divides each factor by the conditional's standard deviation in it.
        rendering: what live images are rendered with; None for those of a dataset.
        live: what is recorded of live images; None for those of a dataset.
    """

    stored: DatasetPart | None
    held_out: DatasetPart
    resolution: int
    space: FactorSpace
    fingerprint: str
    root: str | None = None
    rows: int | None = None
    exact_pairs: str | None = None
    in_own_metric: bool = False
    rendering: LiveRendering | None = None
    live: dict[str, Any] | None = None

    @property
    def factors(self) -> Factors:
        """The factors that the encoder is to recover."""
        return self.space.own

    def record(self) -> dict[str, Any]:
        """Return what ``options.json`` says of the images that a run is trained on."""
        known: dict[str, Any] = {"root": self.root, "rows": self.rows, "fingerprint": self.fingerprint}
        return known if self.live is None else {**known, "live": self.live}


@dataclass(frozen=True, kw_only=True)
class PairSource(ABC):
    """Where the pairs of a recipe come from.

    Attributes:
        views: how many images of a pair a loss gets: 2, or 1 for single images.
        takes_conditional: whether a recipe may name a conditional.
        needs_conditional: whether it must.
        positives: what positives follow where a recipe names no conditional, as submissions say it.
        live: the name of the source of the same pairs of live images.
        is_matched: whether positives in a dataset are the stored images nearest to draws from the conditional.
        is_of_dataset: whether positives follow the conditional that the dataset's exact pairs were rendered with.
    """

    views: int = 2
    takes_conditional: bool = True
    needs_conditional: bool = False
    positives: str = "that of the dataset's exact pairs"
    live: str = "live"
    is_matched: bool = False
    is_of_dataset: bool = False

    @abstractmethod
    def open(
        self, root: str | Path | None, options: TrainingOptions, device: torch.device, *, in_own_metric: bool = False
    ) -> RunImages:
        """Open the images of a run.

        Args:
            root: folder of the dataset that is trained on; None for live images.
            options: options of the training.
            device: where the encoder is trained.
            in_own_metric: whether matching divides each factor by the conditional's standard deviation in it.

        Raises:
            ValueError: if a dataset is needed and not given, or given and not needed, or options do not fit.
        """

    @abstractmethod
    def stream(self, images: RunImages, conditional: Conditional | None, batch_size: int, seed: int) -> PairStream:
        """Return the stream of batches.

        Args:
            images: what :meth:`open` returned.
            conditional: what positives are drawn from.
            batch_size: pairs in a batch of this process.
            seed: seed of the run.

        Raises:
            ValueError: if the conditional is not defined on the space of the latents, or there are fewer images than
                pairs in a batch.
            DatasetError: if the dataset lacks the exact pairs that the source needs.
        """

    @abstractmethod
    def batches(self, stream: Any, options: TrainingOptions, placement: Placement) -> Iterable[PairBatch]:
        """Return the batches of a stream of this source, made where that is fastest."""


@dataclass(frozen=True, kw_only=True)
class DatasetSource(PairSource):
    """Pairs of the stored images of a dataset.

    Attributes:
        make: makes the stream of the stored images, all that is known of a run's images, the conditional, the batch
            size and the seed.
    """

    make: Callable[[DatasetPart, RunImages, Conditional | None, int, int], StoredPairs]

    def open(
        self,
        root: str | Path | None,
        options: TrainingOptions,
        device: torch.device,  # noqa: ARG002 - stored images are moved by ``batches``
        *,
        in_own_metric: bool = False,
    ) -> RunImages:
        """Open the train split of a dataset, and hold a part of it out."""
        from ident3d import ThreeDIdent  # reading files needs libraries that pairs of other images do without

        if root is None:
            raise ValueError("name the folder of a dataset to train on, or train on live images with --live")
        given = options.live.given()
        if given:
            raise ValueError(f"{', '.join(given)}: these options are of live images; add --live, or leave them out")
        data = ThreeDIdent(root, split="train")
        space = data.provenance.factor_space()
        training, held_out = split_validation(data, options.images.validation, options.seed, space)
        return RunImages(
            stored=training,
            held_out=held_out,
            resolution=data.pixels([0]).shape[1],
            space=space,
            fingerprint=data.fingerprint,
            root=str(data.root),
            rows=len(data),
            exact_pairs=data.provenance.pairs,
            in_own_metric=in_own_metric,
        )

    def stream(self, images: RunImages, conditional: Conditional | None, batch_size: int, seed: int) -> StoredPairs:
        """Return the stream of batches of stored images."""
        stored = images.stored
        if stored is None or len(stored) < batch_size:
            raise ValueError(
                f"{0 if stored is None else len(stored)} training images are fewer than a batch of {batch_size}: most "
                "pairs of a batch would share images; choose a smaller --batch-size or render more"
            )
        return self.make(stored, images, conditional, batch_size, seed)

    def batches(self, stream: StoredPairs, options: TrainingOptions, placement: Placement) -> Iterable[PairBatch]:
        """Return batches of images that are decoded once where they fit into memory, and by a loader elsewhere."""
        serving = choose_serving(stream, options.images, placement, placement.step_bytes)
        if serving.resident:
            stream = stream.on_device(placement.device, together=placement.world_size > 1)
        return stream.loader(serving.workers)


@dataclass(frozen=True, kw_only=True)
class LiveSource(PairSource):
    """Pairs of images that :mod:`ident3d.live` renders: afresh for every batch, or once into a pool.

    Attributes:
        fresh: makes the stream of fresh images; None where there is none.
        pooled: the source of the pairs of a pool, which is a dataset in memory.
    """

    fresh: Callable[[RunImages, Conditional | None, int, int], LivePairs] | None
    pooled: DatasetSource

    def open(
        self, root: str | Path | None, options: TrainingOptions, device: torch.device, *, in_own_metric: bool = False
    ) -> RunImages:
        """Open the images to evaluate on, the test split of a dataset or live ones, and render the pool."""
        from ident3d import ThreeDIdent  # reading files needs libraries that live images do without
        from ident3d.live import VERSION  # Warp is large, and the other sources do without

        live, validation, seed = options.live, options.images.validation, options.seed
        if root is not None:
            raise ValueError(
                f"live images are trained on without a dataset: leave {root} out, or give --dataset {root} to evaluate "
                "on the images of its test split"
            )
        if self.fresh is None and not live.pool:
            raise ValueError("augmented views are of an image that comes more than once: give --pool N")
        if validation < 1:
            raise ValueError(f"evaluation takes one image or more, not --validation {validation}")
        test = None if live.dataset is None else ThreeDIdent(live.dataset, split="test")
        world = World() if test is None else test.provenance.world()
        space = FactorSpace.of(LatentSubset(live.latent_space, live.factors, held_factors(live.others)), world.factors)
        rendering = LiveRendering(world, live.resolution, live.quality, device)
        shown = {name: value for name, value in to_json(live).items() if name != "dataset"}
        made_by = {"engine": f"live {VERSION}", "world": world.to_json(), **shown}
        held_out = (
            _rendered(rendering, space, validation, seed, "training/live validation")
            if test is None
            else _test_part(test, rendering, space, validation)
        )
        return RunImages(
            stored=_rendered(rendering, space, live.pool, seed, "training/pool") if live.pool else None,
            held_out=held_out,
            resolution=live.resolution,
            space=space,
            fingerprint=digest(made_by),
            rows=live.pool or None,
            in_own_metric=in_own_metric,
            rendering=rendering,
            live={**made_by, "evaluated_on": None if test is None else test.fingerprint},
        )

    def stream(self, images: RunImages, conditional: Conditional | None, batch_size: int, seed: int) -> PairStream:
        """Return the stream of batches of fresh images, or of those of the pool."""
        if images.stored is not None or self.fresh is None:
            return self.pooled.stream(images, conditional, batch_size, seed)
        return self.fresh(images, conditional, batch_size, seed)

    def batches(self, stream: Any, options: TrainingOptions, placement: Placement) -> Iterable[PairBatch]:
        """Return batches that are made on the device, on a CUDA stream of their own."""
        if options.live.pool:
            return self.pooled.batches(stream, options, placement)
        batches: Iterable[PairBatch] = stream if placement.device.type == "cpu" else stream.prefetched()
        return batches


def _matched(
    stored: DatasetPart, images: RunImages, conditional: Conditional | None, batch_size: int, seed: int
) -> StoredPairs:
    if conditional is None:
        raise ValueError("matched pairs are drawn from a conditional: give one")
    space = images.space.space
    index = matching_index(conditional, stored, in_own_metric=images.in_own_metric, space=space)
    return PositivePairs(stored, conditional, batch_size, seed, index, space=space)


MATCHED = DatasetSource(
    needs_conditional=True,
    is_matched=True,
    make=_matched,
)
RENDERED = DatasetSource(
    is_of_dataset=True, make=lambda stored, _images, _, batch_size, seed: RenderedPairs(stored, batch_size, seed)
)
AUGMENTED = DatasetSource(
    takes_conditional=False,
    positives="SimCLR's augmentations",
    live="live-augmented",
    make=lambda stored, _images, _, batch_size, seed: AugmentedPairs(stored, batch_size, seed),
)
SINGLE = DatasetSource(
    views=1,
    takes_conditional=False,
    positives="none: supervised",
    live="live-single",
    make=lambda stored, _images, _, batch_size, seed: SingleImages(stored, batch_size, seed, None),
)


def _fresh(images: RunImages, conditional: Conditional | None, batch_size: int, seed: int) -> LivePairs:
    if images.rendering is None or conditional is None:
        raise ValueError("live pairs are drawn from a conditional: give one")
    return images.rendering.pairs(conditional, batch_size, seed, images.space)


def _fresh_single(images: RunImages, _: Conditional | None, batch_size: int, seed: int) -> LivePairs:
    if images.rendering is None:
        raise ValueError("live images are rendered, and there is nothing to render them with")
    return images.rendering.pairs(Uniform(), batch_size, seed, images.space, _SingleLiveImages)


PAIR_SOURCES: Registry[PairSource] = Registry(
    "source of pairs",
    {
        "matched": MATCHED,
        "rendered": RENDERED,
        "augmented": AUGMENTED,
        "single": SINGLE,
        "live": LiveSource(needs_conditional=True, is_matched=True, fresh=_fresh, pooled=MATCHED),
        "live-augmented": LiveSource(
            takes_conditional=False,
            positives=AUGMENTED.positives,
            live="live-augmented",
            fresh=None,
            pooled=AUGMENTED,
        ),
        "live-single": LiveSource(
            views=1,
            takes_conditional=False,
            positives=SINGLE.positives,
            live="live-single",
            fresh=_fresh_single,
            pooled=SINGLE,
        ),
    },
)
"""The sources of pairs by name.

"matched": stored images, the nearest to a draw from the conditional; "rendered": exact pairs of a dataset; "augmented":
two SimCLR views of an image; "single": images with their latents. "live", "live-augmented" and "live-single" are the
same of live images, fresh ones or those of a pool; fresh "live" pairs follow the conditional exactly.
"""


def find_source(name: str) -> PairSource:
    """Return a source by its name in :data:`PAIR_SOURCES`, or as ``package.module:SOURCE``.

    Raises:
        ValueError: if the name is unknown, or what it names is not a :class:`PairSource`.
    """
    found: object = PAIR_SOURCES.find(name)
    if not isinstance(found, PairSource):
        raise ValueError(f"the source of pairs {name!r} is {found!r}, expected a baselines.pairs.PairSource")  # noqa: TRY004 - a name
    return found


def split_validation(
    data: ThreeDIdent, validation: int, seed: int, space: FactorSpace | None = None
) -> tuple[DatasetPart, DatasetPart]:
    """Split the train split into a training part and a validation part.

    Args:
        data: the train split, of N images.
        validation: number of images to hold out, at most half of them.
        seed: seed of the run.
        space: the factors that the parts have as latents; None: all.

    Returns:
        The training part and the validation part, which are disjoint.

    Raises:
        ValueError: if the dataset is too small.
    """
    if validation < 1 or 2 * validation > len(data):
        raise ValueError(
            f"the dataset has {len(data)} images, of which at least 1 and at most half can be held out for validation, "
            f"not {validation}; choose another --validation or render more"
        )
    order = torch.randperm(len(data), generator=torch_generator(seed, "training/validation"))
    held_out, rest = order[:validation].sort().values, order[validation:].sort().values
    return DatasetPart(data, rest, space), DatasetPart(data, held_out, space)


def matching_index(
    conditional: Conditional, data: PairData, *, in_own_metric: bool, space: Space | None = None
) -> PairIndex:
    """Return the index that matches draws from a conditional to the images of a dataset.

    Args:
        conditional: the conditional of the positives.
        data: the dataset, or a part of one.
        in_own_metric: whether matching divides each factor by the conditional's standard deviation in it.
        space: where the latents live; None: the box [-1, 1]^d.

    Raises:
        ValueError: if the conditional is not defined on the space of the latents.
    """
    own = Box(len(data.factors)) if space is None else space
    conditional.check(own)
    scale = conditional.displacement_std(own) if in_own_metric else None
    # Both are exact and give the same matches; "exact" needs FAISS, and "torch" is slow for many images without a GPU.
    backend = "exact" if find_spec("faiss") is not None else "torch"
    return PairIndex(data.latents, backend, scale, factors=data.factors)


def _rendered(rendering: LiveRendering, space: FactorSpace, n: int, seed: int, purpose: str) -> DatasetPart:
    """Render the images of n uniform latents."""
    pool = rendering.pool(space.uniform(n, torch_generator(seed, purpose)))
    return DatasetPart(pool, torch.arange(n), space)


def _test_part(test: ThreeDIdent, rendering: LiveRendering, space: FactorSpace, most: int) -> DatasetPart:
    """Return the first images of a test split, after a check that they are images of the same latents."""
    size = test.pixels([0]).shape[1]
    if size != rendering.resolution:
        raise ValueError(
            f"the test images of {test.root} are {size}x{size}, and those to train on {rendering.resolution}x"
            f"{rendering.resolution}: give --resolution {size}, or another --dataset"
        )
    try:
        space.check(test.latents, f"the test latents of {test.root}")
    except ValueError as error:
        raise ValueError(
            f"{error}. An encoder is evaluated on images of latents like those that it is trained on: render such a "
            "dataset with python -m render ROOT and the same --latent-space, --factors and --others, or leave "
            "--dataset out to be evaluated on live images"
        ) from error
    return DatasetPart(test, torch.arange(min(most, len(test))), space)
