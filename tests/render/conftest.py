"""What several tests of the renderer share."""

import errno
import os
import sys

import pytest

from tests.render.command_line import render
from tests.render.fake_renderer import files_of

_CHANGES = {"os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.truncate", "os.utime", "os.chmod", "os.link"}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_read_only = []


def _refuse(event, arguments):
    """Refuse changes below the folders that are read-only; permissions would not stop a test that runs as root."""
    is_change = event in _CHANGES or (event == "open" and arguments[2] & _WRITING)
    if _read_only and is_change and not isinstance(arguments[0], int):
        path = os.fspath(arguments[0])
        if isinstance(path, str) and any(path.startswith(root) for root in _read_only):
            raise OSError(errno.EROFS, "Read-only file system", path)


@pytest.fixture(scope="session")
def _guarded():
    sys.addaudithook(_refuse)  # there is no way to take it away again


@pytest.fixture
def read_only(_guarded):
    """A function that makes a folder read-only until the test ends."""
    yield lambda root: _read_only.append(str(root))
    _read_only.clear()


@pytest.fixture(scope="session")
def rendered(tmp_path_factory):
    """The small dataset, rendered without an interruption by one worker."""
    root = tmp_path_factory.mktemp("rendered") / "whole"
    assert render(root) == 0
    return root


@pytest.fixture(scope="session")
def rendered_files(rendered):
    """The shards of the small dataset."""
    return files_of(rendered)
