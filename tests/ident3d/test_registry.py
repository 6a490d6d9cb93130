import math
import sys
from types import ModuleType

import pytest

from ident3d import registry
from ident3d.errors import NotLoadedError
from ident3d.registry import Registry


@pytest.fixture
def colours():
    return Registry("colour", {"red": 1, "green": 2})


def test_entries_are_found_by_name(colours):
    assert colours["red"] == colours.find("red") == 1
    assert list(colours) == ["red", "green"]


def test_an_entry_of_ones_own_is_found_once_it_is_registered(colours):
    assert colours.register("blue", 3) == 3
    assert colours.find("blue") == 3


def test_a_name_that_is_taken_is_refused(colours):
    colours.register("red", 1)  # the same again, as when a module is imported twice
    with pytest.raises(ValueError, match="there is a colour 'red' already"):
        colours.register("red", 7)


@pytest.mark.parametrize("name", ["", "a:b"])
def test_names_that_could_not_be_found_again_are_refused(colours, name):
    with pytest.raises(ValueError, match="not a name for a colour"):
        colours.register(name, 1)


def test_an_unknown_name_is_answered_with_the_known_ones(colours):
    with pytest.raises(
        ValueError, match=r"unknown colour 'gren'; did you mean 'green'\?; choose from red, green, or name one"
    ):
        colours.find("gren")


def test_an_attribute_of_any_module_can_be_named(colours, monkeypatch):
    module = ModuleType("my_colours")
    module.shades = ModuleType("shades")
    module.shades.pink = 9
    monkeypatch.setitem(sys.modules, "my_colours", module)
    assert colours.find("my_colours:shades.pink") == 9


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_module:x", "there is no module 'no_such_module'"),
        ("math:taupe", "'math' has no 'taupe'"),
        (":x", "expected package.module:attribute"),
        ("math:", "expected package.module:attribute"),
    ],
)
def test_what_cannot_be_loaded_says_why(colours, name, message):
    with pytest.raises(ValueError, match=message):
        colours.find(name)


def test_a_module_that_lacks_one_of_its_own_imports_says_so_itself(colours, monkeypatch, tmp_path):
    (tmp_path / "needs_more.py").write_text("import surely_not_installed\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="surely_not_installed"):
        colours.find("needs_more:x")


def test_installed_extensions_are_loaded_when_a_name_is_unknown(colours, monkeypatch, tmp_path):
    (tmp_path / "lab_colours.py").write_text("import sys\nsys.modules['shared'].colours.register('blue', 3)\n")
    monkeypatch.syspath_prepend(tmp_path)
    shared = ModuleType("shared")
    shared.colours = colours
    monkeypatch.setitem(sys.modules, "shared", shared)
    declared = tmp_path / "lab-1.0.dist-info"
    declared.mkdir()
    (declared / "METADATA").write_text("Name: lab\nVersion: 1.0\n")
    (declared / "entry_points.txt").write_text(f"[{registry.GROUP}]\nlab = lab_colours\n")
    registry.load_extensions.cache_clear()
    try:
        assert colours.find("blue") == 3
        # The same in the current folder, which may be anybody's, is not installed.
        sys.modules.pop("lab_colours")
        colours._entries.pop("blue")
        sys.path.remove(str(tmp_path))
        sys.path.append("")
        monkeypatch.chdir(tmp_path)
        registry.load_extensions.cache_clear()
        with pytest.raises(ValueError, match="unknown colour 'blue'"):
            colours.find("blue")
        assert "lab_colours" not in sys.modules
    finally:
        registry.load_extensions.cache_clear()


def test_a_name_from_a_file_imports_nothing(colours, monkeypatch, tmp_path):
    (tmp_path / "hostile_colours.py").write_text("raise SystemExit('this ran')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(NotLoadedError, match="import hostile_colours first, or register the colour by an entry point"):
        colours.find("hostile_colours:blue", may_import=False)
    with pytest.raises(NotLoadedError, match="unknown colour 'blue'"):
        colours.find("blue", may_import=False)
    assert colours.find("math:pi", may_import=False) == math.pi
    assert colours.find("red", may_import=False) == 1
