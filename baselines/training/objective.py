"""The objective of a recipe: its encoder, its loss, and their optimiser."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Unpack, cast, get_args, get_origin, runtime_checkable

import torch
from torch import Tensor, nn

from baselines.encoders import ENCODERS, OutputSpace, output_for, seeded_weights
from baselines.losses import Loss, find_loss
from baselines.recipes import Recipe
from ident3d import Box, Sphere, Unbounded

__all__ = [
    "EncoderWithOutput",
    "TrainedModel",
    "build_encoder",
    "build_loss",
    "build_optimiser",
    "describe_encoder",
    "embedding_space",
]


def embedding_space(recipe: Recipe, dim: int) -> OutputSpace:
    """Return the space of a recipe's embeddings, with ``dim`` dimensions."""
    kinds: dict[str, type[OutputSpace]] = {"unbounded": Unbounded, "box": Box, "sphere": Sphere}
    return kinds[recipe.space](dim)


class EncoderWithOutput(nn.Module):
    """An encoder with unconstrained (B, d) output, followed by a map into the space of the embeddings.

    Args:
        body: the encoder.
        output: the map, from :func:`~baselines.encoders.output_for`.
    """

    def __init__(self, body: nn.Module, output: nn.Module) -> None:
        super().__init__()
        self.body = body
        self.output = output

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, 3, H, W) float RGB images in [0, 1] to (B, d) float32 embeddings."""
        raw = self.body(x)
        with torch.autocast(x.device.type, enabled=False):
            embeddings: Tensor = self.output(raw.float())
        return embeddings


def build_encoder(recipe: Recipe, dim: int, resolution: int, seed: int) -> nn.Module:
    """Return a recipe's encoder, untrained; its weights depend on the seed only.

    It is tried on a batch of two images, so that an unsuitable encoder is found before a training starts.

    Args:
        recipe: the recipe.
        dim: number of embedding dimensions d.
        resolution: pixels per side of the images.
        seed: seed of the run.

    Raises:
        ValueError: if the encoder or one of its options is unknown, or it does not map images to (B, d) embeddings.
        TypeError: if it is not a ``torch.nn.Module``, or does not return a floating-point tensor.
    """
    what = f"the encoder {recipe.encoder!r}"
    builder = ENCODERS.find(recipe.encoder)
    space = embedding_space(recipe, dim)
    offered = {"dim": dim, "space": space, "resolution": resolution, "learn_scale": recipe.learn_scale}
    with seeded_weights(seed):
        encoder = _build(builder, what, "--encoder-options", offered, recipe.encoder_options)
        if not isinstance(encoder, nn.Module):
            raise TypeError(f"{what} returns an object of type {type(encoder).__name__}, expected a torch.nn.Module")
        _try(encoder, what, dim, resolution)
        if "space" in _Arguments.of(builder).names:
            return encoder
        return EncoderWithOutput(encoder, output_for(space, learn_scale=recipe.learn_scale))


def describe_encoder(encoder: nn.Module, recipe: Recipe) -> str:
    """Describe a recipe's encoder: by its ``architecture`` if it has one, or else by its name and options."""
    options = ", ".join(f"{name}={value!r}" for name, value in recipe.encoder_options.items())
    named = f"{recipe.encoder}({options})" if options else recipe.encoder
    return f"{getattr(encoder, 'architecture', named)}, {recipe.space} output"


def build_loss(recipe: Recipe, dim: int, *, across_processes: bool = False) -> Loss:
    """Return the loss of a recipe as a module.

    Args:
        recipe: the recipe.
        dim: number of embedding dimensions.
        across_processes: whether the batches of other processes serve as negatives too.

    Raises:
        ValueError: if the loss or one of its options is unknown.
    """
    offered = {
        "dim": dim,
        "temperature": recipe.temperature,
        "p": recipe.p,
        "precision": recipe.initial_precision,
        "negatives": recipe.negatives,
        "symmetric": recipe.symmetric,
        "across_processes": across_processes,
    }
    what = f"the loss {recipe.loss!r}"
    return cast("Loss", _build(find_loss(recipe.loss), what, "--loss-options", offered, recipe.loss_options))


