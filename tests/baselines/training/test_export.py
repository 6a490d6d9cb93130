"""Exported encoders are such as the leaderboard runs."""

import pytest
import torch

from baselines.encoders import ResNetEncoder
from baselines.training.export import export_onnx
from ident3d import Box, Sphere, Unbounded
from ident3d.embedding import OnnxEncoder


@pytest.mark.slow
@pytest.mark.parametrize("space", [Box(3), Sphere(3), Unbounded(3)], ids=lambda space: type(space).__name__)
def test_an_exported_encoder_needs_no_trust(space, tmp_path):
    images = torch.rand(3, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    encoder = ResNetEncoder(space).eval()
    export_onnx(encoder, tmp_path / "encoder.onnx", 32)
    with torch.inference_mode():
        expected = encoder(images)
    torch.testing.assert_close(
        OnnxEncoder(tmp_path / "encoder.onnx", trusted=False)(images), expected, atol=1e-4, rtol=0
    )
