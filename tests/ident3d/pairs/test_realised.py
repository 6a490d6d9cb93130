"""The realised conditional against measured tables, slow counts and limits."""

import numpy as np
import pytest
import torch

from ident3d import AugmentedPairs, Factor, Factors, LivePairs, RenderedPairs, ThreeDIdent, sample_latents
from ident3d.conditionals import Normal
from ident3d.matching.index import PairIndex
from ident3d.pairs.matched import PositivePairs
from ident3d.pairs.realised import realised_conditional
from ident3d.spaces import Box
from tests.ident3d.pairs.images import NumberedImages

TOO_FEW = "images are too few for"
OTHERS = Factors(tuple(Factor(f"knob_{letter}", "knobs", 0.0, 1.0, "1") for letter in "abcdefghij"))


def latents(n, width=10):
    return torch.from_numpy(sample_latents(n))[:, :width]


def test_25_000_images_and_sigma_0_1_as_measured_elsewhere():
    with pytest.warns(UserWarning, match=r"25,000 images are too few for normal\(sigma=0\.1\)"):
        found = realised_conditional(latents(25_000), Normal(0.1), draws=10_000)
    assert np.mean(found.nominal_std) == pytest.approx(0.0976, abs=0.001)
    assert np.mean(found.realised_std) == pytest.approx(0.241, abs=0.002)
    assert found.distance == pytest.approx(0.700, abs=0.01)
    assert found.images == 25_000
    assert found.draws == 10_000


@pytest.mark.slow
@pytest.mark.parametrize(("sigma", "realised"), [(0.05, 0.179), (0.1, 0.195), (0.2, 0.251)])
@pytest.mark.filterwarnings(f"ignore:.*{TOO_FEW}")
def test_250_000_images_as_measured_elsewhere(sigma, realised):
    found = realised_conditional(latents(250_000), Normal(sigma), draws=8000)
    assert np.mean(found.realised_std) == pytest.approx(realised, abs=0.002)
    if sigma == 0.1:
        assert found.distance == pytest.approx(0.543, abs=0.01)
        assert found.self_match == pytest.approx(0.988, abs=0.005)
        assert found.distinct_partners == pytest.approx(17, abs=1.5)


@pytest.mark.slow
@pytest.mark.filterwarnings(f"ignore:.*{TOO_FEW}")
def test_the_conditionals_own_metric_keeps_it_anisotropic():
    sigma = np.array([0.1] * 5 + [0.5] * 5)
    stored, conditional = latents(250_000), Normal(tuple(sigma))
    for scale, content, style in ((None, 0.194, 0.462), (sigma, 0.125, 0.541)):
        found = realised_conditional(stored, conditional, index=PairIndex(stored, scale=scale), draws=8000)
        assert np.mean(found.realised_std[:5]) == pytest.approx(content, abs=0.003)
        assert np.mean(found.realised_std[5:]) == pytest.approx(style, abs=0.012)


def test_a_dense_dataset_realises_the_conditional():
    found = realised_conditional(latents(20_000, 1), Normal(0.1), draws=4000)
    assert found.realised_std[0] == pytest.approx(found.nominal_std[0], rel=0.01)
    assert found.correlation[0] > 0.999
    assert found.self_match < 0.005
    assert found.distinct_partners > 90
    assert not found.is_too_small
    assert found.advice == ""
    assert found.names == ("z0",)