def _build(
    builder: Callable[..., Any], what: str, flag: str, offered: Mapping[str, Any], own: Mapping[str, Any]
) -> Any:
    """Call a builder with those of the offered arguments that it names, and with all of its own options."""
    if not callable(builder) or isinstance(builder, nn.Module):
        raise TypeError(f"{what} is a {type(builder).__name__}, expected a function or a class that returns a module")
    taken = _Arguments.of(builder)
    unknown = [] if taken.takes_any else [name for name in own if name not in taken.names]
    if unknown:
        others = [name for name in taken.names if name not in offered]
        choice = f"choose from {', '.join(sorted(others))}" if others else "it has no options of its own"
        raise ValueError(f"unknown option {unknown[0]!r} of {what}; {choice}")
    missing = [name for name in taken.required if name not in offered and name not in own]
    if missing:
        raise ValueError(f"{what} needs {missing[0]!r}; give {flag} {missing[0]}=VALUE")
    return builder(**{name: value for name, value in offered.items() if name in taken.names} | dict(own))


@dataclass(frozen=True)
class _Arguments:
    """The arguments that a builder takes by name."""

    names: frozenset[str]
    required: tuple[str, ...]
    takes_any: bool

    @classmethod
    def of(cls, builder: Callable[..., Any]) -> "_Arguments":
        parameters = inspect.signature(builder, eval_str=True).parameters.values()
        by_name = [p for p in parameters if p.kind in {p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY}]
        others = [p.annotation for p in parameters if p.kind is p.VAR_KEYWORD]
        typed = [get_args(annotation)[0] for annotation in others if get_origin(annotation) is Unpack]
        names = {p.name for p in by_name}.union(*(kind.__annotations__ for kind in typed))
        required = tuple(p.name for p in by_name if p.default is p.empty)
        return cls(frozenset(names), required, len(others) > len(typed))


def _try(encoder: nn.Module, what: str, dim: int, resolution: int) -> None:
    """Raise ValueError or TypeError unless an encoder maps a batch of images to (B, dim) embeddings."""
    shape = (2, 3, resolution, resolution)
    was_training = encoder.training
    try:
        with torch.inference_mode():
            found = encoder.eval()(torch.full(shape, 0.5))
    except Exception as error:  # the encoder may be the user's code
        raise ValueError(f"{what} cannot be run on a batch of images, float32 of shape {shape}: {error}") from error
    finally:
        encoder.train(was_training)
    if not isinstance(found, Tensor) or not found.is_floating_point():
        kind = f"{found.dtype}" if isinstance(found, Tensor) else f"an object of type {type(found).__name__}"
        raise TypeError(f"{what} returns {kind} for 2 images, expected a floating-point tensor of shape (2, {dim})")
    if tuple(found.shape) != (2, dim):
        raise ValueError(
            f"{what} returns embeddings of shape {tuple(found.shape)} for 2 images, expected (2, {dim}): as many "
            "dimensions as the dataset has factors"
        )


@runtime_checkable
class _LearnsNumbers(Protocol):
    def learned_numbers(self) -> dict[str, float]: ...


class TrainedModel(nn.Module):
    """An encoder and its loss as one module, so that one wrapper handles the parameters of both.

    Anchors and positives pass through the encoder as one batch, so that batch norm has the same statistics for both,
    which reveal nothing about who belongs to whom.

    Args:
        encoder: the encoder.
        loss: the loss, from :func:`build_loss`.
    """

    loss: Loss

    def __init__(self, encoder: nn.Module, loss: Loss) -> None:
        super().__init__()
        self.encoder = encoder
        self.loss = loss

    def forward(self, images: Tensor, latents: Tensor) -> Tensor:
        """Return the loss of a batch.

        Args:
            images: (views * B, 3, H, W): the anchors, followed by the positives if the loss takes pairs.
            latents: (B, k) latents of the anchors, for a loss that sees them.
        """
        views = self.encoder(images).chunk(self.loss.views)
        shown = (latents,) if self.loss.sees_latents else ()
        loss: Tensor = self.loss(*views, *shown)
        return loss

    def learned_numbers(self) -> dict[str, float]:
        """Return learned numbers other than weights, such as "precision/K" of Lambda's diagonal, or "box_size"."""
        found: dict[str, float] = {}
        for module in (self.loss, *self.encoder.modules()):
            if isinstance(module, _LearnsNumbers):
                found |= module.learned_numbers()
        return found


def build_optimiser(model: TrainedModel, recipe: Recipe) -> torch.optim.Optimizer:
    """Return Adam with one learning rate for the encoder and another for the parameters of the loss."""
    groups = [{"params": [p for p in model.encoder.parameters() if p.requires_grad], "lr": recipe.learning_rate}]
    learned = [p for p in model.loss.parameters() if p.requires_grad]
    if learned:
        groups.append({"params": learned, "lr": recipe.loss_learning_rate})
    return torch.optim.Adam(groups)
