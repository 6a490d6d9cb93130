"""Embedding images: from any encoder and any dataset to an array of embeddings.

An encoder is whatever maps a batch of float32 RGB images (B, 3, H, W) in [0, 1] to embeddings (B, d): a function, a
``torch.nn.Module``, or a file that :func:`load_encoder` reads. Whatever it does to the images before its first layer is
part of it.
"""

from __future__ import annotations

import hashlib
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float, Float32, Int64, UInt8
from torch import Tensor, nn

from ident3d.errors import EncoderError, MissingDependencyError
from ident3d.pairs.transforms import as_floats, of_pil_images, transformed

__all__ = ["FEED_FORWARD", "SUFFIXES", "ImageSource", "OnnxEncoder", "as_input", "embed", "load_encoder"]

SUFFIXES = {".onnx": "ONNX", ".pt": "TorchScript", ".ts": "TorchScript"}
"""What :func:`load_encoder` reads, by suffix."""

_BATCH_SIZE = 256
_MAX_BYTES = 2 << 30  # what a single ONNX file can hold
_NAMED = 8  # operators that an error names

FEED_FORWARD = frozenset(
    (  # noqa: SIM905 - a list would take a line for each of 130 names
        # layers
        "Attention AveragePool BatchNormalization CausalConvWithState Conv ConvInteger ConvTranspose DeformConv "
        "Dropout Gemm GlobalAveragePool GlobalLpPool GlobalMaxPool GroupNormalization InstanceNormalization LRN "
        "LayerNormalization LinearAttention LpNormalization LpPool MaxPool MaxRoiPool MaxUnpool "
        "MeanVarianceNormalization RMSNormalization RoiAlign RotaryEmbedding "
        # activations
        "Celu Elu Gelu HardSigmoid HardSwish Hardmax LeakyRelu LogSoftmax Mish PRelu Relu Selu Shrink Sigmoid Softmax "
        "Softplus Softsign SwiGLU Swish Tanh ThresholdedRelu "
        # arithmetic, by entry
        "Abs Acos Acosh Add Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Ceil Clip Cos "
        "Cosh Div Erf Exp Floor Log Max Mean Min Mod Mul Neg Pow Reciprocal Round Sign Sin Sinh Sqrt Sub Sum Tan "
        # comparison and logic
        "And Equal Greater GreaterOrEqual IsInf IsNaN Less LessOrEqual Not Or Where Xor "
        # linear algebra, reductions and orders
        "ArgMax ArgMin CumProd CumSum DFT Det Einsum MatMul MatMulInteger ReduceL1 ReduceL2 ReduceLogSum "
        "ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare TopK Unique "
        # shapes and places
        "AffineGrid BlackmanWindow Cast CastLike CenterCropPad Col2Im Compress Concat Constant ConstantOfShape "
        "DepthToSpace Expand EyeLike Flatten Gather GatherElements GatherND GridSample HammingWindow HannWindow "
        "Identity NonZero OneHot Pad Range Reshape Resize ReverseSequence ScatterElements ScatterND Shape Size Slice "
        "SpaceToDepth Split Squeeze STFT TensorScatter Tile Transpose Trilu Unsqueeze Upsample "
        # quantisation
        "DequantizeLinear DynamicQuantizeLinear QLinearConv QLinearMatMul QuantizeLinear"
    ).split()
)
"""The operators that an encoder from elsewhere may use: ONNX's own on tensors of numbers, each run once.

Left out are control flow (If, Loop, Scan, SequenceMap and the recurrent layers), draws of random numbers, text,
sequences and optional values, the decoding of files, losses, and whatever belongs to another domain.
"""


@runtime_checkable
class ImageSource(Protocol):
    """Images by row: :class:`ident3d.ThreeDIdent`, its ``positives``, and whatever pairs can be drawn from.

    Where it has a ``transform``, the encoder is given what that makes of each image, as a PIL image.
    """

    def __len__(self) -> int:
        """Return N."""

    def pixels(self, rows: Int64[Tensor, " batch"]) -> UInt8[Tensor, "batch height width 3"]:
        """Return the (B, H, W, 3) uint8 images of (B,) int64 rows."""