def test_counts_are_those_of_a_slow_loop():
    stored = latents(300)
    with pytest.warns(UserWarning, match=TOO_FEW):
        found = realised_conditional(stored, Normal(0.3), draws=3000, seed=5)
    rng = np.random.default_rng(0)
    points = stored.numpy().astype(np.float64)
    own, partners = [], []
    for anchor in rng.integers(0, 300, 60):
        reached = set()
        for _ in range(100):
            target = points[anchor] + rng.normal(0, 0.3, 10)
            while (outside := np.abs(target) > 1).any():
                target[outside] = (points[anchor] + rng.normal(0, 0.3, 10))[outside]
            distances = ((points - target) ** 2).sum(axis=1)
            own.append(distances.argmin() == anchor)
            distances[anchor] = np.inf
            reached.add(int(distances.argmin()))
        partners.append(len(reached))
    assert found.self_match == pytest.approx(np.mean(own), abs=0.03)
    assert found.distinct_partners == pytest.approx(np.mean(partners), rel=0.15)


def test_correlation_is_that_of_numpy():
    stored = latents(2000, 3)
    index = PairIndex(stored)
    found = realised_conditional(stored, Normal(0.2), space=Box(3), index=index, draws=6000)
    rng = np.random.default_rng(1)
    anchors = rng.integers(0, 2000, 6000)
    z = stored.numpy()[anchors]
    targets = z + rng.normal(0, 0.2, z.shape)
    while (outside := np.abs(targets) > 1).any():
        targets[outside] = (z + rng.normal(0, 0.2, z.shape))[outside]
    positives = stored.numpy()[index.match(targets, anchors)[0]]
    for column in range(3):
        expected = np.corrcoef((targets - z)[:, column], (positives - z)[:, column])[0, 1]
        assert found.correlation[column] == pytest.approx(expected, abs=0.02)


def test_streams_report_it_with_their_own_index():
    data = NumberedImages(500)
    sigma = (0.1,) * 5 + (0.8,) * 5
    pairs = PositivePairs(data, Normal(sigma), 8, index=PairIndex(data.latents, scale=sigma))
    with pytest.warns(UserWarning, match=TOO_FEW):
        found = pairs.realised_conditional(draws=500)
    with pytest.warns(UserWarning, match=TOO_FEW):
        plain = realised_conditional(data.latents, Normal(sigma), draws=500)
    assert np.mean(found.realised_std[:5]) < np.mean(plain.realised_std[:5])


