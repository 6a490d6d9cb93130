"""``checks.py`` in a process of its own, because a device of torch's stays for as long as the process does."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.utils import backend_registration

HERE = Path(__file__).parent
MISSING = [
    name
    for module, name in ((backend_registration, "_setup_privateuseone_for_python_backend"), (torch._C, "_acc"))
    if not hasattr(module, name)
]


@pytest.mark.slow
@pytest.mark.skipif(bool(MISSING), reason=f"torch {torch.__version__} has no {', '.join(MISSING)}")
def test_everything_that_runs_on_a_gpu_runs_on_a_simulated_one():
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        str(HERE / "checks.py"),
    ]
    found = subprocess.run(command, cwd=HERE.parents[1], capture_output=True, text=True, timeout=900, check=False)
    assert found.returncode == 0, found.stdout[-20_000:] + found.stderr
