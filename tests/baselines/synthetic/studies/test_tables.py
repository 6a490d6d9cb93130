import math

import numpy as np
import pytest
import torch
from scipy import stats

from baselines.synthetic.studies.tables import table1, table2
from ident3d.metrics import affine_r2, plain_factors
from ident3d.randomness import torch_generator


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


def test_supervised_models_are_shared_where_only_the_conditional_differs():
    described = {row.supervised_experiment.description for row in [*table1(), *table2()]}
    assert len(described) == 6  # five groups of Table 1, of which one is in Table 2 as well, and the model in the box


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
