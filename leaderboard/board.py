"""The board: a folder with tracks, entries, and the files that are generated from them."""

from __future__ import annotations

import os
import secrets
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from ident3d import codec
from ident3d.errors import Ident3DError
from ident3d.files import write_bytes, write_text
from leaderboard.entry import Entry, Kind, folded_name
from leaderboard.tracks import Track, read_tracks

__all__ = ["DEFAULT_FOLDER", "MAX_SUBMISSION_BYTES", "Board", "BoardError"]

DEFAULT_FOLDER = Path(__file__).parent
MAX_SUBMISSION_BYTES = 5 << 20
"""How large an archive may be that is kept beside its entry; larger ones are linked to."""

_ENTRIES = "entries"
_SUBMISSIONS = "submissions"


class BoardError(Ident3DError):
    """An entry does not fit the board."""


@dataclass(frozen=True)
class Board:
    """The entries of all tracks. A damaged entry is set aside with what is wrong; the others are there.

    Attributes:
        folder: the folder.
        tracks: the tracks by name.
        entries: the sound entries by their path, relative to the folder.
        damaged: what is wrong with each of the other files; a path that cannot be printed is written with escapes.
    """

    folder: Path
    tracks: dict[str, Track]
    entries: dict[str, Entry] = field(default_factory=dict)
    damaged: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> Board:
        """Read the board in ``folder``.

        Raises:
            FileNotFoundError: if there is no such folder.
            TrackError: if the tracks are damaged.
        """
        if not folder.is_dir():
            raise FileNotFoundError(f"there is no board {folder}; make the folder to start a new one")
        board = cls(folder, read_tracks(folder))
        for path in sorted((folder / _ENTRIES).rglob("*")):
            if (path.is_dir() and not path.is_symlink()) or path.name == ".gitkeep" or _is_unfinished(path):
                continue
            name = path.relative_to(folder).as_posix()
            name = name if name.isprintable() else ascii(name)  # it is written into the generated files
            entry, faults = _read(path)
            if entry is not None:
                faults = [*faults, *board._misplaced(entry, name)]
            if entry is None or faults:
                board.damaged[name] = faults
            else:
                board.entries[name] = entry
        return board

    def track(self, name: str) -> Track:
        """Return a track by its name; ValueError with the known names if there is none."""
        if name not in self.tracks:
            raise ValueError(self._unknown_track(name))
        return self.tracks[name]

    def name_of(self, path: str) -> str:
        """Return the name of an entry that is given by its path, or by its path within the folder.

        Raises:
            ValueError: if there is no such entry.
        """
        given, folder = Path(path).resolve(), self.folder.resolve()
        name = given.relative_to(folder).as_posix() if given.is_relative_to(folder) else path
        if name not in self.entries:
            raise ValueError(f"unknown entry {path!r}; choose from {', '.join(self.entries)}")
        return name

    def path_of(self, entry: Entry) -> str:
        """Return where an entry belongs, relative to the folder."""
        return f"{_ENTRIES}/{entry.track}/{entry.file_name}"

    def submission_of(self, entry: Entry) -> Path:
        """Return where the submission of an entry is kept, if it is small enough."""
        return self.folder / _SUBMISSIONS / entry.track / Path(entry.file_name).with_suffix(".zip")

    def keep(self, entry: Entry, submission: Path) -> Path | None:
        """Copy a submission to beside its entry; return the copy, or None for one that is too large.

        Args:
            entry: the entry that was made of it.
            submission: a zip archive; the folder of a submission is not copied.
        """
        if not submission.is_file() or submission.stat().st_size > MAX_SUBMISSION_BYTES:
            return None
        kept = self.submission_of(entry)
        write_bytes(kept, submission.read_bytes())
        return kept

    def add(self, entry: Entry) -> Path:
        """Write a new entry.

        Raises:
            BoardError: if its track is unknown, its name and revision are taken, the name belongs to other authors,
                or the same embeddings are there already.
        """
        if entry.track not in self.tracks:
            raise BoardError(self._unknown_track(entry.track))
        path = self.folder / self.path_of(entry)
        faults = self.conflicts({**self.entries, self.path_of(entry): entry})
        if faults:
            raise BoardError("\n  - ".join(["the entry does not fit the board:", *faults]))
        try:
            _write_new(path, entry.sealed().to_json())
        except FileExistsError:
            raise BoardError(
                f"{entry.name!r} has a revision {entry.revision}: raise the revision in the submission"
            ) from None
        return path

    def replace(self, name: str, entry: Entry) -> None:
        """Write an entry over the one in the file ``name``."""
        write_text(self.folder / name, entry.sealed().to_json())

    @staticmethod
    def conflicts(entries: dict[str, Entry]) -> list[str]:
        """Return what is wrong between entries: a name that two groups of authors use, embeddings under two names."""
        faults = []
        authors: dict[tuple[str, str], set[tuple[str, ...]]] = defaultdict(set)
        owners: dict[tuple[str, str], set[str]] = defaultdict(set)
        for entry in entries.values():
            authors[entry.track, folded_name(entry.name)].add(tuple(sorted(entry.authors)))
            for sha256 in entry.embeddings_sha256:
                owners[entry.track, sha256].add(folded_name(entry.name))
        for (track, name), groups in authors.items():
            if len(groups) > 1:
                who = " and ".join(", ".join(group) for group in sorted(groups))
                faults.append(f"{track}: the name {name!r} is used by {who}; revisions come from the same authors")
        for (track, sha256), names in owners.items():
            if len(names) > 1:
                faults.append(
                    f"{track}: the same embeddings ({sha256[:12]}) were submitted as {', '.join(sorted(names))}"
                )
        return faults

    def _unknown_track(self, name: str) -> str:
        return f"unknown track {name!r}; choose from {', '.join(self.tracks)}"

    def _misplaced(self, entry: Entry, name: str) -> list[str]:
        if entry.track not in self.tracks:
            return [self._unknown_track(entry.track)]
        track = self.tracks[entry.track]
        pinned = track.fingerprints
        faults = [] if name == self.path_of(entry) else [f"the file of this entry is {self.path_of(entry)}"]
        if entry.fingerprint is not None and pinned and entry.fingerprint not in pinned:
            faults.append(f"the fingerprint {entry.fingerprint} is not among the track's")
        if track.is_unpinned and entry.kind != Kind.REPORTED:
            faults.append(track.unpinned)
        return faults


def _write_new(path: Path, text: str) -> None:
    """Write a file whole; FileExistsError if there is one, even if somebody else writes it at the same time."""
    finished = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    write_text(finished, text)
    try:
        os.link(finished, path)  # unlike a rename, it replaces nothing
    finally:
        finished.unlink()


def _is_unfinished(path: Path) -> bool:
    return path.name.startswith(".") and path.suffix == ".tmp"


def _read(path: Path) -> tuple[Entry | None, list[str]]:
    if path.is_symlink() or not path.is_file():
        return None, ["not a regular file"]
    try:
        with path.open("rb") as file:
            data = codec.loads(file.read(codec.MAX_BYTES + 1), "the file")
    except (ValueError, OSError) as error:
        return None, [str(error)]
    return Entry.of(data)
