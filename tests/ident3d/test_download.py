"""Fetching the published archives, from a server on this machine."""

import hashlib
import io
import shutil
import tarfile
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

import ident3d.download
from ident3d.dataset import ThreeDIdent
from ident3d.download import ARCHIVES, Archive, download_published
from ident3d.errors import DatasetError
from tests.ident3d.bad_server import Server

COUNTS = {"train": 12, "test": 5}


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setattr(ident3d.download, "_CHUNK", 1000)
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def waits(monkeypatch):
    """The pauses that were asked for; none of them is kept."""
    waits = []
    monkeypatch.setattr(time, "sleep", waits.append)
    return waits


def archive_of(folder, name):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        tar.add(folder, name)
    return file.getvalue()


@pytest.fixture
def source(server, tmp_path, make_published, monkeypatch):
    """The archives of a small dataset, on the server and in place of the published ones."""
    made = make_published(tmp_path / "origin", COUNTS)
    archives = {}
    for split in COUNTS:
        name = f"3dident_{split}.tar"
        data = archive_of(made.root / split, f"3dident/{split}")
        server.files[name] = data
        archives[split] = Archive(name, hashlib.md5(data, usedforsecurity=False).hexdigest())
    monkeypatch.setattr(ident3d.download, "ARCHIVES", archives)
    return made


def serve_archive(server, data, split="train"):
    """Serve ``data`` as the archive of a split; return what download_published takes for it."""
    server.files["3dident_train.tar"] = data
    return {
        "splits": [split],
        "source": server.url,
        "archives": {split: Archive("3dident_train.tar", hashlib.md5(data, usedforsecurity=False).hexdigest())},
    }


def test_the_published_archives_are_those_of_the_record():
    assert ident3d.download.SOURCE == "https://zenodo.org/records/4502485/files"
    assert {split: (archive.name, archive.md5) for split, archive in ARCHIVES.items()} == {
        "train": ("3dident_train.tar", "df132b4dacf04fa28e1c8ca9d2168634"),
        "test": ("3dident_test.tar", "35020bca16c9faa80cf0c926d265d678"),
    }


def test_both_splits_are_fetched_and_can_be_read(source, server, tmp_path):
    root = tmp_path / "new" / "root"
    download_published(root, source=server.url + "/")
    for split, count in COUNTS.items():
        data = ThreeDIdent(root, split)
        assert (len(data), data.layout) == (count, "published")
        np.testing.assert_array_equal(data.latents, source.latents[split])
        np.testing.assert_array_equal(data.pixels(np.arange(count)), source.pixels[split])
    assert {path.name for path in root.iterdir() if path.name != ".download.lock"} == {"train", "test"}


