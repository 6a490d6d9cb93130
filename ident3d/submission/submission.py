"""Submissions: embeddings of a split, with the ids of its samples and a description, as a folder or one file.

Everything that is wrong with a submission is reported at once, one line per fault, with what was expected.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ident3d import codec
from ident3d.arguments import as_array
from ident3d.codec import Rule, parse, to_json
from ident3d.errors import SubmissionError
from ident3d.files import atomic_file
from ident3d.submission.archive import (
    DOCUMENT,
    IDS,
    MAX_SEEDS,
    ArrayHeader,
    Members,
    embeddings_name,
    encode_array,
    is_archive,
    open_members,
)

__all__ = [
    "CLAIMED_METRICS",
    "LINK",
    "SCHEMA_VERSION",
    "SHA256",
    "TEXT",
    "Compute",
    "Metadata",
    "Role",
    "Submission",
    "named",
]

SCHEMA_VERSION = 1
_FIELDS = ("schema_version", "metadata", "sha256")
MAX_WIDTH = 1 << 16
_NAMED = 5  # ids that a message names; it counts the others

CLAIMED_METRICS = ("r2", "mcc_pearson", "mcc_spearman")
"""The metrics whose scores authors may claim."""

TEXT = Rule(max_length=1000)
SHA256 = Rule(what="a SHA-256 in 64 lower-case hexadecimal digits", pattern="[0-9a-f]{64}")
LINK = Rule(what="a web address that starts with https:// or http://", pattern=r"https?://[^\s\"'<>`]+", max_length=300)
_SPLIT = Rule(what="the name of a split, such as test", pattern=r"[a-z][a-z0-9_]{0,39}")
_SEEDS = Rule(low=0, high=2**63 - 1, min_items=1, max_items=MAX_SEEDS)
_CLAIM = Rule(what="a fraction, at most 1", low=-1e3, high=1, max_items=len(CLAIMED_METRICS))


class Role(StrEnum):
    """What an entry is to the others."""

    CONTENDER = "contender"
    """Ranked."""
    FLOOR = "floor"
    """An encoder that any method should beat, such as an untrained one: shown, not ranked."""
    CEILING = "ceiling"
    """An encoder that was trained on the latents themselves: shown, not ranked."""


@dataclass(frozen=True)
class Compute:
    """What the training took, for one seed.

    Attributes:
        hours: wall time in hours, on all devices named.
        device: the devices, such as "2 CPU cores" or "1 A100".
    """

    hours: float = field(metadata=Rule(low=0, high=1e6).metadata)
    device: str = field(metadata=Rule(max_length=80).metadata)


@dataclass(frozen=True)
class Metadata:
    """Who did what, on which data.

    Attributes:
        name: name of the entry; revisions of one name are one line of the leaderboard.
        authors: their names.
        method: the method in a sentence or two: the loss, the space, what is new.
        encoder: the architecture.
        training_data: the images that the encoder was trained on.
        conditional: the distribution of positive pairs, as ``str`` of a conditional writes it, or in words.
        fingerprint: fingerprint of the split whose embeddings these are: ``ThreeDIdent(...).fingerprint``.
        split: the split that was embedded.
        seeds: seeds of the training runs, one for each array of embeddings.
        revision: 1 for the first under that name, counted up.
        steps: optimisation steps; None where it does not apply.
        training_fingerprint: fingerprint of the training split; None where it has none.
        compute: what a training run took; None where it was not measured.
        links: web addresses of paper, code and weights.
        role: whether it is ranked, or is an encoder that the others are held against.
        claimed: scores that the authors found themselves, as fractions; never ranked, compared with ours.
    """

    name: str = field(metadata=Rule(max_length=80).metadata)
    authors: tuple[str, ...] = field(metadata=Rule(max_length=80, min_items=1).metadata)
    method: str = field(metadata=TEXT.metadata)
    encoder: str = field(metadata=TEXT.metadata)
    training_data: str = field(metadata=TEXT.metadata)
    conditional: str = field(metadata=TEXT.metadata)
    fingerprint: str = field(metadata=SHA256.metadata)
    split: str = field(metadata=_SPLIT.metadata, default="test")
    seeds: tuple[int, ...] = field(metadata=_SEEDS.metadata, default=(0,))
    revision: int = field(metadata=Rule(low=1, high=10_000).metadata, default=1)
    steps: int | None = field(metadata=Rule(low=0, high=10**12).metadata, default=None)
    training_fingerprint: str | None = field(metadata=SHA256.metadata, default=None)
    compute: Compute | None = None
    links: tuple[str, ...] = field(metadata=LINK.metadata, default=())
    role: Role = Role.CONTENDER
    claimed: dict[str, float] = field(metadata=_CLAIM.metadata, default_factory=dict)

    def __post_init__(self) -> None:
        if len(set(self.seeds)) != len(self.seeds):
            raise ValueError(f"expected different seeds, got {list(self.seeds)}")
        unknown = set(self.claimed) - set(CLAIMED_METRICS)
        if unknown:
            raise ValueError(f"claimed scores are of {', '.join(CLAIMED_METRICS)}, not of {', '.join(sorted(unknown))}")


@dataclass(frozen=True)
class Submission:
    """Embeddings of one split by the encoders of one method, one array for each training seed.

    On disk it is a folder, or a zip archive, of ``submission.json`` (metadata, and the checksum of each array),
    ``ids.npy`` and ``embeddings-0.npy``, ``embeddings-1.npy``, ... No part of it is code.

    Example:
        >>> import ident3d, tempfile
        >>> from ident3d.submission import Metadata
        >>> test = ident3d.ThreeDIdent("sample", split="test")
        >>> about = Metadata("latents", ("A. Author",), "none", "none", "none", "none", test.fingerprint)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     written = ident3d.Submission.write(f"{folder}/mine.zip", test.latents, test.ids, about)
        ...     ident3d.Submission.read(f"{folder}/mine.zip").embeddings[0].shape
        (256, 10)

    Attributes:
        metadata: who did what, on which data.
        ids: (N,) int64, the ids of the samples.
        embeddings: for each of ``metadata.seeds`` the (N, d) float32 embeddings of these samples.
        sha256: checksum of each array's file.
    """

    metadata: Metadata
    ids: npt.NDArray[np.int64]
    embeddings: tuple[npt.NDArray[np.float32], ...]
    sha256: dict[str, str]

    def __repr__(self) -> str:
        about = self.metadata
        runs = [
            f"  seed {seed}: embeddings {run.dtype} {run.shape}, sha256 {checksum[:12]}"
            for seed, run, checksum in zip(about.seeds, self.embeddings, self.embeddings_sha256, strict=True)
        ]
        of = f"  {len(self.ids):,} samples of the split {about.split!r}, fingerprint {about.fingerprint[:12]}"
        return "\n".join([f"{about.name}, revision {about.revision}, by {', '.join(about.authors)}", of, *runs])

    @property
    def embeddings_sha256(self) -> tuple[str, ...]:
        """Checksums of the embeddings' files, in the order of the seeds."""
        return tuple(self.sha256[embeddings_name(position)] for position in range(len(self.embeddings)))

    @classmethod
    def write(cls, path: str | Path, embeddings: Any, ids: Any, metadata: Metadata) -> Submission:
        """Write a submission; one that is already there is replaced.

        Args:
            path: a name that ends in ``.zip`` for one file; otherwise a folder.
            embeddings: (N, d) embeddings, or a list of such arrays, one for each of ``metadata.seeds``; numpy or torch.
            ids: (N,) the samples' ids, ``ThreeDIdent(...).ids``.
            metadata: the description.

        Returns:
            The submission as it was written.

        Raises:
            SubmissionError: everything that is wrong with it, before anything is written.
            FileExistsError: if something else is there.
        """
        path = Path(path)
        runs = list(embeddings) if isinstance(embeddings, list | tuple) else [embeddings]
        arrays = {IDS: _as(ids, np.int64, "ids")}
        for position, run in enumerate(runs):
            arrays[embeddings_name(position)] = _as(run, np.float32, embeddings_name(position))
        _, faults = parse(Metadata, to_json(metadata), "metadata")
        faults += _shape_faults({name: array.shape for name, array in arrays.items()}, metadata)
        faults += _number_faults(arrays)
        if faults:
            raise _refusal(faults, f"the submission for {path} cannot be written")
        _check_replaceable(path)
        encoded = {name: encode_array(array) for name, array in arrays.items()}
        sums = {name: hashlib.sha256(data).hexdigest() for name, data in encoded.items()}
        document = {"schema_version": SCHEMA_VERSION, "metadata": to_json(metadata), "sha256": sums}
        encoded[DOCUMENT] = codec.dumps(document).encode()
        (_write_archive if is_archive(path) else _write_folder)(path, encoded)
        return cls(metadata, arrays[IDS], tuple(array for name, array in arrays.items() if name != IDS), sums)

    @classmethod
    def read(cls, path: str | Path) -> Submission:
        """Read a submission.

        Raises:
            FileNotFoundError: if there is none.
            SubmissionError: everything that is wrong with it, one line per fault.
        """
        submission, faults = cls._examine(Path(path))
        if submission is None:
            raise _refusal(faults, f"{path} is not a valid submission")
        return submission

    @classmethod
    def faults(cls, path: str | Path) -> tuple[str, ...]:
        """Return everything that is wrong with a submission, and what was expected; nothing for a valid one.

        Raises:
            FileNotFoundError: if there is none.
        """
        return tuple(cls._examine(Path(path))[1])

    @classmethod
    def _examine(cls, path: Path) -> tuple[Submission | None, list[str]]:
        try:
            with open_members(path) as members:
                faults = list(members.faults)
                metadata, sums, found = _document(members)
                arrays, more = _arrays(members, metadata, sums)
        except SubmissionError as error:
            return None, [str(error)]
        faults += found + more
        if faults or metadata is None or sums is None:
            return None, faults
        return cls(
            metadata, arrays[IDS], tuple(arrays[embeddings_name(i)] for i in range(len(metadata.seeds))), sums
        ), []


