"""Transforms of datasets and of pairs: of each image alone, reproducible, the same in workers; floats; batches."""

import itertools
import random  # noqa: TID251 - what people draw from

import numpy as np
import pytest
import torch
from torchvision.transforms import v2

from ident3d import (
    AugmentedPairs,
    BatchTransform,
    FramePairs,
    LivePairs,
    Normal,
    PositivePairs,
    RenderedPairs,
    ThreeDIdent,
    normalize,
    to_physical,
    walkers,
)
from ident3d.embedding import embed
from ident3d.pairs.transforms import as_floats
from ident3d.randomness import integer_seed
from tests.ident3d.pairs.images import NumberedImages

DATA = NumberedImages(300, pairs=True)
STREAMS = {
    "matched": lambda data, **options: PositivePairs(data, Normal(0.3), 16, 3, **options),
    "rendered": lambda data, **options: RenderedPairs(data, 16, 3, **options),
    "augmented": lambda data, **options: AugmentedPairs(data, 16, 3, **options),
}


class OfOwnRandomness:
    """A transform that draws from one of the global generators that people's functions draw from."""

    def __init__(self, kind):
        self.kind = kind

    def __call__(self, image):
        draws = {
            "torch": lambda: torch.rand(()).item(),
            "numpy": lambda: float(np.random.rand()),  # noqa: NPY002 - as people do
            "python": random.random,
        }
        return torch.full((1,), draws[self.kind](), dtype=torch.float64)


def first(image):
    """The image's first pixel, as a plain function of people that other processes can import."""
    return image[:, 0, 0]


def flipped(image):
    """Mark in the first column whether the image was flipped."""
    return v2.RandomHorizontalFlip(0.5)(torch.arange(2).expand(3, 2, 2).to(image.dtype))


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("kind", ["torch", "numpy", "python"])
def test_each_image_has_randomness_of_its_own_by_seed_batch_and_place(stream, kind):
    make = STREAMS[stream]
    transform = OfOwnRandomness(kind)
    batch = make(DATA, transform=transform).batch(5)
    values = torch.cat([batch.x, batch.x_pos]).flatten()
    assert len(values.unique()) == 32
    again = make(DATA, transform=transform).batch(5)
    assert torch.equal(batch.x, again.x)
    assert torch.equal(batch.x_pos, again.x_pos)
    assert not torch.isin(make(DATA, transform=transform).batch(6).x, values).any()
    seed = integer_seed(3, "pairs/transform/x/5", 7, bits=63)
    expected = {
        "torch": torch.rand((), generator=torch.Generator().manual_seed(seed)).item(),
        "numpy": float(np.random.RandomState(seed % 2**32).rand()),
        "python": random.Random(seed).random(),  # noqa: S311 - likewise
    }
    assert batch.x[7].item() == expected[kind]


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
@pytest.mark.parametrize("place", ["dataset", "pairs"])
def test_workers_and_the_callers_draws_change_nothing(place, native_pairs):
    transform = v2.Compose([v2.ToImage(), v2.RandomResizedCrop(6), v2.RandomHorizontalFlip(0.5)])
    data = ThreeDIdent(native_pairs.root, transform=transform if place == "dataset" else None)
    pairs = RenderedPairs(data, 4, 1, transform=transform if place == "pairs" else None)
    expected = [pairs.batch(number) for number in range(4)]
    torch.rand(7)
    for loader in (pairs, pairs.loader(2)):
        for batch, known in zip(itertools.islice(loader, 4), expected, strict=True):
            assert torch.equal(batch.x, known.x)
            assert torch.equal(batch.x_pos, known.x_pos)
    assert expected[0].x.shape == (4, 3, 6, 6)


