import math

import numpy as np
import pytest
import torch
from scipy import stats

from baselines.losses import AnInfoNCE, delta_info_nce, info_nce
from baselines.synthetic.experiments import (
    Experiment,
    GenerativeProcess,
    LearnedAnisotropic,
    Power,
    VonMisesFisherModel,
    aninfonce_rows,
    figure2_points,
    mass_to_move,
    precision_of,
    table1,
    table2,
)
from ident3d.conditionals import VonMisesFisher
from ident3d.marginals import Marginal
from ident3d.metrics import affine_r2, plain_factors
from ident3d.randomness import torch_generator
from ident3d.spaces import Box, Sphere, Unbounded


def test_the_tables_have_the_papers_rows():
    assert [row.number for row in table1()] == list(range(1, 13))
    assert [row.number for row in table2()] == list(range(1, 11))
    assert [row.matches for row in table1()] == [True] + [False] * 11
    assert [row.succeeds for row in table2()] == [True] * 7 + [False] * 3
    assert str(table1()[10].unsupervised) == "98.13 ± 0.14"
    assert table1()[4].process_label == "Box, Uniform, Normal(σ=0.05)"  # noqa: RUF001 - as the paper writes it
    assert table2()[1].process_label == "Box, Uniform, GenNorm(β=3; λ=0.05)"
    assert table2()[1].model_label == "Box, GenNorm(β=3)"


@pytest.mark.parametrize(("in_table1", "in_table2"), [(5, 8), (6, 9), (8, 10)])
def test_rows_that_both_tables_share_are_one_experiment(in_table1, in_table2):
    assert table1()[in_table1 - 1].experiment == table2()[in_table2 - 1].experiment


def test_every_experiment_has_a_description_of_its_own():
    rows = [*table1(), *table2()[:7], *aninfonce_rows(), *figure2_points()]
    assert len({row.experiment.description for row in rows}) == len(rows)


def test_supervised_models_are_shared_where_only_the_conditional_differs():
    described = {row.supervised_experiment.description for row in [*table1(), *table2()]}
    assert len(described) == 6  # five groups of Table 1, of which one is in Table 2 as well, and the model in the box


def test_the_box_is_the_unit_cube_and_every_row_fits_any_dimension():
    assert table1(4)[4].experiment.process.space == Box(4, 0.0, 1.0)
    for row in [*table1(3), *table2(3), *aninfonce_rows(3), *figure2_points(3)]:
        pairs = row.experiment.process.pairs(5, torch_generator(0, "test"))
        assert pairs.shape == (5, 2, 3)
        assert pairs.dtype == torch.float32
        assert row.experiment.process.space.contains(pairs).all()


def test_positives_stand_in_the_conditional_of_their_anchors():
    process = GenerativeProcess(Sphere(10), Marginal(), VonMisesFisher(10.0))
    anchors, positives = process.pairs(20_000, torch_generator(0, "test")).unbind(1)
    assert (anchors * positives).sum(-1).mean().item() == pytest.approx(0.6336684, abs=0.005)


def test_a_process_refuses_laws_that_its_space_does_not_have():
    with pytest.raises(ValueError, match="not defined on"):
        GenerativeProcess(Unbounded(3), Marginal(), VonMisesFisher(1.0))


def test_objectives_are_the_papers_losses():
    z, z_pos = (torch.randn(8, 3, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1))
    torch.testing.assert_close(VonMisesFisherModel(4.0).loss(3)(z, z_pos), info_nce(z, z_pos, temperature=0.25))
    torch.testing.assert_close(Power(3).loss(3)(z, z_pos), delta_info_nce(z, z_pos, p=3))
    learned = LearnedAnisotropic(2.0).loss(3)
    assert isinstance(learned, AnInfoNCE)
    torch.testing.assert_close(learned.precision.detach(), torch.full((3,), 2.0))
    assert [Power(p).label for p in (1, 2, 3)] == ["Laplace", "Normal", "GenNorm(β=3)"]


def test_lambda_is_that_of_the_page():
    assert precision_of("bimodal", 10) == (12.5,) * 5 + (2.5,) * 5
    assert precision_of("linear", 10)[::9] == (12.5, 2.5)
    assert precision_of("bimodal", 4) == (12.5, 12.5, 1.5, 1.5)


def test_what_is_reported_is_halved_as_the_code_has_a_factor_one_half():
    row = aninfonce_rows()[0]
    assert row.content == 5
    assert row.reported["content_precision"] == pytest.approx(23.1 / 2)


@pytest.mark.parametrize(("dim", "percent"), [(4, 93.8), (6, 97.3), (10, 99.05)])
def test_a_map_that_makes_the_marginal_uniform_scores_what_rows_9_and_10_do(dim, percent):
    """Narrow positives let InfoNCE spread the embeddings uniformly; a map that does so is the less affine the fewer
    dimensions there are. The paper reports 99.02 for ten, and the quick budget finds 92 to 93 for four.
    """
    z = table1(dim)[8].experiment.process.latents(100_000, torch_generator(0, "test")).double().numpy()
    ranks = (stats.rankdata(z[:, 0]) - 0.5) / len(z)
    height = 2 * stats.beta.ppf(ranks, (dim - 1) / 2, (dim - 1) / 2) - 1  # as it is where the sphere is uniform
    around = z[:, 1:] * np.sqrt((1 - height**2) / (1 - z[:, 0] ** 2))[:, None]
    scores = affine_r2(z, np.column_stack([height, around]), factors=plain_factors(dim), protocol="paper")
    assert 100 * scores.mean == pytest.approx(percent, abs=0.3)


@pytest.mark.parametrize(("dim", "percent"), [(4, 88.36), (10, 95.13)])
def test_directions_without_lengths_leave_row_12_where_the_guide_says(dim, percent):
    """Of a normal marginal, z / |z| explains (E|z|)^2 / dim of the variance of z."""
    mean_length = math.sqrt(2) * math.exp(math.lgamma((dim + 1) / 2) - math.lgamma(dim / 2))
    assert 100 * mean_length**2 / dim == pytest.approx(percent, abs=0.01)
    z = table1(dim)[11].experiment.process.latents(100_000, torch_generator(0, "test"))
    scores = affine_r2(z, torch.nn.functional.normalize(z, dim=-1), factors=plain_factors(dim), protocol="paper")
    assert 100 * scores.mean == pytest.approx(percent, abs=0.6)  # the protocol scores few of them


def test_the_mass_to_move_grows_from_none_to_all():
    for panel, few, many in (("sphere", 0.01, 1e3), ("box", 0.01, 1e4)):
        assert mass_to_move(panel, few, 4) < 0.01
        assert mass_to_move(panel, many, 4) > 0.99


def test_the_mass_to_move_is_half_the_integral_of_the_difference():
    # On the circle the density of the angle is exp(kappa cos) / (2 pi I_0(kappa)).
    kappa, angles = 2.0, torch.linspace(-math.pi, math.pi, 100_001, dtype=torch.float64)
    density = (kappa * angles.cos()).exp() / (2 * math.pi * torch.special.i0(torch.tensor(kappa, dtype=torch.float64)))
    expected = torch.trapezoid((density - 1 / (2 * math.pi)).abs(), angles).item() / 2
    assert mass_to_move("sphere", kappa, 2) == pytest.approx(expected, abs=0.005)


def test_an_experiment_without_objective_is_supervised():
    process = GenerativeProcess(Sphere(3), Marginal(), VonMisesFisher(1.0))
    assert Experiment(process, "sphere", None).description.endswith("supervised")
