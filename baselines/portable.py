"""Encoders as files that carry everything they need, and reading such files from elsewhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ident3d.errors import Ident3DError, MissingDependencyError
from ident3d.files import write_bytes

if TYPE_CHECKING:
    from torch import nn

__all__ = ["SUFFIXES", "export_onnx", "export_safetensors", "load_portable"]

SUFFIXES = {".onnx": "ONNX", ".pt": "TorchScript", ".ts": "TorchScript"}
"""What :func:`load_portable` reads, by suffix."""


def export_onnx(encoder: nn.Module, path: Path, resolution: int) -> None:
    """Write an encoder as one ONNX file: float32 RGB images (B, 3, R, R) in [0, 1] to embeddings (B, d).

    Args:
        encoder: the encoder, on the CPU, in evaluation mode.
        path: the file.
        resolution: R, in pixels; B stays free.

    Raises:
        MissingDependencyError: if onnxscript is not installed.
    """
    try:
        import onnxscript  # type: ignore[import-not-found,unused-ignore]  # noqa: F401 - torch's exporter needs it
    except ImportError as error:
        raise MissingDependencyError("onnxscript", "export an encoder to ONNX", "train") from error
    example = torch.zeros(2, 3, resolution, resolution)
    program = torch.onnx.export(
        encoder,
        (example,),
        input_names=["images"],
        output_names=["embeddings"],
        dynamic_shapes=({0: torch.export.Dim("batch")},),
        dynamo=True,
        verbose=False,
    )
    if program is None:
        raise Ident3DError("torch returned no ONNX program for the encoder")
    write_bytes(path, program.model_proto.SerializeToString())


def export_safetensors(encoder: nn.Module, path: Path, description: dict[str, Any]) -> None:
    """Write an encoder's tensors by name, with a description in the file's metadata.

    Raises:
        MissingDependencyError: if safetensors is not installed.
    """
    try:
        from safetensors.torch import save
    except ImportError as error:
        raise MissingDependencyError("safetensors", "export an encoder to safetensors", "train") from error
    tensors = {name: tensor.contiguous().cpu() for name, tensor in encoder.state_dict().items()}
    write_bytes(path, save(tensors, {"ident3d": json.dumps(description, allow_nan=False)}))


def load_portable(path: Path, device: torch.device) -> Callable[[Tensor], Tensor]:
    """Read an encoder from an ONNX or TorchScript file.

    Args:
        path: the file; TorchScript runs what its author wrote, so read it from authors that you trust.
        device: where TorchScript runs; ONNX runs on the CPU.

    Returns:
        A function from (B, 3, H, W) float32 RGB images in [0, 1] to (B, d) embeddings.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if its suffix is none of :data:`SUFFIXES`.
        Ident3DError: if it cannot be loaded.
        MissingDependencyError: if onnxruntime is needed and not installed.
    """
    if not path.is_file():
        raise FileNotFoundError(f"there is no encoder {path}")
    if path.suffix not in SUFFIXES:
        raise ValueError(f"an encoder is a run folder or a file that ends in {', '.join(SUFFIXES)}, not {path.name}")
    try:
        return _onnx(path) if path.suffix == ".onnx" else _torchscript(path, device)
    except MissingDependencyError:
        raise
    except Exception as error:  # the two libraries' own errors share no base
        raise Ident3DError(f"{path} cannot be loaded as {SUFFIXES[path.suffix]}: {error}") from error


def _onnx(path: Path) -> Callable[[Tensor], Tensor]:
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingDependencyError("onnxruntime", "run an ONNX encoder", "train") from error
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # what is wrong is raised, and need not be printed too
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name

    def encode(images: Tensor) -> Tensor:
        (embeddings,) = session.run(None, {name: images.cpu().contiguous().numpy()})
        return torch.from_numpy(embeddings)

    return encode


def _torchscript(path: Path, device: torch.device) -> Callable[[Tensor], Tensor]:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # the format is old; encoders in it are still about
        module = torch.jit.load(str(path), map_location=device)  # type: ignore[no-untyped-call]
    encoder: Callable[[Tensor], Tensor] = module.eval()
    return encoder
