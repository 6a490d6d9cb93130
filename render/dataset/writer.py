"""The folder that a dataset is rendered into: what it already holds, and the writer of new shards.

Next to the dataset itself there is a folder ``.render/``, with a journal of every unfinished shard and a record of
every finished one. The manifest and the card are written again from the records after every shard, so that runs which
share a folder need to agree on nothing but the settings.
"""

import errno
import json
import logging
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from ident3d.codec import from_json, read_file
from ident3d.errors import DatasetError
from ident3d.files import nearest_folder, remove_unfinished, sha256_of, write_text
from ident3d.storage.card import CARD_NAME, card
from ident3d.storage.manifest import DATA_FOLDER, MANIFEST_NAME, Manifest, ShardRecord, native_splits
from ident3d.storage.native import ShardReader, ShardRows, write_shard
from render.dataset.journal import Journal, JournalKey
from render.dataset.plan import Shard, ShardLatents, planned_shards

__all__ = ["STATE_FOLDER", "DatasetWriter", "begun_dataset", "check_writable"]

_LOG = logging.getLogger("ident3d.render")
_READ_ONLY = {errno.EROFS, errno.EACCES, errno.EPERM}

STATE_FOLDER = ".render"
"""The folder inside a dataset that holds the journals and the records of its shards."""


def begun_dataset(root: Path) -> Manifest | None:
    """Return the manifest of a dataset that was begun in a folder; None if the folder is empty or does not exist.

    Files whose names start with a dot do not count, so a repository without files is empty. A folder that lost only its
    manifest counts as empty too, because the records of its shards tell the settings that they were rendered with.

    Raises:
        NotADirectoryError: if ``root`` is a file.
        ValueError: if the folder holds something else.
        DatasetError: if its manifest is damaged, or of another version.
    """
    if not root.exists():
        return None
    if not root.is_dir():
        raise NotADirectoryError(f"{root} is a file; expected a folder to render into")
    if (root / MANIFEST_NAME).exists():
        return _read_manifest(root)
    if (root / STATE_FOLDER).is_dir():
        return None
    others = sorted(path.name for path in root.iterdir() if not path.name.startswith("."))
    if others:
        raise ValueError(
            f"{root} holds something else ({', '.join(others[:3])}{', ...' if len(others) > 3 else ''}) and no "
            f"{MANIFEST_NAME}: render into an empty or a new folder"
        )
    return None


def check_writable(root: Path) -> None:
    """Raise OSError unless files can be created in ``root``, or the folder itself can be created."""
    folder = nearest_folder(root)
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"ident3d")
    except OSError as error:
        raise OSError(error.errno, f"no files can be written there: {error.strerror}", str(folder)) from error


def _read_manifest(root: Path) -> Manifest:
    try:
        return Manifest.read(root)
    except DatasetError as error:
        is_garbled = isinstance(error.__cause__, ValueError)  # and not just of another version
        if not is_garbled or not (root / STATE_FOLDER).is_dir():
            raise
        raise DatasetError(
            f"{error}. Delete that file and run the command again that the dataset was begun with: finished shards are "
            "kept, and the manifest is written again"
        ) from error


@dataclass(frozen=True)
class _Record:
    """The file of a finished shard: its record, and the fingerprint of the settings that it was made with."""

    settings: str
    record: ShardRecord


