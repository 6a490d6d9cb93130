"""Names that are loaded when they are first used."""

import sys
from importlib import import_module, invalidate_caches

import pytest

import baselines.training
import ident3d
import render


@pytest.fixture
def package(tmp_path, monkeypatch):
    folder = tmp_path / "lazily"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "from ident3d.lazy import lazy_names\n__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)\n"
    )
    (folder / "__init__.pyi").write_text("from . import shapes as shapes\nfrom .shapes import area as area\n")
    (folder / "shapes.py").write_text("def area():\n    return 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    invalidate_caches()
    yield import_module("lazily")
    for name in ("lazily", "lazily.shapes"):
        sys.modules.pop(name, None)


def test_a_name_is_loaded_when_it_is_first_used(package):
    assert sorted(package.__all__) == dir(package) == ["area", "shapes"]
    assert "lazily.shapes" not in sys.modules
    assert package.area() == 3
    assert package.shapes is sys.modules["lazily.shapes"]


def test_a_name_that_is_not_there_is_an_attribute_error(package):
    with pytest.raises(AttributeError, match="module 'lazily' has no attribute 'volume'"):
        _ = package.volume


@pytest.mark.parametrize("lazy", [ident3d, render, baselines.training])
def test_every_name_of_the_packages_is_there(lazy):
    assert set(lazy.__all__) <= set(dir(lazy))
    for name in lazy.__all__:
        assert getattr(lazy, name) is not None
