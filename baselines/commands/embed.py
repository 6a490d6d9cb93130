"""``python -m baselines embed``: a split's embeddings as a submission."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from baselines.training.options import About
from ident3d.commandline import EXIT_OK, write_json

__all__ = ["Embed"]


@dataclass(frozen=True)
class Embed:
    r"""Embed a split with a trained encoder, and write a submission.

    The encoder is the folder of a run, which holds its own description, or any ONNX or TorchScript file, which --name,
    --method, --architecture, --training-data and --conditional describe. The encoder of a file takes float32 RGB images
    (B, 3, H, W) in [0, 1]. Two names are those of untrained encoders, the floor of the leaderboard: pixels (the image
    averaged over 8x8 cells) and random-resnet18 (with --seed). A file or folder of such a name is written with its
    path, as ./pixels.

    Examples:
        python -m baselines embed runs/supervised-seed0 data/mini -o supervised.zip --authors 'A. Author'
        python -m baselines embed pixels data/mini -o pixels.zip --authors 'A. Author'
        python -m baselines embed mine.onnx data/mini -o mine.zip --authors 'A. Author' 'B. Author' \
            --name mine --method VAE --architecture ConvNeXt --training-data mini --conditional none
    """

    encoder: tyro.conf.Positional[str]
    """Folder of a run, a file that ends in .onnx, .pt or .ts, or pixels or random-resnet18."""
    root: tyro.conf.Positional[str]
    """Folder of the dataset, in any layout; "sample" is the one inside the package."""
    about: About
    """The description of the submission."""
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("submission.zip")
    """The submission: a folder, or an archive that ends in .zip."""
    split: str = "test"
    """The split to embed."""
    seed: int = 0
    """Seed of the training of a file, or of random-resnet18; a run knows its own."""
    device: str = "auto"
    """auto, cpu, cuda, or cuda:N."""
    json: bool = False
    """Print what was done as JSON."""

    def run(self) -> int:
        """Embed and write."""
        from baselines.training import embed

        written = embed(
            self.encoder, self.root, self.about, self.out, split=self.split, seed=self.seed, device=self.device
        )
        if self.json:
            rows, width = written.embeddings[0].shape
            about = written.metadata
            found = {"name": about.name, "revision": about.revision, "fingerprint": about.fingerprint}
            write_json({"submission": str(self.out), **found, "rows": rows, "dimensions": width})
        else:
            rows, width = written.embeddings[0].shape
            again = shlex.quote(str(self.out))
            sys.stdout.write(
                f"{self.out}: {rows:,} x {width} embeddings of the split {self.split}; next: ident3d validate {again}\n"
            )
        return EXIT_OK
