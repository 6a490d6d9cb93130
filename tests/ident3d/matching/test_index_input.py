"""What the pair index takes, and how it refuses the rest."""

import pickle

import numpy as np
import pytest
import torch

from ident3d.factors import Factor, Factors
from ident3d.matching.index import PairIndex
from tests.ident3d.matching.latents import anchors_and_targets, rows, slow_match


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_named_by_row_and_factor(bad):
    latents = rows(50).astype(np.float64)
    latents[17, 7] = bad
    with pytest.raises(ValueError, match="latents must be finite: row 17, object_hue"):
        PairIndex(latents)
    with pytest.raises(ValueError, match="queries must be finite: row 17, object_hue"):
        PairIndex(rows(50)).match(latents)


def test_columns_are_named_as_the_dataset_names_them():
    others = Factors(tuple(Factor(f"knob_{letter}", "knobs", 0.0, 1.0, "1") for letter in "abcdefghij"))
    latents = rows(50)
    index = PairIndex(latents, factors=others)
    latents[17, 7] = np.nan
    with pytest.raises(ValueError, match="latents must be finite: row 17, knob_h"):
        PairIndex(latents, factors=others)
    for held in (index, pickle.loads(pickle.dumps(index))):  # noqa: S301 - our own bytes
        with pytest.raises(ValueError, match="queries must be finite: row 17, knob_h"):
            held.match(latents)
    with pytest.raises(ValueError, match="latents must be finite: row 17, z7"):
        PairIndex(latents[:, :9])
    with pytest.raises(ValueError, match=r"expected latents with 10 columns \(knob_a, .*\), got 9"):
        PairIndex(rows(50, 9), factors=others)


@pytest.mark.parametrize(
    ("latents", "message"),
    [
        (rows(1), "2 images or more, got 1"),
        (rows(0), "2 images or more, got 0"),
        (rows(9).reshape(-1), r"shape \(N, d\), not shape \(90,\)"),
        (np.zeros((4, 0)), r"not shape \(4, 0\)"),
        (rows(5) * np.float32(1e30), r"latents must stay within 1e\+15"),
        (rows(5).astype(np.float64) * 1e60, "row 0, position_x is"),
    ],
)
def test_unusable_latents_are_refused(latents, message):
    with pytest.raises(ValueError, match=message):
        PairIndex(latents)


@pytest.mark.parametrize(
    ("scale", "message"),
    [
        (np.ones(9), "10 factors"),
        (np.array([1.0] * 9 + [0.0]), "positive"),
        (np.array([1.0] * 9 + [-1.0]), "positive"),
        (np.array([1.0] * 9 + [np.nan]), "positive"),
        (np.full(10, 1e300), r"from 1e-30 to 1e\+30"),  # latents divided by it would all be 0, and so all matches
    ],
)
def test_unusable_scales_are_refused(scale, message):
    with pytest.raises(ValueError, match=message):
        PairIndex(rows(5), scale=scale)


@pytest.mark.parametrize("scale", ["own", 0.5, {"position": 1.0}, [True] * 10])
def test_a_scale_is_an_array(scale):
    with pytest.raises(TypeError, match=r"length scales must be (an array or a tensor of|real) numbers, not"):
        PairIndex(rows(5), scale=scale)


@pytest.mark.parametrize(
    "convert",
    [
        lambda a: a.astype(">f4"),
        lambda a: a.astype(">f8"),
        lambda a: a.astype(np.longdouble),
        np.asfortranarray,
        lambda a: np.ma.masked_array(a, mask=False),
        lambda a: torch.from_numpy(a).to_sparse(),
        lambda a: torch.from_numpy(a).requires_grad_(),
    ],
)
def test_unusual_arrays_match_as_plain_ones(convert):
    latents = rows(600)
    anchors, targets = anchors_and_targets(latents, n=64)
    expected, _ = PairIndex(latents).match(targets, anchors)
    index = PairIndex(convert(latents))
    assert index.holds(convert(latents))
    ids, _ = index.match(convert(targets), anchors.astype(">i8"))
    np.testing.assert_array_equal(np.asarray(ids), expected)


def test_whole_numbers_match_as_such():
    latents = np.random.default_rng(0).integers(-50, 50, (500, 4))
    queries = np.random.default_rng(1).integers(-50, 50, (40, 4))
    expected, _ = slow_match(latents, queries)
    for dtype in (np.int8, np.int64, ">i2"):
        np.testing.assert_array_equal(PairIndex(latents.astype(dtype)).match(queries.astype(dtype))[0], expected)


def test_the_index_keeps_its_latents_when_the_callers_change():
    latents = rows(50)
    index = PairIndex(latents)
    queries = latents.copy()
    latents[:] = 0
    np.testing.assert_array_equal(index.match(queries)[0], np.arange(50))


