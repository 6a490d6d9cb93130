"""Images that write down their latents, so that what an encoder keeps is known."""

import math

import numpy as np
import pytest
import torch

from baselines.training.information import kept_information
from ident3d import Box, Normal, Uniform, true_mutual_information
from ident3d.errors import DatasetError
from ident3d.factors import plain_factors
from ident3d.randomness import torch_generator

CPU = torch.device("cpu")
CONDITIONAL = Normal(0.3)
TRUE = true_mutual_information(CONDITIONAL, Box(2))


class Written:
    """(H, W) = (1, 2) images: the first latent in red of the left pixel, the second in that of the right one."""

    def __init__(self, latents):
        self.latents = latents
        self.factors = plain_factors(2)

    def __len__(self):
        return len(self.latents)

    def pixels(self, rows):
        latents = self.latents[rows]
        return (127.5 * (latents + 1)).round().to(torch.uint8)[:, None, :, None].expand(-1, 1, 2, 3)


class WrittenLatents(Written):
    """Written images of uniform latents, and of positives if they are paired."""

    def __init__(self, n, change=lambda latents: latents, *, is_paired=True):
        super().__init__(change(Box(2).uniform(n, torch_generator(0, "test/latents")).float()))
        drawn = CONDITIONAL.sample(self.latents, Box(2), torch_generator(0, "test/positives"))
        self.positives = Written(drawn) if is_paired else None
        self.ids = np.arange(n)
        self.root = "here"


def whole(images):
    return 2 * images[:, 0, 0] - 1


def turned(images):
    return whole(images) @ torch.tensor([[2.0, 1.0, 0.0], [-1.0, 2.0, 1.0]])


def first_only(images):
    return whole(images)[:, :1]


def blind(images):
    return torch.zeros(len(images), 2)


@pytest.mark.parametrize("is_matched", [True, False])
@pytest.mark.parametrize(("encoder", "kept"), [(whole, 1.0), (turned, 1.0), (first_only, 0.5), (blind, 0.0)])
def test_the_share_kept_is_that_of_the_latents_that_are_kept(encoder, kept, is_matched):
    # 6,000 images are so dense in two dimensions that matching changes little. Under one width each latent carries
    # half of the information.
    data = WrittenLatents(6000)
    found = kept_information(encoder, data, CONDITIONAL, CPU, is_matched=is_matched, items=256)
    assert found.embeddings.true == TRUE
    assert found.embeddings.share == pytest.approx(kept, abs=0.04)
    assert found.share_of_latents == pytest.approx(kept, abs=0.02)
    assert found.latents.estimate == pytest.approx(TRUE, abs=0.06)


def test_what_can_be_estimated_at_most_is_said():
    found = kept_information(whole, WrittenLatents(600), CONDITIONAL, CPU, is_matched=True).to_json()
    assert found["matching_cap"] == math.log(600)
    assert found["cap"] == math.log(found["items"])
    assert 250 < found["items"] < 350  # the scored half
    assert (found["pairs"], found["images"], found["conditional"]) == ("matched", 600, str(CONDITIONAL))


def test_draws_depend_on_the_seed():
    data = WrittenLatents(600)
    first, again, other = (
        kept_information(whole, data, CONDITIONAL, CPU, is_matched=True, seed=seed).embeddings.estimate
        for seed in (0, 0, 1)
    )
    assert first == again != other


def cubed(latents):
    return latents**3


def dependent(latents):
    return torch.stack([latents[:, 0], torch.where(latents[:, 1] > 0, latents[:, 0], latents[:, 1])], dim=1)


@pytest.mark.parametrize("change", [cubed, dependent])
def test_the_truth_is_told_of_uniform_latents_only(change):
    found = kept_information(whole, WrittenLatents(600, change), CONDITIONAL, CPU, is_matched=False)
    assert found.embeddings.true is None
    assert found.embeddings.share is None
    assert found.matching_cap is None
    assert "true" not in found.table()
    assert "rendered as pairs" in found.table()


def test_what_does_not_fit_is_refused():
    data = WrittenLatents(600, is_paired=False)
    with pytest.raises(DatasetError, match="here has no exact positives: give a conditional"):
        kept_information(whole, data, CONDITIONAL, CPU, is_matched=False)
    with pytest.raises(ValueError, match="independent under uniform"):
        kept_information(whole, data, Uniform(), CPU, is_matched=True)
