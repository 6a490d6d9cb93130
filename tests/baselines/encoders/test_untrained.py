import numpy as np
import pytest
import torch

from baselines.__main__ import main
from baselines.encoders.untrained import UNTRAINED
from baselines.recipes import RECIPES
from baselines.training.objective import build_encoder
from ident3d import Submission, ThreeDIdent, metrics, sample_latents
from ident3d.__main__ import main as ident3d_main


def embedded(name, root, path, *options):
    status = main(["embed", name, str(root), "-o", str(path), "--authors", "A. Author", "--device", "cpu", *options])
    assert status == 0
    return Submission.read(path)


def test_pixels_are_the_images_in_cells(images_root, tmp_path):
    submission = embedded("pixels", images_root, tmp_path / "pixels.zip")
    data = ThreeDIdent(images_root, split="test")
    images = data.pixels(range(len(data))).numpy() / 255
    cells = images.reshape(80, 8, 4, 8, 4, 3).mean(axis=(2, 4)).transpose(0, 3, 1, 2).reshape(80, 192)
    np.testing.assert_allclose(submission.embeddings[0], cells, atol=1e-6)
    about = submission.metadata
    assert (about.name, about.role, about.steps, about.seeds, about.revision) == (
        "identity (pixels)",
        "floor",
        0,
        (0,),
        1,
    )
    assert (about.training_data, about.conditional) == ("none: it is not trained", "none")
    assert about.fingerprint == data.fingerprint
    assert about.training_fingerprint is None
    assert about.compute is None
    assert ident3d_main(["validate", str(tmp_path / "pixels.zip")]) == 0


def test_2000_images_are_enough_for_the_width_of_pixels():
    images = torch.rand(2000, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    embeddings = UNTRAINED["pixels"].build(10, 0)(images).numpy()
    # A linear function of the images is read off, and what has nothing to do with them is not.
    latents = sample_latents(2000)
    latents[:, 0] = images.mean((1, 2, 3)).numpy()
    r2 = metrics.affine_r2(latents, embeddings).per_factor
    assert r2["position_x"] == pytest.approx(1, abs=1e-4)
    assert r2["rotation_x"] < 0


def test_a_random_resnet_is_what_training_starts_from(images_root, tmp_path):
    first = embedded("random-resnet18", images_root, tmp_path / "a", "--seed", "3", "--name", "mine")
    other = embedded("random-resnet18", images_root, tmp_path / "b")
    encoder = build_encoder(RECIPES["supervised"], 10, 32, seed=3).eval()
    data = ThreeDIdent(images_root, split="test")
    with torch.inference_mode():
        expected = encoder(data.pixels([5]).permute(0, 3, 1, 2) / 255)
    np.testing.assert_allclose(first.embeddings[0][5:6], expected.numpy(), rtol=1e-4, atol=1e-5)
    assert not np.allclose(first.embeddings[0], other.embeddings[0])
    assert (first.metadata.name, first.metadata.seeds, first.metadata.steps) == ("mine", (3,), 0)
    assert (other.metadata.name, other.metadata.role) == ("random ResNet18", "floor")


def test_a_bare_name_is_the_floor_and_a_path_is_what_lies_there(images_root, tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pixels").mkdir()
    assert embedded("pixels", images_root, tmp_path / "out.zip").metadata.role == "floor"
    assert "pixels is the untrained encoder of that name; the file or folder is ./pixels" in caplog.text
    assert main(["embed", "./pixels", str(images_root), "--authors", "A"]) == 2
    assert "pixels holds no run" in caplog.text


def test_what_is_not_there_is_answered_with_the_names(images_root, tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    assert main(["embed", "pixel", str(images_root), "--authors", "A"]) == 2
    assert "expected the folder of a run, a file, or one of pixels, random-resnet18" in caplog.text
    assert main(["embed", "pixels", str(images_root), "--authors", "A", "--seed", "1"]) == 2
    assert "identity (pixels) does not depend on a seed; leave --seed 1 out" in caplog.text
    assert not list(tmp_path.iterdir())
