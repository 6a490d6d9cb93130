import pytest
import torch

from baselines.encoders import Encoder, MLPEncoder
from ident3d import Box, Unbounded


def test_the_layers_are_those_of_appendix_a3():
    encoder = MLPEncoder(Unbounded(10))
    widths = [layer.out_features for layer in encoder.layers if isinstance(layer, torch.nn.Linear)]
    assert widths == [100, 500, 500, 500, 500, 100, 10]
    assert [layer.negative_slope for layer in encoder.layers if isinstance(layer, torch.nn.LeakyReLU)] == [0.01] * 6
    assert isinstance(encoder, Encoder)


def test_observations_may_be_wider_than_the_latents():
    assert MLPEncoder(Box(4), observed=7)(torch.zeros(5, 7)).shape == (5, 4)
    with pytest.raises(ValueError, match="at least one observed dimension, not 0"):
        MLPEncoder(Box(4), observed=0)
