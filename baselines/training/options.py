"""The options of a training on images, each with its default; this module does not need torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from ident3d.codec import from_json
from ident3d.factors import held_factors

__all__ = [
    "About",
    "Hardware",
    "Images",
    "Intervals",
    "LatentSpace",
    "LiveImages",
    "Precision",
    "Resident",
    "TrainingOptions",
    "read_options",
]

Precision = Literal["auto", "float32", "tf32", "bfloat16"]
Resident = Literal["auto", "always", "never"]
LatentSpace = Literal["box", "sphere"]


@dataclass(frozen=True)
class Images:
    """Which images are held out, and how the others reach the encoder."""

    validation: int = 1000
    """Images of the train split that are held out to evaluate on; for live images, the most to evaluate on."""
    resident: Resident = "auto"
    """Whether all images are decoded once into the device's memory; auto: if they and a training step fit into it."""
    workers: int | None = None
    """Processes that decode images that are not resident; 0: threads do it; by default what a measurement says."""


@dataclass(frozen=True)
class Hardware:
    """What a training runs on."""

    device: str = "auto"
    """auto, cpu, cuda, or cuda:N."""
    precision: Precision = "auto"
    """What the encoder computes in; auto is bfloat16 on a GPU that has it. tf32 is float32 that rounds the factors of a
    GPU's convolutions to ten bits."""
    deterministic: bool = False
    """Get the same bits again from the same GPU, which is slower; a CPU always does."""
    compile: bool = False
    """Compile the encoder, which starts later and runs faster."""
    threads: int = 0
    """Threads on the CPU; 0 leaves the choice to torch."""


@dataclass(frozen=True)
class Intervals:
    """Intervals in steps; all three also follow the last step."""

    log_every: int = 50
    """Steps between lines of metrics."""
    evaluate_every: int = 1000
    """Steps between evaluations."""
    checkpoint_every: int = 500
    """Steps between checkpoints, the most that a killed run loses."""

    def __post_init__(self) -> None:
        if min(self.log_every, self.evaluate_every, self.checkpoint_every) < 1:
            raise ValueError(f"expected intervals of 1 or more steps, not {self}")


@dataclass(frozen=True)
class LiveImages:
    """How images are rendered as they are asked for, with --live alone."""

    resolution: int = 64
    """Width and height of live images in pixels."""
    quality: str = "standard"
    """Quality of live images: draft, standard or fine."""
    dataset: str | None = None
    """Dataset whose test split live runs are evaluated on; by default live images. Its world is trained on, too."""
    latent_space: LatentSpace = "box"
    """Where the factors named live: the box [-1, 1]^d, or the unit sphere."""
    factors: tuple[str, ...] = ()
    """Factors that the pairs are drawn in, and that the encoder is to recover; by default all."""
    others: tuple[str, ...] = ()
    """Values in [-1, 1] at which other factors are held, each as NAME=VALUE; others are drawn anew for each image."""
    pool: int = 0
    """Images that are rendered once, to match pairs in: for devices where a fresh one costs too much; 0: all fresh."""

    def __post_init__(self) -> None:
        if self.resolution < 1 or self.pool < 0:
            raise ValueError(
                f"expected live images of 1 or more pixels and a pool of 0 or more, not --resolution {self.resolution} "
                f"and --pool {self.pool}"
            )
        held_factors(self.others)

    def given(self) -> list[str]:
        """Return the options that differ from the defaults, as they are written on a command line."""
        return [f"--{own.name.replace('_', '-')}" for own in fields(self) if getattr(self, own.name) != own.default]


@dataclass(frozen=True)
class TrainingOptions:
    """The options of a training that do not belong to a recipe."""

    seed: int = 0
    """Seed of the encoder, the validation part and the pairs."""
    images: Images = field(default_factory=Images)
    """Which images are held out, and how the others reach the encoder."""
    hardware: Hardware = field(default_factory=Hardware)
    """What the training runs on."""
    intervals: Intervals = field(default_factory=Intervals)
    """How often metrics, evaluations and checkpoints are written."""
    wandb: str | None = None
    """Project of Weights & Biases that metrics are logged to as well; needs wandb, which also runs offline."""
    live: LiveImages = field(default_factory=LiveImages)
    """How images are rendered as they are asked for, with --live alone."""


def read_options(data: Mapping[str, Any]) -> TrainingOptions:
    """Return the options that a run's ``options.json`` holds beside its recipe.

    Raises:
        ValueError: if they are not valid; every fault is listed.
    """
    held = {name: value for name, value in data.items() if name != "recipe"}
    groups = {"images": Images, "hardware": Hardware, "intervals": Intervals}
    if not groups.keys() & held.keys():  # of runs that were written before options came in groups
        held["compile"] = held.pop("compiled", False)
        for name, kind in groups.items():
            held[name] = {own.name: held.pop(own.name) for own in fields(kind) if own.name in held}
    return from_json(TrainingOptions, held, "options")


@dataclass(frozen=True)
class About:
    """The description of a submission. Runs and untrained encoders know all of it but the authors."""

    authors: tuple[str, ...]
    """Names of the authors."""
    name: str | None = None
    """Name of the entry; by default that of a run's recipe, or of an untrained encoder."""
    revision: int = 1
    """Revision of the entry under that name."""
    method: str | None = None
    """The method in a sentence or two; by default the title of a run's recipe, or that of an untrained encoder."""
    architecture: str | None = None
    """The encoder's architecture; known for a run and an untrained encoder."""
    training_data: str | None = None
    """What the encoder was trained on; known for a run and an untrained encoder."""
    conditional: str | None = None
    """The distribution of positive pairs; known for a run and an untrained encoder."""
    links: tuple[str, ...] = ()
    """Web addresses of paper, code and weights."""
