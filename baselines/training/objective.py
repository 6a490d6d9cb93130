"""The objective of a recipe: its encoder, and its loss on a batch's embeddings and latents."""

from typing import cast

import torch
from torch import Tensor, nn

from baselines.encoders import BoxOutput, OutputSpace, ResNetEncoder, SphereOutput
from baselines.losses import AnInfoNCE, ContrastOptions, DeltaInfoNCE, InfoNCE, SupervisedMSE
from baselines.recipes import Recipe
from ident3d import Box, Sphere, Unbounded
from ident3d.randomness import integer_seed

__all__ = ["TrainedModel", "build_encoder", "build_loss", "build_optimiser", "embedding_space"]


def embedding_space(recipe: Recipe, dim: int) -> OutputSpace:
    """Return the space of a recipe's embeddings, of as many dimensions as there are factors."""
    kinds: dict[str, type[OutputSpace]] = {"unbounded": Unbounded, "box": Box, "sphere": Sphere}
    return kinds[recipe.space](dim)


def build_encoder(recipe: Recipe, dim: int, seed: int) -> ResNetEncoder:
    """Return a recipe's encoder, untrained; its weights depend on the seed only."""
    # torch's modules draw from the global generator. It is put back afterwards.
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(integer_seed(seed, "training/encoder", 0, bits=63))
        return ResNetEncoder(embedding_space(recipe, dim), recipe.depth, learn_scale=recipe.learn_scale)


def build_loss(recipe: Recipe, dim: int, *, across_processes: bool = False) -> nn.Module:
    """Return the loss of a recipe as a module.

    Args:
        recipe: the recipe.
        dim: dimensions of the embeddings.
        across_processes: whether other processes' batches serve as negatives too.
    """
    if recipe.loss == "supervised":
        return SupervisedMSE()
    options = ContrastOptions(negatives=recipe.negatives, symmetric=recipe.symmetric, across_processes=across_processes)
    if recipe.loss == "info_nce":
        return InfoNCE(recipe.temperature, **options)
    if recipe.loss == "delta_info_nce":
        return DeltaInfoNCE(recipe.p, recipe.temperature, **options)
    return AnInfoNCE(dim, recipe.initial_precision, **options)


class TrainedModel(nn.Module):
    """An encoder and its loss as one module, so that one wrapper serves the parameters of both.

    Anchors and positives pass through the encoder as one batch: batch norm then sees both with the same statistics,
    which say nothing about who belongs to whom.

    Args:
        encoder: the encoder.
        loss: the loss, from :func:`build_loss`.
    """

    def __init__(self, encoder: nn.Module, loss: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder
        self.loss = loss

    def forward(self, images: Tensor, latents: Tensor) -> Tensor:
        """Return the loss of a batch.

        Args:
            images: (2B, 3, H, W) anchors, then positives; or (B, 3, H, W) for a supervised loss.
            latents: (B, d) latents of the anchors, which only a supervised loss looks at.
        """
        embeddings = self.encoder(images)
        if isinstance(self.loss, SupervisedMSE):
            return cast("Tensor", self.loss(embeddings, latents))
        z, z_pos = embeddings.chunk(2)
        return cast("Tensor", self.loss(z, z_pos))

    def learned_numbers(self) -> dict[str, float]:
        """Return what is learned beside the weights: "precision/K" of Lambda's diagonal, "box_size", "radius"."""
        found: dict[str, float] = {}
        if isinstance(self.loss, AnInfoNCE):
            found |= {f"precision/{column}": value for column, value in enumerate(self.loss.precision.tolist())}
        output = getattr(self.encoder, "output", None)
        if isinstance(output, BoxOutput):
            found["box_size"] = float(output.size.detach().mean())
        if isinstance(output, SphereOutput):
            found["radius"] = float(output.radius.detach())
        return found


def build_optimiser(model: TrainedModel, recipe: Recipe) -> torch.optim.Optimizer:
    """Return Adam with one learning rate for the encoder and another for what the loss learns."""
    groups = [{"params": [p for p in model.encoder.parameters() if p.requires_grad], "lr": recipe.learning_rate}]
    learned = [p for p in model.loss.parameters() if p.requires_grad]
    if learned:
        groups.append({"params": learned, "lr": recipe.loss_learning_rate})
    return torch.optim.Adam(groups)
