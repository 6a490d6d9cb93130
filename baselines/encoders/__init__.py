"""Encoders: what maps observations to embeddings."""

from baselines.encoders.encoder import Encoder
from baselines.encoders.networks import Depth, MLPEncoder, ResNetEncoder
from baselines.encoders.outputs import BoxOutput, OutputSpace, SphereOutput, output_for
from baselines.encoders.pixels import Pixels

__all__ = [
    "BoxOutput",
    "Depth",
    "Encoder",
    "MLPEncoder",
    "OutputSpace",
    "Pixels",
    "ResNetEncoder",
    "SphereOutput",
    "output_for",
]
