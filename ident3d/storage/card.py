"""The dataset card: a README.md that Hugging Face `datasets` takes the layout from, and that people read."""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ident3d.factors import Factors
from ident3d.files import read_bytes, write_text
from ident3d.scene.world import World
from ident3d.storage.manifest import DATA_FOLDER, Manifest, native_splits

__all__ = ["CARD_NAME", "ELSEWHERE", "HERE", "card", "card_fault", "is_card_as_composed", "write_card"]

CARD_NAME = "README.md"
HERE = "mit"
"""The licence on the card of images that were rendered here, as Hugging Face spells it."""
ELSEWHERE = "other"
"""The licence on the card of images that come from elsewhere."""

_MOST_CARD_BYTES = 1 << 24
_READ_BY_DATASETS = ("configs", "dataset_info")

_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
_LARGEST_SIZE = "1M<n<10M"

_HEADER = """\
---
pretty_name: {title}
license: {licence}
size_categories:
- {size}
task_categories:
- image-feature-extraction
tags:
- 3dident
- identifiability
- disentanglement
- contrastive-learning
- nonlinear-ica
configs:
- config_name: default
  data_files:{files}
dataset_info:
  features:
{features}
---
"""

_FEATURES = """\
  - name: index
    dtype: int64
  - name: image{suffix}
    dtype: image
  - name: latents{suffix}
    list: float32
    length: {width}"""

_INTRODUCTION = """\
# {title}

Images of {scene}, each with the {width} latents that it was rendered from, to test whether an
encoder finds the factors that made an image. The latents are raw: every factor lies in [-1, 1] and maps linearly to
its physical range below.{positives}

{progress}
"""

_POSITIVES = """
Every row also holds an exact positive: `image_pos`, rendered at `latents_pos`, drawn from `{conditional}` around
`latents`."""

_READING = """\
## Reading it

```python
from datasets import load_dataset

row = load_dataset("path/to/this/folder", split="{split}")[0]
row["image"], row["latents"]
```

or, with pairs, metrics and a fast reader, through ident3d:

```python
import ident3d

image, latents = ident3d.ThreeDIdent("path/to/this/folder", split="{split}")[0]
```
"""

_HUES = {
    "wrapped": """\
Hues are wrapped into [0, 1) before they become colours, so that every hue angle has a colour of its own. The images
that the authors of 3DIdent published use another map: do not mix the two.""",
    "published": """\
Hues become colours by the map of the published images, which leaves the gamut for negative angles: in about half of
the range of the object's hue its colour stays the same, so that this factor cannot be recovered there from the object.
Use this map to extend the published dataset.""",
}
_UNKNOWN_HUES = """\
It is not recorded how hue angles became colours. In the images that the authors of 3DIdent published, negative angles
leave the gamut: in about half of the range of the object's hue its colour stays the same, so that this factor cannot be
recovered there from the object."""

_CITATION = """\
## Citation

```bibtex
@inproceedings{zimmermann2021contrastive,
  title     = {Contrastive Learning Inverts the Data Generating Process},
  author    = {Zimmermann, Roland S. and Sharma, Yash and Schneider, Steffen and Bethge, Matthias and Brendel, Wieland},
  booktitle = {International Conference on Machine Learning},
  year      = {2021}
}
```
"""


def write_card(root: Path, manifest: Manifest, licence: str = HERE) -> None:
    """Write the card of the dataset in ``root`` over the splits that are there.

    Args:
        root: the dataset's folder, in the native layout.
        manifest: its manifest.
        licence: the licence as Hugging Face spells it; "other" for images that come from elsewhere.
    """
    write_text(root / CARD_NAME, card(manifest, native_splits(root), licence))


def is_card_as_composed(root: Path, manifest: Manifest) -> bool:
    """Return whether the card of a dataset is, to the byte, what :func:`write_card` writes.

    Args:
        root: the dataset's folder, in the native layout.
        manifest: its manifest.

    Raises:
        OSError: if it cannot be read.
        ValueError: if it is no regular file, or far too large.
    """
    found, splits = read_bytes(root / CARD_NAME, _MOST_CARD_BYTES), native_splits(root)
    return any(found == card(manifest, splits, licence).encode() for licence in (HERE, ELSEWHERE))


def card_fault(root: Path, manifest: Manifest) -> str:
    """Return what is wrong with what `datasets` reads of a card; nothing where all of that is as it was composed.

    That is the files of each split and the types of the columns. Everything else may be edited: the text, the licence,
    the tags.

    Args:
        root: the dataset's folder, in the native layout.
        manifest: its manifest.

    Raises:
        OSError: if it cannot be read.
        ValueError: if it is no regular file, or far too large.
    """
    path = root / CARD_NAME
    found = _sections(read_bytes(path, _MOST_CARD_BYTES).decode(errors="replace"))
    composed = _sections(card(manifest, native_splits(root)))
    wrong = [name for name in _READ_BY_DATASETS if found.get(name) != composed[name]]
    if not wrong:
        return ""
    return (
        f"{path}: its header says of {' and '.join(wrong)} something else than the manifest: load_dataset reads "
        f"other files or fails: restore it from a copy, or write it again with python -m render {root} --merge, or by "
        "converting again what was converted"
    )


def _sections(text: str) -> dict[str, str]:
    """Return the sections of a card's header by their names; none where it has no header, or a section comes twice."""
    start, *rest = text.split("---\n", 2)
    if start or len(rest) < 2:
        return {}
    sections: dict[str, str] = {}
    name = ""
    for line in rest[0].splitlines(keepends=True):
        if line[0] not in " -\n":  # neither nested nor an item of a list
            name = line.partition(":")[0]
            if name in sections:
                return {}
        sections[name] = sections.get(name, "") + line
    return sections


