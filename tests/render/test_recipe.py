"""How the images of a dataset are made, as it stands in the manifest."""

import json
from dataclasses import replace

import pytest

from ident3d.errors import DatasetError
from ident3d.scene.templates import HueMap
from ident3d.scene.world import World
from ident3d.storage.manifest import Manifest
from render.blender.quality import quality
from render.dataset.plan import Recipe
from tests.render.fake_renderer import small_plan


@pytest.mark.parametrize("hue_map", list(HueMap))
@pytest.mark.parametrize("name", ["published", "standard", "draft"])
def test_a_recipe_is_read_from_a_manifest_as_it_was_written(tmp_path, name, hue_map):
    recipe = Recipe(World().with_hue_map(hue_map), quality(name), "4.5")
    replace(small_plan().manifest, render=recipe.to_json()).write(tmp_path)
    assert Recipe.of(Manifest.read(tmp_path)) == recipe
    assert Manifest.read(tmp_path).render["hue_map"] == hue_map


def test_a_manifest_without_a_recipe_is_refused():
    with pytest.raises(DatasetError, match=r"render\.hue_map is missing"):
        Recipe.of(replace(small_plan().manifest, render={}))


def test_a_recipe_that_is_not_understood_is_refused():
    render = json.loads(json.dumps(small_plan().manifest.render))
    render["quality"]["samples"] = "many"
    with pytest.raises(DatasetError, match="samples"):
        Recipe.of(replace(small_plan().manifest, render=render))