def embed(
    encoder: Callable[[Tensor], Any] | str | Path,
    data: ImageSource,
    *,
    device: torch.device | str | None = None,
    batch_size: int = _BATCH_SIZE,
    tick: Callable[[int], object] = lambda _: None,
) -> Float32[npt.NDArray[np.float32], "n d"]:
    """Embed every image of a dataset.

    A module is switched to evaluation meanwhile; no gradients are kept.

    Example:
        >>> import ident3d
        >>> from ident3d.embedding import embed
        >>> embed(lambda images: images.mean(dim=(2, 3)), ident3d.ThreeDIdent("sample", split="test")).shape
        (256, 3)

    Args:
        encoder: maps (B, 3, H, W) float32 RGB images in [0, 1] to (B, d); or the path of a file with one.
        data: the images. Its own transform is applied, if it has one; bytes that it makes are scaled to [0, 1], too.
        device: where the encoder takes its images; where None, where a module's parameters are, and the CPU for others.
        batch_size: number of images at once.
        tick: called with the number of images that were embedded since the last call.

    Returns:
        (N, d) float32, in the order of the rows.

    Raises:
        ValueError: if there are no images, or the batch size is below 1.
        EncoderError: if the encoder gives anything but (B, d) numbers, or cannot be loaded.
    """
    if len(data) == 0 or batch_size < 1:
        raise ValueError(f"expected at least 1 image and a batch size of at least 1, got {len(data)} and {batch_size}")
    if isinstance(encoder, str | Path):
        encoder = load_encoder(encoder, "cpu" if device is None else device)
    module = encoder if isinstance(encoder, nn.Module) else None
    if device is None:
        parameter = None if module is None else next(module.parameters(), None)
        device = "cpu" if parameter is None else parameter.device
    transform = getattr(data, "transform", None)
    parts = []
    with torch.inference_mode() if module is None else _evaluation(module):
        for start in range(0, len(data), batch_size):
            rows = torch.arange(start, min(start + batch_size, len(data)))
            images = data.pixels(rows).permute(0, 3, 1, 2)
            if transform is not None:
                purpose = f"embedding/{start}"
                images = transformed(of_pil_images(transform), images.cpu(), 0, purpose, "the dataset's transform")
            images = as_floats(images.to(torch.device(device)), torch.float32)
            found = torch.as_tensor(encoder(images))
            if found.ndim != 2 or len(found) != len(rows):
                raise EncoderError(
                    f"the encoder gives shape {tuple(found.shape)} for {len(rows)} images; expected ({len(rows)}, d)"
                )
            parts.append(found.float().cpu())
            tick(len(rows))
    return torch.cat(parts).numpy()


def as_input(
    *images: UInt8[Tensor, "_ 3 height width"], device: torch.device
) -> Float32[Tensor, "batch 3 height width"]:
    """Return images as one batch of an encoder's input.

    Args:
        *images: each (B, 3, H, W) uint8, on any device.
        device: where the encoder is.

    Returns:
        (sum of B, 3, H, W) float32 in [0, 1] on the device, channels last in memory, which convolutions like.
    """
    moved = [part.to(device, non_blocking=True) for part in images]
    joined = moved[0] if len(moved) == 1 else torch.cat(moved)
    return joined.to(torch.float32, memory_format=torch.channels_last).div_(255)


