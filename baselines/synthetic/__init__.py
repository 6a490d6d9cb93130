"""The papers' controlled experiments: latents, an invertible mixing network, an encoder, and whether it inverts it.

``README.md`` in this folder shows an experiment and a study of your own from beginning to end. From the bottom up:
:mod:`~baselines.synthetic.experiments` defines experiments, :mod:`~baselines.synthetic.networks` the mixing network and
the encoders, :mod:`~baselines.synthetic.training` the budgets and the training, :mod:`~baselines.synthetic.results` the
results; :mod:`~baselines.synthetic.studies` are the papers' tables and figures, one per file, and
:func:`~baselines.synthetic.reproduction.reproduce` is what the command calls.
"""

from baselines.synthetic.experiments import Experiment, GenerativeProcess
from baselines.synthetic.reproduction import Reproduction, reproduce
from baselines.synthetic.studies import STUDIES, Study
from baselines.synthetic.studies.tables import TableRow, TableStudy
from baselines.synthetic.training import PAPER, QUICK, Budget, parse_budget, train

__all__ = [
    "PAPER",
    "QUICK",
    "STUDIES",
    "Budget",
    "Experiment",
    "GenerativeProcess",
    "Reproduction",
    "Study",
    "TableRow",
    "TableStudy",
    "parse_budget",
    "reproduce",
    "train",
]
