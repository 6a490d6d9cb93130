"""Tracks: the datasets that entries are ranked on, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ident3d.codec import Rule, dumps, parse, read_file, to_json
from ident3d.errors import Ident3DError
from ident3d.files import write_text
from ident3d.latents import latents_sha256
from ident3d.submission.submission import SHA256, TEXT

if TYPE_CHECKING:
    from ident3d.dataset import ThreeDIdent

__all__ = ["TRACKS_NAME", "Track", "TrackError", "pin_latents", "read_tracks"]

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
        latents_sha256: checksum of the split's latents, which ``python -m leaderboard pin`` writes; where None, they
            are not compared. While it is empty, nobody has pinned them, and the track takes reported numbers alone.
    """

    name: str = field(metadata=_NAME.metadata)
    title: str = field(metadata=Rule(max_length=80).metadata)
    description: str = field(metadata=TEXT.metadata)
    split: str = field(metadata=_NAME.metadata)
    rows: int = field(metadata=Rule(low=1).metadata)
    resolution: int = field(metadata=Rule(low=1).metadata)
    requires: dict[str, str] = field(metadata=Rule().metadata, default_factory=dict)
    fingerprints: tuple[str, ...] = field(metadata=SHA256.metadata, default=())
    latents_sha256: str | None = field(
        metadata=Rule(what=f"{SHA256.what}, or nothing yet", pattern="[0-9a-f]{64}|", empty=True).metadata, default=None
    )

    @property
    def is_unpinned(self) -> bool:
        """Whether the track takes reported numbers alone, because nobody has pinned its latents yet."""
        return self.latents_sha256 == ""

    @property
    def seed(self) -> int | None:
        """The seed that the split's latents follow from; None where they do not."""
        seed = self.requires.get("seed", "")
        return int(seed) if self.requires.get("latents") == "uniform" and seed.isdecimal() else None

    def mismatches(self, data: ThreeDIdent) -> list[str]:
        """Return how a dataset differs from the one of this track; nothing where it does not."""
        faults = self.differences(data)
        if self.is_unpinned:
            faults.append(self.unpinned)
        elif self.latents_sha256 is not None and latents_sha256(data.latents.numpy()) != self.latents_sha256:
            faults.append(f"its latents are others than the track's, whose checksum is {self.latents_sha256}")
        return faults

    @property
    def unpinned(self) -> str:
        """Why the track takes reported numbers alone, and what changes that."""
        return (
            f"the latents of the track {self.name} are not pinned yet, so it takes reported numbers alone: a "
            f"maintainer who has its dataset runs python -m leaderboard pin {self.name} --data ROOT"
        )

    def differences(self, data: ThreeDIdent) -> list[str]:
        """Return how a dataset's settings differ from those of this track, whatever its latents are."""
        settings, fingerprint = data.provenance.settings, data.fingerprint
        expected = {f"splits.{self.split}": str(self.rows), "resolution": str(self.resolution), **self.requires}
        found = {path: _at(settings, path) for path in expected}
        faults = [
            f"{path} is {found[path]}, the track's is {value}"
            for path, value in expected.items()
            if found[path] != value
        ]
        engine = _at(settings, "render.engine")
        if engine not in ("None", "cycles"):
            faults.append(f"its images were rendered by the engine {engine}, and entries are ranked on those of Cycles")
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


def pin_latents(folder: Path, name: str, data: ThreeDIdent) -> str:
    """Write the checksum of a dataset's latents into a track that is not pinned yet.

    Args:
        folder: folder of the board.
        name: the track.
        data: the track's split, from its publisher.

    Returns:
        The checksum.

    Raises:
        TrackError: if the track is pinned already, or needs no pin; or the dataset is not the track's.
        ValueError: if there is no such track.
    """
    tracks = read_tracks(folder)
    if name not in tracks:
        raise ValueError(f"unknown track {name!r}; choose from {', '.join(tracks)}")
    track, sha256 = tracks[name], latents_sha256(data.latents.numpy())
    faults = track.differences(data)
    if not track.is_unpinned and track.latents_sha256 != sha256:
        faults.append(
            "the track needs no pin: its fingerprints and settings decide"
            if track.latents_sha256 is None
            else f"the track is pinned to other latents, whose checksum is {track.latents_sha256}"
        )
    if faults:
        raise TrackError("\n  - ".join([f"{data.root} cannot pin the track {name}:", *faults]))
    pinned = [replace(one, latents_sha256=sha256) if one.name == name else one for one in tracks.values()]
    path = folder / TRACKS_NAME
    write_text(path, dumps(to_json(_Tracks(tuple(pinned)))))
    return sha256


def _at(settings: Mapping[str, Any], path: str) -> str:
    value: Any = settings
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return str(value)
