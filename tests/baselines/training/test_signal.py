"""What a loss can learn of a factor, against closed forms, the loss itself, and numbers from trainings."""

import json
import math

import pytest
import torch

from baselines.__main__ import main
from baselines.losses import an_info_nce
from baselines.training.signal import contrastive_signal
from ident3d import AnisotropicNormal, Box, Normal, Sphere, sample_latents, true_mutual_information
from ident3d.factors import FACTORS, plain_factors
from ident3d.randomness import torch_generator


class Latents:
    """A dataset of latents, whose images nobody asks for."""

    factors = FACTORS

    def __init__(self, n):
        self.latents = torch.from_numpy(sample_latents(n))

    def __len__(self):
        return len(self.latents)

    def pixels(self, rows):
        raise AssertionError(f"images of {len(rows)} rows were read")


def test_the_pull_at_the_start_is_the_difference_of_two_mean_squares():
    found = contrastive_signal(Normal(0.3), batch_size=128, factors=plain_factors(4))
    # Two independent uniform latents differ by 2/3 in the mean square; the positive's share of 1/128 is not pulled on.
    (inside,) = {round(std, 12) for std in Normal(0.3).displacement_std(Box(4))}
    expected = (2 / 3 - inside**2) * 127 / 128
    assert [one.pull_at_start for one in found.factors.values()] == pytest.approx([expected] * 4, rel=0.03)
    assert list(found.realised_std.values()) == pytest.approx([inside] * 4, rel=0.03)


def test_with_many_negatives_the_gain_of_one_factor_is_the_mean_log_ratio_of_its_densities():
    found = contrastive_signal(Normal(0.4), batch_size=4096, factors=plain_factors(1))
    z = Box(1).uniform(100_000, torch_generator(0, "test/anchors"))
    z_pos = Normal(0.4).sample(z, Box(1), torch_generator(0, "test/targets"))
    # Anchors as negatives are uniform, with density 1/2. Positives are not quite, near the walls.
    expected = float(Normal(0.4).log_prob(z_pos, z, Box(1)).mean()) + math.log(2)
    assert found.gain == pytest.approx(expected, abs=0.03)
    assert found.gain > true_mutual_information(Normal(0.4), Box(1))
    (only,) = found.factors.values()
    assert only.gain == pytest.approx(found.gain, abs=1e-9)
    assert only.pull == only.pull_at_start


@pytest.mark.parametrize("negatives", ["anchors", "both"])
def test_the_best_critic_of_exact_normal_pairs_is_their_density(negatives):
    sigma, batch_size = (0.2, 0.3, 0.6), 64
    found = contrastive_signal(Normal(sigma), batch_size=batch_size, negatives=negatives, factors=plain_factors(3))
    losses = []
    for number in range(40):
        z = Box(3).uniform(batch_size, torch_generator(5, "test/anchors", number))
        z_pos = Normal(sigma).sample(z, Box(3), torch_generator(5, "test/targets", number))
        losses.append(an_info_nce(z, z_pos, precision=[1 / (2 * s**2) for s in sigma], negatives=negatives))
    assert found.cap == math.log(batch_size if negatives == "anchors" else 2 * batch_size - 1)
    assert found.cap - found.gain == pytest.approx(float(torch.stack(losses).mean()), abs=0.04)


def test_on_a_sphere_content_is_worth_more_than_style():
    found = contrastive_signal(
        AnisotropicNormal((12.5, 12.5, 1.5, 1.5)), batch_size=128, space=Sphere(4), factors=plain_factors(4)
    )
    content, style = [one.gain for one in found.factors.values()][:2], [one.gain for one in found.factors.values()][2:]
    assert min(content) > 4 * max(style) > 0


def test_an_exact_sigma_of_a_tenth_leaves_rotations_no_signal_among_128_pairs():
    narrow = contrastive_signal(Normal(0.1), batch_size=128).groups["rotation"]
    assert narrow.gain == pytest.approx(0, abs=0.01)
    assert narrow.pull == pytest.approx(0, abs=0.005)
    wide = contrastive_signal(Normal(0.3), batch_size=128).groups["rotation"]
    assert wide.gain > 0.4
    assert wide.share > 0.25


@pytest.mark.slow
@pytest.mark.parametrize(
    # Measured with another program, the exact critic of 20,000 stored latents: nats, and the pull on rotations.
    ("sigma", "batch_size", "std", "gain", "pull"),
    [(0.1, 128, 0.246, 0.29, 0.14), (0.1, 1024, 0.246, 1.14, 0.39), (0.3, 128, 0.346, 0.93, 0.36)],
)
def test_matching_in_a_finite_dataset_leaves_rotations_a_signal(sigma, batch_size, std, gain, pull):
    found = contrastive_signal(Normal(sigma), Latents(20_000), batch_size=batch_size)
    assert found.realised_std["rotation_x"] == pytest.approx(std, rel=0.05)
    assert found.groups["rotation"].gain == pytest.approx(gain, rel=0.15)
    assert found.groups["rotation"].pull == pytest.approx(pull, rel=0.12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch_size": 1}, "the batch size"),
        ({"p": 0.5}, "exponent p of at least 1"),
        ({"negatives": "all"}, "unknown negatives 'all'"),
        ({"space": Box(3)}, "3 coordinates for 10 factors"),
        ({"space": Sphere(10), "data": Latents(300)}, "live in a box"),
    ],
)
def test_what_cannot_be_measured_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        contrastive_signal(Normal(0.3), **arguments)


def test_the_command_prints_a_row_for_each_factor_and_group(capsys):
    assert main(["signal", "normal(sigma=0.3)", "--live", "--batch-size", "16", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["pairs"], found["images"], found["negatives"]) == ("exact", None, 15)
    assert tuple(found["factors"]) == FACTORS.names
    assert set(found["groups"]["rotation"]) == {"gain", "pull", "pull_at_start", "share"}
    assert main(["signal", "normal(sigma=0.3)", "--dataset", "sample", "--batch-size", "16"]) == 0
    text = capsys.readouterr().out
    assert "matched among 1,024 images" in text
    assert all(name in text for name in (*FACTORS.names, "rotation"))


@pytest.mark.parametrize("where", [(), ("--live", "--dataset", "sample")])
def test_the_command_asks_where_pairs_come_from(where, caplog):
    assert main(["signal", "normal(sigma=0.3)", *where]) == 2
    assert "give one of --dataset ROOT and --live" in caplog.text
