"""SimCLR's views against torchvision, and their distributions against closed forms."""

import math

import pytest
import torch
import torchvision.transforms.v2.functional as vision

from ident3d.pairs import augmented as colour
from ident3d.pairs.augmented import SimCLRViews, crop_and_resize


def images(n=6, height=24, width=24):
    return torch.rand(n, 3, height, width, generator=torch.Generator().manual_seed(0))


def amounts(low, high, n=6):
    return torch.linspace(low, high, n)[:, None, None, None]


@pytest.mark.parametrize("size", [(24, 24), (16, 40)])
def test_crop_and_resize_is_that_of_torchvision(size):
    boxes = torch.tensor([[0, 0, *size], [3, 5, 7, 11], [0, 0, 1, 1], [size[0] - 4, size[1] - 9, 4, 9]])
    x = images(4, *size)
    for image, box, view in zip(x, boxes.tolist(), crop_and_resize(x, boxes), strict=True):
        torch.testing.assert_close(view, vision.resized_crop(image, *box, list(size)), atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("change", "reference", "low", "high"),
    [
        (colour.brightness, vision.adjust_brightness, 0.0, 2.0),
        (colour.contrast, vision.adjust_contrast, 0.0, 2.0),
        (colour.saturation, vision.adjust_saturation, 0.0, 2.0),
        (colour.hue, vision.adjust_hue, -0.5, 0.5),
    ],
)
def test_changes_of_colour_are_those_of_torchvision(change, reference, low, high):
    x, by = images(), amounts(low, high)
    x[0] = x[0].mean(dim=0)  # a grey image has no hue
    x[1], x[2, 1] = 0, x[2, 0]
    for image, amount, changed in zip(x, by.flatten().tolist(), change(x, by), strict=True):
        torch.testing.assert_close(changed, reference(image, amount), atol=2e-5, rtol=0)


def test_luminance_is_that_of_torchvision():
    x = images()
    torch.testing.assert_close(colour.luminance(x), vision.rgb_to_grayscale(x), atol=1e-6, rtol=0)


def test_crops_follow_their_distributions():
    views = SimCLRViews(area=(0.1, 0.3), ratio=(0.5, 2.0))
    boxes = views.crops(20_000, 1000, 1000, torch.Generator().manual_seed(0)).double()
    top, left, height, width = boxes.T
    assert top.min() >= 0
    assert left.min() >= 0
    assert (top + height).max() <= 1000
    assert (left + width).max() <= 1000
    area, log_ratio = height * width / 1e6, (width / height).log()
    # Uniform on [a, b]: mean (a + b) / 2, standard deviation (b - a) / sqrt(12).
    assert area.mean().item() == pytest.approx(0.2, abs=0.002)
    assert area.std().item() == pytest.approx(0.2 / math.sqrt(12), abs=0.002)
    assert log_ratio.mean().item() == pytest.approx(0, abs=0.02)
    assert log_ratio.std().item() == pytest.approx(2 * math.log(2) / math.sqrt(12), abs=0.01)
    assert (top / (1000 - height)).mean().item() == pytest.approx(0.5, abs=0.01)


def test_a_crop_that_never_fits_is_the_largest_in_the_middle():
    boxes = SimCLRViews(area=(1.0, 1.0), ratio=(2.0, 2.0)).crops(3, 40, 40, torch.Generator().manual_seed(0))
    assert boxes.tolist() == [[10, 0, 20, 40]] * 3


def test_views_drop_colour_as_often_as_they_should():
    x = (images(4000, 4, 4) * 255).to(torch.uint8)
    views = SimCLRViews(area=(1.0, 1.0), ratio=(1.0, 1.0), jitter_probability=0.0)(x, torch.Generator().manual_seed(0))
    grey = (views == views[:, :1]).flatten(1).all(dim=1)
    assert grey.double().mean().item() == pytest.approx(0.2, abs=0.025)
    assert torch.equal(views[~grey], x[~grey])


def test_views_jitter_as_often_as_they_should_and_each_image_by_its_own_amount():
    x = (images(1, 8, 8) * 255).to(torch.uint8).expand(2000, -1, -1, -1)
    still = SimCLRViews(area=(1.0, 1.0), ratio=(1.0, 1.0), grey_probability=0.0)
    views = still(x, torch.Generator().manual_seed(0))
    changed = (views != x).flatten(1).any(dim=1)
    assert changed.double().mean().item() == pytest.approx(0.8, abs=0.03)
    assert len(views[changed].flatten(1).unique(dim=0)) == changed.sum()
    assert torch.equal(
        SimCLRViews(strength=0.0, area=(1.0, 1.0), ratio=(1.0, 1.0), grey_probability=0.0)(
            x[:50], torch.Generator().manual_seed(0)
        ),
        x[:50],
    )


def test_views_follow_from_the_generator():
    x = (images(20) * 255).to(torch.uint8)
    first, again, other = (SimCLRViews()(x, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert first.shape == x.shape
    assert first.dtype == torch.uint8


@pytest.mark.parametrize(
    "options",
    [
        {"area": (0.0, 1.0)},
        {"area": (0.5, 0.2)},
        {"area": (0.5, 1.2)},
        {"ratio": (0.0, 1.0)},
        {"ratio": (2.0, 1.0)},
        {"strength": -1.0},
        {"strength": 3.0},
        {"jitter_probability": 1.5},
        {"grey_probability": -0.1},
    ],
)
def test_unusable_settings_are_refused(options):
    with pytest.raises(ValueError, match="not"):
        SimCLRViews(**options)
