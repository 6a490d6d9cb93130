"""The pair index: exactness against a slow reference, exclusion, ties, approximate backends, bad input."""

import multiprocessing
import pickle

import numpy as np
import pytest
import torch

from ident3d.factors import Factor, Factors
from ident3d.pairs.faiss_library import bounded_threads, faiss_library
from ident3d.pairs.index import PairIndex

EXACT = ["exact", "torch"]
ALL = [*EXACT, "ivf", "hnsw"]


def rows(n, width=10, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, (n, width)).astype(np.float32)


def slow_match(latents, queries, exclude=None, scale=1.0):
    """Every distance in float64; of equal ones the lowest id."""
    held = (latents / np.asarray(scale)).astype(np.float32).astype(np.float64)
    asked = (queries / np.asarray(scale)).astype(np.float32).astype(np.float64)
    ids, distances = [], []
    for q, query in enumerate(asked):
        squared = np.zeros(len(held))
        for column in range(held.shape[1]):
            squared += (held[:, column] - query[column]) ** 2
        if exclude is not None:
            squared[exclude[q]] = np.inf
        ids.append(int(squared.argmin()))
        distances.append(np.sqrt(squared.min()))
    return np.array(ids), np.array(distances, dtype=np.float32)


def anchors_and_targets(latents, n=200, sigma=0.1, seed=1):
    rng = np.random.default_rng(seed)
    anchors = rng.integers(0, len(latents), n)
    return anchors, (latents[anchors] + rng.normal(0, sigma, (n, latents.shape[1]))).astype(np.float32)


def lattice(n=3000, width=4):
    return np.random.default_rng(0).integers(-2, 3, (n, width)).astype(np.float32) / 4


def sphere(n=4000):
    points = np.random.default_rng(0).normal(size=(n, 10))
    return (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32)


def clustered(n=4000):
    rng = np.random.default_rng(0)
    return (rng.integers(-1, 2, (n, 10)) + rng.normal(0, 1e-3, (n, 10))).astype(np.float32)


DATASETS = {
    "uniform": rows(6000),
    "sphere": sphere(),
    "clusters": clustered(),
    "lattice, most rows repeated": lattice(),
    "one column": rows(500, 1),
    "thirty columns": rows(1500, 30),
    "one column constant": rows(3000) * np.array([1, 1, 1, 0, 1, 1, 1, 1, 1, 1], dtype=np.float32),
    "an outlier": np.concatenate([rows(2000), np.full((1, 10), 1e6, dtype=np.float32)]),
    "tiny numbers": rows(2000) * np.float32(1e-12),
    "two rows": rows(2),
    "three equal rows": np.repeat(rows(1), 3, axis=0),
}


@pytest.mark.parametrize("backend", EXACT)
@pytest.mark.parametrize("name", DATASETS)
@pytest.mark.parametrize("excluding", [True, False])
def test_exact_backends_match_as_every_distance_says(backend, name, excluding):
    latents = DATASETS[name]
    anchors, targets = anchors_and_targets(latents, sigma=0.1 * np.abs(latents).max(axis=0, initial=0.5).clip(0, 1))
    exclude = anchors if excluding else None
    ids, distances = PairIndex(latents, backend).match(targets, exclude)
    expected, expected_distances = slow_match(latents, targets, exclude)
    np.testing.assert_array_equal(ids, expected)
    np.testing.assert_allclose(distances, expected_distances, rtol=1e-6)


@pytest.mark.parametrize("backend", EXACT)
def test_targets_far_outside_and_on_stored_latents(backend):
    latents = rows(4000)
    targets = np.concatenate([latents[:50], latents[:50] * 50, np.zeros((1, 10), dtype=np.float32)])
    np.testing.assert_array_equal(PairIndex(latents, backend).match(targets)[0], slow_match(latents, targets)[0])


@pytest.mark.parametrize("backend", EXACT)
def test_scale_is_the_metric_of_the_match(backend):
    latents = rows(5000)
    scale = np.array([0.05] * 5 + [0.5] * 5)
    anchors, targets = anchors_and_targets(latents)
    ids, distances = PairIndex(latents, backend, scale).match(targets, anchors)
    expected, expected_distances = slow_match(latents, targets, anchors, scale)
    np.testing.assert_array_equal(ids, expected)
    np.testing.assert_allclose(distances, expected_distances, rtol=1e-6)
    by_formula = np.sqrt((((latents[ids] - targets) / scale) ** 2).sum(1))
    np.testing.assert_allclose(distances, by_formula, rtol=1e-5)
    plain, _ = PairIndex(latents, backend).match(targets, anchors)
    assert (plain != ids).mean() > 0.5


