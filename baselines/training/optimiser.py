"""The optimiser of a run."""

import torch

from baselines.recipes import Recipe
from baselines.training.objective import TrainedModel

__all__ = ["build_optimiser"]


def build_optimiser(model: TrainedModel, recipe: Recipe) -> torch.optim.Optimizer:
    """Return Adam with one learning rate for the encoder and another for what the loss learns."""
    groups = [{"params": [p for p in model.encoder.parameters() if p.requires_grad], "lr": recipe.learning_rate}]
    learned = [p for p in model.loss.parameters() if p.requires_grad]
    if learned:
        groups.append({"params": learned, "lr": recipe.loss_learning_rate})
    return torch.optim.Adam(groups)
