"""The optimum over radial maps, against closed forms and against what trained encoders reached."""

import pytest
import torch

from baselines.synthetic.experiments import GenerativeProcess
from baselines.synthetic.optimum import radial_optimum
from ident3d import Laplace, Normal, Unbounded
from ident3d.marginals import Marginal


def process(dim, sigma=1.0, marginal=None):
    return GenerativeProcess(Unbounded(dim), Marginal(marginal or Normal(1.0)), Normal(sigma))


def test_with_views_swapped_the_optimum_is_linear_with_the_closed_forms_slope():
    # log p(z | z') / p(z) = z.z' - |z|^2 / 2 + c(z'), which is -|z / sqrt(2) - z' / sqrt(2)|^2 + c(z').
    found = radial_optimum(process(4), items=512, negatives="swapped")
    assert found.r2 > 0.998
    bulk = (found.radii > 1) & (found.radii < 3)
    slopes = found.values[bulk] / found.radii[bulk]
    assert float(slopes.mean()) == pytest.approx(2**-0.5, rel=0.03)
    assert slopes.tolist() == pytest.approx([2**-0.5] * len(slopes), rel=0.2)


@pytest.mark.parametrize(
    # Derived with another program, n 10 and 1,024 items; the last is of the published code's settings.
    ("marginal", "sigma", "negatives", "r2"),
    [
        (Normal(1.0), 1.0, "anchors", 0.915),
        (Normal(1.0), 1.0, "both", 0.950),
        (Normal(1.0), 1.0, "positives", 0.9866),
        (Laplace(1.0), 1.0, "anchors", 0.932),
        (Normal(1.0), 0.05, "published", 0.986),
    ],
)
def test_the_optimum_of_rows_11_and_12_is_that_of_another_derivation(marginal, sigma, negatives, r2):
    found = radial_optimum(process(10, sigma, marginal), negatives=negatives)
    assert found.r2 == pytest.approx(r2, abs=0.008)


def test_encoders_were_trained_to_the_optimum_of_row_12_and_not_above_it():
    assert radial_optimum(process(4), items=512).r2 == pytest.approx(0.905, abs=0.01)


def test_phi_rises_and_then_falls_where_anchors_are_negatives():
    found = radial_optimum(process(10), items=512)
    largest = found.radii[found.values.argmax()]
    assert 2 < largest < 4
    assert found.values[-1] < found.values.max()
    z = torch.eye(10, dtype=torch.float64)[:1] * largest
    torch.testing.assert_close(found(z)[0, 0], found.values.max())


def test_unknown_negatives_and_a_single_item_are_refused():
    with pytest.raises(ValueError, match="unknown negatives 'all'; choose from anchors, positives"):
        radial_optimum(process(4), negatives="all")
    with pytest.raises(ValueError, match="number of items"):
        radial_optimum(process(4), items=1)