def _document(members: Members) -> tuple[Metadata | None, dict[str, str] | None, list[str]]:
    """Return metadata, checksums, and what is wrong with them; None for what cannot be told."""
    if DOCUMENT not in members.sizes:
        return None, None, []
    try:
        data = codec.loads(members.document(), DOCUMENT)
    except (ValueError, SubmissionError) as error:
        return None, None, [str(error)]
    if not isinstance(data, dict) or set(data) != set(_FIELDS):
        return None, None, [f"{DOCUMENT}: expected an object with the fields {', '.join(_FIELDS)}"]
    if data["schema_version"] != SCHEMA_VERSION:
        version = data["schema_version"]
        return None, None, [f"{DOCUMENT}: schema_version is {version!a}; this ident3d reads {SCHEMA_VERSION}"]
    metadata, faults = parse(Metadata, data["metadata"], "metadata")
    sums = data["sha256"]
    if not isinstance(sums, dict):
        return metadata, None, [*faults, f"{DOCUMENT}: sha256 must map the arrays' names to their checksums"]
    return metadata, sums, faults


def _arrays(
    members: Members, metadata: Metadata | None, sums: dict[str, str] | None
) -> tuple[dict[str, npt.NDArray[Any]], list[str]]:
    """Return the arrays that can be read, and what is wrong with the others; headers are judged before numbers."""
    headers: dict[str, ArrayHeader] = {}
    faults = []
    for name in sorted(set(members.sizes) - {DOCUMENT}):
        try:
            headers[name] = members.header(name)
        except (ValueError, SubmissionError) as error:
            faults.append(str(error))
    unfit = _shape_faults({name: header.shape for name, header in headers.items()}, metadata)
    faults += unfit
    arrays: dict[str, npt.NDArray[Any]] = {}
    for name, header in headers.items():
        if unfit and name != IDS:
            continue
        try:
            arrays[name], sha256 = members.array(name, header)
        except SubmissionError as error:
            faults.append(str(error))
            continue
        if sums is not None and sums.get(name) != sha256:
            faults.append(f"{name} is not the file that {DOCUMENT} was written with: its SHA-256 differs")
    return arrays, faults + _number_faults(arrays)


