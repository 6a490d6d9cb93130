"""Spaces, their measures, and the check of points."""

import math
import pickle

import numpy as np
import pytest
import torch

from ident3d.spaces import Box, Sphere, Unbounded


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def test_volumes():
    assert Box(3, 0.0, 2.0).log_volume == pytest.approx(math.log(8))
    assert Sphere(2, 3.0).log_volume == pytest.approx(math.log(2 * math.pi * 3))
    assert Sphere(3, 2.0).log_volume == pytest.approx(math.log(4 * math.pi * 4))
    assert Sphere(10).log_volume == pytest.approx(math.log(2 * math.pi**5 / math.factorial(4)))
    assert Unbounded(2).log_volume == math.inf


def test_centres():
    assert Box(2, 0.0, 1.0).centre == (0.5, 0.5)
    assert Sphere(3, 2.0).centre == (2.0, 0.0, 0.0)
    assert Unbounded(2).centre == (0.0, 0.0)


def test_spaces_are_values():
    assert Box(10) == Box(np.int64(10), -1, 1)
    assert hash(Sphere(3)) == hash(Sphere(3, 1))
    assert repr(Box(10)) == "Box(dim=10, low=-1.0, high=1.0)"
    for space in (Box(2, 0, 1), Sphere(3, 2.0), Unbounded(4)):
        assert pickle.loads(pickle.dumps(space)) == space  # noqa: S301 - our own bytes


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Box(0), "1 or larger"),
        (lambda: Box(2, 1.0, 1.0), "low < high"),
        (lambda: Box(2, -math.inf, 1.0), "finite"),
        (lambda: Sphere(1), "2 or more"),
        (lambda: Sphere(3, 0.0), "positive"),
        (lambda: Sphere(3, math.nan), "positive"),
    ],
)
def test_impossible_spaces_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("dim", [2.5, True, "3", None])
def test_a_dimension_is_an_integer(dim):
    with pytest.raises(TypeError, match="integer"):
        Box(dim)


def test_uniform_draws_have_the_right_moments():
    box = Box(4, 1.0, 3.0).uniform(200_000, seeded(0))
    assert box.mean(0).tolist() == pytest.approx([2.0] * 4, abs=0.01)
    assert box.var(0).tolist() == pytest.approx([1 / 3] * 4, abs=0.01)
    sphere = Sphere(4, 2.0).uniform(200_000, seeded(1))
    assert sphere.norm(dim=1).tolist() == pytest.approx([2.0] * 200_000)
    assert sphere.mean(0).tolist() == pytest.approx([0.0] * 4, abs=0.01)
    assert sphere.square().mean(0).tolist() == pytest.approx([1.0] * 4, abs=0.01)
    with pytest.raises(ValueError, match="no uniform distribution"):
        Unbounded(4).uniform(3, seeded(2))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_points_stay_in_their_space_when_rounded(dtype):
    for space in (Box(3), Box(3, 0.1, 0.3), Sphere(3), Sphere(3, 0.7)):
        points = space.cast(space.uniform(10_000, seeded(3)), dtype)
        assert points.dtype == dtype
        space.check(points)
    rounded = Box(1, 0.1, 0.3).cast(torch.tensor([[0.1], [0.3]], dtype=torch.float64), dtype).double()
    assert rounded.min() >= 0.1
    assert rounded.max() <= 0.3


def test_check_names_the_row_and_counts():
    z = torch.zeros(4, 2)
    z[2, 1] = 1.5
    with pytest.raises(ValueError, match=r"anchors must lie in Box\(dim=2.*row 2 is \[0.0, 1.5\] \(1 such rows"):
        Box(2).check(z, "anchors")
    z[1, 0] = math.nan
    with pytest.raises(ValueError, match=r"finite: row 1 is \[nan, 0.0\]"):
        Box(2).check(z)
    with pytest.raises(ValueError, match="finite: row 1"):
        Unbounded(2).check(z)
    with pytest.raises(ValueError, match="lie in Sphere"):
        Sphere(2).check(torch.tensor([[1.0, 0.0], [1.0, 0.1]]))


def test_check_refuses_other_types_and_shapes():
    with pytest.raises(TypeError, match="int64 tensor"):
        Box(2).check(torch.zeros(3, 2, dtype=torch.int64))
    with pytest.raises(TypeError, match="ndarray"):
        Box(2).check(np.zeros((3, 2)))
    with pytest.raises(ValueError, match=r"\(\.\.\., 2\).*\(3, 4\)"):
        Box(2).check(torch.zeros(3, 4))
    with pytest.raises(ValueError, match=r"\(\)"):
        Unbounded(1).check(torch.tensor(0.0))
    Box(2).check(torch.zeros(0, 2))
    Box(2).check(torch.zeros(5, 3, 2))
