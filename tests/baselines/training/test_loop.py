"""The loop on a synthetic source: images of noise around the latents, and a small encoder."""

import itertools
import json
import math
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from baselines.recipes import RECIPES
from baselines.training.checkpoint import Checkpoint, DivergedError
from baselines.training.loop import Prefetcher, Trainer, _restride_kernels
from baselines.training.objective import TrainedModel, build_loss, build_optimiser
from baselines.training.options import Intervals
from baselines.training.placement import Placement
from baselines.training.progress import Logbook, Schedule, read_metrics
from ident3d.errors import Ident3DError
from ident3d.randomness import torch_generator

RECIPE = replace(RECIPES["aninfonce-box"], learning_rate=1e-2, loss_learning_rate=1e-2)
SCHEDULE = Schedule(12, Intervals(log_every=2, evaluate_every=6, checkpoint_every=4))


@dataclass(frozen=True)
class SyntheticBatch:
    x: torch.Tensor
    x_pos: torch.Tensor
    z: torch.Tensor

    def sent(self, device):
        return SyntheticBatch(self.x.to(device), self.x_pos.to(device), self.z.to(device))


def batches(step=0):
    for number in itertools.count(step):
        generator = torch_generator(0, "test/batches", number)
        x, x_pos = torch.randint(0, 256, (2, 8, 3, 8, 8), generator=generator, dtype=torch.uint8)
        yield SyntheticBatch(x, x_pos, torch.rand(8, 3, generator=generator))


def make_trainer(folder, recipe=RECIPE):
    encoder = nn.Sequential(nn.Conv2d(3, 4, 3, stride=2), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(36, 3))
    generator = torch_generator(0, "test/encoder")
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator))
    model = TrainedModel(encoder, build_loss(recipe, 3))
    return Trainer(model, build_optimiser(model, recipe), Placement(torch.device("cpu")), folder / "checkpoint.pt")


def train(trainer, folder, schedule=SCHEDULE, source=batches):
    trainer.resume()
    with Logbook(folder, trainer.step) as logbook:
        trainer.train(source(trainer.step), schedule, logbook, lambda: {"r2": 0.5})


