"""Streams of pairs: what a batch holds, its order under workers, ranks and restarts, exact pairs, devices."""

import itertools
import multiprocessing
import pickle

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from ident3d import ThreeDIdent
from ident3d.conditionals import Normal, Uniform, VonMisesFisher
from ident3d.errors import DatasetError
from ident3d.factors import FACTORS, Factors
from ident3d.matching.index import PairIndex
from ident3d.pairs.augmented import AugmentedPairs
from ident3d.pairs.matched import PositivePairs
from ident3d.pairs.rendered import RenderedPairs
from ident3d.spaces import Sphere
from tests.ident3d.pairs.images import NumberedImages, as_floats, rows_of

DATA = NumberedImages(1500, pairs=True)


def matched(**options):
    return PositivePairs(DATA, Normal(0.1), **{"batch_size": 16, "seed": 3} | options)


def streams():
    return [matched(), RenderedPairs(DATA, 16, 3), AugmentedPairs(DATA, 16, 3)]


def take(stream, n):
    return list(itertools.islice(stream, n))


def assert_equal_batches(left, right):
    assert len(left) == len(right)
    for a, b in zip(left, right, strict=True):
        assert a.number == b.number
        for name in ("x", "x_pos", "z", "z_pos", "ids", "ids_pos"):
            assert torch.equal(getattr(a, name), getattr(b, name)), name


def test_a_batch_holds_images_latents_and_ids_that_belong_together():
    batch = matched().batch(5)
    assert len(batch) == 16
    assert batch.number == 5
    assert batch.x.shape == batch.x_pos.shape == (16, 3, 8, 8)
    assert batch.x.dtype == batch.x_pos.dtype == torch.uint8
    assert batch.x.is_contiguous(memory_format=torch.channels_last)
    assert batch.z.dtype == batch.z_pos.dtype == torch.float32
    assert batch.ids.dtype == batch.ids_pos.dtype == torch.int64
    assert torch.equal(rows_of(batch.x), batch.ids)
    assert torch.equal(rows_of(batch.x_pos), batch.ids_pos)
    assert torch.equal(batch.z, DATA.latents[batch.ids])
    assert torch.equal(batch.z_pos, DATA.latents[batch.ids_pos])


def test_the_anchor_is_never_its_own_positive_and_positives_are_near():
    batches = take(matched(batch_size=512), 4)
    ids = torch.cat([b.ids for b in batches])
    assert not any((b.ids == b.ids_pos).any() for b in batches)
    assert ids.unique().numel() > 0.7 * len(DATA)  # 1 - exp(-2048 / 1500) of the rows are drawn
    near = torch.cat([(b.z - b.z_pos).norm(dim=1) for b in batches]).mean()
    apart = (DATA.latents[:-1] - DATA.latents[1:]).norm(dim=1).mean()
    assert near < 0.5 * apart


def test_the_positive_is_the_nearest_to_a_draw_from_the_conditional():
    exact = matched(batch_size=256)
    batch = exact.batch(0)
    own = (batch.z_pos - batch.z).norm(dim=1)
    nearest, distance = PairIndex(DATA.latents).match(batch.z, exclude=batch.ids)
    assert (own >= distance - 1e-6).all()
    assert 0.2 < (nearest == batch.ids_pos).double().mean() < 1
    far = PositivePairs(DATA, Uniform(), 256, 3).batch(0)
    assert (far.z_pos - far.z).norm(dim=1).mean() > 2 * own.mean()


@pytest.mark.parametrize("number", range(3))
def test_a_batch_depends_on_seed_and_number_only(number):
    stream, again = streams()[number], streams()[number]
    straight = take(stream, 4)
    assert [b.number for b in straight] == [0, 1, 2, 3]
    assert_equal_batches([again.batch(3), again.batch(0)], [straight[3], straight[0]])
    assert_equal_batches(take(again.from_step(2), 2), straight[2:])
    assert_equal_batches(take(stream, 2), straight[:2])
    assert not torch.equal(straight[0].ids, straight[1].ids)
    other = type(stream)(DATA, *([Normal(0.1)] if number == 0 else []), batch_size=16, seed=4)
    assert not torch.equal(other.batch(0).ids, straight[0].ids)