def load_encoder(path: str | Path, device: torch.device | str = "cpu") -> Callable[[Tensor], Tensor]:
    """Read an encoder from an ONNX or TorchScript file.

    Args:
        path: the file; TorchScript runs what its author wrote, so read it from authors that you trust.
        device: where TorchScript runs; ONNX runs on the CPU.

    Returns:
        A function from (B, 3, H, W) float32 RGB images in [0, 1] to (B, d) embeddings.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if its suffix is none of :data:`SUFFIXES`.
        EncoderError: if it cannot be loaded.
        MissingDependencyError: if onnxruntime is needed and not installed.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no encoder {path}")
    if path.suffix not in SUFFIXES:
        raise ValueError(f"an encoder is a run folder or a file that ends in {', '.join(SUFFIXES)}, not {path.name}")
    return OnnxEncoder(path) if path.suffix == ".onnx" else _torchscript(path, torch.device(device))


class OnnxEncoder:
    """An encoder in an ONNX file, run on the CPU.

    ONNX Runtime has operators of other domains than ONNX's own, and a graph can loop for as long as it likes: what
    comes from elsewhere is loaded as not trusted, and in a process of its own (:mod:`leaderboard.isolation`).

    Args:
        path: the file.
        threads: number of threads; 0 for one per core.
        trusted: whether the graph may do what it likes. One that is not trusted uses the operators of
            :data:`FEED_FORWARD` alone and defines none, and names no other files with weights.

    Attributes:
        sha256: checksum of the file.
        width: number of embedding dimensions; None where the graph does not say it.

    Raises:
        EncoderError: if it is not an ONNX graph with one input and one output of the right kind, or uses what it may
            not.
        MissingDependencyError: if onnxruntime is not installed, or onnx for a graph that is not trusted.
    """

    def __init__(self, path: Path, threads: int = 0, *, trusted: bool = True) -> None:
        try:
            import onnxruntime
        except ImportError as error:
            raise MissingDependencyError("onnxruntime", "run an ONNX encoder", "leaderboard") from error
        size = path.stat().st_size
        if size > _MAX_BYTES:
            raise EncoderError(f"{path} has {size} bytes; at most {_MAX_BYTES} are loaded")
        content = path.read_bytes()
        self.sha256 = hashlib.sha256(content).hexdigest()
        if not trusted:
            _check_operators(path, content)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 4  # what is wrong is raised, and need not be printed too
        try:
            with tempfile.TemporaryDirectory() as nothing:
                folder = str(path.resolve().parent) if trusted else nothing
                options.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
                self._session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime's errors share no other base
            raise _not_onnx(path, error) from error
        inputs, outputs = self._session.get_inputs(), self._session.get_outputs()
        if (
            len(inputs) != 1
            or len(outputs) != 1
            or inputs[0].type != "tensor(float)"
            or outputs[0].type not in _OUTPUTS
            or len(inputs[0].shape) != 4
        ):
            raise EncoderError(
                f"{path}: expected one float32 input (B, 3, H, W) and one output of floating-point numbers (B, d), got "
                f"inputs {[(i.name, i.type, i.shape) for i in inputs]} and outputs "
                f"{[(o.name, o.type, o.shape) for o in outputs]}"
            )
        self._input = inputs[0].name
        width = outputs[0].shape[-1] if outputs[0].shape else None
        self.width: int | None = width if isinstance(width, int) else None

    def __call__(self, images: Float[Tensor, "batch 3 height width"]) -> Float32[Tensor, "batch d"]:
        """Embed (B, 3, H, W) float32 images in [0, 1].

        Raises:
            EncoderError: if the graph cannot take them, or gives anything but (B, d) finite numbers.
        """
        try:
            (found,) = self._session.run(None, {self._input: images.cpu().contiguous().numpy()})
        except Exception as error:  # onnxruntime's errors share no other base
            raise EncoderError(f"the encoder does not take images of shape {tuple(images.shape)}: {error}") from error
        embeddings: npt.NDArray[Any] = np.asarray(found)
        if embeddings.ndim != 2 or len(embeddings) != len(images) or not np.isfinite(embeddings).all():
            raise EncoderError(
                f"the encoder gives shape {embeddings.shape} for {len(images)} images, or numbers that are not finite; "
                "expected finite (B, d)"
            )
        return torch.from_numpy(embeddings.astype(np.float32, copy=False))


_OUTPUTS = {"tensor(float16)", "tensor(float)", "tensor(double)"}


def _not_onnx(path: Path, error: Exception) -> EncoderError:
    return EncoderError(
        f"{path} cannot be loaded as ONNX; torch.onnx.export writes such a file, and for the encoders of this "
        f"repository python -m baselines export ({error})"
    )


def _check_operators(path: Path, content: bytes) -> None:
    """Raise EncoderError if a graph uses other operators than those of :data:`FEED_FORWARD`."""
    try:
        import onnx
    except ImportError as error:
        raise MissingDependencyError("onnx", "check the operators of an encoder", "leaderboard") from error
    try:
        model = onnx.ModelProto.FromString(content)
    except Exception as error:  # protobuf's errors share no other base
        raise _not_onnx(path, error) from error
    if model.functions:
        raise EncoderError(f"{path} defines {len(model.functions)} operators of its own; inline them before the export")
    found = {
        node.op_type if node.domain in {"", "ai.onnx"} else f"{node.domain}.{node.op_type}"
        for node in model.graph.node
        if node.op_type not in FEED_FORWARD or node.domain not in {"", "ai.onnx"}
    }
    if found:
        more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        raise EncoderError(
            f"{path} uses {', '.join(sorted(found)[:_NAMED])}{more}; an encoder from elsewhere is run only where its "
            "operators are ONNX's own, without control flow, random numbers, text or sequences "
            "(ident3d.embedding.FEED_FORWARD)"
        )


def _torchscript(path: Path, device: torch.device) -> Callable[[Tensor], Tensor]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # the format is old; encoders in it are still about
            module = torch.jit.load(str(path), map_location=device)  # type: ignore[no-untyped-call]
    except Exception as error:  # torch raises whatever its archive reader does
        raise EncoderError(f"{path} cannot be loaded as TorchScript: {error}") from error
    encoder: Callable[[Tensor], Tensor] = module.eval()
    return encoder


@contextmanager
def _evaluation(module: nn.Module) -> Iterator[None]:
    """Switch a module to evaluation and gradients off, and switch it back afterwards."""
    was_training = module.training
    module.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        module.train(was_training)
