"""What several tests of the renderer share."""

import pytest

from tests.render.command_line import render
from tests.render.fake_renderer import files_of


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
