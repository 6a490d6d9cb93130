"""``python -m baselines export``: a trained encoder as a file."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import tyro

from ident3d.commandline import EXIT_OK, write_json

__all__ = ["Export"]


@dataclass(frozen=True)
class Export:
    """Write the encoder of a run as ONNX or safetensors.

    The ONNX file maps float32 RGB images (B, 3, R, R) in [0, 1], at the resolution R of the training, to embeddings
    (B, d). Maintainers of the leaderboard verify an entry with it.

    Examples:
        python -m baselines export runs/supervised-seed0 encoder.onnx
        python -m baselines export runs/supervised-seed0 encoder.safetensors
    """

    run_folder: tyro.conf.Positional[Path]
    """Folder of the run."""
    out: tyro.conf.Positional[Path]
    """The file to write; its name ends in .onnx or .safetensors."""
    json: bool = False
    """Print what was done as JSON."""

    def run(self) -> int:
        """Export the encoder of the last checkpoint."""
        from baselines.training.export import export_run
        from baselines.training.run import Run

        exported = export_run(Run(self.run_folder), self.out)
        if self.json:
            write_json(exported)
        else:
            sys.stdout.write(f"{self.out}: the encoder of {self.run_folder}\n")
        return EXIT_OK
