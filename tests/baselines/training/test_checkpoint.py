import resource
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from torch import nn

from baselines.training.checkpoint import (
    Checkpoint,
    DivergedError,
    load_checkpoint,
    load_optimiser,
    load_state,
    save_checkpoint,
)
from ident3d.errors import Ident3DError


def test_another_architecture_is_refused_with_the_keys_that_differ():
    small, wide, other = nn.Linear(3, 2), nn.Linear(4, 2), nn.Sequential(nn.Linear(3, 2))
    with pytest.raises(
        ValueError, match=r"the encoder is of another architecture: weight is \(2, 4\), expected \(2, 3"
    ):
        load_state(small, wide.state_dict(), "the encoder")
    with pytest.raises(ValueError, match=r"weight is missing; bias is missing; 0.weight is not part of it"):
        load_state(small, other.state_dict(), "the encoder")
    with torch.no_grad():
        wide.weight.zero_()
    fresh = nn.Linear(4, 2)
    load_state(fresh, wide.state_dict(), "the encoder")
    assert torch.equal(fresh.weight, wide.weight)


def test_a_damaged_file_is_told(tmp_path):
    path = tmp_path / "checkpoint.pt"
    with pytest.raises(FileNotFoundError, match="there is no checkpoint"):
        Checkpoint.read(path)
    Checkpoint(3, {"w": torch.zeros(100)}, {}, {}).write(path)
    assert Checkpoint.read(path).step == 3
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(Ident3DError, match=r"checkpoint\.pt is damaged, or not a checkpoint of a training"):
        Checkpoint.read(path)


@contextmanager
def files_up_to(size):
    """Let no file grow beyond a size, so that writing stops in the middle as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_disk_that_is_full_leaves_the_one_before(tmp_path):
    path = tmp_path / "checkpoint.pt"
    Checkpoint(3, {"w": torch.ones(100)}, {}, {}).write(path)
    with (
        files_up_to(20_000),
        pytest.raises(Ident3DError, match=r"checkpoint\.pt cannot be written.*one before it is whole"),
    ):
        Checkpoint(4, {"w": torch.ones(100_000)}, {}, {}).write(path)
    assert Checkpoint.read(path).step == 3
    assert [item.name for item in tmp_path.iterdir()] == ["checkpoint.pt"]


def test_a_checkpoint_that_cannot_be_pickled_leaves_the_one_before(tmp_path):
    path = tmp_path / "checkpoint.pt"
    Checkpoint(3, {}, {}, {}).write(path)
    with pytest.raises(AttributeError):
        Checkpoint(4, {"w": lambda: None}, {}, {}).write(path)  # type: ignore[dict-item]
    assert Checkpoint.read(path).step == 3
    assert [item.name for item in tmp_path.iterdir()] == ["checkpoint.pt"]


STATE = {"encoder": {"w": torch.arange(300.0)}, "optimiser": {"state": {0: {"step": torch.tensor(3.0)}}}, "step": 3}


def test_every_flipped_bit_is_found(tmp_path):
    path, flipped = tmp_path / "checkpoint.pt", tmp_path / "flipped.pt"
    save_checkpoint(path, {"seed": 0}, STATE)
    whole = path.read_bytes()
    generator = np.random.default_rng(0)
    for place in generator.integers(8 * (len(whole) - 80), size=100):
        content = bytearray(whole)
        content[place // 8] ^= 1 << place % 8
        flipped.write_bytes(content)
        with pytest.raises(Ident3DError, match="is damaged"):
            load_checkpoint(flipped)


def test_the_file_is_one_that_torch_reads(tmp_path):
    path = tmp_path / "checkpoint.pt"
    save_checkpoint(path, {"seed": 0}, STATE)
    held = torch.load(path, weights_only=True)
    assert held["identity"] == {"seed": 0}
    assert torch.equal(held["encoder"]["w"], torch.arange(300.0))


def test_checkpoints_from_before_there_was_a_checksum_are_read_and_checked(tmp_path):
    path = tmp_path / "checkpoint.pt"
    for held in (STATE, {"identity": {"seed": 0}, "state": STATE}):  # as runs on images and on latents wrote them
        torch.save(held, path)
        state = load_checkpoint(path, {"seed": 0})
        assert state.keys() == STATE.keys()
        assert torch.equal(state["encoder"]["w"], torch.arange(300.0))
    content = bytearray(path.read_bytes())
    content[content.index(torch.arange(300.0).numpy().tobytes()) + 5] ^= 8
    path.write_bytes(content)
    with pytest.raises(Ident3DError, match="is damaged"):
        load_checkpoint(path)


def test_the_checkpoint_of_another_training_is_refused(tmp_path):
    path = tmp_path / "checkpoint.pt"
    save_checkpoint(path, {"seed": 0}, STATE)
    assert load_checkpoint(path, {"seed": 0})["step"] == load_checkpoint(path)["step"] == 3
    with pytest.raises(Ident3DError, match=r"another training: expected \{'seed': 1\}, not \{'seed': 0\}"):
        load_checkpoint(path, {"seed": 1})


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_are_not_finite_are_neither_written_nor_read(tmp_path, value):
    path = tmp_path / "checkpoint.pt"
    bad = {"optimiser": {"state": {7: {"exp_avg": torch.tensor([0.0, value])}}}}
    with pytest.raises(DivergedError, match=r"optimiser\.state\.7\.exp_avg holds numbers that are not finite"):
        save_checkpoint(path, {}, bad)
    assert not path.exists()
    torch.save(bad, path)
    with pytest.raises(Ident3DError, match=r"resumed from: optimiser\.state\.7\.exp_avg holds"):
        load_checkpoint(path)


def test_what_a_message_advises_is_safe(tmp_path):
    class Unsafe:
        def __reduce__(self):
            return print, ("executed",)

    path = tmp_path / "checkpoint.pt"
    torch.save({"step": Unsafe()}, path)
    with pytest.raises(Ident3DError, match="is damaged, or not a checkpoint") as caught:
        load_checkpoint(path)
    assert "weights_only" not in str(caught.value)


def adam(*shapes):
    parameters = [nn.Parameter(torch.ones(shape)) for shape in shapes]
    optimiser = torch.optim.Adam(parameters, lr=0.5)
    sum(parameter.square().sum() for parameter in parameters).backward()
    optimiser.step()
    return optimiser


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (adam((3,), (2,)).state_dict(), r"groups of \[2\] parameters, expected \[1\]"),
        (adam((2, 2)).state_dict(), r"exp_avg of parameter 0 is \(2, 2\), expected \(3,\)"),
        ({"state": {4: {}}, "param_groups": adam((3,)).state_dict()["param_groups"]}, "there is no parameter 4"),
        ({}, "param_groups or state is missing"),
    ],
)
def test_an_optimiser_that_does_not_fit_is_refused(state, message):
    with pytest.raises(ValueError, match=f"the optimiser is .*{message}"):
        load_optimiser(adam((3,)), state, "the optimiser")


def test_an_optimiser_goes_on_with_its_own_settings():
    before, after = adam((3,)), torch.optim.Adam([nn.Parameter(torch.ones(3))], lr=0.1)
    load_optimiser(after, before.state_dict(), "the optimiser")
    assert after.param_groups[0]["lr"] == 0.1
    assert torch.equal(after.state_dict()["state"][0]["exp_avg"], before.state_dict()["state"][0]["exp_avg"])
