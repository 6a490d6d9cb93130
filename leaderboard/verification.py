"""Verification: a maintainer runs an entry's encoder on the track's split and on a sealed one.

The encoder is an ONNX graph: float32 images (B, 3, H, W) in [0, 1], RGB, to float32 embeddings (B, d). It is data,
not code: no operators beside ONNX's own are registered, and it cannot bring in another file. Whatever it does to the
images before its first layer is part of the graph. ONNX is the only format, because a file of weights alone would
need the definition of its network here, beside the one that it was trained with.
"""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ident3d.errors import Ident3DError, MissingDependencyError
from ident3d.metrics import affine_r2
from leaderboard.entry import Entry, Kind, Verification
from leaderboard.tracks import Track

if TYPE_CHECKING:
    from ident3d.dataset import ThreeDIdent

__all__ = ["OnnxEncoder", "VerificationError", "embed", "verify"]

_MAX_BYTES = 2 << 30  # what a single ONNX file can hold
_BATCH = 128


class VerificationError(Ident3DError):
    """An entry cannot be verified: the encoder, the datasets and the entry do not belong together."""


class OnnxEncoder:
    """An encoder in a single ONNX file, run on the CPU.

    Args:
        path: the file.
        threads: number of threads; 0 for one a core.

    Attributes:
        sha256: checksum of the file.

    Raises:
        VerificationError: if it is no ONNX graph with one input and one output of the right kind.
        MissingDependencyError: if onnxruntime is not installed.
    """

    def __init__(self, path: Path, threads: int = 0) -> None:
        try:
            import onnxruntime
        except ImportError as error:
            raise MissingDependencyError("onnxruntime", "run an ONNX encoder", "leaderboard") from error
        size = path.stat().st_size
        if size > _MAX_BYTES:
            raise VerificationError(f"{path} has {size} bytes; at most {_MAX_BYTES} are loaded")
        content = path.read_bytes()
        self.sha256 = hashlib.sha256(content).hexdigest()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 4  # what is wrong is raised, and need not be printed too
        try:
            with tempfile.TemporaryDirectory() as nothing:  # where weights in other files would be looked for
                options.add_session_config_entry("session.model_external_initializers_file_folder_path", nothing)
                self._session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime's errors share no other base
            raise VerificationError(
                f"{path} cannot be loaded as an ONNX graph; torch.onnx.export writes one, and for the encoders of this "
                f"repository python -m baselines export ({error})"
            ) from error
        inputs, outputs = self._session.get_inputs(), self._session.get_outputs()
        if len(inputs) != 1 or len(outputs) != 1 or inputs[0].type != "tensor(float)" or len(inputs[0].shape) != 4:
            raise VerificationError(
                f"{path}: expected one float32 input (B, 3, H, W) and one output (B, d), got inputs "
                f"{[(i.name, i.type, i.shape) for i in inputs]} and {len(outputs)} outputs"
            )
        self._input = inputs[0].name

    def __call__(self, images: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
        """Embed (B, H, W, 3) uint8 images.

        Raises:
            VerificationError: if the graph cannot take them, or gives something else than (B, d) finite numbers.
        """
        batch = np.ascontiguousarray(images.transpose(0, 3, 1, 2), dtype=np.float32) / 255
        try:
            (found,) = self._session.run(None, {self._input: batch})
        except Exception as error:  # onnxruntime's errors share no other base
            raise VerificationError(f"the encoder does not take images of shape {batch.shape}: {error}") from error
        embeddings: npt.NDArray[Any] = np.asarray(found)
        if embeddings.ndim != 2 or len(embeddings) != len(batch) or not np.isfinite(embeddings).all():
            raise VerificationError(
                f"the encoder gives shape {embeddings.shape} for {len(batch)} images, or numbers that are not "
                "finite; expected finite (B, d)"
            )
        return embeddings.astype(np.float32)


def embed(encoder: OnnxEncoder, data: ThreeDIdent) -> npt.NDArray[np.float32]:
    """Return the (N, d) embeddings of a split."""
    starts = range(0, len(data), _BATCH)
    rows = (np.arange(start, min(start + _BATCH, len(data))) for start in starts)
    return np.concatenate([encoder(data.pixels(batch).numpy()) for batch in rows])


def verify(
    entry: Entry,
    encoder: OnnxEncoder,
    data: ThreeDIdent,
    sealed: ThreeDIdent,
    track: Track,
    *,
    date: str,
    tolerance: float = 0.01,
    sealed_tolerance: float = 0.03,
) -> Entry:
    """Run an encoder on the track's split and on a sealed one, and mark the entry when both scores hold.

    Args:
        entry: a recomputed entry.
        encoder: its encoder; of one of its runs where there are several.
        data: the track's split.
        sealed: a split that was rendered for the purpose: the same settings, other latents.
        track: the entry's track.
        date: the day, as YYYY-MM-DD.
        tolerance: how far R2 on the track's split may be from the entry's, on top of two standard deviations of its
            runs.
        sealed_tolerance: how far R2 on the sealed split may fall below that on the track's.

    Returns:
        The entry with its verification.

    Raises:
        VerificationError: if a score does not hold, or entry, datasets and track do not belong together.
    """
    _check_belongs(entry, data, sealed, track)
    r2, sealed_r2 = (float(affine_r2(s.latents, embed(encoder, s), s.ids, factors=s.factors)) for s in (data, sealed))
    result = entry.results["r2"]
    allowed = tolerance + 2 * (result.std or 0)
    if abs(r2 - result.mean) > allowed:
        raise VerificationError(
            f"not verified: the encoder's R2 on the track's split is {r2:.4f}, the entry's {result.mean:.4f}; "
            f"at most {allowed:.4f} apart is allowed"
        )
    if sealed_r2 < r2 - sealed_tolerance:
        raise VerificationError(
            f"not verified: the encoder's R2 falls from {r2:.4f} on the track's split to {sealed_r2:.4f} on the sealed "
            f"one; {sealed_tolerance:.4f} is allowed"
        )
    return replace(entry, verification=Verification(date, encoder.sha256, r2, sealed_r2, len(sealed)))


def _check_belongs(entry: Entry, data: ThreeDIdent, sealed: ThreeDIdent, track: Track) -> None:
    if entry.kind != Kind.RECOMPUTED:
        raise VerificationError("a reported entry cannot be verified: hand in its embeddings first")
    faults = track.mismatches(data.provenance, data.fingerprint)
    if entry.fingerprint != data.fingerprint:
        faults.append(f"the entry was scored on {entry.fingerprint}, {data.root} is {data.fingerprint}")
    ours = data.provenance
    others = replace(
        sealed.provenance,
        seed=ours.seed,
        splits=ours.splits,
        rows_per_shard=ours.rows_per_shard,
        latents=ours.latents,
    )
    faults += [f"the sealed split was made in another way: {line}" for line in ours.differences(others)]
    known = {row.tobytes() for row in data.latents.numpy()}
    shared = sum(row.tobytes() in known for row in sealed.latents.numpy())
    if shared:
        faults.append(f"the sealed split shares {shared} samples with the track's: render it with another seed")
    if faults:
        raise VerificationError("\n  - ".join(["the entry cannot be verified with these:", *faults]))
