"""Submissions: embeddings of a split, with the ids of its samples and a description, as a folder or one file."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ident3d import codec
from ident3d.arguments import as_array
from ident3d.codec import parse, to_json
from ident3d.errors import SubmissionError
from ident3d.files import atomic_file
from ident3d.submission.archive import (
    DOCUMENT,
    IDS,
    Members,
    check_embeddings,
    check_ids,
    decode_array,
    embeddings_name,
    encode_array,
    is_archive,
    open_members,
)
from ident3d.submission.metadata import Metadata

__all__ = ["SCHEMA_VERSION", "Submission"]

SCHEMA_VERSION = 1
_FIELDS = ("schema_version", "metadata", "sha256")


@dataclass(frozen=True)
class Submission:
    """Embeddings of one split by the encoders of one method, one array for each training seed.

    On disk it is a folder, or a zip archive, of ``submission.json`` (metadata, and the checksum of each array),
    ``ids.npy`` and ``embeddings-0.npy``, ``embeddings-1.npy``, ... No part of it is code.

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
        faults += _array_faults(arrays, metadata)
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
            SubmissionError: everything that is wrong with it, a line each.
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
            with _opened(path) as members:
                faults = list(members.faults)
                metadata, sums, found = _document(members)
                arrays, more = _arrays(members, sums)
        except SubmissionError as error:
            return None, [str(error)]
        faults += found + more + _array_faults(arrays, metadata)
        if faults or metadata is None or sums is None:
            return None, faults
        return cls(
            metadata, arrays[IDS], tuple(arrays[embeddings_name(i)] for i in range(len(metadata.seeds))), sums
        ), []


@contextmanager
def _opened(path: Path) -> Iterator[Members]:
    members = open_members(path)
    try:
        yield members
    finally:
        members.close()


def _document(members: Members) -> tuple[Metadata | None, dict[str, str] | None, list[str]]:
    """Return metadata, checksums, and what is wrong with them; None for what cannot be told."""
    if DOCUMENT not in members.sizes:
        return None, None, []
    try:
        data = codec.loads(members.read(DOCUMENT), DOCUMENT)
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


def _arrays(members: Members, sums: dict[str, str] | None) -> tuple[dict[str, npt.NDArray[Any]], list[str]]:
    """Return the arrays that can be read, and what is wrong with the others."""
    arrays: dict[str, npt.NDArray[Any]] = {}
    faults = []
    for name in sorted(set(members.sizes) - {DOCUMENT}):
        try:
            data = members.read(name)
            kind, ndim = ("int64", 1) if name == IDS else ("float32", 2)
            arrays[name] = decode_array(data, name, kind, ndim)
        except (ValueError, SubmissionError) as error:
            faults.append(str(error))
            continue
        if sums is not None and sums.get(name) != hashlib.sha256(data).hexdigest():
            faults.append(f"{name} is not the file that {DOCUMENT} was written with: its SHA-256 differs")
    return arrays, faults


def _array_faults(arrays: dict[str, npt.NDArray[Any]], metadata: Metadata | None) -> list[str]:
    """Return what is wrong with the arrays themselves and with each other."""
    runs = {name: array for name, array in arrays.items() if name != IDS}
    faults = [fault for name, array in runs.items() for fault in check_embeddings(array, name)]
    if metadata is not None:
        expected = {embeddings_name(position) for position in range(len(metadata.seeds))}
        if expected != set(runs):
            faults.append(
                f"expected one array of embeddings for each of the {len(metadata.seeds)} seeds "
                f"({', '.join(sorted(expected))}), got {', '.join(sorted(runs)) or 'none'}"
            )
    if len({array.shape[1] for array in runs.values()}) > 1:
        faults.append(f"the arrays of embeddings differ in width: {sorted({a.shape[1] for a in runs.values()})}")
    if IDS in arrays:
        faults += check_ids(arrays[IDS], IDS)
        faults += [
            f"{name} has {len(array)} rows, but {IDS} has {len(arrays[IDS])}"
            for name, array in runs.items()
            if len(array) != len(arrays[IDS])
        ]
    return faults


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
        with _opened(path) as members:
            replaceable = DOCUMENT in members.sizes
    except SubmissionError:
        replaceable = False
    if not replaceable:
        raise FileExistsError(f"{path} is there and is no submission; choose another name")


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
