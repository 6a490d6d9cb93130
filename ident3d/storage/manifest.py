"""The manifest of a dataset: what it is, how it was made, and which shards hold it; and the names of the shards."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ident3d import codec
from ident3d.errors import DatasetError
from ident3d.factors import FACTORS, Factors
from ident3d.files import write_text
from ident3d.scene.world import World

if TYPE_CHECKING:
    from ident3d.spaces import FactorSpace

__all__ = [
    "DATA_FOLDER",
    "MANIFEST_NAME",
    "SCHEMA_VERSION",
    "LatentSubset",
    "Manifest",
    "ShardRecord",
    "native_splits",
    "shard_name",
    "shard_paths",
]

MANIFEST_NAME = "manifest.json"
SCHEMA_VERSION = 1
DATA_FOLDER = "data"
"""The folder of a dataset that holds its shards."""

_SHARD = re.compile(r"(?P<split>\w+)-(?P<number>\d{5})-of-(?P<total>\d{5})\.parquet")
_MOST_SHARDS = 99_999  # as many as five digits name
_LONGEST_NAME = 100
_WORLD_OF_3DIDENT = {name: part for name, part in World().to_json().items() if name not in {"factors", "hue_map"}}
_ADVICE = "restore it from a copy, or fetch or render the dataset again"


def shard_name(split: str, number: int, total: int) -> str:
    """Return the file name of shard ``number`` of ``total`` of a split."""
    return f"{split}-{number:05d}-of-{total:05d}.parquet"


def native_splits(root: Path) -> list[str]:
    """Return the splits of which at least one shard is there."""
    return sorted({split for _, split in _shards(root)}, reverse=True)


def shard_paths(root: Path, split: str) -> list[Path]:
    """Return the shards of a split that are there, in order."""
    return sorted(path for path, name in _shards(root) if name == split)


def _shards(root: Path) -> Iterator[tuple[Path, str]]:
    """Yield the shards that are there, and the split of each."""
    for path in (root / DATA_FOLDER).glob("*.parquet"):
        match = _SHARD.fullmatch(path.name)
        if match:
            yield path, match["split"]


@dataclass(frozen=True)
class ShardRecord:
    """One finished shard.

    Attributes:
        name: file name under ``data/``.
        split: the split that it belongs to.
        start: index within the split of its first image.
        rows: number of images.
        sha256: hexadecimal checksum of the file.
        made_by: what rendered it: Blender version, device, denoiser; empty where it was not rendered here.

    Raises:
        ValueError: if the name is not one of a shard.
    """

    name: str
    split: str
    start: int
    rows: int
    sha256: str
    made_by: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not _SHARD.fullmatch(self.name):  # it becomes a path
            raise ValueError(f"the name {self.name!r} is not one of a shard, such as {shard_name('train', 0, 4)}")


@dataclass(frozen=True)
class LatentSubset:
    """Which latents a dataset has, where they are not all of the box [-1, 1]^d.

    Attributes:
        space: "box" or "sphere": where the factors named live, the sphere being the unit sphere.
        factors: the names of these factors, in the order of the space's coordinates; all where empty.
        others: values at which other factors are held, by name. Those in neither are uniform in [-1, 1].
    """

    space: Literal["box", "sphere"] = "box"
    factors: tuple[str, ...] = ()
    others: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        names = ", ".join(self.factors) or "all factors"
        held = "".join(f", {name} held at {value:g}" for name, value in self.others.items())
        return f"{names} on the {'unit sphere' if self.space == 'sphere' else 'box'}{held}"


@dataclass(frozen=True)
class Manifest:
    """What a dataset is. Everything but ``shards`` is settled before the first image is rendered.

    Attributes:
        splits: planned number of images of each split.
        rows_per_shard: images in a shard; the last of a split may hold fewer.
        resolution: images are resolution x resolution pixels.
        factors: what the columns of the latents are.
        seed: seed of the latents and of the renderer's sampling; None where it is not known.
        latents: "uniform" for latents that follow from the seed, else the SHA-256 of the given array, by split where
            the splits have an array each.
        subset: which latents the dataset has; None: all of the box [-1, 1]^d.
        pairs: text of the conditional that exact positive pairs were drawn from; None where there are none.
        render: how images are made, as plain data: hue map, quality, Blender series, the world that was
            rendered. Empty where it is not known.
        shards: the shards that are finished.
        schema_version: version of this layout.

    Raises:
        ValueError: if a field is not what it should be, as in a manifest that was edited by hand.
    """

    splits: Mapping[str, int]
    rows_per_shard: int
    resolution: int
    factors: Factors = FACTORS
    seed: int | None = None
    latents: str | Mapping[str, str] = "uniform"
    pairs: str | None = None
    render: Mapping[str, Any] = field(default_factory=dict)
    shards: tuple[ShardRecord, ...] = ()
    schema_version: int = SCHEMA_VERSION
    subset: LatentSubset | None = None

    def __post_init__(self) -> None:
        is_sound = {
            "splits": all(_is_split_name(name) and _is_count(count, 0) for name, count in self.splits.items()),
            "rows_per_shard": _is_count(self.rows_per_shard, 1),
            "resolution": _is_count(self.resolution, 1),
            "seed": self.seed is None or _is_count(self.seed, 0),
            "latents": isinstance(self.latents, str) or set(self.latents) >= set(self.splits),
        }
        wrong = [f"{name} is {getattr(self, name)!r}" for name, sound in is_sound.items() if not sound]
        if wrong:
            raise ValueError(
                f"{', '.join(wrong)}: expected counts of images by split, the splits named like folders, a positive "
                "number of rows per shard and of pixels, a seed or null, and a source of latents for every split"
            )
        many = [split for split in self.splits if self.shards_of(split) > _MOST_SHARDS]
        if many:
            raise ValueError(
                f"{self.shards_of(many[0]):,} shards are more than the {_MOST_SHARDS:,} that have names: give a larger "
                f"rows_per_shard for the split {many[0]!r}"
            )

    def __repr__(self) -> str:
        splits = ", ".join(f"{count:,} {split}" for split, count in self.splits.items())
        known = {
            "factors": ", ".join(self.factors.names),
            "seed": "?" if self.seed is None else self.seed,
            "latents": self.latents if isinstance(self.latents, str) else "given as arrays",
            "exact pairs": self.pairs or "none",
            "rendered with": ", ".join(f"{k} {v}" for k, v in self.render.items() if isinstance(v, str | int))
            or "unknown",
            "shards": f"{len(self.shards)} of {sum(map(self.shards_of, self.splits))} finished",
        }
        lines = [f"  {name}: {value}" for name, value in known.items()]
        return "\n".join([f"dataset of {splits} images of {self.resolution}x{self.resolution}", *lines])

    def shards_of(self, split: str) -> int:
        """Return the number of shards that a split is planned to have."""
        return -(-self.splits[split] // self.rows_per_shard)

    def planned(self, split: str) -> list[tuple[str, range]]:
        """Return the file name and the indices of every planned shard of a split."""
        total = self.shards_of(split)
        size, count = self.rows_per_shard, self.splits[split]
        return [(shard_name(split, k, total), range(k * size, min((k + 1) * size, count))) for k in range(total)]

    def latents_of(self, split: str) -> str:
        """Return what the latents of a split are: "uniform", or the SHA-256 of the array that was given."""
        return self.latents if isinstance(self.latents, str) else self.latents[split]

    @property
    def is_complete(self) -> bool:
        """Whether every planned shard is finished."""
        return {record.name for record in self.shards} == {
            name for split in self.splits for name, _ in self.planned(split)
        }

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that decides what the images show: two runs may share a folder when it is equal."""
        data = self.to_json()
        del data["shards"]
        return data

    @property
    def settings_digest(self) -> str:
        """A SHA-256 of the settings, which every shard holds."""
        return hashlib.sha256(json.dumps(self.settings, sort_keys=True, allow_nan=False).encode()).hexdigest()

    def world(self) -> World:
        """Return what scenes the latents make, with the hue map; 3DIdent where only the hue map is known.

        Raises:
            DatasetError: if the manifest does not say it, or not in a way that is understood.
        """
        try:
            data = {"hue_map": self.render["hue_map"], **self.render.get("world", _WORLD_OF_3DIDENT)}
            return World.from_json({"factors": self.factors.to_json(), **data})
        except KeyError as error:
            raise DatasetError(
                f"the manifest does not say what the latents show: render.{error.args[0]} is missing"
            ) from error
        except (TypeError, ValueError) as error:
            raise DatasetError(f"the manifest describes its world in a way that is not understood: {error}") from error

    def factor_space(self) -> "FactorSpace":
        """Return where the latents live.

        Raises:
            DatasetError: if the manifest describes it in a way that is not understood.
        """
        from ident3d.spaces import FactorSpace  # it loads torch

        try:
            return FactorSpace.of(self.subset or LatentSubset(), self.factors)
        except (TypeError, ValueError) as error:
            raise DatasetError(
                f"the manifest describes its latents in a way that is not understood: {error}"
            ) from error

    def fingerprint(self, split: str) -> str:
        """Return a SHA-256 of all that decides what a split shows: its latents, settings and Blender series.

        It leaves out the other splits and the division into shards, and the pixels of one machine.
        """
        identity = self.settings | {"splits": {split: self.splits[split]}}
        identity["latents"] = self.latents_of(split)
        del identity["rows_per_shard"]
        return codec.digest(identity)

    def differences(self, other: "Manifest") -> list[str]:
        """Return one line for each setting in which ``other`` differs, nested settings by their path."""
        return _differences(self.settings, other.settings, "")

    def with_shards(self, records: tuple[ShardRecord, ...]) -> "Manifest":
        """Return this manifest with the given shards, in the order of their names."""
        return replace(self, shards=tuple(sorted(records, key=lambda record: record.name)))

    def to_json(self) -> dict[str, Any]:
        """Return the manifest as plain data; without a subset as before there were any."""
        data: dict[str, Any] = codec.to_json(self)
        if self.subset is None:
            del data["subset"]
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Manifest":
        """Return the manifest that :meth:`to_json` wrote.

        Raises:
            DatasetError: if a field is missing, unknown or wrong, or it is of another schema version.
        """
        data, _ = codec.unsealed(data)
        if isinstance(data, Mapping) and data.get("schema_version") != SCHEMA_VERSION:
            version = data.get("schema_version")
            raise DatasetError(f"the manifest has schema version {version!a}; this ident3d reads {SCHEMA_VERSION}")
        try:
            return codec.from_json(cls, data, "manifest")
        except ValueError as error:
            raise DatasetError(f"the manifest is not one of ident3d: {error}") from error

    def text(self) -> str:
        """Return the text of its file, with a checksum of its own."""
        return codec.dumps(codec.sealed(self.to_json()))

    def write(self, root: Path) -> None:
        """Write the manifest into the folder ``root``, atomically."""
        write_text(root / MANIFEST_NAME, self.text())

    @classmethod
    def read(cls, root: Path) -> "Manifest":
        """Read the manifest of the folder ``root``.

        Raises:
            FileNotFoundError: if there is none.
            DatasetError: if it is damaged or foreign.
        """
        path = root / MANIFEST_NAME
        try:
            data = codec.read_file(path, _ADVICE)
        except ValueError as error:
            raise DatasetError(str(error)) from error
        try:
            return cls.from_json(data)
        except DatasetError as error:
            raise DatasetError(f"{path}: {error}") from error