def test_ranks_take_turns_at_one_stream():
    whole = take(matched(), 6)
    for ranks in (2, 3):
        parts = [take(matched().shard(rank, ranks), 6 // ranks) for rank in range(ranks)]
        assert_equal_batches([part[i] for i in range(6 // ranks) for part in parts], whole)
    resumed = take(matched().shard(1, 2).from_step(2), 1)
    assert_equal_batches(resumed, [whole[5]])


@pytest.mark.filterwarnings("ignore:This DataLoader will create", "ignore:This process .* is multi-threaded")
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_any_number_of_workers_gives_the_same_stream(workers):
    straight = take(matched().shard(1, 2).from_step(4), 7)
    assert_equal_batches(
        take(matched().shard(1, 2).loader(workers, start=4, multiprocessing_context="fork"), 7), straight
    )
    plain = DataLoader(matched().shard(1, 2).from_step(4), batch_size=None, num_workers=workers)
    assert_equal_batches(take(plain, 7), straight)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_workers_only_match_where_images_are_decoded():
    stream = matched().shard(1, 2)
    decoded = stream.on_device("cpu")
    assert decoded.data.layout == "decoded"
    loader = decoded.loader(2, start=4, multiprocessing_context="fork", prefetch_factor=3, pin_memory=False)
    served = take(loader, 7)
    assert_equal_batches(served, take(stream.from_step(4), 7))
    assert not any(batch.x.is_shared() for batch in served)
    assert_equal_batches(take(loader, 2), served[:2])  # anew
    assert all(batch.x.is_shared() for batch in take(stream.loader(1, pin_memory=False), 2))
    changed = PositivePairs(decoded.data, Normal(0.1), 16, 3, transform=as_floats).loader(1, pin_memory=False)
    assert all(batch.x.is_shared() for batch in take(changed, 2))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_any_way_of_starting_workers_gives_the_same_stream(method):
    stream = matched(transform=as_floats)
    assert_equal_batches(take(stream.loader(2, multiprocessing_context=method), 4), take(stream, 4))
    decoded = matched().on_device("cpu")
    assert_equal_batches(take(decoded.loader(2, multiprocessing_context=method), 4), take(decoded, 4))


@pytest.mark.slow
def test_spawned_workers_end_well_in_the_middle_of_a_stream():
    batches = iter(PositivePairs(NumberedImages(600, size=64), Normal(0.1)).loader(2, multiprocessing_context="spawn"))
    for _ in range(6):
        next(batches)
    workers = multiprocessing.active_children()
    del batches
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0]


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_a_worker_uses_one_thread():
    assert take(DataLoader(_Threads(), batch_size=None, num_workers=1), 1) == [1]


class _Threads(torch.utils.data.IterableDataset):
    def __iter__(self):
        from ident3d.matching.faiss import bounded_threads, faiss_library

        with bounded_threads(16):
            yield faiss_library().omp_get_max_threads()


def test_streams_pickle():
    for stream in streams():
        again = pickle.loads(pickle.dumps(stream.from_step(3)))  # noqa: S301 - our own bytes
        assert_equal_batches(take(again, 1), [stream.batch(3)])


def test_rendered_pairs_are_the_exact_ones():
    batch = RenderedPairs(DATA, 32, 0).batch(0)
    assert torch.equal(rows_of(batch.x), batch.ids)
    assert torch.equal(rows_of(255 - batch.x_pos), batch.ids)
    assert torch.equal(batch.ids, batch.ids_pos)
    assert torch.equal(batch.z_pos, DATA.positives.latents[batch.ids])
    with pytest.raises(DatasetError, match="render ROOT --pairs"):
        RenderedPairs(NumberedImages(10))


def test_augmented_pairs_are_two_views_of_one_image():
    batch = AugmentedPairs(DATA, 32, 0).batch(0)
    assert torch.equal(batch.ids, batch.ids_pos)
    assert torch.equal(batch.z, batch.z_pos)
    assert batch.x.dtype == torch.uint8
    assert not torch.equal(batch.x, batch.x_pos)


def test_a_device_serves_the_same_stream():
    for stream in streams():
        resident = stream.on_device("cpu")
        assert_equal_batches(take(resident, 3), take(stream, 3))
        assert resident.data is not stream.data
    with pytest.raises(DatasetError, match="no exact positives"):
        RenderedPairs(matched().on_device("cpu").data)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_serves_the_same_stream():
    for stream in [matched(), RenderedPairs(DATA, 16, 3)]:
        resident = take(stream.on_device("cuda"), 3)
        assert all(batch.x.is_cuda and batch.z.is_cuda and batch.ids.is_cuda for batch in resident)
        assert_equal_batches([batch.to("cpu") for batch in resident], take(stream, 3))
    with pytest.raises(ValueError, match="num_workers=0"):
        matched().on_device("cuda").loader(2)


def test_a_batch_moves_as_one():
    batch = matched().batch(0).to("meta")
    assert all(getattr(batch, name).is_meta for name in ("x", "x_pos", "z", "z_pos", "ids", "ids_pos"))
    assert batch.number == 0


def test_transform_is_applied_to_both_images():
    plain, changed = matched().batch(1), matched(transform=as_floats).batch(1)
    for raw, floats in ((plain.x, changed.x), (plain.x_pos, changed.x_pos)):
        np.testing.assert_allclose(floats.numpy(), raw.numpy() / 127.5 - 1, atol=1e-6)
        assert floats.dtype == torch.float32


def test_own_index_and_space():
    data = NumberedImages(400)
    data.latents = data.latents / data.latents.norm(dim=1, keepdim=True)
    pairs = PositivePairs(data, VonMisesFisher(50.0), 64, space=Sphere(10), index=PairIndex(data.latents, "torch"))
    batch = pairs.batch(0)
    assert ((batch.z * batch.z_pos).sum(dim=1) > 0.3).double().mean() > 0.9


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_three_lines_serve_pairs_of_the_sample():
    data = ThreeDIdent("sample")
    pairs = PositivePairs(data, Normal(0.1), batch_size=8)
    batch = next(iter(pairs.loader(num_workers=1)))
    assert batch.x.shape == (8, 3, 64, 64)
    for rows, x in ((batch.ids, batch.x), (batch.ids_pos, batch.x_pos)):
        for row, image in zip(rows.tolist(), x.permute(0, 2, 3, 1).numpy(), strict=True):
            item, latents = data[row]
            np.testing.assert_array_equal(image, np.asarray(item))
            assert torch.equal(latents, data.latents[row])
    again = pickle.loads(pickle.dumps(pairs))  # noqa: S301 - our own bytes
    assert_equal_batches([again.batch(0)], [batch])


@pytest.mark.parametrize("device", ["meta", "gpu", "cuda:7"])
def test_a_device_that_is_not_there(device):
    with pytest.raises(ValueError, match="available devices: cpu"):
        matched().on_device(device)


@pytest.mark.parametrize("make", [lambda data: PositivePairs(data, Normal(0.1)), RenderedPairs, AugmentedPairs])
@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("sample", r"not from 'sample': open it with ident3d\.ThreeDIdent\('sample'\)"),
        (DATA.latents, "a Tensor lacks latents, factors, pixels"),
        (torch.utils.data.Subset(DATA, [0, 1]), r"not from a Subset of one: data\[indices\] is a dataset of some rows"),
        (NumberedImages, "the class NumberedImages lacks latents"),
        (None, "a NoneType lacks"),
    ],
)
def test_what_is_no_dataset_is_refused(make, data, message):
    with pytest.raises(TypeError, match=message):
        make(data)


def test_a_dataset_whose_parts_disagree_is_refused():
    data = NumberedImages(20)
    data.factors = Factors(tuple(FACTORS)[:9])
    with pytest.raises(ValueError, match=r"of shape \(20, 9\), for 20 images and the factors .*(20, 10\))"):
        AugmentedPairs(data)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"batch_size": 0}, ValueError, "batch_size is 1 or larger, not 0"),
        ({"batch_size": -3}, ValueError, "batch_size is 1 or larger, not -3"),
        ({"batch_size": True}, TypeError, "batch_size True is not an integer"),
        ({"batch_size": torch.tensor(2.5)}, TypeError, "batch_size .* is not an integer"),
        ({"seed": -1}, ValueError, "the seed is 0 or larger, not -1"),
        ({"seed": 1.5}, TypeError, "the seed 1.5 is not an integer"),
        ({"index": 5}, TypeError, "an index is a PairIndex of the dataset's latents, .* not 5"),
        ({"index": "exact"}, TypeError, "not 'exact'"),
        ({"transform": "normalise"}, TypeError, "a transform is a function"),
        ({"space": 5}, ValueError, "not defined on 5"),
    ],
)
def test_unusable_options_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        matched(**options)


