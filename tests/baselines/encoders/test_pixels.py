import pytest
import torch

from baselines.encoders import Encoder, Pixels


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
    with pytest.raises(ValueError, match="at least one cell a side, not 0"):
        Pixels(cells=0)
