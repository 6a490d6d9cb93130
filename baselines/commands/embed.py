"""``python -m baselines embed``: a split's embeddings as a submission."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from ident3d.commandline import EXIT_OK, write_json

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from baselines.floors import Floor
    from baselines.training.run import Run
    from ident3d import ThreeDIdent
    from ident3d.submission import Metadata

__all__ = ["Embed"]

_LOG = logging.getLogger(__name__)

_DESCRIPTIONS = ("name", "method", "architecture", "training_data", "conditional")


@dataclass(frozen=True)
class Embed:
    r"""Embed a split with a trained encoder, and write a submission.

    The encoder is the folder of a run, which knows what to say about itself, or an ONNX or TorchScript file from
    elsewhere, about which --name, --method, --architecture, --training-data and --conditional have to say it. A file's
    encoder takes float32 RGB images (B, 3, H, W) in [0, 1]. Two names stand for encoders that nobody trained, the
    floors of the leaderboard: pixels (the image averaged over 8x8 cells) and random-resnet18 (with --seed). A file
    or folder of such a name is written with its folder, as ./pixels.

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
    authors: tuple[str, ...]
    """Names of the authors."""
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("submission.zip")
    """The submission: a folder, or an archive that ends in .zip."""
    split: str = "test"
    """The split to embed."""
    name: str | None = None
    """Name of the entry; the recipe's for a run, and a floor has its own."""
    revision: int = 1
    """Revision of the entry under that name."""
    method: str | None = None
    """The method in a sentence or two; the recipe's title for a run, and a floor has its own."""
    architecture: str | None = None
    """The encoder's architecture; known for a run and a floor."""
    training_data: str | None = None
    """What the encoder was trained on; known for a run and a floor."""
    conditional: str | None = None
    """The distribution of positive pairs; known for a run and a floor."""
    seed: int = 0
    """Seed of the training, known for a run; or of random-resnet18."""
    links: tuple[str, ...] = ()
    """Web addresses of paper, code and weights."""
    device: str = "auto"
    """auto, cpu, cuda, or cuda:N."""
    json: bool = False
    """Print what was done as JSON."""

    def run(self) -> int:
        """Embed and write."""
        from baselines.training.placement import place
        from ident3d import Submission, ThreeDIdent
        from ident3d.embedding import embed

        self._check()
        data = ThreeDIdent(self.root, split=self.split)
        with place(self.device) as placement:
            encoder, metadata = self._encoder(data, placement.device)
            embeddings = embed(encoder, data, device=placement.device)
        written = Submission.write(self.out, embeddings, data.ids, metadata)
        if self.json:
            rows, width = written.embeddings[0].shape
            about = {"name": metadata.name, "revision": metadata.revision, "fingerprint": metadata.fingerprint}
            write_json({"submission": str(self.out), **about, "rows": rows, "dimensions": width})
        else:
            sys.stdout.write(f"{self.out}\n")
        return EXIT_OK

    def _check(self) -> None:
        from baselines.floors import FLOORS

        if self.encoder in FLOORS:
            FLOORS[self.encoder].check_seed(self.seed)
            if Path(self.encoder).exists():
                _LOG.info("%s is the encoder of that name; ./%s is what lies here", self.encoder, self.encoder)
        elif not Path(self.encoder).exists():
            raise FileNotFoundError(
                f"there is no encoder {self.encoder}, neither a folder nor a file, nor is it one of {', '.join(FLOORS)}"
            )

    def _encoder(self, data: ThreeDIdent, device: torch.device) -> tuple[Callable[[Tensor], Tensor], Metadata]:
        from baselines.floors import FLOORS
        from baselines.training.run import Run
        from ident3d.embedding import load_encoder

        if self.encoder in FLOORS:
            floor = FLOORS[self.encoder]
            return floor.build(len(data.factors), self.seed).to(device), self._of_floor(floor, data)
        path = Path(self.encoder)
        if path.is_dir():
            encoder, checkpoint = Run(path).encoder(device)
            return encoder, self._of_run(Run(path), checkpoint.step, data)
        metadata = self._of_file(data)  # what is missing is told before a large file is read
        return load_encoder(path, device), metadata

    def _of_floor(self, floor: Floor, data: ThreeDIdent) -> Metadata:
        from ident3d.submission import Metadata

        return Metadata(
            name=self.name or floor.title,
            revision=self.revision,
            authors=self.authors,
            method=self.method or floor.method,
            encoder=self.architecture or floor.architecture,
            training_data=self.training_data or "none: it is not trained",
            conditional=self.conditional or "none",
            fingerprint=data.fingerprint,
            split=self.split,
            seeds=(self.seed,),
            steps=0,
            links=self.links,
            role="floor",
        )

    def _of_run(self, run: Run, steps: int, data: ThreeDIdent) -> Metadata:
        from baselines.training.progress import read_metrics
        from ident3d.submission import Compute, Metadata

        recipe, record = run.recipe(), run.record()
        seconds = sum(line["seconds"] for line in read_metrics(run.folder) if "seconds" in line)
        pairs = recipe.conditional or {"augmented": "SimCLR's augmentations", "single": "none: supervised"}.get(
            recipe.pairs, "that of the dataset's exact pairs"
        )
        trained_on = record["dataset"]
        return Metadata(
            name=self.name or recipe.name,
            revision=self.revision,
            authors=self.authors,
            method=self.method or recipe.title,
            encoder=self.architecture or f"ResNet{recipe.depth}, hidden layer, {recipe.space} output",
            training_data=self.training_data
            or f"train split, {trained_on['rows']} images of {record['resolution']}x{record['resolution']}",
            conditional=self.conditional or pairs,
            fingerprint=data.fingerprint,
            split=self.split,
            seeds=(record["options"]["seed"],),
            steps=steps,
            training_fingerprint=trained_on["fingerprint"],
            compute=Compute(hours=seconds / 3600, device=record["device_name"]),
            links=self.links,
            role="ceiling" if recipe.loss == "supervised" else "contender",
        )

    def _of_file(self, data: ThreeDIdent) -> Metadata:
        from ident3d.submission import Metadata

        missing = [name for name in _DESCRIPTIONS if getattr(self, name) is None]
        if missing:
            options = ", ".join("--" + name.replace("_", "-") for name in missing)
            raise ValueError(f"{self.encoder} does not say what it is: give {options}")
        return Metadata(
            name=self.name or "",
            revision=self.revision,
            authors=self.authors,
            method=self.method or "",
            encoder=self.architecture or "",
            training_data=self.training_data or "",
            conditional=self.conditional or "",
            fingerprint=data.fingerprint,
            split=self.split,
            seeds=(self.seed,),
            links=self.links,
        )
