"""The training loop: batches in, metrics and checkpoints out."""

from __future__ import annotations

import math
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from baselines.encoders.encoder import as_input
from baselines.losses import SupervisedMSE
from baselines.training.checkpoint import Checkpoint, load_state
from baselines.training.objective import TrainedModel
from baselines.training.placement import Placement
from ident3d.errors import Ident3DError

__all__ = ["Batch", "Clock", "DivergedError", "Prefetcher", "ProgressBar", "Schedule", "Trainer", "WritesMetrics"]

if TYPE_CHECKING:
    from tqdm import tqdm


_SHOWN = {"loss": "loss", "r2": "R2", "images_per_second": "images/s"}


class ProgressBar:
    """A bar over the steps with loss, R2 and images per second; nothing where there is no terminal, or no tqdm.

    Args:
        steps: the last step.
        done: steps that were done before.
        quiet: whether nothing is shown at all.
    """

    def __init__(self, steps: int, done: int, *, quiet: bool = False) -> None:
        self._bar: tqdm[Any] | None = None
        self._last: dict[str, str] = {}
        if not quiet and sys.stderr.isatty() and find_spec("tqdm") is not None:
            from tqdm import tqdm

            self._bar = tqdm(total=steps, initial=done, unit="step")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()

    def update(self) -> None:
        """Count one step."""
        if self._bar is not None:
            self._bar.update()

    def show(self, metrics: dict[str, float]) -> None:
        """Show what there is to show among some metrics, beside what was shown before."""
        self._last |= {label: f"{metrics[name]:.4g}" for name, label in _SHOWN.items() if name in metrics}
        if self._bar is not None:
            self._bar.set_postfix(self._last)


class Clock:
    """Measures the time between readings."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self._waited = 0.0

    def read(self, images: int, waited: float) -> dict[str, float]:
        """Return rates since the last reading.

        Args:
            images: images since then.
            waited: seconds that were spent waiting for batches, from the beginning.

        Returns:
            "images_per_second", "waiting" (a share of the time) and "seconds".
        """
        now = time.perf_counter()
        seconds = now - self._start
        share = (waited - self._waited) / seconds
        self._start, self._waited = now, waited
        return {"images_per_second": images / seconds, "waiting": share, "seconds": seconds}

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Leave the time of a block out of what is measured."""
        start = time.perf_counter()
        yield
        self._start += time.perf_counter() - start


Item = TypeVar("Item")

_POLL_SECONDS = 0.1


class Prefetcher(Generic[Item]):
    """Take items from an iterable in a thread, a few in advance; a context manager.

    Args:
        items: where items come from; only the thread touches it.
        ahead: how many may wait.

    Attributes:
        waited: seconds that the consumer has waited for items.
    """

    def __init__(self, items: Iterable[Item], ahead: int = 2) -> None:
        self.waited = 0.0
        self._items = items
        self._queue: queue.Queue[Item | BaseException | None] = queue.Queue(ahead)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._fill, name="prefetcher", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def __iter__(self) -> Iterator[Item]:
        return self

    def __next__(self) -> Item:
        start = time.perf_counter()
        item = self._queue.get()
        self.waited += time.perf_counter() - start
        if item is None:
            raise StopIteration
        if isinstance(item, BaseException):
            raise item
        return item

    def _fill(self) -> None:
        try:
            for item in self._items:
                if not self._put(item):
                    return
            self._put(None)
        except Exception as error:  # noqa: BLE001 - it belongs to the consumer, who raises it
            self._put(error)

    def _put(self, item: Item | BaseException | None) -> bool:
        while not self._stop.is_set():
            try:
                self._queue.put(item, timeout=_POLL_SECONDS)
            except queue.Full:
                continue
            return True
        return False


class Batch(Protocol):
    """What the loop takes of a batch; :class:`ident3d.pairs.PairBatch` is one."""

    @property
    def x(self) -> Tensor:
        """(B, 3, H, W) uint8 images of the anchors."""

    @property
    def x_pos(self) -> Tensor:
        """(B, 3, H, W) uint8 images of the positives."""

    @property
    def z(self) -> Tensor:
        """(B, d) float32 latents of the anchors."""


class WritesMetrics(Protocol):
    """Where metrics go; :class:`~baselines.training.logbook.Logbook` is one."""

    def write(self, step: int, metrics: dict[str, float]) -> None:
        """Write down numbers about a step."""


class DivergedError(Ident3DError):
    """The loss is no longer a number."""


@dataclass(frozen=True)
class Schedule:
    """When what happens, in steps; the last step is always followed by all three.

    Attributes:
        steps: the last step.
        log_every: between lines of metrics.
        evaluate_every: between evaluations.
        checkpoint_every: between checkpoints; what a killed run loses at most.
    """

    steps: int
    log_every: int = 50
    evaluate_every: int = 1000
    checkpoint_every: int = 500

    def __post_init__(self) -> None:
        if min(self.steps, self.log_every, self.evaluate_every, self.checkpoint_every) < 1:
            raise ValueError(f"every number of steps is at least 1, not {self}")

    def is_due(self, every: int, step: int) -> bool:
        """Return whether something that happens ``every`` so many steps is due after ``step`` of them."""
        return step % every == 0 or step == self.steps