@pytest.mark.parametrize("stream", [matched(), matched().on_device("cpu")])
def test_unusable_requests_are_refused(stream):
    for request in (stream.batch, stream.match, stream.from_step):
        with pytest.raises(ValueError, match="is 0 or larger, not -1"):
            request(-1)
        with pytest.raises(TypeError, match=r" 1\.5 is not an integer"):
            request(1.5)
    with pytest.raises(ValueError, match="num_workers is 0 or larger, not -2"):
        stream.loader(-2)
    with pytest.raises(TypeError, match=r"num_workers 1\.5 is not an integer"):
        stream.loader(1.5)
    with pytest.raises(ValueError, match="prefetch_factor is 1 or larger, not 0"):
        stream.loader(1, prefetch_factor=0)
    with pytest.raises(TypeError, match="the transform of the pairs makes NoneType of an image; expected a tensor"):
        matched(transform=lambda _: None).batch(0)
    with pytest.raises(TypeError, match="views of an image are drawn by a SimCLRViews, not by 5"):
        AugmentedPairs(DATA, views=5)


def test_unusable_arguments_are_refused():
    with pytest.raises(ValueError, match="2 images or more, got 1"):
        PositivePairs(NumberedImages(1), Normal(0.1))
    with pytest.raises(ValueError, match="this one is empty"):
        AugmentedPairs(NumberedImages(0))
    with pytest.raises(TypeError, match=r"expected a conditional, such as .*, not 'normal\(sigma=0.1\)'"):
        PositivePairs(DATA, "normal(sigma=0.1)")
    with pytest.raises(ValueError, match="batch_size is 1 or larger"):
        matched(batch_size=0)
    with pytest.raises(TypeError, match=r"batch_size .* is not an integer"):
        matched(batch_size=1.5)
    with pytest.raises(ValueError, match="0 or larger"):
        matched(seed=-1)
    with pytest.raises(ValueError, match="holds 1500 rows of 10, the dataset 20 of 10"):
        PositivePairs(NumberedImages(20), Normal(0.1), index=PairIndex(DATA.latents))
    with pytest.raises(ValueError, match="not one of this dataset"):
        matched(index=PairIndex(DATA.latents.flip(0)))
    with pytest.raises(ValueError, match="not defined on"):
        PositivePairs(DATA, VonMisesFisher(10.0))
    with pytest.raises(ValueError, match="must lie in"):
        PositivePairs(DATA, VonMisesFisher(10.0), space=Sphere(10))
    with pytest.raises(ValueError, match=r"rank is in \[0, 2\)"):
        matched().shard(2, 2)
    with pytest.raises(ValueError, match="the step is 0 or larger"):
        matched().from_step(-1)
    with pytest.raises(ValueError, match="number of a batch is 0 or larger"):
        matched().batch(-1)
