"""The sources of pairs: what a recipe is trained on, and what it is evaluated on."""

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
import torch

from baselines.pairs import DatasetPart, find_source, split_validation
from baselines.recipes import RECIPES
from baselines.training.options import Images, LiveImages, TrainingOptions
from baselines.training.placement import Placement
from ident3d import AnisotropicNormal, AugmentedPairs, LivePairs, Normal, PositivePairs, Sphere, ThreeDIdent
from ident3d.conditionals import parse
from ident3d.errors import DatasetError
from ident3d.live import render
from ident3d.randomness import torch_generator
from ident3d.spaces import FactorSpace

CPU = torch.device("cpu")
NAMES = ("position_x", "position_y", "object_hue", "ground_hue")
HELD = ("position_z=0.25", "rotation_x=-1")


def live(validation=40, **options):
    return TrainingOptions(
        images=Images(validation=validation), live=LiveImages(resolution=8, quality="draft", **options)
    )


def opened(recipe, options, root=None):
    return find_source(recipe.pairs).open(root, options, CPU, in_own_metric=recipe.match_in_own_metric)


def stream_of(recipe, images, batch_size=8, seed=0):
    conditional = None if recipe.conditional is None else parse(recipe.conditional, images.factors)
    return find_source(recipe.pairs).stream(images, conditional, batch_size, seed)


@pytest.fixture
def data(images_root):
    return ThreeDIdent(images_root)


def test_the_parts_share_no_row_and_depend_on_the_seed(data):
    part, held_out = split_validation(data, 40, seed=0)
    assert sorted(torch.cat([part.rows, held_out.rows]).tolist()) == list(range(160))
    assert len(held_out) == 40
    assert torch.equal(split_validation(data, 40, seed=0)[1].rows, held_out.rows)
    assert not torch.equal(split_validation(data, 40, seed=1)[1].rows, held_out.rows)
    rows = torch.tensor([3, 0])
    assert torch.equal(held_out.pixels(rows), data.pixels(held_out.rows[rows]))
    assert torch.equal(held_out.latents[rows], data.latents[held_out.rows[rows]])


def test_a_part_may_have_some_of_the_factors(data):
    space = FactorSpace(names=("object_hue", "position_x"))
    part = DatasetPart(data, torch.tensor([5, 2]), space)
    assert part.factors.names == ("object_hue", "position_x")
    assert torch.equal(part.latents, data.latents[[5, 2]][:, [7, 0]])


@pytest.mark.parametrize("validation", [0, 81])
def test_too_large_a_validation_part_is_refused(data, validation):
    with pytest.raises(ValueError, match="the dataset has 160 images"):
        split_validation(data, validation, seed=0)


def test_streams_are_those_of_the_recipes(images_root):
    options = TrainingOptions(images=Images(validation=40))
    images = opened(RECIPES["infonce-box"], options, images_root)
    assert (images.rows, len(images.held_out), images.resolution) == (160, 40, 32)
    assert stream_of(RECIPES["infonce-box"], images).index.scale is None
    own = opened(RECIPES["aninfonce-box"], options, images_root)
    matched = stream_of(RECIPES["aninfonce-box"], own)
    assert isinstance(matched, PositivePairs)
    spread = matched.index.scale
    assert spread.max() - spread.min() > 0.3  # content and style are matched in units of their own
    assert isinstance(stream_of(RECIPES["simclr"], images), AugmentedPairs)
    single = stream_of(RECIPES["supervised"], images).batch(3)
    assert torch.equal(single.x.permute(0, 2, 3, 1), images.stored.pixels(single.ids))
    assert torch.equal(single.z, images.stored.latents[single.ids])


def test_what_does_not_fit_is_refused(images_root):
    recipe = RECIPES["infonce-box"]
    images = opened(recipe, TrainingOptions(images=Images(validation=40)), images_root)
    with pytest.raises(ValueError, match="120 training images are fewer than a batch of 512"):
        stream_of(recipe, images, batch_size=512)
    with pytest.raises(ValueError, match=r"von_mises_fisher.* is not defined on Box"):
        stream_of(replace(recipe, conditional="vmf(kappa=10)"), images)
    with pytest.raises(DatasetError, match="no exact positives"):
        stream_of(RECIPES["aninfonce-box-exact"], images)


