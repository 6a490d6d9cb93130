"""The papers' controlled experiments: latents, an invertible mixing network, an encoder, and whether it inverts it.

Rows of one's own are a :class:`TableStudy`; ``README.md`` beside this file shows one from beginning to end.
Conditionals and spaces come from :mod:`ident3d.conditionals` and :mod:`ident3d.spaces`; a loss is a class with
``label`` and ``loss(dim)`` as in :mod:`baselines.synthetic.experiments`.
"""

from baselines.synthetic.experiments import Experiment, GenerativeProcess, Row
from baselines.synthetic.studies import Reproduction, TableStudy
from baselines.synthetic.training import PAPER, QUICK, Budget, parse_budget, train

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