def test_global_generators_go_on_as_if_nothing_had_been_drawn():
    def draws():
        return torch.rand(2).tolist(), np.random.rand(2).tolist(), random.random()  # noqa: NPY002, S311 - global ones

    def seed():
        torch.manual_seed(1)
        np.random.seed(1)  # noqa: NPY002 - the global generator
        random.seed(1)

    seed()
    expected = draws()
    seed()
    PositivePairs(DATA, Normal(0.3), 4, transform=OfOwnRandomness("torch")).batch(0)
    PositivePairs(DATA, Normal(0.3), 4, transform=BatchTransform(lambda x: x + torch.rand(()))).batch(0)
    with pytest.raises(ZeroDivisionError):
        PositivePairs(DATA, Normal(0.3), 4, transform=lambda _: torch.rand(1) / (1 // 0)).batch(0)
    assert draws() == expected


def test_some_images_of_a_batch_are_flipped_and_some_are_not():
    batch = PositivePairs(DATA, Normal(0.3), 64, transform=flipped).batch(0)
    marks = torch.cat([batch.x[:, 0, 0, 0], batch.x_pos[:, 0, 0, 0]])
    assert 40 < marks.sum() < 88


@pytest.mark.parametrize("stream", STREAMS)
def test_the_transform_of_a_dataset_is_applied_to_every_image_as_to_an_item(stream, native_pairs):
    plain, data = (ThreeDIdent(native_pairs.root, transform=transform) for transform in (None, to_small))
    plain_batch, batch = (STREAMS[stream](each).batch(2) for each in (plain, data))
    for name in ("x", "x_pos"):
        images = getattr(plain_batch, name).permute(0, 2, 3, 1).numpy()
        np.testing.assert_array_equal(getattr(batch, name), np.stack([to_small(v2.ToPILImage()(i)) for i in images]))
    if stream == "matched":
        assert torch.equal(batch.x[3], data[int(batch.ids[3])][0])
    assert batch.x.shape == (16, 3, 4, 4)


def to_small(image):
    """A transform of PIL images."""
    assert image.mode == "RGB"
    return torch.from_numpy(np.array(image.resize((4, 4)))).permute(2, 0, 1).float() / 255


def test_the_transform_of_the_pairs_follows_that_of_the_dataset(native_pairs):
    data = ThreeDIdent(native_pairs.root, transform=to_small)
    batch = RenderedPairs(data, 4, transform=lambda image: image.mean(dim=(1, 2)), dtype=torch.float64).batch(0)
    expected = torch.stack([data[int(row)][0].double().mean(dim=(1, 2)) for row in batch.ids])
    torch.testing.assert_close(batch.x, expected)


def test_the_target_transform_of_a_dataset_is_applied_to_latents(native_pairs):
    data = ThreeDIdent(native_pairs.root, target_transform=to_physical)
    batch = RenderedPairs(data, 4).batch(0)
    np.testing.assert_allclose(batch.z, to_physical(data.latents[batch.ids].numpy()))
    np.testing.assert_allclose(batch.z_pos, to_physical(data.positives.latents[batch.ids].numpy()))


def test_images_on_another_device_are_no_pil_images(native, monkeypatch):
    data = ThreeDIdent(native.root, transform=to_small)
    pairs = PositivePairs(data, Normal(0.3), 4)
    assert torch.equal(pairs.on_device("cpu").batch(1).x, pairs.batch(1).x)
    monkeypatch.setattr("ident3d.pairs.stream.usable_device", torch.device)
    with pytest.raises(ValueError, match="takes PIL images, and images on meta are tensors: give the transform to the"):
        pairs.on_device("meta")


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 0), (torch.float32, 6e-8), (torch.bfloat16, 2**-8)])
def test_floats_are_bytes_over_255(stream, dtype, tolerance):
    plain, floats = STREAMS[stream](DATA), STREAMS[stream](DATA, dtype=dtype)
    for served in (floats, floats.on_device("cpu"), floats.loader(1), floats.on_device("cpu").loader(0)):
        batch = next(iter(served))
        for name in ("x", "x_pos"):
            found, raw = getattr(batch, name), getattr(plain.batch(0), name)
            assert found.dtype == dtype
            assert found.is_contiguous(memory_format=torch.channels_last)
            np.testing.assert_allclose(found.double(), raw.double() / 255, atol=tolerance, rtol=0)
    assert torch.equal(STREAMS[stream](DATA, dtype=torch.uint8).batch(0).x, plain.batch(0).x)


