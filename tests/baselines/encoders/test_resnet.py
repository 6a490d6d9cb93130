import pytest
import torch

from baselines.encoders import Encoder, ResNetEncoder
from ident3d import Box, Sphere, Unbounded


@pytest.mark.parametrize(("depth", "parameters"), [(18, 11_176_512), (34, 21_284_672), (50, 23_508_032)])
def test_the_backbone_is_the_published_resnet_without_its_classifier(depth, parameters):
    with torch.device("meta"):
        encoder = ResNetEncoder(Unbounded(10), depth)
    # The published numbers of parameters less those of the layer of 1,000 classes.
    assert sum(p.numel() for p in encoder.backbone.parameters()) == parameters
    assert (encoder.hidden.out_features, encoder.head.out_features) == (100, 10)


def test_images_become_embeddings_in_the_space():
    images = torch.rand(3, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    for space in (Unbounded(10), Box(10), Sphere(10)):
        encoder = ResNetEncoder(space).eval()
        assert isinstance(encoder, Encoder)
        embeddings = encoder(images)
        assert embeddings.shape == (3, 10)
        assert space.contains(embeddings).all()


def test_embeddings_are_in_single_precision_under_autocast():
    encoder = ResNetEncoder(Box(4))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert encoder(torch.rand(2, 3, 32, 32)).dtype == torch.float32


def test_another_depth_is_refused():
    with pytest.raises(ValueError, match="18, 34, 50, 101, not 19"):
        ResNetEncoder(Unbounded(10), 19)
