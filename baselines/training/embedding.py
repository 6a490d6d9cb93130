"""Embedding a split as a submission: with a run, an encoder from a file or from Python, or an untrained one.

:func:`embed` is what ``python -m baselines embed`` calls.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from baselines.encoders.untrained import UNTRAINED, UntrainedEncoder
from baselines.losses import find_loss
from baselines.pairs import find_source
from baselines.training.objective import describe_encoder
from baselines.training.options import About
from baselines.training.placement import place
from baselines.training.progress import read_metrics
from baselines.training.run import Run
from ident3d import Submission, ThreeDIdent
from ident3d.embedding import embed as embed_images
from ident3d.embedding import load_encoder
from ident3d.progress import ProgressBar
from ident3d.submission import Compute, Metadata

__all__ = ["embed"]

_LOG = logging.getLogger("ident3d.baselines")

_DESCRIPTIONS = ("name", "method", "architecture", "training_data", "conditional")
_FIELDS = {"architecture": "encoder"}  # names of fields of the metadata, where they differ from those of options


def embed(
    encoder: str | Path | nn.Module,
    root: str | Path,
    about: About,
    out: str | Path = "submission.zip",
    *,
    split: str = "test",
    seed: int = 0,
    device: str = "auto",
) -> Submission:
    """Embed a split, and write a submission.

    Args:
        encoder: folder of a run; file of an encoder that ends in .onnx, .pt or .ts; name of an untrained encoder, one
            of :data:`~baselines.encoders.untrained.UNTRAINED`; or a module. A file or folder of such a name is written
            with its path, as ``./pixels``. Files and modules take (B, 3, H, W) float32 RGB in [0, 1].
        root: folder of the dataset, in any layout; "sample" is the one inside the package.
        about: the description of the submission. Runs and untrained encoders fill in what is left out.
        out: the submission to write: a folder, or an archive that ends in .zip.
        split: the split to embed.
        seed: seed of an untrained encoder, or of the training of a file or a module; a run knows its own.
        device: "auto", "cpu", "cuda" or "cuda:N".

    Returns:
        The submission, as it was written.

    Raises:
        FileNotFoundError: if the encoder or the dataset does not exist.
        ValueError: if the encoder cannot be used, or a part of its description is missing.
        Ident3DError: if the file of the encoder or the checkpoint of the run is damaged.
    """
    _check(encoder, about, seed)
    data = ThreeDIdent(root, split=split)
    with place(device) as placement:
        encode, known = _load(encoder, len(data.factors), seed, placement.device)
        with ProgressBar(len(data), unit="images", label=f"embedding {split}") as bar:
            embeddings = embed_images(encode, data, device=placement.device, tick=bar.update)
    given = {_FIELDS.get(name, name): getattr(about, name) for name in _DESCRIPTIONS}
    metadata = Metadata(
        **known | {name: value for name, value in given.items() if value is not None},
        authors=about.authors,
        revision=about.revision,
        links=about.links,
        fingerprint=data.fingerprint,
        split=split,
    )
    return Submission.write(Path(out), embeddings, data.ids, metadata)


def _check(encoder: str | Path | nn.Module, about: About, seed: int) -> None:
    """Raise, before anything is read, if the encoder does not exist or its description is incomplete."""
    if isinstance(encoder, str) and encoder in UNTRAINED:
        UNTRAINED[encoder].check_seed(seed)
        if Path(encoder).exists():
            _LOG.info("%s is the untrained encoder of that name; the file or folder is ./%s", encoder, encoder)
        return
    if not isinstance(encoder, nn.Module):
        if not Path(encoder).exists():
            raise FileNotFoundError(
                f"there is no encoder {encoder}; expected the folder of a run, a file, or one of {', '.join(UNTRAINED)}"
            )
        if Path(encoder).is_dir():
            return
    missing = [name for name in _DESCRIPTIONS if getattr(about, name) is None]
    if missing:
        what = type(encoder).__name__ if isinstance(encoder, nn.Module) else encoder
        options = ", ".join("--" + name.replace("_", "-") for name in missing)
        raise ValueError(f"{what} has no description of its own: give {options}")


def _load(
    encoder: str | Path | nn.Module, dim: int, seed: int, device: torch.device
) -> tuple[Callable[[Tensor], Tensor], dict[str, Any]]:
    """Return an encoder on a device, and what is known about it: fields of a submission's metadata."""
    if isinstance(encoder, nn.Module):
        return encoder.to(device), {"seeds": (seed,)}
    if isinstance(encoder, str) and encoder in UNTRAINED:
        untrained = UNTRAINED[encoder]
        return untrained.build(dim, seed).to(device), _about_untrained(untrained, seed)
    if Path(encoder).is_dir():
        run = Run(Path(encoder))
        trained, checkpoint = run.encoder(device)
        return trained, _about_run(run, trained, checkpoint.step)
    return load_encoder(Path(encoder), device), {"seeds": (seed,)}


def _about_untrained(untrained: UntrainedEncoder, seed: int) -> dict[str, Any]:
    return {
        "name": untrained.title,
        "method": untrained.method,
        "encoder": untrained.architecture,
        "training_data": "none: it is not trained",
        "conditional": "none",
        "seeds": (seed,),
        "steps": 0,
        "role": "floor",
    }


def _about_run(run: Run, encoder: nn.Module, steps: int) -> dict[str, Any]:
    recipe, record = run.recipe(), run.record()
    seconds = sum(line["seconds"] for line in read_metrics(run.folder) if "seconds" in line)
    trained_on = record["dataset"]
    return {
        "name": recipe.name,
        "method": recipe.title,
        "encoder": describe_encoder(encoder, recipe),
        "training_data": run.training_images(),
        "conditional": recipe.conditional or find_source(recipe.pairs).positives,
        "seeds": (run.options().seed,),
        "steps": steps,
        "training_fingerprint": trained_on["fingerprint"],
        "compute": Compute(hours=seconds / 3600, device=record["device_name"]),
        "role": "ceiling" if find_loss(recipe.loss).sees_latents else "contender",
    }
