from dataclasses import replace

import pytest
import torch
from torch import nn

from baselines.encoders import BoxOutput, SphereOutput
from baselines.losses import InfoNCE, an_info_nce, delta_info_nce, info_nce, supervised_mse
from baselines.recipes import RECIPES
from baselines.training.objective import TrainedModel, build_encoder, build_loss, build_optimiser, embedding_space
from ident3d import Box, Sphere, Unbounded


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(12, 3, generator=generator), torch.rand(12, 3, generator=generator)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("infonce-box", lambda z, z_pos: delta_info_nce(z, z_pos, temperature=1.0)),
        ("infonce-sphere", lambda z, z_pos: info_nce(z, z_pos, temperature=1.0)),
        ("aninfonce-box", lambda z, z_pos: an_info_nce(z, z_pos, precision=10.0)),
    ],
)
def test_the_loss_is_that_of_anchors_and_positives(batch, name, expected):
    images, latents = batch
    model = TrainedModel(nn.Identity(), build_loss(RECIPES[name], 3))
    torch.testing.assert_close(model(images, latents[:6]), expected(images[:6], images[6:]))


def test_the_supervised_loss_looks_at_the_latents(batch):
    images, latents = batch
    model = TrainedModel(nn.Identity(), build_loss(RECIPES["supervised"], 3))
    torch.testing.assert_close(model(images, latents), supervised_mse(images, latents))


def test_spaces_are_those_of_the_recipes():
    names = ("infonce-box", "infonce-unbounded", "infonce-sphere")
    assert [embedding_space(RECIPES[name], 10) for name in names] == [Box(10), Unbounded(10), Sphere(10)]


def test_what_is_learned_beside_the_weights_is_told():
    recipe = replace(RECIPES["aninfonce-box"], initial_precision=2.0)
    told = TrainedModel(nn.Identity(), build_loss(recipe, 2)).learned_numbers()
    assert told == {"precision/0": pytest.approx(2.0), "precision/1": pytest.approx(2.0)}
    for output, name in ((BoxOutput(Box(2)), "box_size"), (SphereOutput(Sphere(2)), "radius")):
        encoder = nn.Sequential()
        encoder.output = output
        assert TrainedModel(encoder, InfoNCE()).learned_numbers() == {name: 1.0}


def test_lambda_has_a_learning_rate_of_its_own():
    recipe = RECIPES["aninfonce-box"]
    encoder = nn.Linear(3, 3)
    optimiser = build_optimiser(TrainedModel(encoder, build_loss(recipe, 3)), recipe)
    assert [(len(group["params"]), group["lr"]) for group in optimiser.param_groups] == [(2, 1e-4), (1, 1e-3)]
    others = build_optimiser(TrainedModel(encoder, build_loss(RECIPES["infonce-box"], 3)), recipe)
    assert len(others.param_groups) == 1


def test_weights_depend_on_the_seed_and_leave_the_global_generator_alone():
    torch_state = torch.random.get_rng_state()
    first, again, other = (build_encoder(RECIPES["aninfonce-box"], 10, 32, seed).head.weight for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(torch.random.get_rng_state(), torch_state)
