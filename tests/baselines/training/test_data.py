from dataclasses import replace

import pytest
import torch

from baselines.recipes import RECIPES
from baselines.training.data import (
    build_stream,
    content_and_style,
    pair_conditional,
    split_validation,
    true_precision,
)
from ident3d import AnisotropicNormal, AugmentedPairs, Laplace, Normal, PositivePairs, ThreeDIdent
from ident3d.conditionals import parse
from ident3d.errors import DatasetError


@pytest.fixture
def data(images_root):
    return ThreeDIdent(images_root)


def test_the_parts_share_no_row_and_depend_on_the_seed(data):
    part, held_out = split_validation(data, 40, seed=0)
    assert sorted(torch.cat([part.rows, held_out.rows]).tolist()) == list(range(160))
    assert len(held_out) == 40
    assert torch.equal(split_validation(data, 40, seed=0)[1].rows, held_out.rows)
    assert not torch.equal(split_validation(data, 40, seed=1)[1].rows, held_out.rows)
    rows = torch.tensor([3, 0])
    assert torch.equal(held_out.pixels(rows), data.pixels(held_out.rows[rows]))
    assert torch.equal(held_out.latents[rows], data.latents[held_out.rows[rows]])


@pytest.mark.parametrize("validation", [0, 81])
def test_too_large_a_validation_part_is_refused(data, validation):
    with pytest.raises(ValueError, match="the dataset has 160 images"):
        split_validation(data, validation, seed=0)


def test_streams_are_those_of_the_recipes(data):
    part, _ = split_validation(data, 40, seed=0)
    matched = build_stream(RECIPES["aninfonce-box"], part, data, 0, batch_size=8)
    assert isinstance(matched, PositivePairs)
    spread = matched.index.scale
    assert spread.max() - spread.min() > 0.3  # content and style are matched in units of their own
    assert build_stream(RECIPES["infonce-box"], part, data, 0, batch_size=8).index.scale is None
    assert isinstance(build_stream(RECIPES["simclr"], part, data, 0, batch_size=8), AugmentedPairs)
    single = build_stream(RECIPES["supervised"], part, data, 0, batch_size=8).batch(3)
    assert torch.equal(single.x.permute(0, 2, 3, 1), part.pixels(single.ids))
    assert torch.equal(single.z, part.latents[single.ids])


def test_what_does_not_fit_is_refused(data):
    part, _ = split_validation(data, 40, seed=0)
    recipe = RECIPES["infonce-box"]
    with pytest.raises(ValueError, match="120 training images are fewer than a batch of 512"):
        build_stream(recipe, part, data, 0, batch_size=512)
    with pytest.raises(ValueError, match=r"von_mises_fisher.* is not defined on Box"):
        build_stream(replace(recipe, conditional="vmf(kappa=10)"), part, data, 0, batch_size=8)
    with pytest.raises(DatasetError, match="no exact positives"):
        build_stream(RECIPES["aninfonce-box-exact"], part, data, 0, batch_size=8)


def test_a_manifest_imports_no_conditional(pairs_root, tmp_path, monkeypatch, caplog):
    (tmp_path / "hostile_tails.py").write_text("raise SystemExit('this ran')\n")
    monkeypatch.syspath_prepend(tmp_path)
    data = ThreeDIdent(pairs_root)
    recipe = RECIPES["aninfonce-box-exact"]
    assert pair_conditional(recipe, data) == parse(data.provenance.pairs)
    foreign = replace(data.provenance, pairs="hostile_tails:Tails(0.1)")
    monkeypatch.setattr(ThreeDIdent, "provenance", foreign)
    assert pair_conditional(recipe, data) is None
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
