"""Two processes under torchrun, as a user starts them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from baselines.training.logbook import read_metrics
from baselines.training.run import Run

CHECKOUT = Path(__file__).parents[3]


@pytest.mark.slow
def test_two_processes_train_one_encoder(pictures_root, tmp_path):
    command = [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"),
        *("-m", "baselines", "train", "aninfonce-box", str(pictures_root), "--out", str(tmp_path / "run")),
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
