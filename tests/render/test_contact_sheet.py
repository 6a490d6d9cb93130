"""A look at a dataset."""

import numpy as np
import pytest

from ident3d.storage.native import NativeSplit
from render.dataset.folder import Assembly
from render.dataset.render import render_shards
from render.figures import contact_sheet
from tests.render.fake_renderer import RESOLUTION, Counter, FakeRenderer, small_plan
from tests.render.test_plan import Shifted


@pytest.fixture
def root(tmp_path):
    return _render(tmp_path, small_plan())


def _render(root, plan):
    assembly = Assembly(root, plan)
    assembly.compose()
    render_shards(assembly, plan.shards, FakeRenderer(), {}, Counter())
    return root


def test_images_are_evenly_spaced_over_the_split(root):
    sheet = np.asarray(contact_sheet(root, "test", 4))
    stored = NativeSplit(root, "test")
    step = RESOLUTION + 2
    left = sheet.shape[1] - 2 * step + 2
    for place, row in enumerate([0, 3, 6, 9]):
        y, x = (place // 2) * step, left + (place % 2) * step
        np.testing.assert_array_equal(sheet[y : y + RESOLUTION, x : x + RESOLUTION], stored.pixels(row))


def test_a_positive_stands_beside_its_anchor(tmp_path):
    root = _render(tmp_path, small_plan(conditional=Shifted()))
    sheet = np.asarray(contact_sheet(root, "train", 1))
    stored = NativeSplit(root, "train")
    both = np.concatenate([stored.pixels(0), stored.positives.pixels(0)], axis=1)
    np.testing.assert_array_equal(sheet[:, -2 * RESOLUTION :], both)


def test_a_sheet_holds_no_more_than_there_is(root):
    assert contact_sheet(root, "test", 1000).size == contact_sheet(root, "test", 10).size


def test_bad_requests_are_refused(root):
    with pytest.raises(ValueError, match="1 or more images, not 0"):
        contact_sheet(root, "train", 0)
    with pytest.raises(ValueError, match="no split 'validation'"):
        contact_sheet(root, "validation", 4)
