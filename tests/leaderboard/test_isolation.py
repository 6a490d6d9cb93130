"""Encoders that loop, swell, dawdle or draw: each is refused, or ended, with a line that says why."""

import sys
import time

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper, save

from ident3d.embedding import OnnxEncoder
from ident3d.errors import EncoderError
from leaderboard.isolation import EncoderLimits, IsolatedEncoder

FLOAT = TensorProto.FLOAT
IMAGES = torch.rand(5, 3, 8, 8, generator=torch.Generator().manual_seed(0))
QUICK = EncoderLimits(seconds=60, memory_gib=1, width=10)


@pytest.fixture
def encoder(tmp_path):
    """Write a graph from x (B, 3, 8, 8) to y."""

    def write(*nodes, weights=(), output=("B", "D"), domains=("",), kind=FLOAT):
        graph = helper.make_graph(
            nodes,
            "g",
            [helper.make_tensor_value_info("x", FLOAT, ["B", 3, 8, 8])],
            [helper.make_tensor_value_info("y", kind, output)],
            [numpy_helper.from_array(np.asarray(values), name) for name, values in dict(weights).items()],
        )
        opsets = [helper.make_opsetid(domain, 17 if not domain else 1) for domain in domains]
        save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "encoder.onnx")
        return tmp_path / "encoder.onnx"

    return write


def node(kind, inputs, output="y", **options):
    return helper.make_node(kind, inputs.split(), [output], **options)


def loop():
    """Return a loop of 2^62 steps."""
    body = helper.make_graph(
        [node("Identity", "go", "more"), node("Mul", "value value", "next")],
        "body",
        [
            helper.make_tensor_value_info("step", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("value", FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("more", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", FLOAT, None),
        ],
    )
    weights = {"steps": np.array(2**62), "yes": np.array(True)}
    return (node("Flatten", "x", "flat"), node("Loop", "steps yes flat", body=body)), weights


def fault(path, limits=QUICK):
    """Return the line that says why an encoder is not run."""
    with pytest.raises(EncoderError) as caught, IsolatedEncoder(path, 1, limits) as isolated:
        isolated(IMAGES)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def refusal(path):
    """Return the line that says why an encoder is not loaded."""
    with pytest.raises(EncoderError) as caught:
        OnnxEncoder(path, trusted=False)
    return str(caught.value)


def test_what_is_embedded_is_what_the_encoder_gives(encoder):
    path = encoder(node("ReduceMean", "x", axes=[2, 3], keepdims=0))
    with IsolatedEncoder(path, 1, QUICK) as isolated:
        assert isolated.sha256 == OnnxEncoder(path).sha256
        for images in (IMAGES, IMAGES[:2]):
            torch.testing.assert_close(isolated(images), images.mean((2, 3)))


class TestOperators:
    def test_a_loop_without_end(self, encoder):
        nodes, weights = loop()
        assert "uses Loop; an encoder from elsewhere is run only where" in fault(encoder(*nodes, weights=weights))

    def test_another_domain(self, encoder):
        nodes = (node("Flatten", "x", "flat"), node("Gelu", "flat", domain="com.microsoft"))
        path = encoder(*nodes, domains=("", "com.microsoft"))
        OnnxEncoder(path)(IMAGES)
        assert "uses com.microsoft.Gelu;" in refusal(path)

    def test_random_numbers(self, encoder):
        assert "uses RandomNormalLike;" in refusal(encoder(node("Flatten", "x", "f"), node("RandomNormalLike", "f")))

    def test_operators_of_its_own(self, encoder, tmp_path):
        import onnx

        model = onnx.load(encoder(node("Flatten", "x")))
        opset = [helper.make_opsetid("", 17)]
        model.functions.append(helper.make_function("own", "Twice", ["a"], ["b"], [node("Add", "a a", "b")], opset))
        save(model, tmp_path / "encoder.onnx")
        assert "defines 1 operators of its own" in refusal(tmp_path / "encoder.onnx")


class TestLimits:
    @pytest.mark.skipif(sys.platform != "linux", reason="memory is limited on Linux alone")
    def test_memory(self, encoder):
        shape = np.array([2**31], np.int64)
        nodes = (node("ReduceMean", "x", "m", keepdims=0), node("Expand", "m n", "e"), node("Flatten", "e"))
        assert "memory" in fault(encoder(*nodes, weights={"n": shape}))

    def test_time(self, encoder):
        nodes = [node("Flatten", "x", "h0"), node("MatMul", "h0 w", "h1")]
        nodes += [node("MatMul", f"s{i} s{i}", f"s{i + 1}") for i in range(1, 40)]
        nodes += [node("Expand", "m n", "s1"), node("ReduceSum", "s40", "total"), node("Add", "h1 total")]
        nodes.insert(0, node("ReduceMean", "x", "m", keepdims=0))
        nodes[2:2] = [nodes.pop(-3)]
        weights = {"w": np.zeros((192, 10), np.float32), "n": np.array([4096, 4096], np.int64)}
        start = time.monotonic()
        said = fault(encoder(*nodes, weights=weights), EncoderLimits(seconds=2, memory_gib=2))
        assert "takes more than 2 seconds for embedding 5 images" in said
        assert time.monotonic() - start < 120

    @pytest.mark.parametrize("output", [("B", 3_000_000), ("B", "D")])
    def test_width(self, encoder, output):
        weights = {"n": np.array([1, 3_000_000], np.int64)}
        nodes = (
            node("ReduceMean", "x", "m", axes=[1, 2, 3], keepdims=0),
            node("Unsqueeze", "m one", "column"),
            node("Expand", "column n"),
        )
        said = fault(encoder(*nodes, weights=weights | {"one": np.array([1], np.int64)}, output=output))
        assert "gives 3,000,000 numbers for an image; at most 10 are accepted" in said

    def test_there_are_some(self):
        with pytest.raises(ValueError, match="limits are above 0, got 0 seconds"):
            EncoderLimits(seconds=0)


def test_an_output_that_is_no_number(encoder):
    path = encoder(node("Flatten", "x", "f"), node("Cast", "f", to=TensorProto.STRING), kind=TensorProto.STRING)
    with pytest.raises(EncoderError, match=r"one output of floating-point numbers \(B, d\), got inputs"):
        OnnxEncoder(path)
    assert "tensor(string)" in fault(path)


def test_a_process_that_dies(encoder):
    with IsolatedEncoder(encoder(node("Flatten", "x")), 1, EncoderLimits(seconds=60)) as isolated:
        isolated._process.kill()
        with pytest.raises(EncoderError, match=r"ends its process \(SIGKILL\)"):
            isolated(IMAGES)
