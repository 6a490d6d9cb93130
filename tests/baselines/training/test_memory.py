import logging
import math
import os

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

from baselines.pairs import DatasetPart, SingleImages
from baselines.training import memory
from baselines.training.memory import choose_serving, free_memory, needed_memory, step_memory
from baselines.training.options import Images
from baselines.training.placement import Placement
from ident3d import AugmentedPairs, RenderedPairs
from tests.ident3d.pairs.images import NumberedImages

CPU = Placement(torch.device("cpu"))
GIB = 2**30


class ManyImages(NumberedImages):
    """As many images as are claimed, of 224x224, which are only counted."""

    def __init__(self, n, *, pairs=False):
        super().__init__(n, pairs=pairs, size=224)


def test_what_a_step_takes_is_what_autograd_keeps():
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 5))
    weights = 4 * (192 * 5 + 5)
    for half, each in ((False, 192 * 4), (True, 192 * 2)):  # the input of the one layer, in its own precision
        assert step_memory(encoder, 1000, 8, half=half) == math.ceil(1.15 * 1000 * each + 5 * weights) + GIB
    assert all(parameter.grad is None for parameter in encoder.parameters())


def test_counting_leaves_the_encoder_as_it_is():
    encoder = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 5)).eval()
    before = {name: tensor.clone() for name, tensor in encoder.state_dict().items()}
    step_memory(encoder, 10, 8, half=False)
    assert all(torch.equal(encoder.state_dict()[name], tensor) for name, tensor in before.items())
    assert not encoder.training


def test_positives_need_room_where_they_are_other_images():
    data = NumberedImages(50, pairs=True)
    assert needed_memory(AugmentedPairs(data, 8)) == 50 * 8 * 8 * 3
    assert needed_memory(RenderedPairs(data, 8)) == 2 * 50 * 8 * 8 * 3


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.INFO, "ident3d.baselines")
    return caplog


def test_the_published_training_set_fits_on_one_large_gpu(monkeypatch, log):
    stream = SingleImages(ManyImages(249_000), 512, 0)
    assert needed_memory(stream) / GIB == pytest.approx(34.9, abs=0.05)
    for free, resident in ((139, True), (48, True), (46, False)):
        monkeypatch.setattr(memory, "free_memory", lambda _, free=free: free * GIB)
        chosen = choose_serving(stream, Images(workers=3), CPU, int(12.5 * GIB))
        assert chosen.resident is resident
    assert "34.9 GiB of images and about 12.5 GiB for a step of 139.0 GiB free on cpu" in log.messages[0]
    assert "images are not kept in memory, they would not fit" in log.messages[2]
    assert log.messages[2].endswith("batches are made by 3 processes, as asked for")


def test_processes_of_a_machine_share_its_memory(monkeypatch):
    stream = SingleImages(ManyImages(1000), 512, 0)
    monkeypatch.setattr(memory, "free_memory", lambda _: 3 * GIB)
    one, eight = CPU, Placement(torch.device("cpu"), local_size=8)
    assert choose_serving(stream, Images(), one, GIB).resident
    assert not choose_serving(stream, Images(workers=0), eight, GIB).resident


def test_what_is_asked_for_is_done():
    stream = SingleImages(NumberedImages(50), 8, 0)
    assert choose_serving(stream, Images(resident="always"), CPU, 1 << 60).resident
    assert not choose_serving(stream, Images(resident="never"), CPU, 0).resident


@pytest.mark.parametrize(
    ("wall", "device", "workers"), [(0.1, "cuda", 0), (0.2, "cuda", 7), (0.2, "cpu", 0)], ids=["quick", "locked", "cpu"]
)
def test_workers_are_started_where_threads_get_in_each_others_way(monkeypatch, log, wall, device, workers):
    stream = SingleImages(NumberedImages(50), 8, 0)
    clocks = {"perf_counter": iter([0.0, wall]), "process_time": iter([0.0, 0.8])}
    for name, ticks in clocks.items():
        monkeypatch.setattr(memory.time, name, lambda ticks=ticks: next(ticks))
    monkeypatch.setattr(memory, "_usable_cores", lambda: 8)
    monkeypatch.setattr(memory, "free_memory", lambda _: 0)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)
    assert choose_serving(stream, Images(), Placement(torch.device(device)), GIB).workers == workers
    assert f"a batch took {wall:.3f} s here, 0.800 s of CPU time" in log.messages[0]
    assert "ident3d convert ROOT ROOT --to decoded" in log.messages[0]


def test_a_decoded_cache_is_not_copied_on_a_cpu(monkeypatch):
    data = NumberedImages(50)
    data.layout = "decoded"
    part = DatasetPart(data, torch.arange(40))
    assert part.layout == "decoded"
    chosen = choose_serving(SingleImages(part, 8, 0), Images(), CPU, 0)
    assert (chosen.resident, chosen.workers) == (False, 0)


def test_free_memory_is_below_all_there_is():
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0 < free_memory(torch.device("cpu")) < total


class Counted(NumberedImages):
    """Numbered images that count those that are asked for."""

    asked = 0

    def pixels(self, rows):
        self.asked += len(rows)
        return super().pixels(rows)


def one_of_two(rank, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2)
    data = Counted(1501)
    images = SingleImages(data, 8, 0).on_device("cpu", together=True).data.pixels(torch.arange(1501))
    torch.save([images, data.asked], f"{folder}/{rank}.pt")
    dist.destroy_process_group()


@pytest.mark.slow
def test_two_processes_decode_a_half_each(tmp_path):
    mp.spawn(one_of_two, args=(str(tmp_path),), nprocs=2)
    for rank in range(2):
        images, asked = torch.load(tmp_path / f"{rank}.pt")
        assert torch.equal(images, NumberedImages(1501).pixels(torch.arange(1501)))
        assert asked <= 1501 // 2 + 5
