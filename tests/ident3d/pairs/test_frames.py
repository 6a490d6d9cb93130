"""Pairs of frames, against the rows that they may come from."""

from collections import Counter

import numpy as np
import pytest
import torch

from ident3d import FramePairs, walkers
from ident3d.kitti import MaskSequences, Pedestrian
from tests.ident3d.pairs.images import NumberedImages

LENGTHS = (4, 1, 2, 3)


def numbered(lengths=LENGTHS):
    """Masks whose one pixel and whose latents tell the row."""
    row, held = 0, []
    for length in lengths:
        masks = np.zeros((length, 64, 64), bool)
        latents = np.zeros((length, 3), np.float32)
        for frame in range(length):
            masks[frame, row // 64, row % 64] = True
            latents[frame] = row
            row += 1
        held.append(Pedestrian(masks, latents))
    return MaskSequences(held)


@pytest.fixture
def data():
    return numbered()


@pytest.mark.filterwarnings("ignore:1 of 4 sequences have a single frame")
@pytest.mark.parametrize("max_delta", [1, 2, 5])
def test_pairs_are_those_of_a_slow_reference(data, max_delta):
    """Every anchor with a successor is as likely as any other, every distance too, cut off at the last frame."""
    expected = Counter()
    last = [3, 3, 3, 3, 4, 6, 6, 9, 9, 9]
    anchors = [row for row in range(10) if row < last[row]]
    for row in anchors:
        for delta in range(1, max_delta + 1):
            expected[row, min(row + delta, last[row])] += 1 / (len(anchors) * max_delta)
    batch = FramePairs(data, max_delta, batch_size=10_000).batch(0)
    found = Counter(zip(batch.ids.tolist(), batch.ids_pos.tolist(), strict=True))
    assert set(found) == set(expected)
    for pair, share in expected.items():
        assert found[pair] / 10_000 == pytest.approx(share, abs=5 * (share / 10_000) ** 0.5)


@pytest.mark.filterwarnings("ignore:1 of 4 sequences have a single frame")
def test_masks_and_latents_belong_to_the_ids(data):
    batch = FramePairs(data, 2, batch_size=16).batch(3)
    assert batch.x.shape == batch.x_pos.shape == (16, 1, 64, 64)
    for images, latents, ids in ((batch.x, batch.z, batch.ids), (batch.x_pos, batch.z_pos, batch.ids_pos)):
        assert torch.equal(images.flatten(1).argmax(1), ids)
        assert torch.equal(latents[:, 0].long(), ids)


def test_a_batch_depends_on_seed_and_number_alone():
    data = walkers(5, 0)
    pairs = FramePairs(data, 3, batch_size=8, seed=4)
    third = pairs.batch(3)
    for other in (
        next(iter(pairs.from_step(3))),
        next(iter(pairs.from_step(1).shard(1, 2))),
        next(iter(pairs.loader(start=3))),
        pairs.on_device("cpu").batch(3),
    ):
        assert torch.equal(other.ids, third.ids)
        assert torch.equal(other.x_pos, third.x_pos)
    assert not torch.equal(FramePairs(data, 3, batch_size=8, seed=5).batch(3).ids, third.ids)


@pytest.mark.slow
def test_workers_yield_the_same_stream():
    pairs = FramePairs(walkers(5, 0), 3, batch_size=8)
    worked = pairs.loader(2)
    for number, batch in zip(range(4), worked, strict=False):
        assert torch.equal(batch.ids_pos, pairs.batch(number).ids_pos)


def test_a_pedestrian_of_one_frame_is_named(data):
    with pytest.warns(UserWarning, match="1 of 4 sequences have a single frame, which is in no pair"):
        FramePairs(data)
    with pytest.raises(ValueError, match="no sequence has two frames"):
        FramePairs(numbered((1, 1)))


def test_what_is_no_sequence_is_refused():
    with pytest.raises(TypeError, match="NumberedImages has no lengths"):
        FramePairs(NumberedImages(5))
    data = numbered((2, 3))
    data.lengths = torch.tensor([2, 2])
    with pytest.raises(ValueError, match="do not make up 5 frames"):
        FramePairs(data)
    with pytest.raises(ValueError, match="max_delta"):
        FramePairs(numbered((2,)), 0)


def test_transforms_of_dataset_and_pairs_are_applied_to_each_mask():
    data = numbered((2, 3))
    plain = FramePairs(data, batch_size=4).batch(0)
    data.transform = lambda image: torch.from_numpy(np.asarray(image)[None, :, ::-1].copy())
    flipped = FramePairs(data, batch_size=4, dtype=torch.float32).batch(0)
    torch.testing.assert_close(flipped.x, plain.x.flip(3) / 255)
    twice = FramePairs(data, batch_size=4, transform=lambda mask: mask.flip(2)).batch(0)
    assert torch.equal(twice.x_pos, plain.x_pos)