def test_floats_are_what_an_encoder_and_a_transform_take():
    pairs = PositivePairs(DATA, Normal(0.3), 4, dtype=torch.float32, transform=v2.Normalize([0.5] * 3, [0.25] * 3))
    batch, plain = pairs.batch(0), PositivePairs(DATA, Normal(0.3), 4).batch(0)
    torch.testing.assert_close(batch.x, (plain.x / 255 - 0.5) / 0.25)
    assert torch.nn.Conv2d(3, 2, 3)(batch.x).shape == (4, 2, 6, 6)


def test_a_transform_of_batches_says_so_and_gets_them_whole():
    shapes = []

    def function(images):
        shapes.append(tuple(images.shape))
        return images + torch.rand((), dtype=torch.float64)

    pairs = PositivePairs(DATA, Normal(0.3), 8, 2, transform=BatchTransform(function))
    batch = pairs.batch(3)
    assert shapes == [(8, 3, 8, 8)] * 2
    assert torch.equal(pairs.batch(3).x, batch.x)
    assert len((batch.x % 1).mul(1e9).round().unique()) == 1
    with pytest.raises(TypeError, match=r"a function of \(B, 3, H, W\) tensors, not 5"):
        BatchTransform(5)


@pytest.mark.parametrize(
    ("transform", "error", "message"),
    [
        (
            v2.ToPILImage(),
            TypeError,
            r"makes Image of an image; expected a tensor: end it with torchvision's v2",
        ),
        (
            lambda x: torch.ones(int(x[0, 0, 0]) % 2 + 1),
            ValueError,
            r"makes tensors of different shapes, \(\d,\) and \(\d,\): end it",
        ),
        (BatchTransform(lambda x: x[1:]), ValueError, r"makes a tensor of shape \(15, 3, 8, 8\) of 16 images"),
        (BatchTransform(lambda _: None), TypeError, "makes NoneType of a batch of images"),
    ],
)
def test_what_a_transform_cannot_make(transform, error, message):
    with pytest.raises(error, match=f"the transform of the pairs {message}"):
        STREAMS["matched"](DATA, transform=transform).batch(0)


def test_a_transform_of_pil_images_is_told_where_it_belongs():
    from torchvision.transforms import ToTensor

    with pytest.raises(TypeError, match="pic should be PIL Image") as caught:
        STREAMS["matched"](DATA, transform=ToTensor()).batch(0)
    assert "belongs to the dataset, ThreeDIdent(root, transform=...)" in caught.value.__notes__[0]


@pytest.mark.parametrize("dtype", ["float32", torch.int32, torch.complex64, np.float32])
def test_images_are_served_in_bytes_or_floats(dtype):
    with pytest.raises(TypeError, match=r"in torch\.uint8 or in a dtype of floats, such as torch\.float32, not"):
        STREAMS["matched"](DATA, dtype=dtype)


def test_live_pairs_are_transformed_and_prefetched_alike():
    pytest.importorskip("warp")
    pairs = LivePairs(Normal(0.1), 3, resolution=16, device="cpu", transform=flipped_or_not, dtype=torch.float32)
    plain = LivePairs(Normal(0.1), 3, resolution=16, device="cpu").batch(1)
    batch = pairs.batch(1)
    ahead = list(itertools.islice(pairs.prefetched(), 2))[1]
    assert torch.equal(ahead.x, batch.x)
    for image, raw in zip(batch.x, plain.x, strict=True):
        assert any(torch.equal(image, each / 255) for each in (raw, raw.flip(2)))


def flipped_or_not(image):
    return v2.RandomHorizontalFlip(0.5)(image)