def _shape_faults(shapes: dict[str, tuple[int, ...]], metadata: Metadata | None) -> list[str]:
    """Return what is wrong with the shapes of the arrays, alone and beside each other."""
    runs = {name: shape for name, shape in shapes.items() if name != IDS}
    faults = [
        f"{name}: {shape[1]} dimensions; at most {MAX_WIDTH} are scored"
        for name, shape in runs.items()
        if shape[1] > MAX_WIDTH
    ]
    if metadata is not None:
        expected = {embeddings_name(position) for position in range(len(metadata.seeds))}
        if expected != set(runs):
            faults.append(
                f"expected one array of embeddings for each of the {len(metadata.seeds)} seeds "
                f"({', '.join(sorted(expected))}), got {', '.join(sorted(runs)) or 'none'}"
            )
    widths = sorted({shape[1] for shape in runs.values()})
    if len(widths) > 1:
        faults.append(f"the arrays of embeddings differ in width: {widths}")
    if IDS in shapes:
        rows = shapes[IDS][0]
        faults += [
            f"{name} has {shape[0]} rows, but {IDS} has {rows}" for name, shape in runs.items() if shape[0] != rows
        ]
    return faults


def _number_faults(arrays: dict[str, npt.NDArray[Any]]) -> list[str]:
    """Return what is wrong with the numbers: embeddings that are not finite, ids that are negative or duplicated."""
    faults = []
    for name, array in arrays.items():
        if name == IDS:
            values, counts = np.unique(array, return_counts=True)
            duplicated = values[counts > 1]
            if values[0] < 0:
                faults.append(f"{name}: ids are 0 or larger, not {values[0]}")
            if len(duplicated):
                faults.append(f"{name}: {named(duplicated, 'id occurs', 'ids occur')} more than once")
            continue
        bad = np.flatnonzero(~np.isfinite(array).all(axis=1))
        if len(bad):
            column = int(np.flatnonzero(~np.isfinite(array[bad[0]]))[0])
            faults.append(
                f"{name}: numbers must be finite; row {bad[0]}, column {column} is {array[bad[0], column]} "
                f"({len(bad)} such rows in all)"
            )
    return faults


