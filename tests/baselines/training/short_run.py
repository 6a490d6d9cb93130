"""A short run that several tests start from."""

from dataclasses import replace

import torch

from baselines.recipes import RECIPES
from baselines.training.options import Images, Intervals, TrainingOptions
from baselines.training.placement import Placement

CPU = Placement(torch.device("cpu"))
RECIPE = replace(RECIPES["aninfonce-box"], steps=4, batch_size=8)
OPTIONS = TrainingOptions(
    images=Images(validation=60), intervals=Intervals(log_every=1, evaluate_every=4, checkpoint_every=2)
)


def up_to(steps):
    return replace(RECIPE, steps=steps)
