"""The images of an unfinished shard."""

import errno
import signal
import subprocess
import sys

import pytest

from ident3d.errors import DatasetError
from render.dataset.journal import Journal, JournalBusyError, JournalKey

IMAGES = {
    JournalKey(4): b"four",
    JournalKey(5): b"",
    JournalKey(5, positive=True): bytes(range(256)) * 50,
    JournalKey(2**40): b"far",
}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "new" / "shard.journal"
    journal = Journal(path, "settings")
    for key, image in IMAGES.items():
        journal.append(key, image)
    journal.close()
    return path


def _read(path, settings="settings"):
    journal = Journal(path, settings)
    try:
        return {key: journal.image(key) for key in journal.present}
    finally:
        journal.close()


def test_a_journal_is_read_as_it_was_written(path):
    assert _read(path) == IMAGES


def test_a_journal_goes_on_where_it_was_cut_anywhere(path):
    whole = path.read_bytes()
    for kept in [*range(0, 260, 7), len(whole) - 1, len(whole)]:
        path.write_bytes(whole[:kept])
        there = _read(path)
        assert there.items() <= IMAGES.items()
        journal = Journal(path, "settings")
        for key in IMAGES.keys() - there.keys():
            journal.append(key, IMAGES[key])
        journal.close()
        assert _read(path) == IMAGES


def test_a_damaged_frame_and_what_follows_it_are_dropped(path):
    data = bytearray(path.read_bytes())
    data[data.index(b"four")] ^= 1
    path.write_bytes(data)
    assert _read(path) == {}
    assert path.stat().st_size < len(data)


def test_a_tail_of_zeros_is_dropped(path):
    path.write_bytes(path.read_bytes() + bytes(4096))
    assert _read(path) == IMAGES


def test_a_journal_of_other_settings_is_emptied(path):
    assert _read(path, "other settings") == {}
    assert _read(path, "settings") == {}


def test_another_file_is_emptied(path):
    path.write_bytes(b"something else" * 100)
    assert _read(path) == {}


def test_an_image_written_twice_is_there_once(path):
    journal = Journal(path, "settings")
    journal.append(JournalKey(4), b"again")
    assert journal.image(JournalKey(4)) == b"again"
    journal.close()
    assert _read(path) == IMAGES | {JournalKey(4): b"again"}


def test_a_full_disk_leaves_the_journal_as_it_was(path, monkeypatch):
    journal = Journal(path, "settings")

    class Filling:
        def __init__(self, file):
            self.file = file
            self.calls = 0

        def write(self, data):
            self.calls += 1
            if self.calls > 1:
                raise OSError(errno.ENOSPC, "No space left on device")
            return self.file.write(bytes(data)[:10])

        def __getattr__(self, name):
            return getattr(self.file, name)

    monkeypatch.setattr(journal, "_file", Filling(journal._file))
    with pytest.raises(OSError, match="No space left"):
        journal.append(JournalKey(9), b"image")
    assert JournalKey(9) not in journal.present
    journal.close()
    assert _read(path) == IMAGES


def test_two_processes_do_not_write_one_journal(path):
    journal = Journal(path, "settings")
    with pytest.raises(JournalBusyError, match="another process"):
        Journal(path, "settings")
    journal.close()
    assert _read(path) == IMAGES


def test_a_kill_releases_the_journal(path):
    code = (
        "import pathlib, sys, time; from render.dataset.journal import Journal\n"
        "journal = Journal(pathlib.Path(sys.argv[1]), 'settings'); print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE)
    with holder:
        assert holder.stdout.readline() == b"held\n"
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    assert _read(path) == IMAGES


def test_a_journal_that_another_process_wrote_into_is_not_believed(path):
    journal = Journal(path, "settings")
    data = bytearray(path.read_bytes())
    data[data.index(b"four")] ^= 1
    path.write_bytes(data)
    with pytest.raises(DatasetError, match="two processes may be rendering"):
        journal.image(JournalKey(4))
    journal.close()


def test_a_deleted_journal_is_gone_and_can_be_made_again(path):
    journal = Journal(path, "settings")
    journal.delete()
    assert not path.exists()
    assert _read(path) == {}