@dataclass
class Trainer:
    """A model in training.

    Args:
        model: the model, on its device.
        optimiser: its optimiser.
        placement: where it is trained.
        checkpoint_path: the file of the last checkpoint.
        compiled: whether the encoder is compiled.
    """

    model: TrainedModel
    optimiser: torch.optim.Optimizer
    placement: Placement
    checkpoint_path: Path
    compiled: bool = False
    step: int = field(default=0, init=False)

    def resume(self) -> None:
        """Go on from the last checkpoint, if there is one.

        Raises:
            ValueError: if it is of another architecture.
        """
        if not self.checkpoint_path.exists():
            return
        held = Checkpoint.read(self.checkpoint_path, self.placement.device)
        load_state(self.model.encoder, held.encoder, f"the encoder in {self.checkpoint_path}")
        load_state(self.model.loss, held.loss, f"the loss in {self.checkpoint_path}")
        self.optimiser.load_state_dict(held.optimiser)
        self.step = held.step

    def train(
        self,
        batches: Iterable[Batch],
        schedule: Schedule,
        logbook: WritesMetrics,
        evaluate: Callable[[], dict[str, float]],
    ) -> None:
        """Train up to the schedule's last step.

        Args:
            batches: the batches of the steps after ``step``, in order.
            schedule: when what happens.
            logbook: where metrics go; the first process writes.
            evaluate: scores the encoder; called in the first process.

        Raises:
            DivergedError: if the loss is NaN or infinite; the step and the last good checkpoint are named.
        """
        if self.step >= schedule.steps:
            return
        forward = self._forward()
        self.model.train()
        first, losses = self.step, list[Tensor]()
        bar = ProgressBar(schedule.steps, self.step, quiet=not self._writes)
        with bar, Prefetcher(batches) as prefetcher, _fastest_convolutions():
            clock = Clock()
            for batch in prefetcher:
                losses.append(self._one_step(forward, batch))
                self.step += 1
                bar.update()
                saves, evaluates = (
                    schedule.is_due(every, self.step) for every in (schedule.checkpoint_every, schedule.evaluate_every)
                )
                if saves or evaluates or schedule.is_due(schedule.log_every, self.step):
                    metrics = {"loss": self._mean_loss(losses)}
                    images = len(losses) * self._images_per_step(batch)
                    metrics |= clock.read(images, prefetcher.waited) | self.model.learned_numbers()
                    losses.clear()
                    self._write(logbook, metrics, bar)
                if evaluates and self._writes:
                    with clock.pause():
                        self._write(logbook, evaluate(), bar)
                if saves and self._writes:
                    self.save()
                if self.step == schedule.steps:
                    return
        raise Ident3DError(f"the batches ended after step {self.step}, of {first} to {schedule.steps}")

    def save(self) -> None:
        """Write a checkpoint of this step.

        Raises:
            DivergedError: if a weight is NaN or infinite, which no loss has shown yet.
        """
        if not all(bool(parameter.isfinite().all()) for parameter in self.model.parameters()):
            raise self._diverged("weights are not finite", self.step)
        state = self.model.encoder.state_dict(), self.model.loss.state_dict(), self.optimiser.state_dict()
        Checkpoint(self.step, *state).write(self.checkpoint_path)

    @property
    def _writes(self) -> bool:
        return self.placement.is_first

    def _forward(self) -> nn.Module:
        # Wrappers are made of the model, not in its place: a checkpoint never sees their names.
        model = TrainedModel(self.model.encoder, self.model.loss)
        if self.compiled:
            model.encoder = torch.compile(model.encoder)  # type: ignore[assignment]  # it is a module, typed as a callable
        if self.placement.world_size == 1:
            return model
        devices = [self.placement.device] if self.placement.device.type == "cuda" else None
        return DistributedDataParallel(model, device_ids=devices)

    def _one_step(self, forward: nn.Module, batch: Batch) -> Tensor:
        device = self.placement.device
        views = (batch.x,) if isinstance(self.model.loss, SupervisedMSE) else (batch.x, batch.x_pos)
        images = as_input(*views, device=device)
        latents = batch.z.to(device, non_blocking=True)
        self.optimiser.zero_grad()
        with self.placement.autocast():
            loss: Tensor = forward(images, latents)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        return loss.detach()

    def _images_per_step(self, batch: Batch) -> int:
        views = 1 if isinstance(self.model.loss, SupervisedMSE) else 2
        return views * len(batch.x) * self.placement.world_size

    def _mean_loss(self, losses: list[Tensor]) -> float:
        # Looked at once in a while and not at each step, for which a GPU would have to wait.
        values = torch.stack(losses).tolist()
        for offset, value in enumerate(values):
            if not math.isfinite(value):
                raise self._diverged(f"the loss is {value}", self.step - len(values) + offset + 1)
        return float(sum(values) / len(values))

    def _diverged(self, what: str, step: int) -> DivergedError:
        has_checkpoint = self.checkpoint_path.exists()
        before = f"the last good checkpoint is {self.checkpoint_path}" if has_checkpoint else "there is no checkpoint"
        return DivergedError(
            f"{what} at step {step}; {before}. A smaller learning rate, a larger temperature or float32 may help"
        )

    def _write(self, logbook: WritesMetrics, metrics: dict[str, float], bar: ProgressBar) -> None:
        if self._writes:
            logbook.write(self.step, metrics)
            bar.show(metrics)


@contextmanager
def _fastest_convolutions() -> Iterator[None]:
    """Let cuDNN look for the fastest convolution, which images of one size are worth.

    ``torch.backends.cudnn.flags`` would also set back what the user chose of precision and determinism.
    """
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before
