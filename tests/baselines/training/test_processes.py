"""Two processes: as one with the joined batch, and under torchrun, as a user starts them."""

import json
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

from baselines.recipes import RECIPES
from baselines.training.checkpoint import Checkpoint
from baselines.training.loop import Trainer
from baselines.training.objective import TrainedModel, build_loss
from baselines.training.placement import JointBatchNorm, Placement, join_batch_norm
from baselines.training.progress import Logbook, Schedule, read_metrics
from baselines.training.run import Run
from ident3d.randomness import torch_generator

CHECKOUT = Path(__file__).parents[3]


CPU = torch.device("cpu")
STEPS = 5


@dataclass(frozen=True)
class JoinedBatch:
    """A batch of 12 pairs, or the half of it that is a process's."""

    x: torch.Tensor
    x_pos: torch.Tensor
    z: torch.Tensor


def batches(rank, world_size):
    rows = slice(12 // world_size * rank, 12 // world_size * (rank + 1))
    for number in range(STEPS):
        generator = torch_generator(0, "test/joined", number)
        x, x_pos = torch.randint(0, 256, (2, 12, 3, 8, 8), generator=generator, dtype=torch.uint8)
        yield JoinedBatch(x[rows], x_pos[rows], torch.rand(12, 3, generator=generator)[rows])


def small_encoder():
    encoder = nn.Sequential(
        *(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 6, 3, stride=2), nn.BatchNorm2d(6)),
        *(nn.Tanh(), nn.Flatten(), nn.Linear(24, 3)),
    )
    generator = torch_generator(0, "test/encoder")
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator))
    return encoder


def train(folder, name, rank=0, world_size=1):
    recipe = replace(RECIPES[name], learning_rate=1e-2, loss_learning_rate=1e-2, negatives="both", symmetric=True)
    encoder = small_encoder() if world_size == 1 else join_batch_norm(small_encoder(), CPU)
    model = TrainedModel(encoder, build_loss(recipe, 3, across_processes=world_size > 1))
    # Plain descent: Adam divides gradients by their size, and so blows up the rounding of those that vanish.
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
    path = folder / name / "checkpoint.pt"
    trainer = Trainer(model, optimiser, Placement(CPU, rank=rank, world_size=world_size), path)
    with Logbook(folder / name, writes=rank == 0) as logbook:
        trainer.train(batches(rank, world_size), Schedule(STEPS), logbook, dict)


NAMES = ("aninfonce-box", "infonce-sphere", "supervised")


def one_of_two(rank, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2)
    for name in NAMES:
        train(Path(folder), name, rank, 2)
    dist.destroy_process_group()


@pytest.mark.slow
def test_two_processes_train_as_one_with_the_joined_batch(tmp_path):
    whole, halves = tmp_path / "whole", tmp_path / "halves"
    halves.mkdir()
    mp.spawn(one_of_two, args=(str(halves),), nprocs=2)
    for name in NAMES:
        train(whole, name)
        expected, found = (Checkpoint.read(folder / name / "checkpoint.pt") for folder in (whole, halves))
        assert found.step == expected.step == STEPS
        assert found.encoder.keys() == expected.encoder.keys()
        for kind in ("encoder", "loss"):
            for key, tensor in getattr(expected, kind).items():
                torch.testing.assert_close(getattr(found, kind)[key], tensor, rtol=1e-4, atol=1e-6, msg=f"{name} {key}")
        losses = [
            [line["loss"] for line in read_metrics(folder / name) if "loss" in line] for folder in (whole, halves)
        ]
        assert losses[1] == pytest.approx(losses[0], rel=1e-4)  # of the joined batch, not of a process's half
        # It has learned something, and not by chance the same.
        assert not torch.allclose(expected.encoder["7.weight"], small_encoder()[7].weight, rtol=1e-2)


def test_joint_batch_norm_has_the_state_of_batch_norm():
    plain, joined = small_encoder(), join_batch_norm(small_encoder(), CPU)
    assert [type(module) for module in joined if isinstance(module, JointBatchNorm)] == [JointBatchNorm] * 2
    assert list(joined.state_dict()) == list(plain.state_dict())
    images = torch.rand(4, 3, 8, 8, generator=torch_generator(0, "test/images"))
    assert torch.equal(joined.eval()(images), plain.eval()(images))


@pytest.mark.slow
def test_two_processes_train_one_encoder(images_root, tmp_path):
    command = [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"),
        *("-m", "baselines", "train", "aninfonce-box", str(images_root), "--out", str(tmp_path / "run")),
        *("--steps", "3", "--batch-size", "16", "--validation", "60", "--device", "cpu", "--threads", "1"),
        *("--log-every", "1", "--checkpoint-every", "2"),
    ]
    found = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=300, check=False)
    assert found.returncode == 0, found.stderr
    encoder, checkpoint = Run(tmp_path / "run").encoder()
    assert checkpoint.step == 3
    assert not [name for name in checkpoint.encoder if "module" in name]
    lines = read_metrics(tmp_path / "run")
    assert [line["step"] for line in lines if "loss" in line] == [1, 2, 3]
    assert sum("r2" in line for line in lines) == 1
    assert json.loads((tmp_path / "run" / "options.json").read_text())["world_size"] == 2
    assert all(tensor.isfinite().all() for tensor in encoder.state_dict().values())


def norms():
    """Batch norms of one, two and three dimensions, a bare one, and one without parameters of its own."""
    return [
        (nn.BatchNorm1d(3), (6, 3)),
        (nn.Sequential(nn.BatchNorm1d(3, momentum=None)), (6, 3, 5)),
        (nn.Sequential(nn.Sequential(nn.BatchNorm2d(3, affine=False))), (6, 3, 2, 4)),
        (nn.BatchNorm3d(3), (6, 3, 2, 2, 2)),
    ]


@pytest.fixture
def one_process(tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/rendezvous", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("one_process")
@pytest.mark.parametrize("number", range(4))
def test_joint_batch_norm_of_every_kind_is_batch_norm_of_the_joined_batch(number):
    (plain, shape), (module, _) = norms()[number], norms()[number]
    joined = join_batch_norm(module, CPU)
    assert any(isinstance(part, JointBatchNorm) for part in joined.modules())
    assert not any(type(part) in {nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d} for part in joined.modules())
    for step in range(3):
        x = 2 + torch.randn(shape, generator=torch_generator(0, "test/activations", step))
        torch.testing.assert_close(joined(x), plain(x), rtol=1e-4, atol=1e-5)
    for name, tensor in plain.state_dict().items():
        torch.testing.assert_close(joined.state_dict()[name], tensor)
    torch.testing.assert_close(joined.eval()(x), plain.eval()(x))