def card(manifest: Manifest, splits: list[str], licence: str = HERE) -> str:
    """Return the text of a dataset card.

    Args:
        manifest: the dataset's manifest.
        splits: the splits of which at least one shard is there; `datasets` refuses a card that names a file which is
            not there.
        licence: the licence as Hugging Face spells it.
    """
    positives = "" if manifest.pairs is None else _POSITIVES.format(conditional=manifest.pairs)
    introduction = _INTRODUCTION.format(
        title=_title(manifest),
        scene="a rendered scene" if _is_variant(manifest) else "a teapot over a coloured ground",
        width=len(manifest.factors),
        positives=positives,
        progress=_progress(manifest),
    )
    hue_map = str(manifest.render.get("hue_map"))
    return "\n".join(
        (
            _header(manifest, splits, licence),
            introduction,
            _READING.format(split=splits[0] if splits else "train"),
            _factors(manifest.factors),
            _settings(manifest),
            f"## Hues\n\n{_HUES.get(hue_map, _UNKNOWN_HUES)}\n",
            _CITATION,
        )
    )


def _header(manifest: Manifest, splits: list[str], licence: str) -> str:
    planned = sum(manifest.splits.values())
    files = [f"\n  - split: {split}\n    path: {DATA_FOLDER}/{split}-*.parquet" for split in splits]
    first = _FEATURES.format(suffix="", width=len(manifest.factors))
    second = _FEATURES.format(suffix="_pos", width=len(manifest.factors)).split("\n", 2)[2]
    return _HEADER.format(
        title=_title(manifest),
        licence=json.dumps(licence),  # a string of JSON is one of YAML
        size=next((name for below, name in _SIZES if planned < below), _LARGEST_SIZE),
        files="".join(files) or " []",
        features=first if manifest.pairs is None else f"{first}\n{second}",
    )


def _is_variant(manifest: Manifest) -> bool:
    """Return whether a dataset shows another world than 3DIdent, as far as that is known."""
    known = World().to_json()
    world = manifest.render.get("world")
    told = {"factors": manifest.factors.to_json(), **(world if isinstance(world, Mapping) else {})}
    return any(told[key] != known.get(key) for key in told)


def _title(manifest: Manifest) -> str:
    return "A variant of 3DIdent" if _is_variant(manifest) else "3DIdent"


def _progress(manifest: Manifest) -> str:
    there = Counter(dict.fromkeys(manifest.splits, 0))
    for record in manifest.shards:
        there[record.split] += record.rows
    size = f"{manifest.resolution}x{manifest.resolution} pixels, RGB."
    if manifest.is_complete:
        return f"Images: {', '.join(f'{count:,} {split}' for split, count in manifest.splits.items())}; {size}"
    counts = ", ".join(f"{there[split]:,} of {count:,} {split}" for split, count in manifest.splits.items())
    return f"Images: {counts}; {size} The dataset is not complete; what is there can be used."


def _factors(factors: Factors) -> str:
    rows = [
        f"| {column} | `{factor.name}` | {factor.group} | {factor.low:.6g} | {factor.high:.6g} | {factor.unit} |"
        for column, factor in enumerate(factors)
    ]
    head = "| column | factor | group | physical value at -1 | at 1 | unit |\n|---|---|---|---|---|---|"
    units = "`bu` are Blender units. Colours are hues on a circle; an angle of 2 pi is one turn."
    if any(factor.unit == "1" for factor in factors):
        units += " A factor of unit 1 is a plain number."
    return "\n".join(("## Factors\n", head, *rows, "", units, ""))


def _settings(manifest: Manifest) -> str:
    made_by = sorted({", ".join(f"{key} {value}" for key, value in r.made_by.items()) for r in manifest.shards} - {""})
    settings = {
        "seed": manifest.seed,
        "latents": _latents(manifest),
        "exact positives": manifest.pairs,
        "hue map": manifest.render.get("hue_map"),
        "quality": _quality(manifest.render.get("quality", {})),
        "engine": manifest.render.get("engine"),
        "Blender": manifest.render.get("blender"),
        "made by": "; ".join(made_by) or None,
    }
    rows = [f"| {name} | {value} |" for name, value in settings.items() if value is not None]
    closing = "`manifest.json` holds every setting in full, and a SHA-256 of each file: `ident3d verify` checks them."
    return "\n".join(("## Provenance\n", "| setting | value |\n|---|---|", *rows, "", closing, ""))


def _latents(manifest: Manifest) -> str:
    sources = {split: manifest.latents_of(split) for split in manifest.splits}
    uniform = "uniform in [-1, 1]" if manifest.subset is None else f"uniform, {manifest.subset}"
    if set(sources.values()) == {"uniform"}:
        return f"{uniform}, by seed, split and row"
    told = (
        f"{split}: {uniform}, by seed and row" if source == "uniform" else f"{split}: given (SHA-256 {source})"
        for split, source in sources.items()
    )
    return "; ".join(told)


def _quality(quality: Any) -> str | None:
    """Return the plain settings of a quality; what is nested is in the manifest, which may hold anything here."""
    settings = quality if isinstance(quality, Mapping) else {}
    plain = [
        f"{key.replace('_', ' ')} {value}" for key, value in settings.items() if isinstance(value, str | int | float)
    ]
    return ", ".join(plain).removeprefix("name ") or None
