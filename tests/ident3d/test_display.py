"""How objects show themselves: a few lines of text, HTML for notebooks, images to look at."""

import base64
import builtins
import html.parser
import io
import re

import numpy as np
import pytest
import torch
from PIL import Image

from ident3d import (
    FACTORS,
    AugmentedPairs,
    BatchTransform,
    Normal,
    PositivePairs,
    RenderedPairs,
    Submission,
    ThreeDIdent,
    metrics,
)
from ident3d.display import as_images, bar
from ident3d.errors import MissingDependencyError
from ident3d.submission import Metadata

SAMPLE = ThreeDIdent("sample", split="test")


class Parser(html.parser.HTMLParser):
    """Checks that elements are closed in order, and keeps texts and images."""

    def __init__(self):
        super().__init__()
        self.open, self.texts, self.images = [], [], []

    def handle_starttag(self, tag, attrs):
        if tag == "img":
            data = dict(attrs)["src"].removeprefix("data:image/png;base64,")
            self.images.append(np.asarray(Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB")))
        elif tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def parsed(shown):
    parser = Parser()
    parser.feed(shown._repr_html_())
    assert not parser.open
    return parser


def pairs(**options):
    return PositivePairs(SAMPLE, Normal(0.5), 12, **options)


def scores():
    return metrics.score(
        SAMPLE, SAMPLE.latents + 0.2 * torch.randn(256, 10, generator=torch.Generator().manual_seed(0))
    )


def submission(tmp_path):
    about = Metadata("mine", ("A. Author",), "m", "e", "t", "c", SAMPLE.fingerprint, seeds=(3, 4))
    return Submission.write(tmp_path / "mine.zip", [SAMPLE.latents, SAMPLE.latents], SAMPLE.ids, about)


def test_texts_are_a_few_lines_and_never_arrays(tmp_path):
    batch = pairs().batch(0)
    shown = {
        "ThreeDIdent": (SAMPLE, 1),
        "PositivePairs": (pairs(), 2),
        "PairBatch": (batch, 9),
        "R2": (scores(), 20),
        "realised": (pairs().realised_conditional(200), 17),
        "10 factors": (FACTORS, 11),
        "dataset of": (SAMPLE.provenance, 7),
        "mine, revision 1": (submission(tmp_path), 4),
        "position_x": (metrics.mcc(SAMPLE, SAMPLE.latents), 15),
    }
    for start, (thing, most) in shown.items():
        text = repr(thing)
        assert start in text.splitlines()[0]
        assert len(text.splitlines()) <= most
        assert max(map(len, text.splitlines())) < 200
        assert "tensor(" not in text
        assert "array(" not in text


def test_pairs_say_how_they_are_served_and_what_they_realise():
    text = repr(pairs(seed=3, dtype=torch.float32, transform=BatchTransform(torch.nn.Identity())))
    first, second, third = text.splitlines()
    assert first == "PositivePairs(batch_size=12, seed=3, dtype=torch.float32) on cpu"
    assert second.startswith("  normal(sigma=0.5) matched in 256 images: positives spread ")
    assert third.startswith("  transform: BatchTransform(function=Identity()")
    assert repr(AugmentedPairs(SAMPLE, 4)).splitlines()[1] == (
        "  two augmented views of each of 256 images: positives have the latents of their anchors"
    )


def test_a_batch_says_shapes_dtypes_and_ids():
    batch = pairs().batch(2)
    lines = repr(batch).splitlines()
    assert lines[0] == "PairBatch 2: 12 pairs on cpu"
    assert "  x        uint8 (12, 3, 64, 64)" in lines
    assert "  z        float32 (12, 10)" in lines
    assert lines[7] == f"  ids: {', '.join(map(str, batch.ids[:8].tolist()))}, ..."


def test_a_submission_and_a_dataset_say_what_they_are(tmp_path, native_pairs):
    text = repr(submission(tmp_path))
    assert f"256 samples of the split 'test', fingerprint {SAMPLE.fingerprint[:12]}" in text
    assert re.search(r"seed 4: embeddings float32 \(256, 10\), sha256 [0-9a-f]{12}$", text)
    data = ThreeDIdent(native_pairs.root)
    assert f"exact pairs: {data.provenance.pairs}" in repr(data.provenance)
    assert data.provenance.pairs in repr(RenderedPairs(data, 4))


def test_a_dataset_is_a_strip_of_images_with_their_latents():
    shown = parsed(SAMPLE)
    assert len(shown.images) == 8
    for row, image in enumerate(shown.images):
        np.testing.assert_array_equal(image, SAMPLE.pixels([row])[0])
    assert {*FACTORS.names, "id"} <= set(shown.texts)
    assert f"{SAMPLE.latents[3, 4]:.2f}" in shown.texts
    assert len(parsed(SAMPLE[:3]).images) == 3
    assert "0 images" in "".join(parsed(SAMPLE[:0]).texts)


@pytest.mark.parametrize("stream", [pairs(), AugmentedPairs(SAMPLE, 12, dtype=torch.bfloat16)])
def test_a_batch_and_pairs_are_anchors_above_positives(stream):
    batch = stream.batch(0)
    for shown in (parsed(batch), parsed(stream)):
        assert len(shown.images) == 16
        for images, found in ((batch.x, shown.images[:8]), (batch.x_pos, shown.images[8:])):
            scale = 255 if images.is_floating_point() else 1
            expected = (images[:8].double() * scale).round().permute(0, 2, 3, 1)
            np.testing.assert_allclose(np.stack(found), expected, atol=1)
        assert f"{batch.z[2, 0]:.2f} → {batch.z_pos[2, 0]:.2f}" in shown.texts


def test_what_a_transform_made_of_images_is_shown_as_well_as_it_can_be():
    normalised = pairs(dtype=torch.float32, transform=lambda x: 5 * x - 2).batch(0)
    shown = parsed(normalised).images[0].astype(float)
    wide = (normalised.x[:8].double().permute(0, 2, 3, 1) - normalised.x[:8].min()).numpy()
    np.testing.assert_allclose(shown, 255 * wide[0] / wide.max(), atol=1)
    flat = pairs(transform=lambda x: x.float().mean(dim=(1, 2))).batch(0)
    assert not parsed(flat).images
    with pytest.raises(ValueError, match=r"a batch shows images of shape \(B, 3, H, W\) or .*, not \(12, 3\)"):
        flat.show()
    assert as_images(torch.zeros(0, 3, 2, 2)) is None
    grey = as_images(torch.tensor([[[[0, 255]]]], dtype=torch.uint8))
    np.testing.assert_array_equal(grey, [[[[0] * 3, [255] * 3]]])


def test_show_is_a_sheet_of_images():
    batch = pairs().batch(0)
    sheet = np.asarray(batch.show(5))
    assert sheet.shape == (2 * 64 + 2, 5 * 64 + 4 * 2, 3)
    np.testing.assert_array_equal(sheet[:64, 66:130], batch.x[1].permute(1, 2, 0))
    np.testing.assert_array_equal(sheet[66:, :64], batch.x_pos[0].permute(1, 2, 0))
    assert (sheet[64:66] == 255).all()
    np.testing.assert_array_equal(np.asarray(SAMPLE.show(3))[:, 132:], SAMPLE.pixels([2])[0])
    assert np.asarray(SAMPLE[:2].show(7)).shape == (64, 130, 3)
    for shown in (batch, SAMPLE):
        with pytest.raises(ValueError, match="is 1 or larger, not 0"):
            shown.show(0)


def test_scores_are_a_table_with_bars():
    found = scores()
    shown = parsed(found)
    assert {"position_x", "[hue]", "mean", "chance", "95%", "R2", "MCC"} <= set(shown.texts)
    assert f"{found.r2:.3f}" in shown.texts
    assert "50.0%,transparent 50.0%" in bar(0.5, "0.5")
    assert "transparent 0.0%" in bar(-0.2, "-0.2")
    assert "<b>" not in bar(1.0, "<b>")


def test_scores_are_a_data_frame():
    found = scores()
    frame = found.to_frame()
    assert list(frame.columns) == ["metric", "kind", "name", "value", "low", "high", "chance", "ceiling"]
    assert len(frame) == 3 * (10 + 4 + 1)
    (r2,) = frame.query("metric == 'r2' and kind == 'mean'")["value"]
    assert r2 == found.r2
    (low,) = frame.query("metric == 'mcc_pearson' and name == 'object_hue'")["low"]
    assert low == found.metrics["mcc_pearson"].low.per_factor["object_hue"]
    assert frame["ceiling"].isna().all()
    both = metrics.score(SAMPLE, SAMPLE.latents, ceiling=found).to_frame()
    assert both["ceiling"].tolist() == pytest.approx(frame["value"].tolist())


def test_the_realised_conditional_is_its_plot(monkeypatch):
    found = pairs().realised_conditional(200)
    shown = parsed(found)
    assert len(shown.images) == 1
    assert shown.images[0].std() > 10
    assert found.sentence in shown.texts
    monkeypatch.setattr("ident3d.pairs.realised.find_spec", lambda _: None)
    assert "nominal std" in "".join(parsed(found).texts)


def test_without_pandas_it_is_named(monkeypatch):
    found, real = scores(), builtins.__import__

    def refuse(name, *rest):
        if name == "pandas":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingDependencyError, match="pandas is needed to make a data frame of scores"):
        found.to_frame()
