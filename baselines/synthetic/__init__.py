"""The papers' controlled experiments: latents, an invertible mixing network, an encoder, and whether it inverts it.

To add a row, write one line in :mod:`baselines.synthetic.rows`. A conditional or a space comes from
:mod:`ident3d.conditionals` and :mod:`ident3d.spaces`; a loss is a class with ``label`` and ``loss(dim)`` as in
:mod:`baselines.synthetic.objectives`.
"""

from baselines.synthetic.budgets import PAPER, QUICK, Budget, parse_budget
from baselines.synthetic.experiments import Experiment, GenerativeProcess
from baselines.synthetic.reproduction import Reproduction
from baselines.synthetic.training import train

__all__ = ["PAPER", "QUICK", "Budget", "Experiment", "GenerativeProcess", "Reproduction", "parse_budget", "train"]
