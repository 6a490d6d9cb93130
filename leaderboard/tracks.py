"""Tracks: the datasets that entries are ranked on, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ident3d.codec import Rule, parse, read_file
from ident3d.errors import Ident3DError
from ident3d.storage.manifest import Manifest
from ident3d.submission.submission import SHA256, TEXT

__all__ = ["TRACKS_NAME", "Track", "TrackError", "read_tracks"]

TRACKS_NAME = "tracks.json"
_NAME = Rule(what="a short name of a-z, 0-9 and -", pattern=r"[a-z0-9][a-z0-9-]{0,39}")


class TrackError(Ident3DError):
    """The tracks cannot be read, or a dataset does not belong to a track."""


@dataclass(frozen=True)
class Track:
    """One dataset, and how to recognise it in a folder.

    Attributes:
        name: short name, the folder of its entries.
        title: its heading.
        description: what it is and how to get it.
        split: the split that is embedded.
        rows: number of samples of the split.
        resolution: images are resolution x resolution pixels.
        requires: settings of the manifest, by their path, and their value as text.
        fingerprints: accepted fingerprints of the split, for example one for each Blender series; where there are none,
            the settings decide alone.
    """

    name: str = field(metadata=_NAME.metadata)
    title: str = field(metadata=Rule(max_length=80).metadata)
    description: str = field(metadata=TEXT.metadata)
    split: str = field(metadata=_NAME.metadata)
    rows: int = field(metadata=Rule(low=1).metadata)
    resolution: int = field(metadata=Rule(low=1).metadata)
    requires: dict[str, str] = field(metadata=Rule().metadata, default_factory=dict)
    fingerprints: tuple[str, ...] = field(metadata=SHA256.metadata, default=())

    def mismatches(self, manifest: Manifest, fingerprint: str) -> list[str]:
        """Return how a dataset differs from the one of this track; nothing where it does not."""
        settings = manifest.settings
        expected = {f"splits.{self.split}": str(self.rows), "resolution": str(self.resolution), **self.requires}
        found = {path: _at(settings, path) for path in expected}
        faults = [
            f"{path} is {found[path]}, the track's is {value}"
            for path, value in expected.items()
            if found[path] != value
        ]
        if self.fingerprints and fingerprint not in self.fingerprints:
            faults.append(f"the fingerprint {fingerprint} is not among the track's")
        return faults


@dataclass(frozen=True)
class _Tracks:
    tracks: tuple[Track, ...] = field(metadata=Rule(min_items=1).metadata)


def read_tracks(folder: Path) -> dict[str, Track]:
    """Return the tracks of a board by name; those that come with the leaderboard where its folder has none.

    Raises:
        TrackError: if the file is damaged; every fault is named.
    """
    path = folder / TRACKS_NAME
    if not path.exists():
        path = Path(__file__).with_name(TRACKS_NAME)
    try:
        data = read_file(path, "restore it from a copy")
    except ValueError as error:
        raise TrackError(str(error)) from error
    found, faults = parse(_Tracks, data, TRACKS_NAME)
    if found is None:
        raise TrackError("\n  - ".join([f"{path} is damaged:", *faults]))
    tracks = {track.name: track for track in found.tracks}
    if len(tracks) != len(found.tracks):
        raise TrackError(f"{path}: two tracks have one name")
    return tracks


def _at(settings: Mapping[str, Any], path: str) -> str:
    value: Any = settings
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return str(value)