def test_a_resumed_run_is_the_same_bit_for_bit(tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train(make_trainer(whole), whole)
    for last in (5, 7, 12):  # the first two stop off the schedule
        train(make_trainer(parts), parts, replace(SCHEDULE, length=last))
    expected, found = (Checkpoint.read(folder / "checkpoint.pt") for folder in (whole, parts))
    assert found.step == expected.step == 12
    for kind in ("encoder", "loss"):
        for name, tensor in getattr(expected, kind).items():
            assert torch.equal(getattr(found, kind)[name], tensor), name
    assert found.optimiser["state"].keys() == expected.optimiser["state"].keys()
    for number, state in expected.optimiser["state"].items():
        for name, tensor in state.items():
            assert torch.equal(found.optimiser["state"][number][name], tensor), name


def test_a_killed_run_loses_the_steps_since_the_last_checkpoint_only(tmp_path):
    def dying(step):
        yield from itertools.islice(batches(step), 7)
        raise KeyError("the power goes")

    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train(make_trainer(whole), whole)
    with pytest.raises(KeyError, match="the power goes"):
        train(make_trainer(parts), parts, source=dying)
    again = make_trainer(parts)
    again.resume()
    assert again.step == 4
    train(make_trainer(parts), parts)
    expected, found = (Checkpoint.read(folder / "checkpoint.pt").encoder for folder in (whole, parts))
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    losses = [[(line["step"], line["loss"]) for line in read_metrics(f) if "loss" in line] for f in (whole, parts)]
    assert losses[0] == losses[1]
    assert [step for step, _ in losses[0]] == [2, 4, 6, 8, 10, 12]


def test_metrics_are_written_when_due(tmp_path):
    train(make_trainer(tmp_path), tmp_path)
    lines = read_metrics(tmp_path)
    assert [line["step"] for line in lines if "r2" in line] == [6, 12]
    first = lines[0]
    assert {"loss", "images_per_second", "waiting", "seconds", "precision/0", "precision/2"} <= set(first)
    assert 0 <= first["waiting"] <= 1
    assert list((tmp_path / "tensorboard").iterdir())


def test_lambda_is_trained_at_its_own_rate(tmp_path):
    trainer = make_trainer(tmp_path, replace(RECIPE, loss_learning_rate=0.1))
    before = trainer.model.loss.raw_precision.detach().clone()
    train(trainer, tmp_path, Schedule(1))
    # The first step of Adam is the learning rate, whatever the gradient.
    moved = (trainer.model.loss.raw_precision.detach() - before).abs()
    torch.testing.assert_close(moved, torch.full((3,), 0.1), rtol=1e-4, atol=0)


def poison(trainer):
    with torch.no_grad():
        trainer.model.loss.raw_precision.fill_(math.nan)
    return {}


def test_a_loss_that_is_no_number_stops_the_run_and_names_the_last_good_checkpoint(tmp_path):
    trainer = make_trainer(tmp_path)
    with (
        Logbook(tmp_path) as logbook,
        pytest.raises(DivergedError, match=r"the loss is nan at step 7; the last good checkpoint is .*checkpoint\.pt"),
    ):
        trainer.train(batches(), SCHEDULE, logbook, lambda: poison(trainer))  # after step 6
    assert Checkpoint.read(tmp_path / "checkpoint.pt").step == 4
    assert all(math.isfinite(line["loss"]) for line in read_metrics(tmp_path) if "loss" in line)


def test_weights_that_are_no_numbers_are_not_saved(tmp_path):
    trainer = make_trainer(tmp_path)
    schedule = replace(SCHEDULE, intervals=replace(SCHEDULE.intervals, evaluate_every=8))  # just before a checkpoint
    with (
        Logbook(tmp_path) as logbook,
        pytest.raises(DivergedError, match=r"weights are not finite at step 8; the last"),
    ):
        trainer.train(batches(), schedule, logbook, lambda: poison(trainer))
    assert Checkpoint.read(tmp_path / "checkpoint.pt").step == 4


def test_a_source_that_ends_is_told(tmp_path):
    with pytest.raises(Ident3DError, match="the batches ended after step 3, of 0 to 12"):
        train(make_trainer(tmp_path), tmp_path, source=lambda step: itertools.islice(batches(step), 3))


def test_a_finished_run_is_left_alone(tmp_path):
    train(make_trainer(tmp_path), tmp_path)
    before = (tmp_path / "checkpoint.pt").read_bytes(), (tmp_path / "metrics.jsonl").read_text()
    train(make_trainer(tmp_path), tmp_path)
    assert before == ((tmp_path / "checkpoint.pt").read_bytes(), (tmp_path / "metrics.jsonl").read_text())


def test_a_checkpoint_is_tensors_under_the_modules_own_names(tmp_path):
    train(make_trainer(tmp_path), tmp_path, Schedule(1))
    held = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    assert list(held["encoder"])[:2] == ["0.weight", "0.bias"]
    assert list(held["loss"]) == ["raw_precision"]
    assert [group["lr"] for group in held["optimiser"]["param_groups"]] == [1e-2, 1e-2]


def test_a_supervised_recipe_sees_single_images(tmp_path):
    trainer = make_trainer(tmp_path, replace(RECIPES["supervised"], learning_rate=1e-2))
    train(trainer, tmp_path, Schedule(60, Intervals(log_every=10)))
    losses = [json.loads(line).get("loss") for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    losses = [loss for loss in losses if loss is not None]
    assert losses[-1] < losses[0] / 2


def test_items_come_in_order_and_end():
    with Prefetcher(range(20)) as prefetcher:
        assert list(prefetcher) == list(range(20))


def test_an_error_reaches_the_consumer_after_the_items_before_it():
    def failing():
        yield 1
        raise ValueError("no more")

    with Prefetcher(failing()) as prefetcher:
        assert next(prefetcher) == 1
        with pytest.raises(ValueError, match="no more"):
            next(prefetcher)


def test_an_endless_source_stops_with_the_block():
    with Prefetcher(itertools.count()) as prefetcher:
        assert next(prefetcher) == 0
    assert not [thread for thread in threading.enumerate() if thread.name == "prefetcher"]


def test_waiting_is_measured():
    def slow():
        time.sleep(0.2)
        yield 1

    with Prefetcher(slow()) as prefetcher:
        next(prefetcher)
        assert prefetcher.waited >= 0.15


def test_kernels_of_one_pixel_have_the_strides_of_channels_last():
    encoder = nn.Sequential(nn.Conv2d(6, 4, 1), nn.Conv2d(4, 2, 3)).to(memory_format=torch.channels_last)
    before = [parameter.detach().clone() for parameter in encoder.parameters()]
    _restride_kernels(encoder)
    assert encoder[0].weight.stride() == (6, 1, 6, 6)
    assert encoder[1].weight.stride() == (36, 1, 12, 4)
    assert all(torch.equal(own, old) for own, old in zip(encoder.parameters(), before, strict=True))


class Timeline:
    """A stand-in for ``torch.cuda``: streams and events that write down what they are asked for."""

    def __init__(self):
        self.log = []
        self.streams = {}

    def Stream(self, device):  # noqa: N802 - torch's name
        return SimpleNamespace(
            wait_stream=lambda other: self.log.append(f"side waits for {other.name}"), record_event=lambda: "ready"
        )

    def Event(self, enable_timing):  # noqa: N802 - torch's name
        self.seconds = getattr(self, "seconds", 0) + 1
        at = self.seconds
        return SimpleNamespace(at=at, synchronize=lambda: None, elapsed_time=lambda other: 1000 * (other.at - at))

    def current_stream(self, device):
        return SimpleNamespace(
            name="main",
            record_event=lambda event: event,
            wait_event=lambda event: self.log.append(f"main waits for {event}"),
        )

    @contextmanager
    def stream(self, stream):
        self.log.append(f"{threading.current_thread().name} works aside")
        yield


class OnCuda(torch.Tensor):
    """A tensor of the CPU that claims to be on a GPU."""

    is_cuda = True

    def record_stream(self, stream):
        self.used_by = stream.name


def test_items_of_a_gpu_are_made_on_a_stream_of_their_own(monkeypatch):
    timeline = Timeline()
    for name in ("Stream", "Event", "current_stream", "stream"):
        monkeypatch.setattr(torch.cuda, name, getattr(timeline, name))
    items = [SimpleNamespace(x=torch.zeros(1).as_subclass(OnCuda), number=k) for k in range(2)]
    with Prefetcher(items, device=torch.device("cuda")) as prefetcher:
        assert [item.number for item in prefetcher] == [0, 1]
        assert prefetcher.waited == 2  # an idle second before each item, by the events
    assert [item.x.used_by for item in items] == ["main", "main"]
    assert timeline.log[0] == "side waits for main"
    assert sorted(timeline.log[1:]) == ["main waits for ready", "main waits for ready", "prefetcher works aside"]