def test_the_live_pairs_of_a_recipe_follow_its_conditional():
    recipe = RECIPES["infonce-box"].live()
    assert recipe.pairs == "live"
    images = opened(recipe, live(validation=20))
    stream = stream_of(recipe, images, seed=3)
    assert isinstance(stream, LivePairs)
    assert stream.conditional == Normal(0.1)
    assert torch.equal(stream.batch(2).x, LivePairs(Normal(0.1), 8, 3, resolution=8, device="cpu", grid=2).batch(2).x)
    assert len(images.held_out) == 20
    assert torch.equal(
        images.held_out.pixels(torch.tensor([7])).permute(0, 3, 1, 2),
        render(images.held_out.latents[[7]], 8, "cpu", grid=2),
    )


def test_live_pairs_may_be_of_some_factors_on_a_sphere():
    recipe = replace(RECIPES["aninfonce-sphere"], conditional="anisotropic_normal(precision=[5, 10, 20, 40])").live()
    images = opened(recipe, live(latent_space="sphere", factors=NAMES, others=HELD))
    stream = stream_of(recipe, images)
    assert (stream.space, stream.conditional) == (Sphere(4), AnisotropicNormal((5, 10, 20, 40)))
    batch = stream.batch(0)
    assert (batch.z[:, 2] == 0.25).all()
    assert (batch.z_pos[:, 3] == -1).all()
    assert images.factors.names == NAMES
    torch.testing.assert_close(images.held_out.latents.norm(dim=1), torch.ones(40))


def test_the_live_images_of_a_supervised_recipe_are_single_and_have_the_latents_to_recover():
    recipe = RECIPES["supervised"].live()
    stream = stream_of(recipe, opened(recipe, live(factors=NAMES)))
    batch = stream.batch(1)
    assert batch.x_pos is batch.x
    assert torch.equal(batch.z, stream.latents(1)[0][:, list(stream.columns)])


def test_a_pool_is_a_dataset_in_memory_that_partners_are_drawn_from_anew():
    recipe = RECIPES["infonce-sphere"].live()
    recipe = replace(recipe, conditional="vmf(kappa=10)")
    images = opened(recipe, live(pool=60, latent_space="sphere", factors=NAMES, others=HELD))
    assert images.rows == 60
    stream = stream_of(recipe, images)
    assert isinstance(stream, PositivePairs)
    first, second = (stream.batch(number) for number in (0, 1))
    assert not torch.equal(first.z, second.z)
    torch.testing.assert_close(first.z_pos.norm(dim=1), torch.ones(8))
    source = find_source(recipe.pairs)
    batches = source.batches(stream.from_step(1), live(pool=60), Placement(CPU))
    assert torch.equal(next(iter(batches)).x, second.x)
    augmented = RECIPES["simclr"].live()
    assert isinstance(stream_of(augmented, opened(augmented, live(pool=20))), AugmentedPairs)


def test_batches_on_a_cpu_are_those_of_the_stream():
    recipe = RECIPES["infonce-box"].live()
    stream = stream_of(recipe, opened(recipe, live())).from_step(2)
    made = find_source(recipe.pairs).batches(stream, live(), Placement(CPU))
    assert [batch.number for batch in islice(made, 2)] == [2, 3]


def test_a_run_on_live_images_is_evaluated_on_those_of_a_dataset():
    recipe = RECIPES["infonce-box"].live()
    options = TrainingOptions(images=Images(validation=100), live=LiveImages(dataset="sample"))
    images = opened(recipe, options)
    test = ThreeDIdent("sample", split="test")
    assert torch.equal(images.held_out.latents, test.latents[:100])
    assert torch.equal(images.held_out.pixels(torch.tensor([9])), test.pixels([9]))
    assert images.record()["live"]["evaluated_on"] == test.fingerprint
    assert images.rendering.world == test.provenance.world()


