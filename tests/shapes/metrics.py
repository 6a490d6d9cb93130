"""Example calls for metrics."""

import numpy as np
import torch

from ident3d.factors import Factor, Factors, plain_factors
from ident3d.metrics import mutual_information
from ident3d.metrics.evaluation import Targets
from ident3d.metrics.r2 import AffineMap, RidgeMap

HOME = "ident3d.metrics"
INPUTS = np.random.default_rng(0).normal(size=(20, 4))
OUTPUTS = INPUTS[:, :3] ** 2
CIRCLE = Factor("turn", "angle", -np.pi, np.pi, "rad", period=2 * np.pi)


def targets():
    """Return three columns: one of a factor on a line, and two of one on a circle."""
    factors = Factors((*plain_factors(1).items, CIRCLE))
    return Targets.of(np.random.default_rng(1).uniform(-1, 1, (20, 2)), factors)


def lasso_arguments():
    inputs = INPUTS - INPUTS.mean(axis=0)
    return inputs.T @ inputs / 20, inputs.T @ OUTPUTS / 20, np.full(3, 0.1), np.zeros((4, 3))


def bound_example(name):
    return lambda: (getattr(mutual_information, name)(), torch.randn(4, 4))


def critic_example(name):
    generator = torch.Generator().manual_seed(0)
    critic = getattr(mutual_information, name)(3, 2, generator)
    return lambda: (critic, torch.randn(5, 3), torch.randn(5, 2))


INFORMATION = f"{HOME}.mutual_information"

EXAMPLES = {
    **{
        f"{INFORMATION}.{name}.estimate": bound_example(name)
        for name in ("InfoNCEBound", "NWJ", "DonskerVaradhan", "JensenShannon", "SMILE")
    },
    **{f"{INFORMATION}.{name}.objective": bound_example(name) for name in ("MINE", "JensenShannon")},
    f"{INFORMATION}.InformationBound.objective": bound_example("NWJ"),
    **{f"{INFORMATION}.{name}.forward": critic_example(name) for name in ("SeparableCritic", "JointCritic")},
    f"{HOME}.dci.completeness": lambda: (np.ones((4, 3)),),
    f"{HOME}.dci.disentanglement_of": lambda: (np.ones((4, 3)),),
    f"{HOME}.dci.lasso": lasso_arguments,
    f"{HOME}.mcc.circular_ranks": lambda: (targets(),),
    f"{HOME}.mcc.match": lambda: (np.random.default_rng(2).uniform(size=(3, 5)),),
    f"{HOME}.mcc.ranks": lambda: (INPUTS,),
    f"{HOME}.r2.AffineMap.__call__": lambda: (AffineMap.fit(INPUTS, OUTPUTS), INPUTS),
    f"{HOME}.r2.AffineMap.fit": lambda: (AffineMap, INPUTS, OUTPUTS),
    f"{HOME}.r2.RidgeMap.fit": lambda: (RidgeMap, INPUTS, OUTPUTS),
    f"{HOME}.r2.least_squares": lambda: (INPUTS - INPUTS.mean(axis=0), OUTPUTS, OUTPUTS.mean(axis=0)),
    f"{HOME}.r2.determination": lambda: (targets().columns, OUTPUTS, targets()),
}
