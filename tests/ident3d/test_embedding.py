"""Embedding images with functions, modules and files."""

import warnings

import numpy as np
import pytest
import torch
from torch import nn

from ident3d.dataset import ThreeDIdent
from ident3d.embedding import embed, load_encoder
from ident3d.errors import EncoderError, Ident3DError


class Mean(nn.Module):
    def forward(self, x):
        return x.mean((2, 3))


@pytest.fixture
def data(native):
    return ThreeDIdent(native.root)


@pytest.fixture
def expected(native):
    return native.pixels["train"].mean(axis=(1, 2)) / 255


def onnx_file(path, *, external=False, output=("B", 3)):
    """Write a graph that takes the mean of each channel, and adds weights that are 0."""
    onnx = pytest.importorskip("onnx")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    bias = onnx.numpy_helper.from_array(np.zeros(3, np.float32), "bias")
    nodes = [helper.make_node("ReduceMean", ["x"], ["m"], axes=[2, 3], keepdims=0)]
    nodes.append(helper.make_node("Add", ["m", "bias"], ["y"]))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", kind, ["B", 3, "H", "W"])],
        [helper.make_tensor_value_info("y", kind, output)],
        [bias],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path, save_as_external_data=external, location=f"{path.name}.data", size_threshold=0)
    return path


def torchscript_file(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is deprecated, and its encoders are still about
        torch.jit.trace(Mean(), torch.rand(2, 3, 4, 4)).save(str(path))
    return path


class TestEmbed:
    def test_a_function(self, data, expected):
        found = embed(lambda images: images.double().mean((2, 3)), data, batch_size=32)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected, atol=1e-6)

    def test_a_function_that_returns_an_array(self, data, expected):
        found = embed(lambda images: images.mean((2, 3)).numpy(), data)
        np.testing.assert_allclose(found, expected, atol=1e-6)

    def test_a_module_is_in_evaluation_meanwhile(self, data, expected):
        module = nn.Sequential(Mean(), nn.Dropout(0.9), nn.BatchNorm1d(3, eps=0))
        module.train()
        found = embed(module, data)
        np.testing.assert_allclose(found, expected, atol=1e-6)
        assert module.training
        assert module[2].num_batches_tracked == 0

    @pytest.mark.parametrize("write", [onnx_file, torchscript_file])
    def test_a_file(self, data, expected, tmp_path, write):
        path = write(tmp_path / f"encoder{'.onnx' if write is onnx_file else '.ts'}")
        np.testing.assert_allclose(embed(path, data), expected, atol=1e-6)
        np.testing.assert_allclose(embed(str(path), data), expected, atol=1e-6)

    def test_onnx_with_weights_beside_it(self, data, expected, tmp_path):
        path = onnx_file(tmp_path / "encoder.onnx", external=True)
        assert (tmp_path / "encoder.onnx.data").exists()
        np.testing.assert_allclose(embed(path, data), expected, atol=1e-6)

    def test_another_shape_is_refused(self, data):
        with pytest.raises(EncoderError, match=r"gives shape \(2, 3, 8, 8\) for 2 images; expected \(2, d\)"):
            embed(lambda images: images, data, batch_size=2)

    def test_nothing_to_embed(self, data):
        with pytest.raises(ValueError, match=r"a batch size of at least 1, got [0-9]+ and 0"):
            embed(Mean(), data, batch_size=0)


class TestLoadEncoder:
    def test_torchscript_from_elsewhere_is_an_encoder(self, tmp_path):
        images = torch.rand(2, 3, 4, 4)
        path = torchscript_file(tmp_path / "encoder.ts")
        torch.testing.assert_close(load_encoder(path)(images), images.mean((2, 3)))

    def test_what_is_no_encoder_is_told(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="there is no encoder"):
            load_encoder(tmp_path / "encoder.onnx")
        other = tmp_path / "encoder.pkl"
        other.write_bytes(b"")
        with pytest.raises(ValueError, match=r"a file that ends in \.onnx, \.pt, \.ts, not encoder\.pkl"):
            load_encoder(other)
        for suffix, kind in ((".onnx", "ONNX"), (".pt", "TorchScript")):
            damaged = tmp_path / f"encoder{suffix}"
            damaged.write_bytes(b"nothing of the kind")
            with pytest.raises(Ident3DError, match=f"cannot be loaded as {kind}"):
                load_encoder(damaged)
