import itertools
from functools import partial

import pytest
import torch

from baselines.encoders import CNNEncoder, Encoder, MLPEncoder, Pixels, ResNetEncoder
from ident3d import Box, Sphere, Unbounded


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


@pytest.mark.parametrize(("depth", "parameters"), [(18, 11_176_512), (34, 21_284_672), (50, 23_508_032)])
def test_the_backbone_is_the_published_resnet_without_its_classifier(depth, parameters):
    with torch.device("meta"):
        encoder = ResNetEncoder(Unbounded(10), depth)
    # The published numbers of parameters less those of the layer of 1,000 classes.
    assert sum(p.numel() for p in encoder.backbone.parameters()) == parameters
    assert (encoder.hidden.out_features, encoder.head.out_features) == (100, 10)


def test_images_become_embeddings_in_the_space():
    images = torch.rand(3, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    for space, build in itertools.product(
        (Unbounded(10), Box(10), Sphere(10)), (ResNetEncoder, partial(CNNEncoder, resolution=32))
    ):
        encoder = build(space).eval()
        assert isinstance(encoder, Encoder)
        embeddings = encoder(images)
        assert embeddings.shape == (3, 10)
        assert space.contains(embeddings).all()


def test_embeddings_are_in_single_precision_under_autocast():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for encoder in (ResNetEncoder(Box(4)), CNNEncoder(Box(4), 32)):
            assert encoder(torch.rand(2, 3, 32, 32)).dtype == torch.float32


def test_the_cnn_has_the_documented_size_and_refuses_images_that_it_cannot_halve():
    with torch.device("meta"):
        encoder = CNNEncoder(Unbounded(10), 64)
    channels = [3, 32, 64, 128, 128]
    expected = sum(16 * a * b + 2 * b for a, b in itertools.pairwise(channels)) + (2048 + 1) * 256 + (256 + 1) * 10
    assert sum(p.numel() for p in encoder.parameters()) == expected
    assert round(expected / 1e6, 1) == 1.0
    with pytest.raises(ValueError, match="16 or more pixels a side, not 15"):
        CNNEncoder(Unbounded(10), 15)
    with pytest.raises(ValueError, match="width=0"):
        CNNEncoder(Unbounded(10), 64, width=0)


def test_another_depth_is_refused():
    with pytest.raises(ValueError, match="unknown depth 19 of a ResNet; choose from 18, 34, 50, 101"):
        ResNetEncoder(Unbounded(10), 19)


def test_a_number_is_the_mean_of_a_cell_of_one_colour():
    images = torch.rand(2, 3, 32, 16, generator=torch.Generator().manual_seed(0))
    found = Pixels()(images).reshape(2, 3, 8, 8)
    assert found[1, 2, 7, 3].item() == pytest.approx(images[1, 2, 28:32, 6:8].mean().item())
    assert found[0, 0, 0, 0].item() == pytest.approx(images[0, 0, :4, :2].mean().item())


def test_images_of_as_many_pixels_as_cells_are_left_as_they_are():
    images = torch.rand(3, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    assert torch.equal(Pixels(cells=4)(images), images.flatten(1))


def test_it_is_an_encoder_without_parameters():
    assert isinstance(Pixels(), Encoder)
    assert not list(Pixels().parameters())
    with pytest.raises(ValueError, match="one or more cells per side, not 0"):
        Pixels(cells=0)
