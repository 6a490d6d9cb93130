"""Which images a dataset consists of, what each of them shows, and how that stands in the manifest."""

import json
from dataclasses import replace

import numpy as np
import pytest

from ident3d.errors import DatasetError
from ident3d.latents import sample_latents
from ident3d.randomness import torch_generator
from ident3d.scene.templates import HueMap
from ident3d.scene.world import World
from ident3d.spaces import Box
from ident3d.storage.manifest import Manifest
from render.blender.quality import QUALITIES
from render.dataset.plan import ImageId, ImageSpec, rows_per_shard
from tests.render.fake_renderer import Shifted, small_plan


def _jobs(plan):
    return [job for shard in plan.shards for job in plan.jobs(shard, plan.latents(shard))]


def test_every_image_is_planned_once():
    plan = small_plan()
    keys = [job.key for job in _jobs(plan)]
    assert keys == [ImageId("train", k) for k in range(20)] + [ImageId("test", k) for k in range(10)]
    assert sum(len(shard.images) for shard in plan.shards) == 30
    assert [shard.name for shard in plan.shards] == [
        *(f"train-{k:05d}-of-00003.parquet" for k in range(3)),
        *(f"test-{k:05d}-of-00002.parquet" for k in range(2)),
    ]


def test_an_image_does_not_depend_on_the_shards():
    coarse = {job.key: job for job in _jobs(small_plan(rows_per_shard=20))}
    fine = {job.key: job for job in _jobs(small_plan(rows_per_shard=3))}
    assert coarse == fine
    assert len({job.seed for job in coarse.values()}) == len(coarse)


def test_an_image_shows_the_latents_of_its_row():
    plan = small_plan()
    shard_latents = plan.latents(plan.shards[4])
    job = list(plan.jobs(plan.shards[4], shard_latents))[1]
    latents = sample_latents(10, seed=3, split="test")
    assert job.key == ImageId("test", 9)
    assert job.scene == plan.images.world.scene(latents[9])
    np.testing.assert_array_equal(shard_latents.rows, latents[8:])
    assert shard_latents.positives is None


def test_given_latents_are_those_of_the_train_split():
    given = np.linspace(-1, 1, 200, dtype=np.float32).reshape(20, 10)
    plan = small_plan(given=given)
    train = np.concatenate([plan.latents(shard).rows for shard in plan.shards if shard.split == "train"])
    np.testing.assert_array_equal(train, given)
    np.testing.assert_array_equal(plan.latents(plan.shards[3]).rows, sample_latents(8, seed=3, split="test"))


def test_exact_positives_follow_from_their_own_row():
    plan = small_plan(conditional=Shifted())
    shard = plan.shards[1]
    assert len(shard.images) == 16
    latents = plan.latents(shard)
    positives = latents.positives
    for row in (8, 13):
        anchor = sample_latents(1, seed=3, start=row)
        import torch

        generator = torch_generator(3, "pairs/train", row)
        expected = Shifted().sample(torch.from_numpy(anchor), Box(10), generator).numpy()[0]
        np.testing.assert_array_equal(positives[row - 8], expected)
    jobs = {job.key: job for job in plan.jobs(shard, latents)}
    assert len(jobs) == 16
    assert jobs["train", 9, True].scene == plan.images.world.scene(positives[1])
    assert jobs["train", 9, True].seed != jobs["train", 9, False].seed


def test_images_that_are_done_are_left_out():
    plan = small_plan(conditional=Shifted())
    shard = plan.shards[2]
    done = {ImageId("train", 16), ImageId("train", 18, positive=True)}
    left = [job.key for job in plan.jobs(shard, plan.latents(shard), done)]
    assert left == [image for image in shard.images if image not in done]


def test_an_image_names_itself_in_messages():
    assert repr(ImageId("train", 7)) == "train 7"
    assert repr(ImageId("test", 7, positive=True)) == "test 7 (positive)"


@pytest.mark.parametrize(
    ("largest", "size", "expected"),
    [(250_000, 38_000, 1000), (250_000, 400_000, 200), (1024, 5_000, 64), (24, 1_000, 8), (24, 1e9, 1)],
)
def test_shards_are_small_enough_to_handle_and_to_divide(largest, size, expected):
    assert rows_per_shard(largest, size) == expected


@pytest.mark.parametrize("hue_map", list(HueMap))
@pytest.mark.parametrize("name", ["published", "standard", "draft"])
def test_what_images_follow_from_is_read_from_a_manifest_as_it_was_written(tmp_path, name, hue_map):
    spec = ImageSpec(World().with_hue_map(hue_map), QUALITIES[name], 64, 3, "4.5")
    small_plan(images=spec).manifest.write(tmp_path)
    assert ImageSpec.of(Manifest.read(tmp_path)) == spec
    assert Manifest.read(tmp_path).render["hue_map"] == hue_map


def test_a_manifest_that_does_not_say_how_images_were_made_is_refused():
    with pytest.raises(DatasetError, match=r"render\.hue_map is missing"):
        ImageSpec.of(replace(small_plan().manifest, render={}))


def test_a_way_of_making_images_that_is_not_understood_is_refused():
    render = json.loads(json.dumps(small_plan().manifest.render))
    render["quality"]["samples"] = "many"
    with pytest.raises(DatasetError, match="samples"):
        ImageSpec.of(replace(small_plan().manifest, render=render))
