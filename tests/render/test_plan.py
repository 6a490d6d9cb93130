"""Which images a dataset consists of, and what each of them shows."""

import numpy as np
import pytest

from ident3d.latents import sample_latents
from ident3d.randomness import torch_generator
from ident3d.spaces import Box
from render.dataset.journal import Entry
from render.dataset.plan import ImageId, rows_per_shard
from tests.render.fake_renderer import small_plan


class Shifted:
    """A conditional in miniature: a draw of its own for every row."""

    def sample(self, z, space, generator):
        assert space == Box(10)
        import torch

        return (z + 0.1 * torch.rand(z.shape, generator=generator)).clamp(-1, 1)

    def __str__(self):
        return "shifted"


def _jobs(plan):
    return [job for shard in plan.shards for job in plan.jobs(shard)]


def test_every_image_is_planned_once():
    plan = small_plan()
    keys = [job.key for job in _jobs(plan)]
    assert keys == [ImageId("train", k) for k in range(20)] + [ImageId("test", k) for k in range(10)]
    assert plan.images(plan.shards) == 30
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
    job = list(plan.jobs(plan.shards[4]))[1]
    latents = sample_latents(10, seed=3, split="test")
    assert job.key == ImageId("test", 9)
    assert job.scene == plan.recipe.world.scene(latents[9])
    np.testing.assert_array_equal(plan.latents(plan.shards[4]), latents[8:])
    assert plan.latents_pos(plan.shards[4]) is None


def test_given_latents_are_those_of_the_train_split():
    given = np.linspace(-1, 1, 200, dtype=np.float32).reshape(20, 10)
    plan = small_plan(given=given)
    train = np.concatenate([plan.latents(shard) for shard in plan.shards if shard.split == "train"])
    np.testing.assert_array_equal(train, given)
    np.testing.assert_array_equal(plan.latents(plan.shards[3]), sample_latents(8, seed=3, split="test"))


def test_exact_positives_follow_from_their_own_row():
    plan = small_plan(conditional=Shifted())
    assert plan.images(plan.shards[1:2]) == 16
    shard = plan.shards[1]
    positives = plan.latents_pos(shard)
    for row in (8, 13):
        anchor = sample_latents(1, seed=3, start=row)
        import torch

        generator = torch_generator(3, "pairs/train", row)
        expected = Shifted().sample(torch.from_numpy(anchor), Box(10), generator).numpy()[0]
        np.testing.assert_array_equal(positives[row - 8], expected)
    jobs = {job.key: job for job in plan.jobs(shard)}
    assert len(jobs) == 16
    assert jobs["train", 9, True].scene == plan.recipe.world.scene(positives[1])
    assert jobs["train", 9, True].seed != jobs["train", 9, False].seed


def test_images_that_are_done_are_left_out():
    plan = small_plan(conditional=Shifted())
    done = {Entry(16), Entry(18, positive=True)}
    left = [tuple(job.key)[1:] for job in plan.jobs(plan.shards[2], done)]
    assert left == [entry for entry in plan.entries(plan.shards[2]) if entry not in done]


def test_an_image_names_itself_in_messages():
    assert repr(ImageId("train", 7)) == "train 7"
    assert repr(ImageId("test", 7, positive=True)) == "test 7 (positive)"


@pytest.mark.parametrize(
    ("largest", "size", "expected"),
    [(250_000, 38_000, 1000), (250_000, 400_000, 200), (1024, 5_000, 64), (24, 1_000, 8), (24, 1e9, 1)],
)
def test_shards_are_small_enough_to_handle_and_to_divide(largest, size, expected):
    assert rows_per_shard(largest, size) == expected
