"""Description of a dataset on disk: what a folder holds, and what is known of how it was made."""

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ident3d import codec
from ident3d.factors import Factors
from ident3d.latents import to_physical
from ident3d.storage.layouts import LAYOUTS, no_dataset, open_split, resolve_root, splits_of
from ident3d.storage.manifest import Manifest
from ident3d.storage.split import StoredSplit, manifest_of

__all__ = ["Description", "SplitDescription", "describe"]


@dataclass(frozen=True)
class SplitDescription:
    """What is in one split.

    Attributes:
        name: name of the split.
        layout: the layout that it is read from.
        rows: number of rows that are there.
        planned: number of rows that it is to have; larger than ``rows`` while it is being rendered.
        width: width of its first image in pixels.
        height: height of its first image in pixels.
        has_positives: whether every row also holds an exact positive.
        fingerprint: SHA-256 of all that decides what it shows.
        low: smallest raw latent of each factor.
        high: largest raw latent of each factor.
    """

    name: str
    layout: str
    rows: int
    planned: int
    width: int
    height: int
    has_positives: bool
    fingerprint: str
    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True)
class Description:
    """What is in a folder.

    Attributes:
        root: the folder.
        layouts: the layouts in which splits are there; the first is the one that is read.
        splits: its splits.
        factors: what the columns of the latents are.
        provenance: what is known of how it was made, by name of the setting.
        size: size on disk in bytes.
    """

    root: Path
    layouts: tuple[str, ...]
    splits: tuple[SplitDescription, ...]
    factors: Factors
    provenance: Mapping[str, Any]
    size: int

    def to_json(self) -> dict[str, Any]:
        """Return the description as plain data."""
        plain: dict[str, Any] = codec.to_json(self)
        return plain

    def table(self) -> str:
        """Return the description as text for a terminal."""
        blocks = [
            f"{self.root}: {', '.join(self.layouts)} layout, {self.size / 1e6:,.1f} MB on disk",
            _table(
                ("split", "images", "size", "exact positives", "fingerprint"),
                [_split_row(split) for split in self.splits],
            ),
            _table(
                ("", "factor", "group", "physical range", "unit", *(f"found in {split.name}" for split in self.splits)),
                [self._factor_row(column) for column in range(len(self.factors))],
            ),
            _table(("provenance", ""), [(name, _text(value)) for name, value in self.provenance.items()]),
        ]
        return "\n\n".join(blocks)

    def _factor_row(self, column: int) -> tuple[str, ...]:
        factor = self.factors[column]
        found = []
        for split in self.splits:
            low, high = (to_physical(raw, self.factors)[column] for raw in (split.low, split.high))
            found.append(f"{low:.4g} to {high:.4g}")
        return (
            str(column),
            factor.name,
            factor.group,
            f"{factor.low:.4g} to {factor.high:.4g}",
            factor.unit,
            *found,
        )


def describe(root: str | Path) -> Description:
    """Describe the dataset in a folder; of its images only the first of each split is decoded.

    Args:
        root: the folder, in any layout, or "sample".

    Raises:
        FileNotFoundError: if it is not there.
        DatasetError: if it holds no dataset, or a damaged one.
    """
    folder = resolve_root(root)
    names = splits_of(folder)
    if not names:
        raise no_dataset(folder)
    splits = [open_split(folder, name) for name in names]
    return Description(
        root=folder,
        layouts=tuple(layout for layout, (found, _) in LAYOUTS.items() if found(folder)),
        splits=tuple(map(_describe, splits)),
        factors=splits[0].factors,
        provenance=_provenance(manifest_of(splits)),
        size=_size(folder),
    )


def _describe(split: StoredSplit) -> SplitDescription:
    height, width = split.pixels(0).shape[:2]
    return SplitDescription(
        name=split.split,
        layout=split.layout,
        rows=len(split.latents),
        planned=split.provenance().splits[split.split],
        width=width,
        height=height,
        has_positives=split.positives is not None,
        fingerprint=split.fingerprint(),
        low=tuple(split.latents.min(axis=0).tolist()),
        high=tuple(split.latents.max(axis=0).tolist()),
    )


def _provenance(manifest: Manifest) -> dict[str, Any]:
    """Return what a manifest says beyond counts and factors; what made each shard is gathered."""
    made_by: dict[str, list[str]] = {}
    for record in manifest.shards:
        for key, value in record.made_by.items():
            values = made_by.setdefault(key, [])
            if value not in values:
                values.append(value)
    told = {
        "seed": manifest.seed,
        "latents": manifest.latents if isinstance(manifest.latents, str) else dict(manifest.latents),
        "pairs": manifest.pairs,
        **manifest.render,
        **made_by,
    }
    return {name: value for name, value in told.items() if value is not None}


def _size(folder: Path) -> int:
    """Return the size of all files of a folder in bytes, without following links to folders."""
    size = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):  # files come and go while a dataset is being rendered
                size += os.stat(os.path.join(parent, name)).st_size  # noqa: PTH116, PTH118 - a Path each is slow
    return size


def _split_row(split: SplitDescription) -> tuple[str, ...]:
    rows = f"{split.rows:,}" if split.rows == split.planned else f"{split.rows:,} of {split.planned:,}"
    positives = "yes" if split.has_positives else "no"
    return split.name, rows, f"{split.width}x{split.height}", positives, split.fingerprint[:16]


def _text(value: Any) -> str:
    """Return a setting on one line, without what is nested deeper and cut off: ``--json`` has all of it."""
    if isinstance(value, Mapping):
        told = [f"{key}={_text(item)}" for key, item in value.items() if not isinstance(item, Mapping | list)]
        text = ", ".join(told or value)
    else:
        text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= 100 else f"{text[:97]}..."


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, *rows]
    widths = np.max([[len(cell) for cell in line] for line in lines], axis=0)
    padded = (
        "  ".join(cell.ljust(int(width)) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )
    return "\n".join(padded)
