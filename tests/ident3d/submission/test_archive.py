"""Containers: what is judged before it is read."""

import os
import stat
import tracemalloc
import zipfile

import numpy as np
import pytest

from ident3d.submission import Submission
from tests.ident3d.submission.zips import npy, rewrite

N, D = 12, 3


class TestContainers:
    def test_nothing_there(self, tmp_path):
        with pytest.raises(FileNotFoundError, match=r"expected a folder or a zip archive with submission.json"):
            Submission.read(tmp_path / "none.zip")

    def test_not_an_archive(self, tmp_path):
        (tmp_path / "x.zip").write_bytes(b"PK no")
        assert "not a readable zip archive" in Submission.faults(tmp_path / "x.zip")[0]

    def test_truncated(self, archive):
        archive.write_bytes(archive.read_bytes()[:-40])
        assert "not a readable zip archive" in Submission.faults(archive)[0]

    def test_a_flipped_bit(self, archive):
        data = bytearray(archive.read_bytes())
        data[data.index(b"\x93NUMPY") + 140] ^= 1
        archive.write_bytes(data)
        assert "Bad CRC-32" in Submission.faults(archive)[0]

    def test_compressed_members_with_flipped_bits(self, archive):
        rewrite(archive, {}, zipfile.ZIP_DEFLATED)
        assert Submission.faults(archive) == ()
        with zipfile.ZipFile(archive) as file:
            info = file.getinfo("embeddings-0.npy")
        data = bytearray(archive.read_bytes())
        start = info.header_offset + 30 + len(info.filename)
        for place in range(start, start + info.compress_size):
            data[place] ^= 0xFF
            archive.write_bytes(data)
            Submission.faults(archive)  # whatever the decompressor makes of it
        assert any("embeddings-0.npy" in fault for fault in Submission.faults(archive))

    @pytest.mark.parametrize("name", ["../../etc/passwd", "/tmp/x.npy", "sub/ids.npy", "run.py", "embeddings-0.npy\n"])  # noqa: S108
    def test_foreign_names(self, archive, name):
        rewrite(archive, {name: b"x"})
        (fault,) = Submission.faults(archive)
        assert "does not belong in a submission; expected submission.json, ids.npy" in fault
        assert "\n" not in fault

    def test_a_bomb_is_not_unpacked(self, archive):
        rewrite(archive, {"embeddings-1.npy": b"\0" * (1 << 23)}, zipfile.ZIP_DEFLATED)
        assert any("would grow" in fault and "embeddings-1.npy" in fault for fault in Submission.faults(archive))

    def test_too_many_members(self, archive):
        rewrite(archive, {f"embeddings-{i}.npy": b"" for i in range(100)})
        assert "holds 102 entries" in Submission.faults(archive)[0]

    @pytest.mark.filterwarnings("ignore:Duplicate name")
    def test_a_member_twice(self, archive):
        with zipfile.ZipFile(archive, "a") as file:
            file.writestr("ids.npy", b"again")
        assert "ids.npy is there twice" in Submission.faults(archive)

    def test_a_link_in_a_folder(self, tmp_path, arrays, metadata):
        Submission.write(tmp_path / "s", *arrays, metadata)
        (tmp_path / "s" / "ids.npy").rename(tmp_path / "ids.npy")
        (tmp_path / "s" / "ids.npy").symlink_to(tmp_path / "ids.npy")
        assert "'ids.npy' is not a regular file" in Submission.faults(tmp_path / "s")

    def test_a_link_in_an_archive_is_only_bytes(self, archive):
        link = zipfile.ZipInfo("embeddings-2.npy")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        with zipfile.ZipFile(archive, "a") as file:
            file.writestr(link, "/etc/passwd")
        assert any("embeddings-2.npy is not a .npy file" in fault for fault in Submission.faults(archive))


