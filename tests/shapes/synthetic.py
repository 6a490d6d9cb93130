"""Example calls for the controlled experiments."""

import torch

from baselines.synthetic.optimum import RadialMap

HOME = "baselines.synthetic"


def linear():
    radii = torch.tensor([0.0, 1.0, 2.0], dtype=torch.float64)
    return RadialMap(radii, 2 * radii, 1.0, 0.0)


EXAMPLES = {
    f"{HOME}.optimum.RadialMap.__call__": lambda: (linear(), torch.ones(2, 3, dtype=torch.float64)),
}