@pytest.mark.parametrize("backend", EXACT)
def test_points_nearer_to_each_other_than_float32_can_tell(backend):
    rng = np.random.default_rng(0)
    centre = np.full((1, 10), 0.7, dtype=np.float32)
    directions = rng.normal(size=(400, 10))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    ring = (centre + 0.25 * directions * (1 + 1e-8 * rng.normal(size=(400, 1)))).astype(np.float32)
    latents = np.concatenate([ring, rows(2000) * 0.2])
    ids, _ = PairIndex(latents, backend).match(np.repeat(centre, 3, axis=0), [5, 6, 7])
    np.testing.assert_array_equal(ids, slow_match(latents, np.repeat(centre, 3, axis=0), [5, 6, 7])[0])


@pytest.mark.parametrize("backend", ALL)
@pytest.mark.parametrize("name", ["uniform", "lattice, most rows repeated", "two rows", "three equal rows"])
def test_match_never_returns_the_excluded_id_or_one_out_of_range(backend, name):
    latents = DATASETS[name]
    anchors, targets = anchors_and_targets(latents, n=400)
    ids, distances = PairIndex(latents, backend).match(targets, anchors)
    assert ids.dtype == np.int64
    assert distances.dtype == np.float32
    assert (ids != anchors).all()
    assert ids.min() >= 0
    assert ids.max() < len(latents)
    assert np.isfinite(distances).all()


def test_equal_latents_answer_with_the_lowest_id_that_is_not_excluded():
    latents = rows(300)
    latents[[40, 7, 250]] = latents[100]
    for backend in EXACT:
        index = PairIndex(latents, backend)
        target = latents[[100, 100, 100, 100]]
        np.testing.assert_array_equal(index.match(target, [7, 40, 100, 0])[0], [40, 7, 7, 7])
        assert index.match(target[:1])[0][0] == 7


@pytest.mark.parametrize("backend", ["ivf", "hnsw"])
def test_approximate_backends_report_the_recall_that_they_have(backend):
    latents = rows(8000)
    index = PairIndex(latents, backend)
    anchors, targets = anchors_and_targets(latents, n=1000)
    measured = (index.match(targets, anchors)[0] == PairIndex(latents).match(targets, anchors)[0]).mean()
    assert not index.is_exact
    assert 0.95 < index.recall < 1.0001
    assert abs(index.recall - measured) < 0.02
    careless = PairIndex(latents, backend, effort=1)
    assert careless.recall < index.recall


def test_recall_of_exact_backends_is_one():
    for backend in EXACT:
        assert PairIndex(rows(100), backend).recall == 1.0


@pytest.mark.parametrize("latents", [rows(3), rows(30), rows(100)])
def test_ivf_trains_on_fewer_rows_than_it_would_like_cells(latents, capfd):
    anchors, targets = anchors_and_targets(latents, n=20)
    PairIndex(latents, "ivf").match(targets, anchors)
    assert "WARNING" not in capfd.readouterr().err


@pytest.mark.parametrize(
    "convert",
    [
        lambda a: a.astype(np.float64),
        np.asfortranarray,
        lambda a: np.repeat(a, 2, axis=1)[:, ::2],
        lambda a: a[::-1][::-1],
        torch.from_numpy,
        lambda a: torch.from_numpy(a).double().T.contiguous().T,
        lambda a: a.tolist(),
    ],
)
def test_every_dtype_and_layout_is_taken(convert):
    latents = rows(600)
    anchors, targets = anchors_and_targets(latents, n=64)
    expected, _ = PairIndex(latents).match(targets, anchors)
    ids, distances = PairIndex(convert(latents)).match(convert(targets), anchors)
    np.testing.assert_array_equal(np.asarray(ids), expected)
    assert isinstance(ids, torch.Tensor) == isinstance(convert(targets), torch.Tensor)
    assert distances.dtype in (np.float32, torch.float32)


def test_half_precision_is_taken():
    latents = torch.from_numpy(rows(50))
    for dtype in (torch.float16, torch.bfloat16):
        ids, _ = PairIndex(latents.to(dtype)).match(latents.to(dtype))
        assert ids.tolist() == list(range(50))


def test_matches_do_not_depend_on_the_batch_or_the_threads():
    latents = rows(5000)
    anchors, targets = anchors_and_targets(latents, n=300)
    index = PairIndex(latents, threads=1)
    whole, _ = index.match(targets, anchors)
    single = [int(index.match(targets[i : i + 1], anchors[i : i + 1])[0][0]) for i in range(300)]
    np.testing.assert_array_equal(whole, single)
    np.testing.assert_array_equal(whole, PairIndex(latents, threads=2).match(targets, anchors)[0])


@pytest.mark.parametrize("backend", ALL)
def test_many_queries_at_once(backend):
    latents = rows(400)
    anchors, targets = anchors_and_targets(latents, n=5000)
    index = PairIndex(latents, backend)
    whole, _ = index.match(targets, anchors)
    assert whole.shape == (5000,)
    np.testing.assert_array_equal(whole[4500:], index.match(targets[4500:], anchors[4500:])[0])


