"""The page: README.md and a self-contained index.html, from templates that escape whatever they are given."""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ident3d.errors import MissingDependencyError
from ident3d.factors import FACTORS
from ident3d.repository import repository_address
from leaderboard.board import DEFAULT_FOLDER, Board
from leaderboard.entry import Kind, Result
from leaderboard.ranking import Mark, Row, ranked

if TYPE_CHECKING:
    import jinja2

__all__ = [
    "HTML_NAME",
    "README_NAME",
    "Plot",
    "Point",
    "Tick",
    "compute_plot",
    "generate",
    "markdown_escaped",
    "score_plot",
]

HTML_NAME = "index.html"
README_NAME = "README.md"

_TEMPLATES = Path(__file__).with_name("templates")
_SPECIAL = re.compile(r"([\\`*_{}\[\]#|~$@!]|:(?=//)|(?<=www)\.)", re.IGNORECASE)
_SHADES = 10
_GUIDE = "docs/submitting.md"

WIDTH, HEIGHT = 460, 340
LEFT, RIGHT, TOP, BOTTOM = 56, 20, 16, 48
_CHARACTER = 6.5  # width of a label's character
_LEAST_HOURS = 1e-3  # a tiny number must not stretch the axis for the others
_PLACES = ((9, -5, "start"), (-9, -5, "end"), (9, 13, "start"), (-9, 13, "end"), (0, -10, "middle"), (0, 20, "middle"))


def generate(board: Board) -> dict[str, str]:
    """Return the text of each generated file by its name. The same board gives the same text."""
    tracks = [
        {
            "track": track,
            "rows": rows,
            "plots": [plot for plot in (score_plot(rows), compute_plot(rows)) if plot.points],
        }
        for track in board.tracks.values()
        for rows in [ranked(list(board.entries.values()), track.name)]
    ]
    style, script = ((_TEMPLATES / name).read_text("utf-8") for name in ("board.css", "board.js"))
    shared: dict[str, Any] = {
        "tracks": tracks,
        "marks": list(Mark),
        "damaged": board.damaged,
        "address": repository_address(),
    }
    page = _environment(markdown=False).get_template("index.html.j2")
    readme = _environment(markdown=True).get_template("README.md.j2")
    return {
        README_NAME: readme.render(**shared, guide=_guide(board, shared["address"])),
        HTML_NAME: page.render(
            **shared,
            style=style,
            script=script,
            style_hash=_content_hash(style),
            script_hash=_content_hash(script),
            traversal=_traversal(),
        ),
    }


def _guide(board: Board, address: str | None) -> str | None:
    """Return the link from a board's README to the guide for those who submit; None where nothing leads there."""
    if address is not None:
        return f"{address}/blob/HEAD/{_GUIDE}"
    return f"../{_GUIDE}" if board.folder.resolve() == DEFAULT_FOLDER.resolve() else None


def _traversal() -> dict[str, str]:
    """Return for each factor of 3DIdent a strip of images in which it alone varies, as base64 of a WebP file."""
    folder = _TEMPLATES / "traversal"
    return {name: base64.b64encode((folder / f"{name}.webp").read_bytes()).decode() for name in FACTORS.names}


def _environment(*, markdown: bool) -> jinja2.Environment:
    try:
        import jinja2
    except ImportError as error:
        raise MissingDependencyError("jinja2", "write the leaderboard's page", "leaderboard") from error
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=not markdown,  # noqa: S701 - Markdown has an escape of its own, below
        finalize=_in_markdown if markdown else None,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(percent=_percent, shade=_shade, spread=_spread, plain=_plain, duration=_duration)
    environment.globals["factor_names"] = _factor_names
    return environment


def _in_markdown(value: Any) -> str:
    """Return what a template writes: text that it marks as safe as it stands, and all else escaped."""
    return str(value) if hasattr(value, "__html__") else markdown_escaped(value)


def markdown_escaped(value: Any) -> str:
    """Return text that Markdown shows as it is, in a table too."""
    text = _SPECIAL.sub(r"\\\1", str(value).replace("\n", " "))
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _factor_names(rows: list[Any]) -> list[str]:
    """Return the factors that any row has scores of, 3DIdent's in their own order first."""
    found = dict.fromkeys(name for row in rows for name in row.entry.results["r2"].per_factor)
    known = [name for name in FACTORS.names if name in found]
    return known + [name for name in found if name not in known]


def _percent(value: float) -> str:
    return f"{100 * value:.2f}"


def _spread(result: Result) -> str:
    """Return mean and spread over seeds in percent, as the papers print them."""
    return _percent(result.mean) + ("" if result.std is None else f" ± {_percent(result.std)}")


def _duration(hours: float) -> str:
    """Return hours as they are read: "1.4 h", and "3 min" or "2 s" for less than half an hour."""
    for least, unit, per_hour in ((0.5, "h", 1), (1 / 60, "min", 60)):
        if hours >= least:
            return f"{hours * per_hour:.{1 if unit == 'h' else 0}f} {unit}"
    return f"{hours * 3600:.0f} s" if hours * 3600 >= 1 else "less than 1 s"


def _plain(value: float) -> str:
    """Return a number unrounded, for sorting."""
    return repr(float(value))