def test_embeddings_are_of_transformed_images(native):
    data, plain = ThreeDIdent(native.root, transform=to_small), ThreeDIdent(native.root)
    found = embed(lambda x: x.mean(dim=(2, 3)), data, batch_size=32)
    np.testing.assert_allclose(found, [data[row][0].mean(dim=(1, 2)).numpy() for row in range(70)], atol=1e-6)
    as_bytes = ThreeDIdent(native.root, transform=v2.PILToTensor())
    np.testing.assert_array_equal(embed(lambda x: x[:, 0, 0], as_bytes), embed(lambda x: x[:, 0, 0], plain))


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
@pytest.mark.parametrize("decoded", [False, True])
@pytest.mark.parametrize("workers", [0, 2])
def test_epochs_are_parts_of_the_stream_with_a_length(decoded, workers):
    stream = STREAMS["matched"](DATA)
    stream = stream.on_device("cpu") if decoded else stream
    epoch = stream.epoch(2, workers)
    assert len(epoch) == 18  # of 300 images in batches of 16
    assert [batch.number for batch in epoch] == [batch.number for batch in epoch] == list(range(36, 54))
    assert torch.equal(next(iter(epoch)).ids, stream.batch(36).ids)
    short = stream.shard(1, 3).epoch(1, workers, steps=4)
    assert [batch.number for batch in short] == [13, 16, 19, 22]
    assert len(stream.shard(0, 3).epoch(0)) == 6
    assert len(PositivePairs(DATA, Normal(0.3), 512).epoch(0)) == 1


def test_what_is_endless_has_no_length():
    stream = STREAMS["matched"](DATA)
    assert stream
    for endless in (stream, stream.loader(), stream.on_device("cpu").loader(1)):
        with pytest.raises(TypeError, match=r"is endless and has no length; an epoch of it has: pairs\.epoch\(0\)"):
            len(endless)
    with pytest.raises(ValueError, match="the steps of an epoch is 1 or larger, not 0"):
        stream.epoch(0, steps=0)
    with pytest.raises(ValueError, match="the epoch is 0 or larger, not -1"):
        stream.epoch(-1)
    pytest.importorskip("warp")
    live = LivePairs(Normal(0.1), 3, resolution=16, device="cpu")
    with pytest.raises(ValueError, match=r"no dataset says how long an epoch is: give steps="):
        live.epoch(0)
    assert [batch.number for batch in live.epoch(1, steps=2)] == [2, 3]


MEAN, STD = (0.43, 0.27, 0.28), (0.12, 0.15, 0.11)


def _random_images(*shape):
    """Images as they are served: (B, 3, H, W) uint8, channels last in memory."""
    return torch.from_numpy(np.random.default_rng(0).integers(0, 256, shape, np.uint8)).permute(0, 3, 1, 2)