class TestArrays:
    @pytest.mark.parametrize(
        ("name", "data", "message"),
        [
            ("ids.npy", npy(np.array([{"a": 1}] * N, dtype=object), allow_pickle=True), "expected (N,) of int64"),
            ("ids.npy", npy(np.arange(N, dtype=np.int32)), "got shape (12,) of int32"),
            ("ids.npy", npy(np.arange(N))[:-8], "88 bytes do not hold an array of shape (12,)"),
            ("ids.npy", npy(np.arange(N) - 1), "ids are 0 or larger, not -1"),
            ("ids.npy", npy(np.arange(N) // 2), "6 ids occur (0, 1, 2, 3, 4 and 1 more) more than once"),
            ("ids.npy", npy(np.arange(N + 1)), "embeddings-0.npy has 12 rows, but ids.npy has 13"),
            ("embeddings-0.npy", npy(np.zeros((N, D))), "expected (N, d) of float32, got shape (12, 3) of float64"),
            ("embeddings-0.npy", npy(np.zeros((N, 5), np.float32)), "differ in width: [3, 5]"),
            (
                "embeddings-0.npy",
                npy(np.full((N, D), np.inf, np.float32)),
                "row 0, column 0 is inf (12 such rows in all)",
            ),
            ("embeddings-0.npy", npy(np.zeros((0, D), np.float32)), "expected (N, d) of float32"),
            ("embeddings-0.npy", npy(np.zeros((1, 70_000), np.float32)), "70000 dimensions; at most 65536"),
            ("embeddings-0.npy", b"\x80\x04N.", "is not a .npy file"),
            ("embeddings-1.npy", None, "one array of embeddings for each of the 2 seeds"),
            ("embeddings-2.npy", npy(np.zeros((N, D), np.float32)), "for each of the 2 seeds"),
            ("embeddings-1.npy", npy(np.ones((N, D), np.float32)), "its SHA-256 differs"),
            ("ids.npy", None, "ids.npy is missing"),
        ],
    )
    def test_fault_is_named(self, archive, name, data, message):
        rewrite(archive, {name: data})
        faults = Submission.faults(archive)
        assert any(message in fault for fault in faults), faults

    def test_a_header_that_promises_too_much(self, archive):
        data = npy(np.zeros((N, D), np.float32)).replace(b"(12, 3)", b"(9999999999999, 9999999999999)")
        rewrite(archive, {"embeddings-0.npy": data})
        assert any("embeddings-0.npy" in fault for fault in Submission.faults(archive))

    @pytest.mark.parametrize(
        ("shape", "message"),
        [
            (b"(True, 36)", "expected (N, d) of float32, got shape (True, 36)"),
            (b"(-12, -3)", "got shape (-12, -3)"),
            (b"(12, 3 ", "embeddings-0.npy is not a .npy file"),
        ],
    )
    def test_headers_that_numpy_does_not_write(self, archive, shape, message):
        data = npy(np.zeros((N, D), np.float32))
        length = len(data) - N * D * 4
        header = data[:length].replace(b"(12, 3)", shape)[: length - 1]
        rewrite(archive, {"embeddings-0.npy": header.ljust(length - 1) + b"\n" + data[length:]})
        faults = Submission.faults(archive)
        assert any(message in fault for fault in faults), faults

    def test_fortran_order_is_read(self, archive, arrays):
        rewrite(archive, {"embeddings-0.npy": npy(np.asfortranarray(arrays[0][0]))})
        (fault,) = Submission.faults(archive)
        assert "SHA-256 differs" in fault


class TestMemory:
    """What a hostile submission costs: each of these would be read whole if nobody judged it first."""

    @staticmethod
    def faults_within(path, most):
        tracemalloc.start()
        try:
            found = Submission.faults(path)
            assert tracemalloc.get_traced_memory()[1] < most
        finally:
            tracemalloc.stop()
        return found

    @pytest.mark.parametrize("start", [b"nothing of the kind", npy(np.zeros((7, 3), np.float32))])
    def test_a_large_member_with_a_bad_header(self, archive, start):
        rewrite(archive, {"embeddings-0.npy": start.ljust(64 << 20, b"x")})
        assert any("embeddings-0.npy" in fault for fault in self.faults_within(archive, 8 << 20))

    def test_a_header_that_announces_a_long_header(self, archive):
        data = b"\x93NUMPY\x02\x00" + (60 << 20).to_bytes(4, "little")
        rewrite(archive, {"embeddings-0.npy": data.ljust(64 << 20, b" ")})
        assert any("is not a .npy file" in fault for fault in self.faults_within(archive, 8 << 20))

    def test_arrays_that_do_not_belong_together(self, archive):
        rewrite(archive, {"embeddings-0.npy": npy(np.zeros((4 << 20, 3), np.float32))})
        assert any("but ids.npy has 12" in fault for fault in self.faults_within(archive, 8 << 20))

    def test_a_long_table_of_contents(self, tmp_path):
        with zipfile.ZipFile(tmp_path / "s.zip", "w") as file:
            for number in range(20_000):
                file.writestr(zipfile.ZipInfo(f"{number}-{'x' * 50}"), b"")
        (fault,) = self.faults_within(tmp_path / "s.zip", 8 << 20)
        assert "is not a readable zip archive (more than 1048576 bytes would be read at once)" in fault

    @pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
    def test_compressions_that_may_grow_without_bound(self, archive, compression):
        rewrite(archive, {"embeddings-0.npy": b"\0" * (64 << 20)}, compression)
        faults = self.faults_within(archive, 8 << 20)
        assert "'embeddings-0.npy' is compressed in a way that is not read; store it, or deflate it" in faults


def test_an_archive_that_is_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "s.zip")
    assert Submission.faults(tmp_path / "s.zip") == (f"{tmp_path / 's.zip'} is not a regular file",)
