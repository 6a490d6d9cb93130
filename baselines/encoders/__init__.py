"""Encoders: what maps observations to embeddings.

:data:`ENCODERS` holds those of images that a recipe can name. One more is a function or a class that makes any
``torch.nn.Module`` from (B, 3, H, W) float RGB in [0, 1] to (B, dim), and an entry,
``ENCODERS.register("mine", mine)``; or no entry, and it is named as ``package.module:mine``. It takes what it needs by
name. On offer are ``dim``, the number of embedding dimensions; ``space``, the space of the embeddings, an object of
:mod:`ident3d.spaces`; ``learn_scale``, see :func:`~baselines.encoders.outputs.output_for`; and ``resolution``, the
pixels a side. Whatever else it takes are options of its own, which a recipe's ``encoder_options`` give. To one that
does not take ``space``, the step into the space is added.
"""

from collections.abc import Callable
from functools import partial

from torch import nn

from baselines.encoders.encoder import Encoder, seeded_weights
from baselines.encoders.networks import Depth, MLPEncoder, Pixels, ResNetEncoder
from baselines.encoders.outputs import BoxOutput, OutputSpace, SphereOutput, output_for
from ident3d.registry import Registry

__all__ = [
    "ENCODERS",
    "BoxOutput",
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
    },
)
"""The encoders of images by name."""
