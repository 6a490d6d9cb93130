"""Documents that hold the repository's address."""

import tomllib

import pytest

from docs.links import linked
from ident3d.repository import repository_address
from tests.documents import ROOT

NAMES = ["README.md", "CITATION.cff"]


@pytest.mark.parametrize("name", NAMES)
def test_documents_hold_the_address_that_is_set(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    assert linked(name, text, repository_address(ROOT)) == text, "run python -m docs.links"


@pytest.mark.parametrize("name", NAMES)
def test_an_address_comes_changes_and_goes(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    plain = linked(name, text, None)
    first = linked(name, plain, "https://example.org/lab")
    assert first.count("https://example.org/lab") == (2 if name == "README.md" else 1)
    assert linked(name, first, "https://example.org/other") == linked(name, plain, "https://example.org/other")
    assert linked(name, first, None) == plain


def test_the_setting_is_described_where_it_goes():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    set_up = text.replace("# [project.urls]", "[project.urls]").replace("# Repository =", "Repository =")
    assert tomllib.loads(set_up)["project"]["urls"]["Repository"].startswith("https://")
