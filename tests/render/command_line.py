"""The render command in a process of its own, and a small dataset for it."""

import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from render.__main__ import main

ROOT = Path(__file__).resolve().parents[2]
SMALL = ("--train", "12", "--test", "6", "--resolution", "16", "--quality", "draft", "--rows-per-shard", "5")

needs_bpy = pytest.mark.skipif(find_spec("bpy") is None, reason="there is no bpy for this Python")
"""For tests whose workers render; bpy is not imported here, since that would change the process."""


def render(root, *options):
    """Render the small dataset into ``root`` in this process; return the exit status."""
    return main([str(root), *SMALL, "--workers", "1", *options])


def start(root, *options, environment=None):
    """Start to render the small dataset into ``root``, in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "render", str(root), *SMALL, "--workers", "1", *options],
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for(condition, process, patience_s=60):
    """Wait until ``condition()`` holds while a process runs."""
    end = time.monotonic() + patience_s
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.005)


def kill(process):
    """Kill a process group as the kernel does when memory runs out: at once, and without a word."""
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
