"""Example calls for encoders."""

import torch

from baselines.encoders import BoxOutput, CNNEncoder, MLPEncoder, Pixels, ResNetEncoder, SphereOutput
from ident3d import Box, Sphere, Unbounded

HOME = "baselines.encoders"


def images():
    return torch.zeros(2, 3, 32, 32)


EXAMPLES = {
    f"{HOME}.outputs.BoxOutput.size": lambda: (BoxOutput(Box(3)),),
    f"{HOME}.outputs.BoxOutput.forward": lambda: (BoxOutput(Box(3)), torch.zeros(5, 3)),
    f"{HOME}.outputs.SphereOutput.radius": lambda: (SphereOutput(Sphere(3)),),
    f"{HOME}.outputs.SphereOutput.forward": lambda: (SphereOutput(Sphere(3)), torch.ones(5, 3)),
    f"{HOME}.networks.MLPEncoder.forward": lambda: (MLPEncoder(Unbounded(3)), torch.zeros(5, 3)),
    f"{HOME}.networks.ResNetEncoder.forward": lambda: (ResNetEncoder(Unbounded(3)).eval(), images()),
    f"{HOME}.networks.CNNEncoder.forward": lambda: (CNNEncoder(Unbounded(3), 32).eval(), images()),
    f"{HOME}.networks.Pixels.forward": lambda: (Pixels(), images()),
}
