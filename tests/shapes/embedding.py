"""Example calls for embedding images."""

import tempfile
from pathlib import Path

import torch

from ident3d.embedding import OnnxEncoder
from tests.ident3d.pairs.images import NumberedImages
from tests.ident3d.test_embedding import Mean, onnx_file

HOME = "ident3d.embedding"


def onnx_encoder():
    with tempfile.TemporaryDirectory() as folder:
        return OnnxEncoder(onnx_file(Path(folder) / "encoder.onnx"))


EXAMPLES = {
    f"{HOME}.embed": lambda: (Mean(), NumberedImages(5), {"batch_size": 2}),
    f"{HOME}.as_input": lambda: (*torch.zeros(2, 4, 3, 6, 8, dtype=torch.uint8), {"device": torch.device("cpu")}),
    f"{HOME}.OnnxEncoder.__call__": lambda: (onnx_encoder(), torch.rand(4, 3, 6, 8)),
}
