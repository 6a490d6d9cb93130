"""The reference documentation: every public name on a page, every reference and link resolved, formulas set."""

import importlib
import re

import pytest

from tests.documents import ROOT

pytest.importorskip("pdoc")
pytest.importorskip("latex2mathml")

from docs import reference


@pytest.fixture(scope="module")
def built():
    return reference.build()


@pytest.mark.slow
def test_nothing_is_wrong_with_it(built):
    _, faults = built
    assert faults == []


@pytest.mark.slow
def test_every_public_name_is_on_the_page_of_its_module(built):
    texts, _ = built
    lacking = []
    for name in reference.modules():
        module = importlib.import_module(name)
        page = texts[f"{name.replace('.', '/')}.html"]
        for member in getattr(module, "__all__", ()):
            value = getattr(module, member)
            is_shown = f'id="{member}"' in page
            if not is_shown and (callable(value) or isinstance(value, type)) and getattr(value, "__doc__", None):
                lacking.append(f"{name}.{member}")
    assert lacking == []


@pytest.mark.slow
def test_formulas_and_examples_are_set(built):
    texts, _ = built
    assert "<math" in texts["baselines/losses.html"]
    assert "$$" not in re.sub(r"<pre>.*?</pre>", "", texts["baselines/losses.html"], flags=re.DOTALL)
    score = texts["ident3d/commands/score.html"]
    assert "Examples" in score
    assert "ident3d score mine.zip data/small" in re.sub(r"<[^>]+>", "", score)
    index = texts["index.html"]
    assert "Is your loss identifying?" in index
    assert (
        index.index("Quick start by task") < index.index("What people look for") < index.index("ident3d.conditionals")
    )
    assert 'type="search"' in index
    assert 'href="ident3d/pairs/matched.html#PositivePairs"' in index
    pairs = re.sub(r"<[^>]+>", "", texts["ident3d/pairs/matched.html"])
    assert "&gt;&gt;&gt; pairs = ident3d.PositivePairs(data, ident3d.Normal(0.3), batch_size=128)" in pairs


def docstring_page(tmp_path, monkeypatch, docstring):
    """Build the page of a package of one module with one function."""
    package = tmp_path / "leaflet"
    package.mkdir()
    (package / "__init__.py").write_text(f'"""A leaflet."""\n\n\ndef f():\n    """{docstring}"""\n')
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    monkeypatch.setattr(reference, "TUTORIALS", ())
    monkeypatch.delitem(reference.sys.modules, "leaflet", raising=False)
    texts, faults = reference.build(["leaflet"])
    return texts["leaflet.html"], faults


@pytest.mark.parametrize(
    ("docstring", "fault"),
    [
        ("See :func:`f`.", None),
        ("See :func:`g`.", "leaflet.f: :func:`g` refers to nothing"),
        ("See :class:`ident3d.Nothing`.", "refers to nothing"),
        ("The *end* of it.", "an emphasis"),
        ("See [this](nowhere.html).", "the link nowhere.html leads nowhere"),
        ("See [this](#g).", "the link #g leads to nothing on that page"),
    ],
)
def test_what_leads_nowhere_is_a_fault(tmp_path, monkeypatch, docstring, fault):
    _, faults = docstring_page(tmp_path, monkeypatch, docstring)
    assert faults == [] if fault is None else any(fault in found for found in faults), faults


def test_a_formula_becomes_mathematics(tmp_path, monkeypatch):
    page, faults = docstring_page(tmp_path, monkeypatch, r"A loss, $$\\frac{a_1}{b^2}$$ say.")
    assert faults == []
    assert "<mfrac>" in page


def test_wrong_usage_ends_with_2(capsys):
    assert reference.main([]) == 2
    assert "usage" in capsys.readouterr().err
    assert (ROOT / "docs" / "reference.py").is_file()
