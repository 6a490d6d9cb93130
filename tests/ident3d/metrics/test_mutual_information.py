"""Bounds and estimates of mutual information against closed forms."""

import math

import numpy as np
import pytest
import torch

from ident3d.metrics.mutual_information import (
    BOUNDS,
    CRITICS,
    MINE,
    SMILE,
    InformationEstimate,
    estimate_information,
)

RHO = torch.tensor([0.8, 0.5], dtype=torch.float64)
TRUE = -0.5 * float((1 - RHO**2).log().sum())


def normal_pairs(n, seed=0):
    generator = torch.Generator().manual_seed(seed)
    u, noise = torch.randn(2, n, len(RHO), dtype=torch.float64, generator=generator)
    return u, RHO * u + (1 - RHO**2).sqrt() * noise


def log_ratio(u, v):
    """ln p(v|u) / p(v) of all pairs of rows, (K, K)."""
    given = -((v[None] - RHO * u[:, None]) ** 2) / (2 * (1 - RHO**2)) - 0.5 * (1 - RHO**2).log()
    return (given + v[None] ** 2 / 2).sum(-1)


OPTIMA = {
    "infonce": lambda ratio: ratio + 3,
    "nwj": lambda ratio: ratio + 1,
    "js": lambda ratio: ratio,
    "dv": lambda ratio: ratio - 2,
    "mine": lambda ratio: ratio - 2,
    "smile": lambda ratio: ratio,
}


@pytest.mark.parametrize("name", sorted(BOUNDS))
def test_the_optimal_critic_reaches_the_true_information(name):
    u, v = normal_pairs(2000)
    bound = BOUNDS.find(name)() if name != "smile" else SMILE(clip=20)
    estimate = float(bound.estimate(OPTIMA[name](log_ratio(u, v))))
    # The standard error of the mean of the log ratio of 2,000 pairs is 0.017.
    assert estimate == pytest.approx(TRUE, abs=0.07)


def slow(name, scores):
    """The formulas of the papers, pair by pair."""
    k = len(scores)
    pos = [float(scores[i, i]) for i in range(k)]
    neg = [float(scores[i, j]) for i in range(k) for j in range(k) if i != j]
    mean = lambda values: sum(values) / len(values)  # noqa: E731 - three uses below
    if name == "infonce":
        return mean([pos[i] - math.log(mean([math.exp(float(s)) for s in scores[i]])) for i in range(k)])
    if name == "nwj":
        return mean(pos) - mean([math.exp(s) for s in neg]) / math.e
    if name in {"dv", "mine"}:
        return mean(pos) - math.log(mean([math.exp(s) for s in neg]))
    if name == "js":
        return 1 + mean(pos) - mean([math.exp(s) for s in neg])
    return mean(pos) - math.log(mean([math.exp(min(max(s, -5.0), 5.0)) for s in neg]))