def test_table_names_every_factor_and_number(tmp_path):
    with pytest.warns(UserWarning, match=TOO_FEW):
        found = realised_conditional(latents(400), Normal(0.1), draws=300)
    lines = found.table().splitlines()
    assert lines[0].split() == ["factor", "nominal", "std", "realised", "std", "correlation"]
    assert lines[8].split() == [
        "object_hue",
        f"{found.nominal_std[7]:.4f}",
        f"{found.realised_std[7]:.4f}",
        f"{found.correlation[7]:.3f}",
    ]
    assert found.advice in lines
    assert "--pairs" in found.advice
    found.plot(tmp_path / "realised.png")
    assert (tmp_path / "realised.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.filterwarnings(f"ignore:.*{TOO_FEW}")
@pytest.mark.parametrize("resident", [False, True])
def test_a_dataset_names_its_own_factors_though_there_are_ten(tmp_path, make_native, resident):
    data = ThreeDIdent(make_native(tmp_path / "other", factors=OTHERS).root)
    pairs = PositivePairs(data, Normal(0.3), 8)
    pairs = pairs.on_device("cpu") if resident else pairs
    assert pairs.data.factors == OTHERS
    found = pairs.realised_conditional(draws=50)
    assert found.names == OTHERS.names
    assert "in knob_" in found.advice
    assert [line.split()[0] for line in found.table().splitlines()[1:11]] == list(OTHERS.names)


@pytest.mark.filterwarnings(f"ignore:.*{TOO_FEW}")
def test_factors_are_as_many_as_columns():
    assert realised_conditional(latents(50), Normal(0.1), draws=20, factors=OTHERS).names == OTHERS.names
    with pytest.raises(ValueError, match=r"expected latents with 10 columns \(knob_a, .*\), got 3"):
        realised_conditional(latents(50, 3), Normal(0.1), draws=20, factors=OTHERS)


def test_a_width_and_a_spread_of_nothing_have_a_ratio():
    with pytest.warns(UserWarning, match="spread inf times as far"):
        found = realised_conditional(latents(50), Normal(1e-20), draws=20)
    assert found.nominal_std == (0.0,) * 10
    assert found.is_too_small
    same = realised_conditional(torch.zeros(5, 2), Normal(0.1), draws=20)
    assert same.realised_std == (0.0, 0.0)
    assert same.correlation == (0.0, 0.0)
    assert same.widening == (0.0, 0.0)


@pytest.mark.filterwarnings(f"ignore:.*{TOO_FEW}")
@pytest.mark.parametrize(
    "convert", [lambda a: a.double().numpy(), lambda a: a.numpy().astype(">f4"), torch.Tensor.tolist]
)
def test_latents_of_any_kind_are_taken(convert):
    stored = latents(60)
    expected = realised_conditional(stored, Normal(0.2), draws=40)
    found = realised_conditional(convert(stored), Normal(0.2), draws=40)
    np.testing.assert_allclose(found.realised_std, expected.realised_std, rtol=1e-5)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"conditional": "normal(sigma=0.1)"}, TypeError, r"not 'normal\(sigma=0.1\)'; .*parse reads one from text"),
        ({"latents": "sample"}, TypeError, "latents must be an array"),
        ({"index": 5}, TypeError, "an index is a PairIndex of the dataset's latents"),
        ({"index": PairIndex(latents(20))}, ValueError, "holds 20 rows of 10, the dataset 50 of 10"),
        ({"draws": 2.5}, TypeError, "number of draws .* is not an integer"),
        ({"seed": -1}, ValueError, "the seed is 0 or larger, not -1"),
        ({"latents": 3 * latents(50)}, ValueError, "the latents of the dataset must lie in Box"),
    ],
)
def test_unusable_arguments_are_refused(changes, error, message):
    with pytest.raises(error, match=message):
        realised_conditional(**{"latents": latents(50), "conditional": Normal(0.1)} | changes)


def test_too_few_draws_are_refused():
    with pytest.raises(ValueError, match="number of draws is 2 or larger, not 1"):
        realised_conditional(latents(50), Normal(0.1), draws=1)


def test_every_source_says_once_what_it_realises(caplog):
    caplog.set_level("INFO", "ident3d.pairs")
    data = NumberedImages(600, pairs=True)
    few = PositivePairs(data, Normal(0.1), 16)
    enough = PositivePairs(data, Normal(1.0), 16)
    others = [RenderedPairs(data, 16), AugmentedPairs(data, 16)]
    said = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert [text for _, text in said] == [pairs.realises for pairs in (few, enough, *others)]
    assert [level for level, _ in said] == ["WARNING", "INFO", "INFO", "INFO"]
    assert "600 images are too few for normal(sigma=0.1): in " in few.realises
    known = enough.realised_conditional()
    ratio = np.mean(known.realised_std) / np.mean(known.nominal_std)
    assert f"positives spread {ratio:.1f}" in enough.realises
    assert (
        others[0].realises == "exact pairs of 600 images: positives follow the conditional that they were rendered with"
    )
    assert "positives have the latents of their anchors" in others[1].realises
    for pairs in (few, *others):
        next(iter(pairs.loader()))
        pairs.on_device("cpu").shard(0, 2).from_step(3).batch(0)
    assert len(caplog.records) == 4


def test_pairs_of_a_rendered_dataset_name_their_conditional(native_pairs):
    data = ThreeDIdent(native_pairs.root)
    assert data.provenance.pairs in RenderedPairs(data, 4).realises


def test_live_pairs_say_that_they_are_exact():
    pytest.importorskip("warp")
    pairs = LivePairs(Normal(0.1), 4, resolution=16, device="cpu")
    assert pairs.realises.startswith("live images, all fresh: positives follow normal(sigma=0.1) on Box(dim=10")