def _shade(value: float) -> int:
    """Return the shade of a cell of the heat map, 0 to 10."""
    return round(min(max(value, 0.0), 1.0) * _SHADES)


def _content_hash(text: str) -> str:
    """Return the hash by which a page's content security policy admits an inline style or script."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@dataclass(frozen=True)
class Tick:
    """A tick: where it is, in units of the drawing, and what it says."""

    at: float
    label: str


@dataclass(frozen=True)
class Point:
    """An entry in a plot.

    Attributes:
        x: horizontal place.
        y: vertical place, from the top.
        label_x: where the label begins, or ends, or is centred.
        label_y: the label's baseline.
        anchor: which of these, as SVG's text-anchor.
        title: name and numbers.
        row: the row that it shows.
    """

    x: float
    y: float
    title: str
    row: Row
    label_x: float = 0
    label_y: float = 0
    anchor: str = "start"

    @property
    def label(self) -> str:
        """Its rank, or what it is."""
        return self.row.entry.role if self.row.rank is None else str(self.row.rank)

    @property
    def is_reported(self) -> bool:
        """Whether its numbers are from a publication."""
        return self.row.entry.kind == Kind.REPORTED


@dataclass(frozen=True)
class Plot:
    """A scatter plot.

    Attributes:
        title: its heading.
        x_label: what the horizontal axis shows.
        y_label: what the vertical axis shows.
        points: the entries that have both numbers.
        x_ticks: ticks of the horizontal axis.
        y_ticks: ticks of the vertical axis.
    """

    title: str
    x_label: str
    y_label: str
    points: tuple[Point, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    top: int = TOP
    bottom: int = HEIGHT - BOTTOM


def score_plot(rows: Sequence[Row]) -> Plot:
    """Return R2 against MCC, both from 0 to 1. A negative R2 is drawn at 0; its title has the number."""
    points = []
    for row in rows:
        r2, mcc = row.entry.results["r2"], row.entry.results.get("mcc_pearson")
        if mcc is not None:
            title = f"{row.entry.name}: R2 {_percent(r2.mean)}%, MCC {_percent(mcc.mean)}%"
            points.append(Point(_across(_unit(r2.mean)), _up(_unit(mcc.mean)), title, row))
    ticks = [value / 5 for value in range(6)]
    return Plot(
        "MCC against R2",
        "R2 up to affine maps, %",
        "MCC, %",
        _labelled(points),
        tuple(Tick(_across(value), f"{100 * value:.0f}") for value in ticks),
        tuple(Tick(_up(value), f"{100 * value:.0f}") for value in ticks),
    )


def compute_plot(rows: Sequence[Row]) -> Plot:
    """Return R2 against the hours of training, on a logarithmic axis of whole decades.

    Less than a thousandth of an hour is drawn there; the title has the time.
    """
    timed = [(row, row.entry.compute) for row in rows if row.entry.compute is not None and row.entry.compute.hours > 0]
    logs = [math.log10(max(compute.hours, _LEAST_HOURS)) for _, compute in timed]
    first = math.floor(min(logs, default=0))
    last = max(math.ceil(max(logs, default=0)), first + 1)
    points = []
    for (row, compute), log in zip(timed, logs, strict=True):
        r2 = row.entry.results["r2"].mean
        title = f"{row.entry.name}: R2 {_percent(r2)}%, {_duration(compute.hours)} on {compute.device}"
        across = _across((log - first) / (last - first))
        points.append(Point(across, _up(_unit(r2)), title, row))
    return Plot(
        "R2 against compute",
        "hours of training on the devices stated",
        "R2 up to affine maps, %",
        _labelled(points),
        tuple(Tick(_across((d - first) / (last - first)), f"{10.0**d:g}") for d in range(first, last + 1)),
        tuple(Tick(_up(value / 5), f"{20 * value}") for value in range(6)),
    )


def _labelled(points: Sequence[Point]) -> tuple[Point, ...]:
    """Give each point's label the first place beside it that is free of labels and points, and inside the drawing."""
    taken = [(point.x - 6, point.y - 6, point.x + 6, point.y + 6) for point in points]
    placed = []
    for point in points:
        width = _CHARACTER * len(point.label)
        places = [
            (x, y, anchor, _box(x, y, anchor, width))
            for dx, dy, anchor in _PLACES
            for x, y in [(point.x + dx, point.y + dy)]
        ]
        free = (place for place in places if _is_inside(place[3]) and not any(_overlap(place[3], t) for t in taken))
        x, y, anchor, box = next(free, places[0])
        taken.append(box)
        placed.append(replace(point, label_x=round(x, 2), label_y=round(y, 2), anchor=anchor))
    return tuple(placed)


def _box(x: float, y: float, anchor: str, width: float) -> tuple[float, float, float, float]:
    left = x - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
    return left, y - 10, left + width, y


def _is_inside(box: tuple[float, float, float, float]) -> bool:
    return box[0] >= LEFT and box[2] <= WIDTH and box[1] >= 0


def _overlap(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _unit(value: float) -> float:
    return min(max(value, 0.0), 1.0)


def _across(share: float) -> float:
    return round(LEFT + share * (WIDTH - LEFT - RIGHT), 2)


def _up(share: float) -> float:
    return round(HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM), 2)