@pytest.mark.parametrize("name", sorted(BOUNDS))
def test_estimates_are_those_of_a_slow_reference(name):
    scores = 4 * torch.randn(7, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    assert float(BOUNDS.find(name)().estimate(scores)) == pytest.approx(slow(name, scores), rel=1e-12)


@pytest.mark.parametrize("name", sorted(BOUNDS))
def test_the_gradient_of_the_objective_vanishes_at_the_optimum_alone(name):
    """Of the expectation over many pairs, along f + a u v: zero at the optimal critic, and not beside it."""
    u, v = normal_pairs(1000, seed=5)
    direction = u[:, :1] @ v[:, :1].T
    slopes = []
    for tilt in (0.0, -0.4):
        shift = torch.tensor(tilt, dtype=torch.float64, requires_grad=True)
        objective = BOUNDS.find(name)().objective(OPTIMA[name](log_ratio(u, v)) + shift * direction)
        slopes.append(float(torch.autograd.grad(objective, shift)[0]))
    assert abs(slopes[0]) < 0.06
    assert slopes[1] > 0.06


def test_infonce_is_capped():
    scores = 50 * torch.eye(16, dtype=torch.float64)
    assert float(BOUNDS.find("infonce")().estimate(scores)) == pytest.approx(math.log(16))
    assert BOUNDS.find("infonce")().cap(16) == math.log(16)
    assert BOUNDS.find("dv")().cap(16) == math.inf


def test_mine_divides_by_a_moving_average():
    bound = MINE(decay=0.75)
    first, second = (torch.full((3, 3), value, dtype=torch.float64, requires_grad=True) for value in (0.0, 2.0))
    bound.objective(first)
    bound.objective(second).backward()
    average = 0.75 * 1 + 0.25 * math.exp(2)
    expected = torch.full((3, 3), -math.exp(2) / average / 6, dtype=torch.float64).fill_diagonal_(1 / 3)
    torch.testing.assert_close(second.grad, expected)


@pytest.mark.parametrize("critic", sorted(CRITICS))
@torch.inference_mode()
def test_critics_score_every_pair_as_it_would_be_scored_alone(critic):
    generator = torch.Generator().manual_seed(0)
    network = CRITICS.find(critic)(3, 2, generator)
    u, v = torch.randn(5, 3, generator=generator), torch.randn(5, 2, generator=generator)
    scores = network(u, v)
    for i in range(5):
        for j in range(5):
            assert float(scores[i, j]) == pytest.approx(float(network(u[i : i + 1], v[j : j + 1])), abs=1e-5)


@pytest.mark.parametrize(("bound", "critic"), [("infonce", "separable"), ("smile", "joint")])
def test_a_fresh_critic_finds_the_information_of_normal_pairs(bound, critic):
    u, v = normal_pairs(8000)
    found = estimate_information(
        10 * u + 3, v.numpy(), bound=bound, critic=critic, items=32, steps=250, learning_rate=3e-3, true=TRUE
    )
    assert TRUE - 0.15 < found.estimate < TRUE + 0.08


def test_independent_views_share_nothing_and_memorised_pairs_do_not_count():
    generator = torch.Generator().manual_seed(1)
    u, v = torch.randn(2, 60, 20, generator=generator)
    found = estimate_information(u, v, items=16, steps=150, learning_rate=3e-3)
    assert found.estimate < 0


def test_the_same_seed_gives_the_same_estimate_and_critics_differ():
    u, v = normal_pairs(300)
    found = estimate_information(u, v, items=32, steps=20, critics=2)
    assert found == estimate_information(u, v, items=32, steps=20, critics=2)
    assert found.values[0] != found.values[1]
    assert found.std == pytest.approx(np.std(found.values, ddof=1))
    order = torch.randperm(300)
    assert estimate_information(u[order], v[order], order, items=32, steps=20, critics=2) == found


def test_an_estimate_shows_itself():
    found = InformationEstimate("infonce", "joint", (1.0, 1.2), 64, math.log(64), 1.5)
    assert str(found) == "1.100 ± 0.141 nats (infonce, joint critic, at most 4.159; true: 1.500)"
    assert InformationEstimate("dv", "joint", (1.0,), 64, math.inf).to_json()["cap"] is None


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"bound": "x"}, ValueError, "unknown bound 'x'; choose from"),
        ({"critic": "x"}, ValueError, "unknown critic 'x'; choose from"),
        ({"items": 1}, ValueError, "items"),
        ({"steps": 0}, ValueError, "steps"),
        ({"critics": 0}, ValueError, "critics"),
        ({"critics": 1.5}, TypeError, "critics"),
        ({"learning_rate": 0.0}, ValueError, "learning rate"),
        ({"true": -1.0}, ValueError, "true information"),
        ({"embeddings_pos": np.zeros((39, 2))}, ValueError, "as many rows"),
        ({"embeddings": np.full((40, 2), np.inf)}, ValueError, "finite"),
        ({"embeddings": np.zeros((6, 2)), "embeddings_pos": np.zeros((6, 2))}, ValueError, "too few pairs: 6"),
    ],
)
def test_bad_input_is_named(changes, error, message):
    arguments = {"embeddings": np.zeros((40, 2)), "embeddings_pos": np.zeros((40, 2)), **changes}
    with pytest.raises(error, match=message):
        estimate_information(**arguments)


@pytest.mark.parametrize("make", [lambda: MINE(1.0), lambda: MINE(-0.1), lambda: SMILE(0.0), lambda: SMILE(math.inf)])
def test_bad_settings_of_bounds(make):
    with pytest.raises(ValueError, match=r"decay|clipped"):
        make()
