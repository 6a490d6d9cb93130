"""The training loop: batches in, metrics and checkpoints out."""

from __future__ import annotations

import math
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from baselines.training.checkpoint import Checkpoint, DivergedError, load_optimiser, load_state
from baselines.training.objective import TrainedModel
from baselines.training.placement import Placement
from baselines.training.progress import Clock, Estimate, Schedule
from ident3d.embedding import as_input
from ident3d.errors import Ident3DError
from ident3d.progress import ProgressBar

__all__ = ["Batch", "Prefetcher", "Trainer", "WritesMetrics"]

Item = TypeVar("Item")

_SHOWN = {"loss": "loss", "r2": "R2", "images_per_second": "images/s"}
_POLL_SECONDS = 0.1


class Prefetcher(Generic[Item]):
    """Takes items from an iterable in a thread, a few in advance; a context manager.

    On a CUDA device the thread has a stream of its own, so that what it computes for an item does not queue behind the
    work of the consumer, and what it waits for is its own work.

    Args:
        items: the iterable; only the thread uses it.
        ahead: how many items to take in advance.
        device: the device that the consumer works on; an item's attributes may be tensors there.
    """

    def __init__(self, items: Iterable[Item], ahead: int = 2, device: torch.device | None = None) -> None:
        self._items = items
        self._queue: queue.Queue[tuple[Item | BaseException | None, Any]] = queue.Queue(ahead)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._fill, name="prefetcher", daemon=True)
        self._waited = 0.0
        self._side = _SideStream(device) if device is not None and device.type == "cuda" else None

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
        start, mark = time.perf_counter(), None if self._side is None else self._side.mark()
        item, ready = self._queue.get()
        self._waited += time.perf_counter() - start
        if item is None:
            raise StopIteration
        if isinstance(item, BaseException):
            raise item
        if self._side is not None:
            self._side.receive(item, ready, mark)
        return item

    @property
    def waited(self) -> float:
        """Seconds that the consumer has waited for items; on CUDA, those for which the device had nothing else to do.

        On a CUDA device, reading it waits until the device has received the last item.
        """
        return self._waited if self._side is None else self._side.idle_seconds()

    def _fill(self) -> None:
        with nullcontext() if self._side is None else self._side.current():
            try:
                for item in self._items:
                    if not self._put(item):
                        return
                self._put(None)
            except Exception as error:  # noqa: BLE001 - it is raised in the consumer
                self._put(error)

    def _put(self, item: Item | BaseException | None) -> bool:
        ready = None if self._side is None else self._side.ready()
        while not self._stop.is_set():
            try:
                self._queue.put((item, ready), timeout=_POLL_SECONDS)
            except queue.Full:
                continue
            return True
        return False


class _SideStream:
    """A CUDA stream on which items are made for the consumer's stream."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream: Any = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]  # torch has no types for it
        self._stream.wait_stream(torch.cuda.current_stream(device))  # what items are made of may be on its way there
        self._marks: list[tuple[Any, Any]] = []
        self._idle = 0.0

    def current(self) -> AbstractContextManager[Any]:
        """Return a context in which this is the current stream of the thread."""
        return torch.cuda.stream(self._stream)

    def ready(self) -> Any:
        """Return the event of everything that this stream has been given so far."""
        return self._stream.record_event()

    def mark(self) -> Any:
        """Return an event at which the consumer's stream has done everything that it has been given so far."""
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]  # likewise
        return torch.cuda.current_stream(self._device).record_event(event)

    def receive(self, item: object, ready: Any, mark: Any) -> None:
        """Let the consumer's stream wait for an item, and the memory of the item for that stream."""
        stream = torch.cuda.current_stream(self._device)
        stream.wait_event(ready)
        self._marks.append((mark, self.mark()))
        for tensor in vars(item).values():
            if isinstance(tensor, Tensor) and tensor.is_cuda:
                tensor.record_stream(stream)

    def idle_seconds(self) -> float:
        """Return the seconds between each mark and the item that came after it."""
        for before, after in self._marks:
            after.synchronize()
            self._idle += before.elapsed_time(after) / 1000
        self._marks.clear()
        return self._idle


class Batch(Protocol):
    """What the loop needs of a batch, such as :class:`ident3d.pairs.PairBatch`."""

    @property
    def x(self) -> Tensor:
        """(B, 3, H, W) uint8 images of the anchors."""

    @property
    def x_pos(self) -> Tensor:
        """(B, 3, H, W) uint8 images of the positives."""

    @property
    def z(self) -> Tensor:
        """(B, d) float32 latents of the anchors."""

    def sent(self, device: torch.device) -> Batch:
        """Return this batch on a device, without waiting until it is there."""


class WritesMetrics(Protocol):
    """Records metrics, such as :class:`~baselines.training.progress.Logbook`."""

    def write(self, step: int, metrics: dict[str, float]) -> None:
        """Write the metrics of a step."""


