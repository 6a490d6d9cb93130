"""Encoders: maps from observations to embeddings.

:data:`ENCODERS` holds the encoders of images that a recipe can name. Your own is a function or a class that returns any
``torch.nn.Module`` from (B, 3, H, W) float RGB in [0, 1] to (B, dim), named as ``package.module:mine``, or by a short
name after ``ENCODERS.register("mine", mine)``. It is called with those of these arguments that it names: ``dim``, the
number of embedding dimensions; ``space``, the space of the embeddings, an object of :mod:`ident3d.spaces`;
``learn_scale``, see :func:`~baselines.encoders.outputs.output_for`; and ``resolution``, the pixels per side. All other
arguments come from a recipe's ``encoder_options``. An encoder that does not take ``space`` is followed by a map into
the space.
"""

from collections.abc import Callable
from functools import partial

from torch import nn

from baselines.encoders.encoder import Encoder, seeded_weights
from baselines.encoders.networks import CNNEncoder, Depth, MLPEncoder, Pixels, ResNetEncoder
from baselines.encoders.outputs import BoxOutput, OutputSpace, SphereOutput, output_for
from ident3d.registry import Registry

__all__ = [
    "ENCODERS",
    "BoxOutput",
    "CNNEncoder",
    "Depth",
    "Encoder",
    "MLPEncoder",
    "OutputSpace",
    "Pixels",
    "ResNetEncoder",
    "SphereOutput",
    "output_for",
    "seeded_weights",
]

ENCODERS: Registry[Callable[..., nn.Module]] = Registry(
    "encoder",
    {
        "resnet18": partial(ResNetEncoder, depth=18),
        "resnet34": partial(ResNetEncoder, depth=34),
        "resnet50": partial(ResNetEncoder, depth=50),
        "resnet101": partial(ResNetEncoder, depth=101),
        "cnn": CNNEncoder,
    },
)
"""The encoders of images by name."""
