import resource
from contextlib import contextmanager

import pytest
import torch
from torch import nn

from baselines.training.checkpoint import Checkpoint, load_state
from ident3d.errors import Ident3DError


def test_another_architecture_is_refused_with_the_keys_that_differ():
    small, wide, other = nn.Linear(3, 2), nn.Linear(4, 2), nn.Sequential(nn.Linear(3, 2))
    with pytest.raises(
        ValueError, match=r"the encoder is of another architecture: weight is \(2, 4\) and must be \(2, 3"
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
    with pytest.raises(Ident3DError, match="is damaged, or no checkpoint of a run"):
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
    with files_up_to(20_000), pytest.raises(Ident3DError, match=r"of step 4 cannot be written.*one before it is whole"):
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
