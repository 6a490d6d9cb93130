"""The folder that a dataset is rendered into."""

import errno
import os

import pytest

from ident3d.errors import DatasetError
from render.dataset import writer
from render.dataset.plan import image_bytes
from render.dataset.writer import begun_dataset, check_writable
from tests.render.fake_renderer import small_plan


def test_a_new_and_an_empty_folder_are_begun_with(tmp_path):
    (tmp_path / ".gitattributes").write_text("")
    assert begun_dataset(tmp_path / "new" / "folder") is None
    assert begun_dataset(tmp_path) is None


def test_a_dataset_is_gone_on_with(tmp_path):
    small_plan().manifest.write(tmp_path)
    assert begun_dataset(tmp_path) == small_plan().manifest


def test_a_folder_that_holds_something_else_is_refused(tmp_path):
    for name in ("thesis.tex", "b", "c", "d"):
        (tmp_path / name).write_text("")
    with pytest.raises(ValueError, match=r"holds something else \(b, c, d, \.\.\.\)"):
        begun_dataset(tmp_path)


def test_a_file_and_another_manifest_are_refused(tmp_path):
    (tmp_path / "manifest.json").write_text('{"name": "an extension"}')
    with pytest.raises(NotADirectoryError, match="is a file"):
        begun_dataset(tmp_path / "manifest.json")
    with pytest.raises(DatasetError, match="schema version None"):
        begun_dataset(tmp_path)


def test_a_folder_that_cannot_be_written_is_refused(tmp_path, monkeypatch):
    check_writable(tmp_path / "new" / "folder")
    assert list(tmp_path.iterdir()) == []

    def refused(*args, **kwargs):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(writer.tempfile, "TemporaryFile", refused)
    with pytest.raises(OSError, match=f"no files can be written there: Permission denied: '{tmp_path}'"):
        check_writable(tmp_path / "new" / "folder")


@pytest.mark.parametrize(("resolution", "expected"), [(32, 1580), (64, 4690), (128, 14_080), (224, 34_720)])
def test_the_estimate_is_near_what_draft_images_take(resolution, expected):
    assert image_bytes(resolution) == pytest.approx(expected, rel=0.05)