def test_test_images_of_other_latents_are_refused():
    recipe = replace(RECIPES["aninfonce-sphere"], conditional="vmf(kappa=10)").live()
    sphere = LiveImages(dataset="sample", latent_space="sphere", factors=NAMES)
    with pytest.raises(ValueError, match=r"must lie in Sphere.*render such a dataset with python -m render"):
        opened(recipe, TrainingOptions(live=sphere))
    held = LiveImages(dataset="sample", factors=NAMES, others=("position_z=0",))
    with pytest.raises(ValueError, match=r"must have position_z held at 0.0: row 0 has"):
        opened(RECIPES["infonce-box"].live(), TrainingOptions(live=held))
    with pytest.raises(ValueError, match=r"are 64x64, and those to train on 8x8: give --resolution 64"):
        opened(RECIPES["infonce-box"].live(), live(dataset="sample"))


def test_what_decides_what_live_images_show_is_in_their_fingerprint():
    recipe = RECIPES["infonce-box"].live()
    same = [opened(recipe, live()).fingerprint, opened(recipe, live(validation=30)).fingerprint]
    assert same[0] == same[1]
    others = [{"pool": 40}, {"factors": NAMES}, {"factors": NAMES, "others": HELD}]
    assert len({same[0], *(opened(recipe, live(**other)).fingerprint for other in others)}) == 4


@pytest.mark.parametrize(
    ("recipe", "options", "root", "message"),
    [
        ("infonce-box", TrainingOptions(), None, "name the folder of a dataset to train on, or train on live images"),
        (
            "infonce-box",
            TrainingOptions(live=LiveImages(pool=3)),
            "sample",
            r"--pool: these options are of live images",
        ),
    ],
)
def test_a_dataset_is_trained_on_with_its_own_options(recipe, options, root, message):
    with pytest.raises(ValueError, match=message):
        opened(RECIPES[recipe], options, root)


@pytest.mark.parametrize(
    ("recipe", "options", "root", "message"),
    [
        ("infonce-box", {}, "sample", "leave sample out, or give --dataset sample to evaluate"),
        ("simclr", {}, None, "give --pool N"),
        ("infonce-box", {"validation": 0}, None, "not --validation 0"),
        ("infonce-box", {"factors": ("hue",)}, None, "unknown factors hue"),
        ("infonce-box", {"factors": NAMES, "others": ("position_z=2",)}, None, "would be held at 2"),
        ("infonce-box", {"others": ("position_z=0",)}, None, "position_z is a coordinate of the space"),
    ],
)
def test_live_options_that_do_not_fit_are_refused(recipe, options, root, message):
    with pytest.raises(ValueError, match=message):
        opened(RECIPES[recipe].live(), live(**options), root)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"others": ("position_z",)}, "expected NAME=VALUE"),
        ({"others": ("position_z=0", "position_z=1")}, "held twice"),
        ({"resolution": 0}, "not --resolution 0"),
        ({"pool": -1}, "--pool -1"),
    ],
)
def test_live_options_are_checked_when_they_are_given(options, message):
    with pytest.raises(ValueError, match=message):
        LiveImages(**options)


def test_exact_pairs_of_a_dataset_have_no_live_counterpart_without_a_conditional():
    with pytest.raises(ValueError, match="give one with --conditional"):
        RECIPES["aninfonce-box-exact"].live()
    assert replace(RECIPES["aninfonce-box-exact"], conditional="normal(sigma=0.1)").live().pairs == "live"


def test_a_source_is_found_by_name():
    assert find_source("baselines.pairs:MATCHED") is find_source("matched")
    with pytest.raises(ValueError, match="unknown source of pairs 'alive'; did you mean 'live'"):
        find_source("alive")
    with pytest.raises(ValueError, match=r"expected a baselines.pairs.PairSource"):
        find_source("baselines.recipes:RECIPES")


def test_uniform_latents_of_a_space_are_those_of_the_purpose():
    space = FactorSpace(Sphere(4), NAMES, {"position_z": 0.25})
    rows = space.uniform(1000, torch_generator(0, "test"))
    np.testing.assert_allclose(rows[:, [0, 1, 7, 9]].norm(dim=1), 1, atol=1e-6)
    np.testing.assert_allclose(rows[:, [0, 1, 7, 9]].square().mean(dim=0), 0.25, atol=0.03)
    assert (rows[:, 2] == 0.25).all()
    np.testing.assert_allclose(rows[:, 4].std(), 3**-0.5, atol=0.03)
