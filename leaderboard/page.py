"""The page: README.md and a self-contained index.html, from templates that escape whatever they are given."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ident3d.errors import MissingDependencyError
from ident3d.factors import FACTORS
from leaderboard.board import Board
from leaderboard.entry import Result
from leaderboard.plots import compute_plot, score_plot
from leaderboard.ranking import Mark, ranked

if TYPE_CHECKING:
    import jinja2

__all__ = ["HTML_NAME", "README_NAME", "generate", "markdown_escaped"]

HTML_NAME = "index.html"
README_NAME = "README.md"

_TEMPLATES = Path(__file__).with_name("templates")
_SPECIAL = re.compile(r"([\\`*_{}\[\]#|~$@!]|:(?=//)|(?<=www)\.)", re.IGNORECASE)
_SHADES = 10


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
    shared: dict[str, Any] = {"tracks": tracks, "marks": list(Mark), "damaged": board.damaged}
    page = _environment(markdown=False).get_template("index.html.j2")
    readme = _environment(markdown=True).get_template("README.md.j2")
    return {
        README_NAME: readme.render(**shared),
        HTML_NAME: page.render(
            **shared, style=style, script=script, style_hash=_content_hash(style), script_hash=_content_hash(script)
        ),
    }


def markdown_escaped(value: Any) -> str:
    """Return text that Markdown shows as it is, in a table too."""
    text = _SPECIAL.sub(r"\\\1", str(value).replace("\n", " "))
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _environment(*, markdown: bool) -> jinja2.Environment:
    try:
        import jinja2
    except ImportError as error:
        raise MissingDependencyError("jinja2", "write the leaderboard's page", "leaderboard") from error
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=not markdown,  # noqa: S701 - Markdown has an escape of its own, below
        finalize=markdown_escaped if markdown else None,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(percent=_percent, shade=_shade, spread=_spread, plain=_plain)
    environment.globals["factor_names"] = _factor_names
    return environment


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


def _plain(value: float) -> str:
    """Return a number unrounded, for sorting."""
    return repr(float(value))


def _shade(value: float) -> int:
    """Return the shade of a cell of the heat map, 0 to 10."""
    return round(min(max(value, 0.0), 1.0) * _SHADES)


def _content_hash(text: str) -> str:
    """Return the hash by which a page's content security policy admits an inline style or script."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
