"""Reading pickles in the format of the published archive, and refusing all others."""

import os
import pickle
import struct

import numpy as np
import pytest

from ident3d.errors import DatasetError
from ident3d.kitti.archive import read_archive


def sequences(lengths, seed=0):
    drawn = np.random.default_rng(seed)
    return {
        "pedestrians": [drawn.random((n, 64, 64)) < 0.3 for n in lengths],
        "pedestrians_latents": [drawn.normal(size=(n, 3)).astype(np.float32) for n in lengths],
    }


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "kitti_peds_v2.pickle"

    def write(held, protocol=4):
        path.write_bytes(held if isinstance(held, bytes) else pickle.dumps(held, protocol=protocol))
        return path

    return write


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_every_protocol_is_read_as_pickle_reads_it(file, protocol):
    held = sequences([3, 1, 5])
    if protocol == 0:
        held["pedestrians"] = [np.asfortranarray(masks) for masks in held["pedestrians"]]
    read = read_archive(file(held, protocol))
    assert len(read) == 3
    for item, masks, latents in zip(read, held["pedestrians"], held["pedestrians_latents"], strict=True):
        np.testing.assert_array_equal(item.masks, masks)
        np.testing.assert_array_equal(item.latents, latents)
        assert (item.masks.dtype, item.latents.dtype) == (np.bool_, np.float32)


class Runs:
    def __reduce__(self):
        return os.system, ("touch was-run",)


def test_nothing_that_a_pickle_names_is_run(file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DatasetError, match=r"names posix\.system.*nothing of it was run"):
        read_archive(file({"pedestrians": [Runs()], "pedestrians_latents": []}))
    assert not (tmp_path / "was-run").exists()


class Plain:
    pass


def test_a_class_is_refused_by_name(file):
    with pytest.raises(DatasetError, match="pickle operation NEWOBJ"):
        read_archive(file({"pedestrians": [Plain()], "pedestrians_latents": []}))
    with pytest.raises(DatasetError, match=r"names \w[\w.]*\.sequences"):
        read_archive(file({"pedestrians": [sequences], "pedestrians_latents": []}))


def test_an_array_of_objects_is_refused(file):
    with pytest.raises(DatasetError, match="array"):
        read_archive(file({"pedestrians": [np.array([1, "a"], object)], "pedestrians_latents": []}))


def bomb(shape):
    """A pickle of an array whose shape its bytes do not fill."""
    honest = pickle.dumps({"pedestrians": [np.zeros((2, 64, 64), bool)], "pedestrians_latents": []}, protocol=2)
    two = b"K\x02K@K@\x87"
    assert two in honest
    return honest.replace(two, b"\x8a\x08" + struct.pack("<q", shape) + b"K@K@\x87")


def test_a_shape_that_its_bytes_do_not_fill_takes_no_memory(file):
    with pytest.raises(DatasetError, match="array of shape"):
        read_archive(file(bomb(10**12)))


def test_a_nested_bomb_takes_no_memory(file):
    held = []
    for _ in range(60):
        held = [held, held]
    with pytest.raises(DatasetError, match=r"the masks of pedestrian 0 of .* are of type list; expected an array"):
        read_archive(file({"pedestrians": [held], "pedestrians_latents": [held]}))


def test_a_large_place_in_the_memo_takes_no_memory(file):
    with pytest.raises(DatasetError, match="numbers its values from"):
        read_archive(file(b"\x80\x02}r\xff\xff\xff\x7f."))


def test_a_function_cannot_be_changed_by_a_file(file):
    # GLOBAL numpy.dtype, EMPTY_DICT, BUILD
    with pytest.raises(DatasetError, match="changes a function"):
        read_archive(file(b"\x80\x02cnumpy\ndtype\n}b."))


@pytest.mark.parametrize("cut", [0, 1, 10, 100, -1])
def test_a_file_that_was_cut_is_damaged(file, cut):
    whole = pickle.dumps(sequences([2]))
    with pytest.raises(DatasetError, match="damaged"):
        read_archive(file(whole[:cut]))


def test_flipped_bytes_never_end_in_another_error(file):
    whole = bytearray(pickle.dumps(sequences([2]), protocol=4))
    drawn = np.random.default_rng(0)
    for place in [*range(200), *drawn.integers(len(whole), size=200).tolist()]:
        flipped = bytearray(whole)
        flipped[place] ^= 1 << int(drawn.integers(8))
        try:
            read_archive(file(bytes(flipped)))
        except DatasetError:
            continue


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda held: held["pedestrians_latents"].pop(), "masks of 2 pedestrians and latents of 1"),
        (lambda held: held.pop("pedestrians"), "expected a list of arrays under 'pedestrians'"),
        (lambda held: held.update(pedestrians=3), "of type int; expected a list"),
        (lambda held: held["pedestrians"].clear() or held["pedestrians_latents"].clear(), "no pedestrians"),
        (
            lambda held: held["pedestrians"].__setitem__(1, np.zeros((4, 64, 64), bool)),
            r"expected numbers of shape \(4",
        ),
        (lambda held: held["pedestrians"].__setitem__(1, np.zeros((3, 32, 32), bool)), "pedestrian 1 .* expected bool"),
        (lambda held: held["pedestrians"].__setitem__(1, np.zeros((0, 64, 64), bool)), "at least one frame"),
        (lambda held: held["pedestrians_latents"][0].__setitem__(0, np.nan), "pedestrian 0 .* not finite"),
    ],
)
def test_what_does_not_go_together_is_named(file, change, message):
    held = sequences([2, 3])
    change(held)
    with pytest.raises(DatasetError, match=message):
        read_archive(file(held))


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_archive(tmp_path / "none.pickle")