def _is_count(value: Any, least: int) -> bool:
    return type(value) is int and value >= least


def _is_split_name(name: str) -> bool:
    """Return whether a name can be that of a folder inside the dataset's own, and can be shown to people."""
    return name.isprintable() and 0 < len(name) <= _LONGEST_NAME and name[0] not in ". " and not set(name) & set("/\\:")


def _is_named(items: Any) -> bool:
    return isinstance(items, list | tuple) and all(isinstance(item, Mapping) and "name" in item for item in items)


def _differences(ours: Any, theirs: Any, path: str) -> list[str]:
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        keys = [*ours, *(key for key in theirs if key not in ours)]
        return [
            line
            for key in keys
            for line in _differences(ours.get(key), theirs.get(key), f"{path}.{key}" if path else str(key))
        ]
    if isinstance(ours, list | tuple) and isinstance(theirs, list | tuple) and len(ours) == len(theirs):
        pairs = enumerate(zip(ours, theirs, strict=True))
        return [line for k, (a, b) in pairs for line in _differences(a, b, f"{path}[{k}]")]
    if _is_named(ours) and _is_named(theirs):  # of different lengths: factors or lights of another world
        return _differences({item["name"]: item for item in ours}, {item["name"]: item for item in theirs}, path)
    return [] if ours == theirs else [f"{path}: {ours!r} against {theirs!r}"]
