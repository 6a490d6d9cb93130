"""Rendering rows of a dataset again."""

import math
from dataclasses import replace

import numpy as np
import pytest

from ident3d.errors import DatasetError
from ident3d.storage.manifest import Manifest
from render.dataset.plan import ImageId, ImageSpec
from render.dataset.verify import compare, psnr, sample_images
from tests.render.fake_renderer import FakeRenderer, Shifted, render_plan_into, small_plan


@pytest.fixture
def root(tmp_path):
    return render_plan_into(tmp_path, small_plan(conditional=Shifted()))


def _spec(root):
    return ImageSpec.of(Manifest.read(root))


def test_psnr_is_its_formula():
    one = np.zeros((2, 2, 3), np.uint8)
    other = one.copy()
    assert psnr(one, other) == math.inf
    other[0, 0, 0] = 51  # a mean squared difference of 51^2 / 12 = (255 / 5)^2 / 12
    assert psnr(one, other) == pytest.approx(10 * math.log10(25 * 12))
    with pytest.raises(ValueError, match="cannot be compared"):
        psnr(one, one[:1])


def test_a_sample_is_random_and_without_repetition(root):
    everything = sample_images(root, 1000, seed=0)
    assert len(set(everything)) == len(everything) == 60
    few = sample_images(root, 12, seed=0)
    assert len(set(few)) == 12
    assert few == sample_images(root, 12, seed=0)
    assert few != sample_images(root, 12, seed=1)
    assert {image.split for image in few} == {"train", "test"}
    assert {image.positive for image in few} == {False, True}


def test_images_that_are_rendered_again_are_equal(root):
    images = sample_images(root, 10, seed=0)
    comparisons = compare(root, _spec(root), images, FakeRenderer())
    assert [comparison.image for comparison in comparisons] == images
    assert {comparison.psnr for comparison in comparisons} == {math.inf}


def test_a_dataset_that_its_manifest_does_not_describe_is_found(root):
    replace(Manifest.read(root), seed=4).write(root)
    images = [ImageId("train", 3), ImageId("train", 3, positive=True)]
    comparisons = compare(root, _spec(root), images, FakeRenderer())
    assert max(comparison.psnr for comparison in comparisons) < 20


def test_what_cannot_be_compared_is_refused(root, tmp_path):
    with pytest.raises(ValueError, match="images to compare is 1 or larger, not 0"):
        sample_images(root, 0, seed=0)
    with pytest.raises(DatasetError, match="holds no finished shard"):
        sample_images(tmp_path / "nowhere", 1, seed=0)
    replace(Manifest.read(root), render={}).write(root)
    with pytest.raises(DatasetError, match="does not say how"):
        _spec(root)
