"""Files, written whole or not at all, and disks with space for them."""

import hashlib
import os
import shutil
from types import SimpleNamespace

import pytest

from ident3d.files import atomic_file, check_disk_space, remove_unfinished, sha256_of, write_bytes, write_text


def test_a_written_file_has_its_bytes_and_leaves_no_neighbour(tmp_path):
    path = tmp_path / "new" / "folder" / "file.bin"
    write_bytes(path, b"abc")
    write_text(path.with_name("text"), "é\n")
    assert path.read_bytes() == b"abc"
    assert path.with_name("text").read_bytes() == "é\n".encode()
    assert sorted(file.name for file in path.parent.iterdir()) == ["file.bin", "text"]


def test_an_error_leaves_the_old_file_and_no_neighbour(tmp_path):
    path = tmp_path / "file"
    write_bytes(path, b"old")
    with pytest.raises(RuntimeError, match="in the middle"), atomic_file(path) as file:
        _write_half(file)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_two_writers_of_one_file_do_not_share_a_neighbour(tmp_path):
    path = tmp_path / "file"
    with atomic_file(path) as first:
        first.write(b"first")
        with atomic_file(path) as second:
            second.write(b"second")
        assert path.read_bytes() == b"second"
    assert path.read_bytes() == b"first"


def test_what_a_killed_writer_left_is_removed_and_nothing_else(tmp_path):
    left = tmp_path / ".a.parquet.0123456789ab.tmp"
    others = [tmp_path / name for name in ("a.parquet", ".b.parquet.0123456789ab.tmp", ".a.parquet.tmp.keep")]
    for path in (left, *others):
        path.write_bytes(b"")
    remove_unfinished(tmp_path / "a.parquet")
    assert sorted(tmp_path.iterdir()) == sorted(others)


def test_whoever_writes_removes_what_killed_writers_left_and_spares_living_ones(tmp_path):
    path = tmp_path / "a.json"
    dead = tmp_path / ".a.json.0123456789ab.tmp"
    dead.write_bytes(b"half")
    folder = tmp_path / ".a.json.folder.tmp"
    folder.mkdir()
    with atomic_file(path) as living:
        living.write(b"one")
        remove_unfinished(path)
        write_bytes(path, b"two")
        assert not dead.exists()
    assert path.read_bytes() == b"one"
    assert sorted(tmp_path.iterdir()) == [folder, path]


def test_where_there_are_no_locks_a_day_passes_before_a_neighbour_counts_as_left_behind(tmp_path, monkeypatch):
    monkeypatch.setattr("ident3d.files.try_lock", lambda _: None)
    new, old = (tmp_path / f".a.json.{name}.tmp" for name in ("new", "old"))
    for path in (new, old):
        path.touch()
    os.utime(old, (0, 0))
    write_bytes(tmp_path / "a.json", b"")
    assert new.exists()
    assert not old.exists()


def test_the_checksum_is_that_of_the_bytes(tmp_path):
    data = bytes(range(256)) * 8200  # more than one chunk
    write_bytes(tmp_path / "file", data)
    assert sha256_of(tmp_path / "file") == hashlib.sha256(data).hexdigest()


def _write_half(file):
    file.write(b"half of the new")
    raise RuntimeError("in the middle")


def test_a_disk_that_is_too_small_is_refused(tmp_path, monkeypatch):
    folder = tmp_path / "new" / "folder"  # neither is there yet
    check_disk_space(folder, 1000, "unpacking x.zip")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=999 if path == tmp_path else 0))
    with pytest.raises(
        OSError, match=r"unpacking x\.zip takes 1,000 bytes, but 999 are free on the disk of .*new.folder: free some"
    ):
        check_disk_space(folder, 1000, "unpacking x.zip")
