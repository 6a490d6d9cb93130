"""Export of encoders to self-contained files; :func:`ident3d.embedding.load_encoder` reads those in ONNX.

:func:`export_run` is what ``python -m baselines export`` calls.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from baselines.training.run import Run
from ident3d.errors import Ident3DError, MissingDependencyError
from ident3d.files import write_bytes

if TYPE_CHECKING:
    from torch import nn

__all__ = ["export_onnx", "export_run", "export_safetensors"]


def export_onnx(encoder: nn.Module, path: Path, resolution: int) -> None:
    """Write an encoder as one ONNX file: float32 RGB images (B, 3, R, R) in [0, 1] to embeddings (B, d).

    Args:
        encoder: the encoder, on the CPU, in evaluation mode.
        path: the file.
        resolution: R, in pixels; B may be any number.

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


def export_run(run: Run, out: Path) -> dict[str, Any]:
    """Write the encoder of a run's last checkpoint as a file.

    Args:
        run: the run.
        out: the file, which ends in .onnx or .safetensors.

    Returns:
        What was exported: "encoder", the file; "resolution", the pixels per side of the training images; and "step".

    Raises:
        ValueError: if the file has another suffix.
        FileNotFoundError: if there is no run, or no checkpoint yet.
        MissingDependencyError: if the package that writes the file is not installed.
    """
    if out.suffix not in {".onnx", ".safetensors"}:
        raise ValueError(f"expected a file that ends in .onnx or .safetensors, not {out}")
    encoder, checkpoint = run.encoder()
    record = run.record()
    if out.suffix == ".onnx":
        export_onnx(encoder, out, record["resolution"])
    else:
        recipe = record["options"]["recipe"]
        export_safetensors(encoder, out, {"recipe": recipe, "dim": record["dim"], "step": checkpoint.step})
    return {"encoder": str(out), "resolution": record["resolution"], "step": checkpoint.step}