@dataclass
class Trainer:
    """A model in training.

    Args:
        model: the model, on its device.
        optimiser: its optimiser.
        placement: device, precision and processes.
        checkpoint_path: file of the last checkpoint.
        compiled: whether the encoder is compiled.
        identity: identifies the training, as plain data; checkpoints of others are refused.
    """

    model: TrainedModel
    optimiser: torch.optim.Optimizer
    placement: Placement
    checkpoint_path: Path
    compiled: bool = False
    identity: Mapping[str, Any] = field(default_factory=dict)
    step: int = field(default=0, init=False)

    def resume(self) -> None:
        """Resume from the last checkpoint, if there is one.

        Raises:
            ValueError: if it is of another architecture.
            Ident3DError: if it is damaged, or of another training.
        """
        if not self.checkpoint_path.exists():
            return
        held = Checkpoint.read(self.checkpoint_path, self.identity)
        load_state(self.model.encoder, held.encoder, f"the encoder in {self.checkpoint_path}")
        load_state(self.model.loss, held.loss, f"the loss in {self.checkpoint_path}")
        load_optimiser(self.optimiser, held.optimiser, f"the optimiser in {self.checkpoint_path}")
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
            schedule: when to log, to evaluate and to write checkpoints.
            logbook: records metrics, in the first process.
            evaluate: scores the encoder; called in the first process.

        Raises:
            DivergedError: if the loss is NaN or infinite; the message names the step and the last good checkpoint.
        """
        steps, intervals = int(schedule.length), schedule.intervals
        if self.step >= steps:
            return
        forward = self._forward()
        self.model.train()
        first, losses = self.step, list[Tensor]()
        bar = ProgressBar(steps, self.step, shown=_SHOWN, quiet=not self._writes)
        estimate = Estimate(steps - first, self.placement.device.type.upper())
        with bar, self._prefetcher(batches) as prefetcher, _fastest_convolutions(self.placement):
            clock = Clock()
            for batch in prefetcher:
                losses.append(self._one_step(forward, batch))
                self.step += 1
                bar.update()
                if self._writes:
                    estimate.count(losses[-1].item)
                saves = schedule.is_due(intervals.checkpoint_every, self.step)
                evaluates = schedule.is_due(intervals.evaluate_every, self.step)
                if saves or evaluates or schedule.is_due(intervals.log_every, self.step):
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
                if self.step == steps:
                    return
        raise Ident3DError(f"the batches ended after step {self.step}, of {first} to {steps}")

    def save(self) -> None:
        """Write a checkpoint of this step.

        Raises:
            DivergedError: if a weight is NaN or infinite, which the loss has not shown yet.
        """
        state = self.model.encoder.state_dict(), self.model.loss.state_dict(), self.optimiser.state_dict()
        try:
            Checkpoint(self.step, *state).write(self.checkpoint_path, self.identity)
        except DivergedError as error:
            raise self._diverged("weights are not finite", self.step) from error

    @property
    def _writes(self) -> bool:
        return self.placement.is_first

    def _forward(self) -> nn.Module:
        # The model itself is not wrapped, so that its checkpoints never hold the names of wrappers.
        model = TrainedModel(self.model.encoder, self.model.loss)
        if self.compiled:
            model.encoder = torch.compile(model.encoder)  # type: ignore[assignment]  # it is a module, typed as a callable
        if self.placement.world_size == 1:
            return model
        devices = [self.placement.device] if self.placement.device.type == "cuda" else None
        _restride_kernels(model)
        return DistributedDataParallel(model, device_ids=devices)

    def _prefetcher(self, batches: Iterable[Batch]) -> Prefetcher[Batch]:
        device = self.placement.device
        if device.type == "cpu":
            return Prefetcher(batches)
        return Prefetcher((batch.sent(device) for batch in batches), device=device)

    def _one_step(self, forward: nn.Module, batch: Batch) -> Tensor:
        device = self.placement.device
        images = as_input(*(batch.x, batch.x_pos)[: self.model.loss.views], device=device)
        latents = batch.z.to(device, non_blocking=True)
        self.optimiser.zero_grad()
        with self.placement.autocast():
            loss: Tensor = forward(images, latents)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        return loss.detach()

    def _images_per_step(self, batch: Batch) -> int:
        return self.model.loss.views * len(batch.x) * self.placement.world_size

    def _mean_loss(self, losses: list[Tensor]) -> float:
        # Read once per line of metrics and not at each step, which would synchronise with the GPU.
        joined = torch.stack(losses)
        if self.placement.world_size > 1:  # each process has the mean over its own anchors
            dist.all_reduce(joined)
            joined /= self.placement.world_size
        values = joined.tolist()
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


def _restride_kernels(model: nn.Module) -> None:
    """Give kernels of one pixel, laid out channels last, the strides that their gradients have.

    Such kernels are contiguous either way, so that torch keeps the strides of the other layout; DistributedDataParallel
    then warns of gradients that are laid out in another way than their bucket, and copies them.
    """
    for parameter in model.parameters():
        if parameter.ndim == 4 and parameter.is_contiguous(memory_format=torch.channels_last):
            strides = torch.empty(parameter.shape, device="meta", memory_format=torch.channels_last).stride()
            parameter.data = parameter.data.as_strided(parameter.shape, strides)


@contextmanager
def _fastest_convolutions(placement: Placement) -> Iterator[None]:
    """Let cuDNN search for the fastest convolutions, which pays off for images of one size.

    What it finds fastest may be another algorithm the next time, so it does not search where bits are to be the same.

    ``torch.backends.cudnn.flags`` would also reset the user's choice of precision and determinism.
    """
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = not placement.deterministic
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before
