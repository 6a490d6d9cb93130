"""The description of a dataset."""

import json
import re

import numpy as np
import pytest

from ident3d.errors import DatasetError
from ident3d.factors import Factor, Factors
from ident3d.storage.conversion import convert
from ident3d.storage.description import describe


def test_every_layout_that_is_there_is_named_and_the_one_that_is_read_comes_first(native, published):
    assert describe(native.root).layouts == ("native",)
    assert describe(published.root).layouts == ("published",)
    convert(published.root, published.root, "decoded")
    found = describe(published.root)
    assert found.layouts == ("decoded", "published")
    assert {split.layout for split in found.splits} == {"decoded"}


def test_the_provenance_of_a_published_folder_covers_all_its_splits(published):
    found = describe(published.root)
    assert found.provenance["hue_map"] == "published"
    assert set(found.provenance["latents"]) == {"train", "test"}
    assert "seed" not in found.provenance


def test_ranges_are_shown_in_the_units_of_the_factors(tmp_path, make_native):
    factors = Factors((Factor("size", "object", 1.0, 5.0, "bu"),))
    made = make_native(tmp_path / "variant", {"train": 40}, factors=factors)
    low, high = made.latents["train"].min(), made.latents["train"].max()
    found = describe(made.root)
    np.testing.assert_allclose([found.splits[0].low, found.splits[0].high], [[low], [high]])
    assert f"1 to 5          bu    {3 + 2 * low:.4g} to {3 + 2 * high:.4g}" in found.table()


def test_long_settings_are_cut_in_the_table_alone(published):
    found = describe(published.root)
    assert all(len(line) < 130 for line in found.table().splitlines())
    assert len(found.to_json()["provenance"]["latents"]["train"]) == 64


def test_a_setting_that_is_all_nested_is_shown_by_its_names(native):
    path = native.root / "manifest.json"
    world = {"camera": {"fov": 1.0}, "lights": [{"power": 2.0}]}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"render": {"quality": {"samples": 8}, "world": world}}))
    table = describe(native.root).table()
    assert re.search(r"^quality +samples=8$", table, re.MULTILINE)
    assert re.search(r"^world +camera, lights$", table, re.MULTILINE)


def test_a_folder_without_a_dataset(tmp_path):
    with pytest.raises(DatasetError, match="holds no dataset"):
        describe(tmp_path)
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        describe(tmp_path / "nowhere")