@pytest.mark.parametrize("backend", ALL)
def test_no_queries_no_matches(backend):
    ids, distances = PairIndex(rows(50), backend).match(
        np.zeros((0, 10), dtype=np.float32), np.zeros(0, dtype=np.int64)
    )
    assert ids.shape == distances.shape == (0,)


def _match_in_another_process(index, targets, anchors, results):
    results.put(index.match(targets, anchors)[0])


@pytest.mark.parametrize("backend", ALL)
def test_index_pickles(backend):
    latents = rows(2000)
    anchors, targets = anchors_and_targets(latents)
    index = PairIndex(latents, backend)
    again = pickle.loads(pickle.dumps(index))  # noqa: S301 - our own bytes
    np.testing.assert_array_equal(again.match(targets, anchors)[0], index.match(targets, anchors)[0])


def test_index_goes_to_a_spawned_process():
    latents = rows(2000)
    anchors, targets = anchors_and_targets(latents)
    index = PairIndex(latents)
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    process = context.Process(target=_match_in_another_process, args=(index, targets, anchors, results))
    process.start()
    found = results.get(timeout=120)
    process.join()
    np.testing.assert_array_equal(found, index.match(targets, anchors)[0])


def test_threads_are_bounded_and_given_back():
    faiss = faiss_library()
    before, torch_before = faiss.omp_get_max_threads(), torch.get_num_threads()
    try:
        torch.set_num_threads(1)  # as in a DataLoader's worker
        with bounded_threads(16):
            assert faiss.omp_get_max_threads() == 1
        torch.set_num_threads(4)
        with bounded_threads(2):
            assert faiss.omp_get_max_threads() == 2
        with bounded_threads(None):
            assert faiss.omp_get_max_threads() == 4
    finally:
        torch.set_num_threads(torch_before)
    assert faiss.omp_get_max_threads() == before


def test_holds_its_own_latents_and_no_others():
    latents = torch.from_numpy(rows(300))
    latents[5] = latents[9]
    for scale in (None, np.full(10, 0.3)):
        index = PairIndex(latents, scale=scale)
        assert index.holds(latents)
        assert not index.holds(latents.flip(0))
        assert not index.holds(latents[:-1])


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
        (rows(1), "2 pictures or more, got 1"),
        (rows(0), "2 pictures or more, got 0"),
        (rows(9).reshape(-1), r"shape \(N, d\), not shape \(90,\)"),
        (np.zeros((4, 0)), r"not shape \(4, 0\)"),
        (np.array([["a"] * 10] * 3), "dtype <U1"),
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
        ([True] * 10, "real numbers"),
    ],
)
def test_unusable_scales_are_refused(scale, message):
    with pytest.raises(ValueError, match=message):
        PairIndex(rows(5), scale=scale)


@pytest.mark.parametrize("scale", ["own", 0.5, {"position": 1.0}])
def test_a_scale_is_an_array(scale):
    with pytest.raises(TypeError, match="lengths of scale are an array or a tensor of numbers, not"):
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
        ("sample", TypeError, "are an array or a tensor of numbers, not 'sample'"),
        (None, TypeError, "not None"),
        ([[1.0, 2.0], [3.0]], ValueError, "cannot be made one"),
        (np.zeros((4, 2), bool), ValueError, "are real numbers, not .* bool"),
        (torch.zeros(4, 2, dtype=torch.complex64), ValueError, r"are real numbers, not .* torch\.complex64"),
        (np.zeros((4, 2), object), ValueError, "are real numbers, not .* object"),
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
        ({"backend": []}, ValueError, r"no backend \[\]; there are exact, torch, ivf, hnsw"),
        ({"threads": 1.5}, TypeError, "threads is an integer, not 1.5"),
        ({"threads": True}, TypeError, "threads is an integer, not True"),
        ({"effort": 0, "backend": "ivf"}, ValueError, "effort is 1 or larger, not 0"),
        ({"effort": 2.5, "backend": "ivf"}, TypeError, "effort is an integer"),
        ({"effort": 8}, ValueError, "backend='exact' is exact, whatever the effort: .* ivf or hnsw"),
        ({"device": "gpu"}, ValueError, "no kind of device called 'gpu'; what there is here: cpu"),
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
    with pytest.raises(ValueError, match="no backend 'flat'; there are exact, torch, ivf, hnsw"):
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
    with pytest.raises(ValueError, match=r"the device 'cuda' cannot be used here .*; what there is here: cpu"):
        PairIndex(rows(5), "torch", device="cuda")
    with pytest.raises(ValueError, match="the device 'cuda:2' cannot be used here"):
        PairIndex(rows(5)).on("cuda:2")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("backend", ["exact", "torch"])
def test_exact_on_the_gpu(backend):
    latents = DATASETS["uniform"]
    anchors, targets = anchors_and_targets(latents)
    ids, _ = PairIndex(latents, backend, device="cuda").match(targets, anchors)
    np.testing.assert_array_equal(ids, slow_match(latents, targets, anchors)[0])