@pytest.mark.parametrize(
    ("bad", "error", "message"),
    [
        ("sample", TypeError, "must be an array or a tensor of numbers, not 'sample'"),
        (None, TypeError, "not None"),
        ([[1.0, 2.0], [3.0]], ValueError, "cannot be made one"),
        (np.array([["a"] * 10] * 3), TypeError, "dtype <U1"),
        (np.zeros((4, 2), bool), TypeError, "must be real numbers, not .* bool"),
        (torch.zeros(4, 2, dtype=torch.complex64), TypeError, r"must be real numbers, not .* torch\.complex64"),
        (np.zeros((4, 2), object), TypeError, "must be real numbers, not .* object"),
        (torch.zeros(4, 2, device="meta"), ValueError, "on the device 'meta', where tensors hold no numbers"),
        (np.ma.masked_array(np.zeros((4, 2)), mask=[[0, 1]] * 4), ValueError, "some of these are masked out"),
    ],
)
def test_what_is_no_array_of_numbers_is_refused(bad, error, message):
    with pytest.raises(error, match=f"latents .*{message}"):
        PairIndex(bad)
    with pytest.raises(error, match=f"queries .*{message}"):
        PairIndex(rows(5, 2)).match(bad)


def test_a_dataset_in_the_place_of_its_latents_is_not_decoded():
    class Dataset:
        latents = rows(5)

    with pytest.raises(TypeError, match=r"give its latents, Dataset\.latents"):
        PairIndex(Dataset())


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"backend": []}, ValueError, r"unknown backend .\[\].; choose from exact, torch, ivf, hnsw"),
        ({"threads": 1.5}, TypeError, "threads 1.5 is not an integer"),
        ({"threads": True}, TypeError, "threads True is not an integer"),
        ({"effort": 0, "backend": "ivf"}, ValueError, "effort is 1 or larger, not 0"),
        ({"effort": 2.5, "backend": "ivf"}, TypeError, "effort .* is not an integer"),
        ({"effort": 8}, ValueError, "backend='exact' is exact, whatever the effort: .* ivf or hnsw"),
        ({"device": "gpu"}, ValueError, "unknown device 'gpu'; available devices: cpu"),
        ({"device": None}, TypeError, "a device is a name"),
        ({"device": "meta", "backend": "torch"}, ValueError, "'meta' hold no numbers"),
        ({"device": "meta"}, ValueError, "FAISS sees no GPU meta"),
    ],
)
def test_unusable_options_are_refused_before_latents_are_read(options, error, message):
    with pytest.raises(error, match=message):
        PairIndex(np.full((3, 10), np.nan), **options)


def test_unusable_requests_are_refused():
    index = PairIndex(rows(5))
    with pytest.raises(ValueError, match="unknown backend 'flat'; choose from exact, torch, ivf, hnsw"):
        PairIndex(rows(5), "flat")
    with pytest.raises(ValueError, match="threads is 1 or larger, not 0"):
        PairIndex(rows(5), threads=0)
    with pytest.raises(ValueError, match="hnsw' runs on the CPU only"):
        PairIndex(rows(5), "hnsw", device="cuda")
    with pytest.raises(ValueError, match=r"\(Q, 10\)"):
        index.match(rows(5, 9))
    with pytest.raises(ValueError, match=r"\(Q, 10\)"):
        index.match(rows(5)[0])
    with pytest.raises(ValueError, match="one id for each of 5 queries"):
        index.match(rows(5), [1, 2])
    with pytest.raises(ValueError, match="one id for each of 5 queries"):
        index.match(rows(5), np.zeros(5))
    for outside in (-1, 5):
        with pytest.raises(ValueError, match=r"ids in \[0, 5\)"):
            index.match(rows(5), [0, 1, 2, 3, outside])


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a CUDA device")
def test_a_gpu_that_is_not_there_is_named():
    with pytest.raises(ValueError, match="FAISS sees no GPU cuda, but 0 in all; use device='cpu'"):
        PairIndex(rows(5), device="cuda")
    with pytest.raises(ValueError, match="FAISS sees no GPU cuda:1"):
        PairIndex(rows(50), "ivf", device="cuda:1")
    with pytest.raises(ValueError, match=r"the device 'cuda' cannot be used here .*; available devices: cpu"):
        PairIndex(rows(5), "torch", device="cuda")
    with pytest.raises(ValueError, match="the device 'cuda:2' cannot be used here"):
        PairIndex(rows(5)).on("cuda:2")


def test_a_backend_of_ones_own_is_named_by_its_module():
    latents = rows(200)
    anchors, targets = anchors_and_targets(latents, 20)
    own = PairIndex(latents, "ident3d.matching.torch:TorchBackend")
    for index in (own, pickle.loads(pickle.dumps(own))):  # noqa: S301 - our own bytes
        np.testing.assert_array_equal(index.match(targets, anchors)[0], slow_match(latents, targets, anchors)[0])