@pytest.mark.parametrize("shape", [(64, 64, 64, 3), (1, 1, 1, 3), (3, 5, 7, 3), (2, 300, 500, 3), (0, 4, 4, 3)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_normalised_floats_are_those_of_torchvision(shape, dtype):
    images = _random_images(*shape)
    found = normalize(MEAN, STD, dtype)(images)
    expected = (images.double() / 255 - torch.tensor(MEAN, dtype=torch.float64)[:, None, None]).div(
        torch.tensor(STD, dtype=torch.float64)[:, None, None]
    )
    assert found.dtype == dtype
    assert found.is_contiguous(memory_format=torch.channels_last)
    tolerance = {torch.float64: 1e-14, torch.float32: 1e-6, torch.float16: 5e-3, torch.bfloat16: 3e-2}[dtype]
    torch.testing.assert_close(found.double(), expected, atol=tolerance, rtol=0)
    if dtype == torch.float32 and len(images):
        scaled = v2.functional.to_dtype(images, dtype, scale=True)
        torch.testing.assert_close(found, v2.Normalize(MEAN, STD)(scaled), atol=3e-6, rtol=0)
        torch.testing.assert_close(normalize(MEAN, STD)(scaled), found, atol=3e-6, rtol=0)
        assert torch.equal(normalize(MEAN, STD)(images.contiguous()), found)  # in any layout


def test_bytes_become_floats_bit_for_bit_however_they_are_divided():
    images = _random_images(100, 64, 64, 3)
    assert torch.equal(as_floats(images, torch.float32), images.float() / 255)
    assert torch.equal(as_floats(images, torch.bfloat16), (images.float() / 255).bfloat16())
    assert torch.equal(as_floats(images, torch.float64), images.double() / 255)


@pytest.mark.parametrize(("mean", "std"), [((0, 0), (1, 1)), ((0, 0, 0), (1, 1, 0)), ((0, 0, float("nan")), (1, 1, 1))])
def test_normalising_takes_three_means_and_deviations(mean, std):
    with pytest.raises(ValueError, match="a finite mean and a positive standard deviation of each of the 3 channels"):
        normalize(mean, std)


@pytest.mark.parametrize("dtype", [torch.uint8, None, torch.int32])
def test_normalised_images_are_floats(dtype):
    with pytest.raises(TypeError, match="dtype of floats"):
        normalize(MEAN, STD, dtype)


@pytest.mark.parametrize(
    ("mean", "std", "dtype"),
    [
        (0.0, 1e-320, torch.float32),
        (1e300, 1.0, torch.float32),
        (0.0, 1e-5, torch.float16),
        (1e39, 1.0, torch.bfloat16),
    ],
)
def test_what_would_be_infinite_is_not_normalised(mean: float, std: float, dtype: torch.dtype) -> None:
    with pytest.raises(ValueError, match=f"too large for {dtype}"):
        normalize((0.5, mean, 0.5), (1.0, std, 1.0), dtype)


def test_the_largest_normalised_numbers_that_fit_are_finite() -> None:
    images = torch.tensor([0, 255], dtype=torch.uint8).repeat(1, 3, 2, 1)
    found = normalize((0.5,) * 3, (1e-5,) * 3, torch.float16)(images)
    torch.testing.assert_close(
        found.double().abs(), torch.full((1, 3, 2, 2), 5e4, dtype=torch.float64), rtol=1e-3, atol=0
    )


def test_images_of_another_number_of_channels_are_not_normalised() -> None:
    pairs = FramePairs(walkers(3), transform=normalize(MEAN, STD))
    with pytest.raises(ValueError, match=r"each of 3 channels: .* not \(32, 1, 64, 64\)"):
        pairs.batch(0)
    with pytest.raises(ValueError, match=r"not \(3, 8, 8\)"):
        normalize(MEAN, STD)(torch.zeros(3, 8, 8))


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
@pytest.mark.parametrize("layout", ["in workers", "decoded"])
@pytest.mark.parametrize("options", [{"transform": normalize(MEAN, STD, torch.bfloat16)}, {"dtype": torch.float32}])
@pytest.mark.parametrize("stream", STREAMS)
def test_workers_leave_floats_to_the_process_that_iterates(stream, options, layout):
    pairs = STREAMS[stream](DATA, **options)
    loaded = pairs if layout == "in workers" else pairs.on_device("cpu")
    straight = [pairs.batch(number) for number in range(3)]
    served = list(itertools.islice(loaded.loader(2, multiprocessing_context="fork"), 3))
    for batch, expected in zip(served, straight, strict=True):
        assert batch.x.dtype == expected.x.dtype
        assert torch.equal(batch.x, expected.x)
        assert torch.equal(batch.x_pos, expected.x_pos)
        assert not batch.x.is_shared()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_a_dataset_s_own_transforms_stay_in_workers(native):
    data = ThreeDIdent(native.root, transform=of_pil, target_transform=lambda z: 2 * z)
    pairs = PositivePairs(data, Normal(0.3), 8, transform=normalize(MEAN, STD))
    (served,) = itertools.islice(pairs.loader(1, multiprocessing_context="fork"), 1)
    expected = pairs.batch(0)
    assert torch.equal(served.x, expected.x)
    assert torch.equal(served.z, expected.z)


def of_pil(image):
    return v2.functional.pil_to_tensor(v2.functional.hflip(image))
