"""Files that take more memory or time than they say: every one is refused, soon, and in little memory."""

import contextlib
import io
import os
import struct
import subprocess
import sys
import zlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from ident3d.errors import DatasetError
from ident3d.storage.decoded import source_signature
from ident3d.storage.images import MAX_IMAGE_BYTES, MOST_PIXELS, check_integrity, decode, encode_png
from ident3d.storage.native import NativeSplit, ShardReader, schema
from ident3d.storage.published import PublishedSplit
from ident3d.storage.verification import verify

_MEASURED = """
import resource, sys
from ident3d.errors import DatasetError
from ident3d.storage.images import decode
from ident3d.storage.verification import verify
from pathlib import Path
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    decode(Path(sys.argv[1]).read_bytes(), "it") if sys.argv[1].endswith(".png") else print(verify(Path(sys.argv[1])))
except DatasetError as error:
    print(error)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def _peak_mb(path):
    done = subprocess.run([sys.executable, "-c", _MEASURED, str(path)], capture_output=True, text=True, check=True)
    return int(done.stdout.splitlines()[-1]) / 1024, done.stdout


def _chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _png(side, rows):
    header = struct.pack(">II", side, side) + b"\x08\x02\x00\x00\x00"
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", rows) + _chunk(b"IEND", b"")


def _zeros(count):
    packer, zeros = zlib.compressobj(), bytes(1 << 22)
    return b"".join(packer.compress(zeros) for _ in range(count >> 22)) + packer.flush()


@pytest.mark.parametrize(("side", "inflated"), [(16, 1 << 30), (13_300, 1 << 22)], ids=["stream", "size"])
def test_an_image_takes_no_more_memory_than_its_size_explains(tmp_path, side, inflated):
    path = tmp_path / "bomb.png"
    path.write_bytes(_png(side, _zeros(inflated)))
    peak, said = _peak_mb(path)
    assert peak < 100, said


def test_the_largest_image_is_bounded():
    side = int(MOST_PIXELS**0.5) + 1
    with pytest.raises(DatasetError, match=f"{side}x{side} pixels are more than the 67,108,864 that are read"):
        decode(_png(side, _zeros(1 << 22)), "it")


def test_latents_that_declare_more_rows_than_there_are_images_are_not_read(published):
    path = published.root / "test" / "raw_latents.npy"
    header = np.lib.format.header_data_from_array_1_0(np.zeros((1, 10), np.float32))
    for rows, size in ((10**12, 4096), (75_000_000, 3_000_000_128)):
        with path.open("wb") as file:
            np.lib.format.write_array_header_1_0(file, {**header, "shape": (rows, 10)})
            file.truncate(size)
        with pytest.raises(DatasetError, match=r"rows of latents|cannot be read as an array"):
            PublishedSplit(published.root, "test")
        peak, said = _peak_mb(published.root)
        assert peak < 200, said


def test_files_with_holes_are_not_read_into_memory(published, native):
    shard = next((native.root / "data").glob("test-*"))
    image = next((published.root / "test" / "images").iterdir())
    manifest = native.root / "manifest.json"
    for path in (shard, image, manifest):
        os.truncate(path, 3_000_000_000)
    assert shard.stat().st_size > MAX_IMAGE_BYTES
    with pytest.raises(DatasetError):
        NativeSplit(native.root, "test")
    for root in (published.root, native.root):
        peak, said = _peak_mb(root)
        assert peak < 300, said


def test_a_shard_that_unpacks_to_far_more_than_it_holds_is_refused(tmp_path):
    path = tmp_path / "train-00000-of-00001.parquet"
    images = pa.array([{"bytes": bytes(1 << 24), "path": None}] * 4, schema(10, pairs=False).field("image").type)
    latents = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(40, np.float32)), 10)
    table = pa.Table.from_arrays([pa.array(range(4)), images, latents], schema=schema(10, pairs=False))
    pq.write_table(table, path, compression="zstd", use_dictionary=False)
    with pytest.raises(DatasetError, match="more than images explain"):
        ShardReader(path)


@pytest.mark.parametrize("kind", ["pipe", "folder", "dangling link"])
@pytest.mark.parametrize("what", ["shard", "image", "latents", "manifest"])
def test_what_is_no_file_is_a_fault_and_not_waited_for(published, native, kind, what):
    places = {
        "shard": (native.root, next((native.root / "data").glob("test-*"))),
        "image": (published.root, next((published.root / "test" / "images").iterdir())),
        "latents": (published.root, published.root / "test" / "raw_latents.npy"),
        "manifest": (native.root, native.root / "manifest.json"),
    }
    root, path = places[what]
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(path.with_name("gone"))
    for check in (lambda: source_signature(root, "test"), lambda: PublishedSplit(root, "test").encoded(0)):
        with contextlib.suppress(DatasetError, OSError):
            check()
    try:
        found = verify(root)
    except DatasetError:
        return
    assert not found.is_sound


def test_an_image_of_ours_is_read_after_all_of_that():
    pixels = np.arange(16 * 16 * 3, dtype=np.uint8).reshape(16, 16, 3)
    np.testing.assert_array_equal(decode(encode_png(pixels), "it"), pixels)


@pytest.mark.parametrize("kind", ["VP8 ", "VP8L", "VP8X"])
@pytest.mark.parametrize("read", [decode, check_integrity])
def test_a_webp_of_too_many_pixels_is_not_opened(monkeypatch, kind, read):
    file = io.BytesIO()
    options = {"VP8 ": {}, "VP8L": {"lossless": True}, "VP8X": {"exif": b"Exif\0\0xx"}}[kind]
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(file, "WEBP", **options)
    encoded = bytearray(file.getvalue())
    assert encoded[12:16] == kind.encode()
    read(bytes(encoded), "here")
    place, size = {"VP8 ": (26, 2 * struct.pack("<H", 9000)), "VP8L": (21, struct.pack("<I", 8999 << 14 | 8999))}.get(
        kind, (24, 2 * struct.pack("<I", 8999)[:3])
    )
    encoded[place : place + len(size)] = size
    monkeypatch.setattr(Image, "open", None)  # which makes room for two such images
    with pytest.raises(DatasetError, match="9000x9000 pixels are more than the 67,108,864 that are read"):
        read(bytes(encoded), "here")