def test_a_home_folder_is_understood(source, server, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    download_published("~/root", ["test"], source=server.url)
    assert len(ThreeDIdent(tmp_path / "root", "test")) == 5


def test_what_is_there_is_not_fetched_again(source, server, tmp_path):
    download_published(tmp_path / "root", ["test"], source=server.url)
    del server.asked[:]
    download_published(tmp_path / "root", ["test"], source=server.url)
    assert server.asked == []
    download_published(tmp_path / "root", source=server.url)
    assert server.gets() == [("3dident_train.tar", None)]


def test_splits_in_another_layout_are_there_too(native, server):
    download_published(native.root, source=server.url)
    assert server.asked == []


def test_the_sample_needs_no_download(server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    download_published(ident3d.download.Path("sample"), source=server.url)
    assert server.asked == []
    assert list(tmp_path.iterdir()) == []


def test_archives_are_kept_when_asked_and_used_again(source, server, tmp_path):
    root = tmp_path / "root"
    download_published(root, ["train"], source=server.url, keep_archives=True)
    assert (root / "3dident_train.tar").read_bytes() == server.files["3dident_train.tar"]
    shutil.rmtree(root / "train")
    del server.asked[:]
    download_published(root, ["train"], source=server.url)
    assert server.gets() == []
    assert len(ThreeDIdent(root)) == 12
    assert not (root / "3dident_train.tar").exists()


@pytest.mark.parametrize("ranges", [True, False])
def test_a_broken_connection_is_taken_up_again(source, server, tmp_path, waits, ranges):
    server.ranges = ranges
    server.cuts = [5000, 3000]
    download_published(tmp_path / "root", ["train"], source=server.url)
    assert len(ThreeDIdent(tmp_path / "root")) == 12
    asked = [asked for _, asked in server.gets()]
    assert asked[:2] == [None, "bytes=5000-"]
    assert asked[2:] == (["bytes=8000-"] if ranges else ["bytes=3000-"])
    assert sum(waits) <= 1  # it made headway each time, or nearly


def test_a_download_that_was_killed_goes_on_where_it_stopped(source, server, tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    whole = server.files["3dident_train.tar"]
    (root / "3dident_train.tar.part").write_bytes(whole[:7000])
    download_published(root, ["train"], source=server.url)
    assert server.gets() == [("3dident_train.tar", "bytes=7000-")]
    assert len(ThreeDIdent(root)) == 12


def test_a_download_that_was_killed_before_its_check_is_only_checked(source, server, tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    whole = server.files["3dident_train.tar"]
    (root / "3dident_train.tar.part").write_bytes(whole)
    download_published(root, ["train"], source=server.url)
    assert server.gets() == [("3dident_train.tar", f"bytes={len(whole)}-")]
    assert len(ThreeDIdent(root)) == 12


def test_a_part_that_is_longer_than_the_file_is_thrown_away(source, server, tmp_path, waits):
    root = tmp_path / "root"
    root.mkdir()
    (root / "3dident_train.tar.part").write_bytes(b"x" * (len(server.files["3dident_train.tar"]) + 1))
    download_published(root, ["train"], source=server.url)
    assert len(ThreeDIdent(root)) == 12


def test_it_gives_up_when_nothing_new_comes_and_keeps_what_came(source, server, tmp_path, waits):
    server.cuts = [4000] + [0] * 5
    root = tmp_path / "root"
    with pytest.raises(DatasetError, match=r"stopped at 4,000 bytes .* kept in .*run it again to resume"):
        download_published(root, ["train"], source=server.url)
    assert waits == [0, 1, 3, 7, 15]
    assert not (root / "train").exists()
    assert not (root / "3dident_train.tar").exists()
    download_published(root, ["train"], source=server.url)
    assert server.gets()[-1] == ("3dident_train.tar", "bytes=4000-")
    assert len(ThreeDIdent(root)) == 12


def test_a_server_that_drips_is_given_up_and_what_came_is_kept(source, server, tmp_path, waits, monkeypatch):
    monkeypatch.setattr(ident3d.download, "_PACE_S", 0.1)
    server.drips = [0.05] * 20
    with pytest.raises(DatasetError, match=r"stopped at \d+ bytes \(\d+ bytes arrived in 0 seconds\).*kept in"):
        download_published(tmp_path / "root", ["train"], source=server.url)
    assert waits == [1, 3, 7, 15]
    assert 0 < (tmp_path / "root" / "3dident_train.tar.part").stat().st_size < 200


@pytest.fixture
def impatient(monkeypatch):
    for name in ("_ANSWER_S", "_PACE_S"):
        monkeypatch.setattr(ident3d.download, name, 0.2)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("what", ["slow_headers", "slow_sizes"])
def test_headers_and_sizes_of_chunks_that_drip_are_given_up(source, server, tmp_path, waits, what):
    setattr(server, what, 2)
    download_published(tmp_path / "root", ["train"], source=server.url)
    assert len(ThreeDIdent(tmp_path / "root")) == 12
    setattr(server, what, 100)
    with pytest.raises(DatasetError, match="stopped at 0 bytes"):
        download_published(tmp_path / "other", ["train"], source=server.url)
    assert waits[-4:] == [1, 3, 7, 15]


def test_a_file_of_unknown_length_is_fetched_and_one_without_an_end_is_not(source, server, tmp_path, monkeypatch):
    server.lengths = False
    download_published(tmp_path / "root", ["train"], source=server.url)
    assert len(ThreeDIdent(tmp_path / "root")) == 12
    monkeypatch.setattr(ident3d.download, "_MOST_BYTES", 5000)
    with pytest.raises(DatasetError, match="does not end within 5,000 bytes"):
        download_published(tmp_path / "other", ["train"], source=server.url)
    server.lengths = True
    with pytest.raises(DatasetError, match="more than any archive of images"):
        download_published(tmp_path / "third", ["train"], source=server.url)


def test_what_killed_downloads_left_is_removed(source, server, tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    for name in ("tmpabcd_123", "tmp00000000"):
        (root / name).touch()
    (root / "tmpmine").touch()
    (root / "tmpabcdefgh").write_text("not empty")
    download_published(root, ["train"], source=server.url)
    there = {path.name for path in root.iterdir()}
    assert there == {"train", ".download.lock", "tmpmine", "tmpabcdefgh"}


def test_a_busy_server_is_asked_again(source, server, tmp_path, waits):
    server.statuses = [503, 429]
    download_published(tmp_path / "root", ["train"], source=server.url)
    assert len(ThreeDIdent(tmp_path / "root")) == 12
    assert waits == [1, 3]


def test_a_server_that_is_not_there(source, tmp_path, waits):
    with pytest.raises(DatasetError, match="stopped at 0 bytes"):
        download_published(tmp_path / "root", ["train"], source="http://127.0.0.1:9")


def test_a_server_without_the_file(source, server, tmp_path):
    with pytest.raises(DatasetError, match=r"answered 404 .*/elsewhere/3dident_train\.tar"):
        download_published(tmp_path / "root", ["train"], source=server.url + "/elsewhere")


def test_a_server_that_forbids(source, server, tmp_path):
    server.statuses = [403]
    with pytest.raises(DatasetError, match="answered 403"):
        download_published(tmp_path / "root", ["train"], source=server.url)


@pytest.mark.parametrize("change", ["cut", "flipped"])
def test_an_archive_with_another_checksum_is_not_accepted(source, server, tmp_path, change):
    whole = server.files["3dident_train.tar"]
    server.files["3dident_train.tar"] = whole[:-2000] if change == "cut" else b"x" + whole[1:]
    root = tmp_path / "root"
    with pytest.raises(DatasetError, match=r"not the file that was published .*run it again"):
        download_published(root, ["train"], source=server.url)
    assert {path.name for path in root.iterdir()} <= {".download.lock"}
    server.files["3dident_train.tar"] = whole
    download_published(root, ["train"], source=server.url)
    assert len(ThreeDIdent(root)) == 12


def test_an_archive_that_was_put_there_and_is_wrong_is_fetched_again(source, server, tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    (root / "3dident_train.tar").write_bytes(b"half an archive")
    download_published(root, ["train"], source=server.url)
    assert len(ThreeDIdent(root)) == 12


def test_an_interrupted_unpacking_is_repaired(source, server, tmp_path, monkeypatch):
    root = tmp_path / "root"
    real = ident3d.download.unpack

    def interrupted(archive, folder):
        real(archive, folder)
        raise KeyboardInterrupt

    monkeypatch.setattr(ident3d.download, "unpack", interrupted)
    with pytest.raises(KeyboardInterrupt):
        download_published(root, ["train"], source=server.url)
    assert not (root / "train").exists()
    monkeypatch.setattr(ident3d.download, "unpack", real)
    left = root / ".train.unpacking" / "archive"  # what a kill at that moment would have left
    left.mkdir(parents=True)
    (left / "raw_latents.npy").write_bytes(b"")
    del server.asked[:]
    download_published(root, ["train"], source=server.url)
    assert server.gets() == []  # the archive had arrived whole
    assert len(ThreeDIdent(root)) == 12
    assert not (root / ".train.unpacking").exists()


def test_a_damaged_split_is_named_and_left_alone(source, server, tmp_path):
    root = tmp_path / "root"
    shutil.copytree(source.root, root)
    (root / "train" / "images" / "03.png").unlink()
    with pytest.raises(DatasetError, match=r"11 images in .* but 12 rows of latents"):
        download_published(root, source=server.url)
    assert server.asked == []


def member(name, data=b"", **fields):
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, data


EVIL = {
    "outside": member("../outside.txt", b"x"),
    "absolute": member("/tmp/absolute.txt", b"x"),  # noqa: S108 - it is never written
    "hidden in the middle": member("3dident/../../outside.txt", b"x"),
    "symbolic link": member("3dident/link", type=tarfile.SYMTYPE, linkname="/etc"),
    "link inside": member("3dident/link", type=tarfile.SYMTYPE, linkname="raw_latents.npy"),
    "hard link": member("3dident/link", type=tarfile.LNKTYPE, linkname="../../../etc/passwd"),
    "device": member("3dident/null", type=tarfile.CHRTYPE, devmajor=1, devminor=3),
    "pipe": member("3dident/pipe", type=tarfile.FIFOTYPE),
}


@pytest.mark.parametrize("kind", EVIL)
def test_a_malicious_archive_writes_nothing(server, tmp_path, kind):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        info, data = EVIL[kind]
        tar.addfile(info, io.BytesIO(data))
    root = tmp_path / "a" / "b" / "root"
    with pytest.raises(DatasetError, match=r"outside of the dataset's folder|neither a plain file nor a folder"):
        download_published(root, **serve_archive(server, file.getvalue()))
    assert {path.name for path in root.iterdir()} <= {".download.lock", "3dident_train.tar"}
    assert list(tmp_path.glob("**/*.txt")) == []


def test_an_archive_that_explodes_is_stopped(server, tmp_path):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as tar:
        info, data = member("3dident/train/images/0.png", bytes(1 << 20))
        tar.addfile(info, io.BytesIO(data))
    with pytest.raises(DatasetError, match=r"unpacks to more than .* it is not an archive of images"):
        download_published(tmp_path / "root", **serve_archive(server, file.getvalue()))


def test_an_archive_of_too_many_files_is_stopped(source, server, tmp_path, monkeypatch):
    monkeypatch.setattr(ident3d.download, "_MOST_MEMBERS", 10)
    with pytest.raises(DatasetError, match="unpacks to more than 10 files"):
        download_published(tmp_path / "root", ["train"], source=server.url)


@pytest.mark.parametrize("data", [b"", b"no archive at all", bytes(2048)])
def test_a_file_that_is_no_archive_of_a_dataset(server, tmp_path, data):
    with pytest.raises(DatasetError, match=r"cannot be unpacked|holds 0 files raw_latents.npy"):
        download_published(tmp_path / "root", **serve_archive(server, data))


def test_an_archive_whose_images_and_latents_disagree(source, server, tmp_path):
    (source.root / "train" / "images" / "07.png").unlink()
    served = serve_archive(server, archive_of(source.root / "train", "anything"))
    with pytest.raises(DatasetError, match=r"11 images in .* but 12 rows of latents"):
        download_published(tmp_path / "root", **served)
    assert not (tmp_path / "root" / "train").exists()


def test_folders_in_the_archive_may_have_any_name(source, server, tmp_path):
    served = serve_archive(server, archive_of(source.root / "test", "./some/where"), split="test")
    download_published(tmp_path / "root", **served)
    assert len(ThreeDIdent(tmp_path / "root", "test")) == 5


def test_a_disk_that_is_too_small_is_noticed_before_the_download(source, server, tmp_path, monkeypatch):
    size = {split: len(server.files[f"3dident_{split}.tar"]) for split in COUNTS}
    # Train unpacked beside its archive, then test beside its own: whichever takes more at once.
    needed = max(2 * size["train"], size["train"] + 2 * size["test"])
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=needed - 1))
    with pytest.raises(OSError, match=f"takes {needed:,} bytes, but {needed - 1:,} are free"):
        download_published(tmp_path / "root", source=server.url)
    assert server.gets() == []
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=needed))
    download_published(tmp_path / "root", source=server.url)


def test_processes_that_ask_at_once_fetch_once(source, server, tmp_path):
    threads = [
        threading.Thread(target=download_published, args=(tmp_path / "root",), kwargs={"source": server.url})
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(path for path, _ in server.gets()) == ["3dident_test.tar", "3dident_train.tar"]
    assert len(ThreeDIdent(tmp_path / "root", "test")) == 5


def test_arguments_that_cannot_be_right(tmp_path):
    with pytest.raises(ValueError, match="has the splits train, test, not val"):
        download_published(tmp_path / "root", ["val"])
    with pytest.raises(ValueError, match=r"begins with http:// or https://, not 'zenodo\.org'"):
        download_published(tmp_path / "root", source="zenodo.org")
    assert not (tmp_path / "root").exists()
