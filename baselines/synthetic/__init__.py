"""The papers' controlled experiments: latents, an invertible mixing network, an encoder, and whether it inverts it.

Rows of one's own are a :class:`TableStudy`; ``README.md`` beside this file shows one from beginning to end.
Conditionals and spaces come from :mod:`ident3d.conditionals` and :mod:`ident3d.spaces`; a loss is a class with
``label`` and ``loss(dim)`` as in :mod:`baselines.synthetic.objectives`.
"""

from baselines.synthetic.budgets import PAPER, QUICK, Budget, parse_budget
from baselines.synthetic.experiments import Experiment, GenerativeProcess
from baselines.synthetic.reproduction import Reproduction
from baselines.synthetic.rows import Row
from baselines.synthetic.studies import TableStudy
from baselines.synthetic.training import train

__all__ = [
    "PAPER",
    "QUICK",
    "Budget",
    "Experiment",
    "GenerativeProcess",
    "Reproduction",
    "Row",
    "TableStudy",
    "parse_budget",
    "train",
]
