import pytest

from baselines.recipes import RECIPES
from baselines.training.conditional import content_and_style, pair_conditional, true_precision
from ident3d import FACTORS, AnisotropicNormal, Laplace, Normal, ThreeDIdent
from ident3d.conditionals import parse


def test_a_manifest_imports_no_conditional(pairs_root, tmp_path, monkeypatch, caplog):
    (tmp_path / "hostile_tails.py").write_text("raise SystemExit('this ran')\n")
    monkeypatch.syspath_prepend(tmp_path)
    text = ThreeDIdent(pairs_root).provenance.pairs
    recipe = RECIPES["aninfonce-box-exact"]
    assert pair_conditional(recipe, FACTORS, text) == parse(text)
    assert pair_conditional(recipe, FACTORS, "hostile_tails:Tails(0.1)") is None
    assert "import hostile_tails first" in caplog.text


def test_the_true_precision_is_that_of_the_conditional():
    assert true_precision(Normal(0.5), 10).tolist() == pytest.approx([2.0] * 10)
    assert true_precision(AnisotropicNormal(3), 2).tolist() == [3.0] * 2
    assert true_precision(Laplace(0.5), 10) is None
    assert true_precision(None, 10) is None


def test_content_varies_less_than_style():
    assert content_and_style(Normal([0.1, 0.5, 0.1]), 3) == {"content": [0, 2], "style": [1]}
    assert content_and_style(AnisotropicNormal([1, 9]), 2) == {"content": [1], "style": [0]}
    assert content_and_style(Normal(0.1), 3) == {}
