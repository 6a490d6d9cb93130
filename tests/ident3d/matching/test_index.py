"""The pair index: exactness against a slow reference, exclusion, ties, approximate backends."""

import multiprocessing
import pickle

import numpy as np
import pytest
import torch

from ident3d.matching.faiss import bounded_threads, faiss_library, gpu_number
from ident3d.matching.index import PairIndex
from tests.ident3d.matching.latents import anchors_and_targets, rows, slow_match

EXACT = ["exact", "torch"]
ALL = [*EXACT, "ivf", "hnsw"]


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


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("backend", ["exact", "torch"])
def test_exact_on_the_gpu(backend):
    latents = DATASETS["uniform"]
    anchors, targets = anchors_and_targets(latents)
    ids, _ = PairIndex(latents, backend, device="cuda").match(targets, anchors)
    np.testing.assert_array_equal(ids, slow_match(latents, targets, anchors)[0])


def test_a_gpu_without_a_number_is_the_one_that_torch_uses(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    assert gpu_number(torch.device("cuda")) == 3
    assert gpu_number(torch.device("cuda:0")) == 0
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu_number(torch.device("cuda")) == 0  # FAISS may see GPUs that torch was built without
