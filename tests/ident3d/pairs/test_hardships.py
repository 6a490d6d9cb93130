"""Streams under other defaults of torch, beside callers who write into what they get, and with transforms that fail."""

import contextlib
import multiprocessing

import numpy as np
import pytest
import torch

from ident3d import (
    AnisotropicNormal,
    AugmentedPairs,
    GeneralizedNormal,
    Laplace,
    Normal,
    PairIndex,
    PositivePairs,
    RenderedPairs,
    Sphere,
    ThreeDIdent,
    VonMisesFisher,
    true_mutual_information,
)
from ident3d.marginals import Marginal
from ident3d.matching import BACKENDS
from ident3d.pairs import realised_conditional
from ident3d.spaces import Box
from tests.ident3d.conditionals.student_t import StudentT
from tests.ident3d.pairs.images import NumberedImages

DATA = NumberedImages(600, pairs=True, size=16)
TENSORS = ("x", "x_pos", "z", "z_pos", "ids", "ids_pos")


@contextlib.contextmanager
def default_dtype():
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


DEFAULTS = {"dtype": default_dtype, "device": lambda: torch.device("meta")}


def streams():
    matched = [PositivePairs(DATA, Normal(0.3), 16, 3, PairIndex(DATA.latents, backend)) for backend in BACKENDS]
    return [*matched, PositivePairs(DATA, Laplace(0.3), 16), RenderedPairs(DATA, 16), AugmentedPairs(DATA, 16)]


def assert_equal(batch, other):
    for name in TENSORS:
        mine, theirs = getattr(batch, name), getattr(other, name)
        assert mine.dtype == theirs.dtype
        assert mine.device == theirs.device
        assert torch.equal(mine, theirs)


@pytest.mark.parametrize("default", DEFAULTS)
def test_streams_do_not_depend_on_torchs_defaults(default):
    expected = [(stream.batch(2), stream.on_device("cpu").batch(2)) for stream in streams()]
    with DEFAULTS[default]():
        found = [(stream.batch(2), stream.on_device("cpu").batch(2)) for stream in streams()]
    for mine, theirs in zip(found, expected, strict=True):
        assert_equal(mine[0], theirs[0])
        assert_equal(mine[1], theirs[1])


def numbers():
    """Return numbers of every conditional, of a marginal, and of what is realised."""
    generator = torch.Generator("cpu").manual_seed(0)
    box, sphere = Box(3), Sphere(3)
    found = []
    for conditional, space in (
        (Normal(0.1), box),
        (GeneralizedNormal(3, 0.1), box),
        (StudentT(3, 0.1), box),
        (Laplace(0.5), sphere),
        (VonMisesFisher(3.0), sphere),
        (AnisotropicNormal([1.0, 2.0, 3.0]), sphere),
    ):
        z = space.uniform(20, generator)
        z_pos = conditional.sample(z, space, generator)
        found += [z, z_pos, conditional.log_prob(z_pos, z, space)]
    for conditional, space in ((StudentT(3, 0.1), box), (VonMisesFisher(3.0), sphere), (Normal(0.3), sphere)):
        found.append(true_mutual_information(conditional, space))
    found.append(Marginal(Normal(1.0)).sample(5, box, generator))
    return [*found, realised_conditional(DATA.latents, Normal(0.5), draws=50)]


@pytest.mark.parametrize("default", DEFAULTS)
def test_conditionals_do_not_depend_on_torchs_defaults(default):
    expected = numbers()
    with DEFAULTS[default]():
        found = numbers()
    for mine, theirs in zip(found, expected, strict=True):
        if isinstance(theirs, torch.Tensor):
            assert mine.dtype == theirs.dtype
            assert torch.equal(mine, theirs)
        else:
            assert mine == theirs


def test_items_are_not_views_of_the_dataset(native_pairs):
    data = ThreeDIdent(native_pairs.root)
    before, before_pos = data.latents.clone(), data.positives.latents.clone()
    for source in (data, data.positives):
        source[0][1].mul_(0.5)
        source.pixels([0]).zero_()
    image = np.asarray(data[0][0])
    assert torch.equal(data.latents, before)
    assert torch.equal(data.positives.latents, before_pos)
    np.testing.assert_array_equal(image, native_pairs.pixels["train"][0])


@pytest.mark.parametrize("is_resident", [False, True])
def test_batches_are_not_views_of_the_dataset(is_resident):
    for plain in streams():
        stream = plain.on_device("cpu") if is_resident else plain
        expected = stream.batch(1)
        batch = stream.batch(1)
        for name in TENSORS:
            getattr(batch, name).zero_()
        assert_equal(stream.batch(1), expected)


class Unpicklable(Exception):  # noqa: N818 - for a test
    """An exception whose class cannot be found again in another process."""


Unpicklable.__qualname__ = "nowhere.Unpicklable"


def stop(images):
    raise StopIteration("as next() of an iterator that has ended")


def fail(images):
    raise Unpicklable("a transform's own trouble")


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize(("transform", "message"), [(stop, "StopIteration: as next"), (fail, "own trouble")])
def test_a_failing_transform_does_not_end_a_stream_silently(workers, transform, message):
    stream = PositivePairs(DATA, Normal(0.3), 8, transform=transform)
    with pytest.raises((RuntimeError, Unpicklable), match=message):
        next(iter(stream.loader(workers)))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_every_backend_goes_to_workers_started_in_every_way(backend, method):
    stream = PositivePairs(DATA, Normal(0.3), 8, 1, PairIndex(DATA.latents, backend))
    batches = iter(stream.loader(1, multiprocessing_context=method))
    for number in range(3):
        assert_equal(next(batches), stream.batch(number))
    del batches
    assert not [child for child in multiprocessing.active_children() if child.exitcode]
