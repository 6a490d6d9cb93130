"""Where results come from: the command, the machine, the versions, and when."""

import os
import platform
import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

import ident3d

__all__ = ["provenance"]


def provenance(device: torch.device) -> dict[str, Any]:
    """Return what somebody needs to know who compares results, as plain data."""
    arguments = sys.orig_argv[1:] if len(sys.orig_argv) > 1 else sys.argv
    return {
        "command": shlex.join(["python", *arguments]),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else str(device),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "versions": {
            "ident3d": ident3d.__version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
        },
    }


def _processor() -> str:
    """Return the processor's name; only its architecture where the system does not tell."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
