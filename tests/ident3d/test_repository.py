"""One setting holds the address of the repository."""

import pytest

from ident3d.repository import repository_address


def project(folder, urls):
    (folder / "pyproject.toml").write_text(f'[project]\nname = "ident3d"\n{urls}')
    return folder


def test_the_address_is_that_of_the_settings(tmp_path):
    assert repository_address(project(tmp_path, "")) is None
    urls = '[project.urls]\nRepository = "https://example.org/lab/ident3d/"\n'
    assert repository_address(project(tmp_path, urls)) == "https://example.org/lab/ident3d"


def test_what_is_no_address_is_refused(tmp_path):
    with pytest.raises(ValueError, match="begins with https://, not 'javascript:1'"):
        repository_address(project(tmp_path, '[project.urls]\nRepository = "javascript:1"\n'))


def test_without_a_checkout_the_metadata_know_it(tmp_path, monkeypatch):
    class Metadata:
        def get_all(self, name):
            assert name == "Project-URL"
            return ["Documentation, https://example.org/docs", "Repository, https://example.org/lab"]

    monkeypatch.setattr("ident3d.repository.metadata", lambda _: Metadata())
    assert repository_address(tmp_path) == "https://example.org/lab"