def named(values: npt.NDArray[np.int64], one: str, many: str) -> str:
    """Return a count of ids, with the first few named."""
    shown = ", ".join(str(value) for value in values[:_NAMED])
    more = f" and {len(values) - _NAMED} more" if len(values) > _NAMED else ""
    return f"{len(values)} {one if len(values) == 1 else many} ({shown}{more})"


def _as(values: Any, kind: type[np.generic], name: str) -> npt.NDArray[Any]:
    try:
        array = as_array(values, name)
    except (TypeError, ValueError) as error:
        raise SubmissionError(str(error)) from error
    ndim = 1 if kind is np.int64 else 2
    accepted = "iu" if kind is np.int64 else "f"
    if array.dtype.kind not in accepted or array.ndim != ndim or 0 in array.shape:
        raise SubmissionError(
            f"{name}: expected a non-empty array with {ndim} axes of {kind.__name__}, "
            f"got shape {array.shape} of {array.dtype}"
        )
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, and is refused as such
        return np.ascontiguousarray(array, dtype=kind)


def _refusal(faults: Sequence[str], what: str) -> SubmissionError:
    return SubmissionError("\n  - ".join([f"{what}:", *faults]))


def _check_replaceable(path: Path) -> None:
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return
    try:
        with open_members(path) as members:
            replaceable = DOCUMENT in members.sizes
    except SubmissionError:
        replaceable = False
    if not replaceable:
        raise FileExistsError(f"{path} is there and is not a submission; choose another name")


def _write_archive(path: Path, members: dict[str, bytes]) -> None:
    with atomic_file(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            # a fixed date: the same submission gives the same bytes
            archive.writestr(zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0)), data)


def _write_folder(path: Path, members: dict[str, bytes]) -> None:
    path.mkdir(parents=True, exist_ok=True)
    for stale in path.glob("embeddings-*.npy"):
        if stale.name not in members:
            stale.unlink()
    for name, data in members.items():  # the document comes last, so that a torn write shows in the checksums
        with atomic_file(path / name) as file:
            file.write(data)