@dataclass(frozen=True, eq=False)
class DatasetWriter:
    """Writes shards, their records, the manifest and the card into the folder of a dataset.

    Attributes:
        root: the folder.
        manifest: the settings of the dataset; the shards that it lists are ignored.
    """

    root: Path
    manifest: Manifest

    @cached_property
    def shards(self) -> list[Shard]:
        """Every planned shard, split by split."""
        return planned_shards(self.manifest)

    def path(self, shard: Shard) -> Path:
        """Return the path of a shard's file."""
        return self.root / DATA_FOLDER / shard.name

    def journal(self, shard: Shard) -> Journal:
        """Open the journal of a shard, with the images of earlier runs.

        Raises:
            JournalBusyError: if another process is rendering the shard.
        """
        journal = Journal(self._journal_path(shard), self.settings)
        remove_unfinished(self.path(shard))
        return journal

    def record(self, shard: Shard) -> ShardRecord | None:
        """Return the record of a finished shard; None if there is none, or its file is missing.

        Raises:
            DatasetError: if the shard was rendered with other settings.
        """
        return self._record(shard, self._listed())

    def unfinished(self, shards: Iterable[Shard]) -> list[Shard]:
        """Return the shards that have to be rendered, after a check of the finished ones.

        A shard whose checksum is not the recorded one is named in the log and removed.
        """
        listed = self._listed()
        if listed:
            _LOG.info("checking the finished shards")
        return [shard for shard in shards if not self._is_sound(shard, listed)]

    def finish(self, shard: Shard, latents: ShardLatents, journal: Journal, made_by: Mapping[str, str]) -> None:
        """Write a shard from its complete journal, then its record, the manifest and the card; delete the journal."""
        images = [journal.image(JournalKey(row)) for row in shard.rows]
        positives = [journal.image(JournalKey(row, positive=True)) for row in shard.rows] if shard.has_pairs else None
        rows = ShardRows(np.array(shard.rows), images, latents.rows, positives, latents.positives, self.settings)
        write_shard(self.path(shard), rows)
        self.write_record(shard, made_by)
        journal.delete()
        self.write_manifest()

    def write_record(self, shard: Shard, made_by: Mapping[str, str]) -> None:
        """Record the file of a shard as finished."""
        sha256 = sha256_of(self.path(shard))
        record = ShardRecord(shard.name, shard.split, shard.rows.start, len(shard.rows), sha256, dict(made_by))
        data = {"settings": self.settings, "record": asdict(record)}
        write_text(self._record_path(shard), json.dumps(data, indent=1) + "\n")

    def write_manifest(self) -> Manifest:
        """Write the manifest and the card from all the records, and return the manifest.

        The process that writes last must have seen every record. So the records are read again after writing, until
        they are the ones that were written. Files that would not change are not written, because a finished dataset may
        be read-only.
        """
        records = self._records()
        while True:
            manifest = self.manifest.with_shards(records)
            try:
                self._write_changed(MANIFEST_NAME, manifest.text())
                self._write_changed(CARD_NAME, card(manifest, native_splits(self.root)))
            except OSError as error:
                if error.errno not in _READ_ONLY or not self._is_written(manifest):
                    raise
                _LOG.warning("the card or the layout of the manifest is not the newest, and stays as it is: %s", error)
            written, records = records, self._records()
            if written == records:
                return manifest

    @cached_property
    def settings(self) -> str:
        """Fingerprint of all settings, which tells records and journals of other datasets apart."""
        return self.manifest.settings_digest

    def _write_changed(self, name: str, text: str) -> None:
        path = self.root / name
        try:
            if path.read_bytes() == text.encode():
                return
        except FileNotFoundError:
            pass
        write_text(path, text)

    def _is_written(self, manifest: Manifest) -> bool:
        """Return whether the folder has a manifest with this content, perhaps written by an earlier ident3d."""
        try:
            return Manifest.read(self.root) == manifest
        except (DatasetError, FileNotFoundError):
            return False

    def _is_sound(self, shard: Shard, listed: Mapping[str, ShardRecord]) -> bool:
        record = self._record(shard, listed)
        if record is None:
            self._check_own(shard)
            return False
        if sha256_of(self.path(shard)) == record.sha256:
            journal = self._journal_path(shard)
            if journal.exists():  # the process was killed before it deleted it; a read-only disk refuses every removal
                journal.unlink(missing_ok=True)
            return True
        _LOG.warning("%s is damaged and is rendered again", self.path(shard))
        self._record_path(shard).unlink(missing_ok=True)
        self.path(shard).unlink(missing_ok=True)
        return False

    def _records(self) -> tuple[ShardRecord, ...]:
        listed = self._listed()
        found = (self._record(shard, listed) for shard in self.shards)
        return tuple(record for record in found if record is not None)

    def _record(self, shard: Shard, listed: Mapping[str, ShardRecord]) -> ShardRecord | None:
        if not self.path(shard).is_file():
            return None
        return self._own_record(shard) or listed.get(shard.name)

    def _own_record(self, shard: Shard) -> ShardRecord | None:
        path = self._record_path(shard)
        try:
            found = from_json(_Record, read_file(path, "it is left out"), "record")
        except FileNotFoundError:
            return None
        except ValueError as error:
            _LOG.warning("%s is damaged: %s", path, error)
            return None
        if found.record.name != shard.name:
            _LOG.warning("%s is damaged: it is the record of %s", path, found.record.name)
            return None
        if found.settings != self.settings:
            raise DatasetError(self.foreign(shard))
        return found.record

    def foreign(self, shard: Shard) -> str:
        """Return the message about a shard that belongs to another dataset."""
        path, record = self.path(shard), self._record_path(shard)
        both = f"{path} and {record}" if record.exists() else f"{path}"
        return (
            f"{path} was rendered with other settings than those of {self.root / MANIFEST_NAME}, or of the command if "
            f"that is missing, for example another quality, seed or world. Move {both} away if they belong to another "
            "dataset, or delete them if nobody needs them, and run the command again"
        )

    def _check_own(self, shard: Shard) -> None:
        """Raise DatasetError if the file of a shard without a record belongs to another dataset."""
        path = self.path(shard)
        if not path.is_file():
            return
        try:
            settings = ShardReader(path).settings
        except DatasetError:
            return  # damaged: it is rendered again
        if settings and settings != self.settings:
            raise DatasetError(self.foreign(shard))

    def _listed(self) -> Mapping[str, ShardRecord]:
        """Return the records in the manifest, for a folder that was copied without its ``.render/``."""
        if not (self.root / MANIFEST_NAME).exists():
            return {}
        return {record.name: record for record in Manifest.read(self.root).shards}

    def _journal_path(self, shard: Shard) -> Path:
        return self.root / STATE_FOLDER / "journal" / f"{shard.name}.journal"

    def _record_path(self, shard: Shard) -> Path:
        return self.root / STATE_FOLDER / "shards" / f"{shard.name}.json"
