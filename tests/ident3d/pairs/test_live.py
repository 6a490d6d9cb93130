"""Pairs that are rendered as they are asked for."""

import pickle
from itertools import islice

import numpy as np
import pytest
import torch

from ident3d import (
    AnisotropicNormal,
    Box,
    LivePairs,
    LivePool,
    Normal,
    PositivePairs,
    Sphere,
    Unbounded,
    VonMisesFisher,
    sample_latents,
)
from ident3d.live import render

NAMES = ("position_x", "position_y", "object_hue", "ground_hue")


def _pairs(conditional=None, batch_size=3, seed=1, **options):
    return LivePairs(conditional or Normal(0.2), batch_size, seed, resolution=8, device="cpu", **options)


def _same(batch, other):
    return batch.number == other.number and all(
        torch.equal(getattr(batch, name), getattr(other, name)) for name in ("x", "x_pos", "z", "z_pos", "ids")
    )


def test_images_are_those_of_the_latents():
    batch = _pairs().batch(2)
    assert batch.x.shape == batch.x_pos.shape == (3, 3, 8, 8)
    assert batch.x.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(batch.x, render(batch.z, 8, "cpu"))
    assert torch.equal(batch.x_pos, render(batch.z_pos, 8, "cpu"))
    assert batch.ids.tolist() == batch.ids_pos.tolist() == [6, 7, 8]


def test_a_batch_depends_on_the_seed_and_its_number_alone():
    pairs = _pairs()
    batches = list(islice(pairs, 4))
    assert all(_same(batch, pairs.batch(number)) for number, batch in enumerate(batches))
    assert _same(next(iter(pairs.from_step(3))), batches[3])
    assert _same(list(islice(pairs.shard(1, 2), 2))[1], batches[3])
    assert _same(pickle.loads(pickle.dumps(pairs)).batch(1), batches[1])  # noqa: S301 - our own bytes
    assert _same(pairs.on_device("cpu").batch(1), batches[1])
    assert not torch.equal(_pairs(seed=2).batch(0).z, batches[0].z)
    assert not torch.equal(batches[0].z, batches[1].z)


def test_a_thread_makes_the_same_batches_in_advance():
    pairs = _pairs().from_step(2)
    ahead = pairs.prefetched()
    assert all(_same(batch, pairs.batch(2 + step)) for step, batch in enumerate(islice(ahead, 3)))
    ahead.close()


def test_an_error_in_the_thread_is_raised_where_the_batch_is_asked_for():
    def refuse(images):
        raise ArithmeticError("no such view")

    with pytest.raises(ArithmeticError, match="no such view"):
        next(_pairs(transform=refuse).prefetched())


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_make_the_same_batches(method):
    pairs = _pairs()
    loader = pairs.loader(2, multiprocessing_context=method)
    assert all(_same(batch, pairs.batch(number)) for number, batch in enumerate(islice(loader, 3)))


def test_positives_spread_as_the_conditional_says():
    sigmas = (0.05, 0.1, 0.2, 0.4)
    pairs = _pairs(Normal(sigmas), 4000, factors=NAMES)
    z, z_pos = pairs.latents(0)
    spread = (z_pos - z)[:, list(pairs.columns)].std(dim=0).numpy()
    nominal = pairs.conditional.displacement_std(pairs.space)
    np.testing.assert_allclose(spread, nominal, rtol=5 / np.sqrt(2 * 4000))


def test_a_sphere_has_the_coordinates_of_the_factors_named():
    held = {"position_z": 0.25, "rotation_x": -1.0}
    pairs = _pairs(VonMisesFisher(20.0), 500, space=Sphere(4), factors=NAMES, others=held)
    z, z_pos = pairs.latents(0)
    for latents in (z, z_pos):
        points = latents[:, list(pairs.columns)]
        torch.testing.assert_close(torch.linalg.vector_norm(points, dim=1), torch.ones(500))
        assert (latents[:, 2] == 0.25).all()
        assert (latents[:, 3] == -1.0).all()
        assert latents[:, 4].std() > 0.5
    cosine = (z[:, list(pairs.columns)] * z_pos[:, list(pairs.columns)]).sum(dim=1)
    assert cosine.mean() > 0.9
    assert not torch.equal(z[:, 4], z_pos[:, 4])


def test_columns_follow_the_order_of_the_names():
    pairs = _pairs(Normal((1e-6, 0.5)), factors=("ground_hue", "position_x"))
    z, z_pos = pairs.latents(0)
    assert pairs.columns == (9, 0)
    torch.testing.assert_close(z[:, 9], z_pos[:, 9], atol=1e-4, rtol=0)
    assert (z[:, 0] - z_pos[:, 0]).abs().max() > 1e-2


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"factors": ("position_x", "hue")}, ValueError, "unknown factors hue; choose from position_x"),
        ({"factors": ("position_x", "position_x")}, ValueError, "each named once"),
        ({"factors": "position_x"}, TypeError, "named in a sequence"),
        ({"space": Sphere(4)}, ValueError, "4 coordinates for 10 factors"),
        (
            {"space": Sphere(10, radius=2.0), "conditional": VonMisesFisher(1.0)},
            ValueError,
            r"latents lie in \[-1, 1\]",
        ),
        ({"space": Unbounded(10)}, ValueError, r"latents lie in \[-1, 1\]"),
        ({"space": Box(10), "conditional": VonMisesFisher(1.0)}, ValueError, "is not defined on"),
        ({"others": {"position_x": 0.0}}, ValueError, "position_x is a coordinate of the space"),
        ({"factors": NAMES, "others": {"rotation_x": 2.0}}, ValueError, "rotation_x would be held at 2.0"),
        ({"conditional": "normal"}, TypeError, "expected a conditional"),
        ({"batch_size": 0}, ValueError, "batch_size is 1 or larger"),
    ],
)
def test_bad_arguments_are_named(options, error, message):
    with pytest.raises(error, match=message):
        _pairs(**options)


def test_aninfonce_has_its_sphere():
    pairs = _pairs(AnisotropicNormal((5, 10, 20, 40)), space=Sphere(4), factors=NAMES)
    assert pairs.batch(0).x.shape == (3, 3, 8, 8)


def test_partners_are_drawn_from_a_pool():
    pool = LivePool(40, seed=4, resolution=8, device="cpu")
    np.testing.assert_array_equal(pool.latents.numpy(), sample_latents(40, 4))
    batch = PositivePairs(pool, Normal(0.3), batch_size=5).batch(0)
    assert torch.equal(batch.x, render(batch.z, 8, "cpu"))
    assert torch.equal(batch.x_pos, render(batch.z_pos, 8, "cpu"))
    with pytest.raises(ValueError, match="the number of images is 1 or larger"):
        LivePool(0)
