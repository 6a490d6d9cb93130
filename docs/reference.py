# ruff: noqa: INP001 - run from a checkout, a part of no package
"""The reference documentation: a page for each module, from its docstrings, and the tutorials. pdoc lays it out.

Run as ``python -m docs.reference FOLDER``. A name that a docstring refers to and that is on no page, a link that leads
nowhere, a formula that cannot be set, an emphasis that nobody meant, and any warning end it with exit status 1.
"""

import importlib
import pkgutil
import re
import sys
import warnings
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from urllib.parse import urldefrag

import pdoc.doc
import pdoc.render
from latex2mathml.converter import convert
from markupsafe import Markup
from pdoc.render_helpers import to_html

__all__ = ["PACKAGES", "build", "main", "modules"]

PACKAGES = ("ident3d", "render", "baselines", "leaderboard")
HERE = Path(__file__).parent
_FIRST = HERE / "quickstart.md"
TUTORIALS = (_FIRST, *sorted(path for path in HERE.glob("*.md") if path != _FIRST))
LOOKED_FOR = {
    "images and latents": ("ident3d.dataset.ThreeDIdent", "ident3d.hub.from_hub", "ident3d.latents.sample_latents"),
    "positive pairs": (
        "ident3d.pairs.matched.PositivePairs",
        "ident3d.pairs.live.LivePairs",
        "ident3d.pairs.rendered.RenderedPairs",
        "ident3d.pairs.augmented.AugmentedPairs",
        "ident3d.pairs.transforms.BatchTransform",
    ),
    "what a dataset makes of a conditional": ("ident3d.pairs.realised.RealisedConditional",),
    "conditionals and spaces": (
        "ident3d.conditionals.exponential.Normal",
        "ident3d.conditionals.sphere.VonMisesFisher",
        "ident3d.conditionals.product.Product",
        "ident3d.spaces.Box",
        "ident3d.spaces.Sphere",
    ),
    "matching": ("ident3d.matching.index.PairIndex",),
    "scores": (
        "ident3d.metrics.scores.score",
        "ident3d.metrics.r2.affine_r2",
        "ident3d.metrics.mcc.mcc",
        "ident3d.metrics.evaluation.EvaluationProtocol",
        "ident3d.metrics.metric.FactorMetric",
    ),
    "embeddings and submissions": ("ident3d.embedding.embed", "ident3d.submission.submission.Submission"),
    "live images": ("ident3d.live.renderer.LiveRenderer",),
    "losses, encoders, recipes and training": (
        "baselines.losses.info_nce.info_nce",
        "baselines.encoders.encoder",
        "baselines.recipes",
        "baselines.training.training.train",
    ),
    "rendering": ("render.dataset.render.render_dataset", "ident3d.scene.world.World"),
    "the leaderboard": ("leaderboard.board", "leaderboard.tracks"),
}
"""What people look for, and where it is: the index links each of these."""

_INSIDE_BLENDER = ("render.blender.cycles", "render.blender.worker")  # a process that imports them is changed by it
_ROLE = re.compile(r":(?:class|func|meth|mod|attr|data):`~?([\w.]+)`")
_ANY_ROLE = re.compile(r":\w+:`[^`]*`")
_EXAMPLE = re.compile(r"^Example:\n((?: {4}.*(?:\n|\Z))+)", re.MULTILINE)
_EXAMPLES = re.compile(r"^Examples:\n((?: {4}.*(?:\n|\Z))+)", re.MULTILINE)
_STARS = re.compile(r"^( +)\*\*(?=\w+: )", re.MULTILINE)  # of an argument's name, which Markdown takes for its own
_FORMULA = re.compile(r"\$\$(.+?)\$\$", re.DOTALL)
_FORMULA_WORD = re.compile("FORMULAx([0-9a-f]+)x")
_NAME = re.compile(r"<code>(<a href=\"[^\"]+\">)?((?:" + "|".join(PACKAGES) + r")(?:\.\w+)+)((?:</a>)?)</code>")
_DOCSTRING = re.compile(r'<div class="docstring">(.*?)</div>', re.DOTALL)
_SCRIPT = re.compile(r"<script>.*?</script>", re.DOTALL)
_LINK = re.compile(r'href="([^"]*)"')


def main(arguments: Sequence[str]) -> int:
    """Write the pages into a folder; return the exit status."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m docs.reference FOLDER\n")
        return 2
    texts, faults = build()
    for name, text in texts.items():
        path = Path(arguments[0]) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    sys.stderr.writelines(f"{fault}\n" for fault in faults)
    return 1 if faults else 0


def build(packages: Sequence[str] = PACKAGES) -> tuple[dict[str, str], list[str]]:
    """Return the pages of packages by the names of their files, and everything that is wrong with them."""
    _configure()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=r"(?s).*tqdm\[Any\]")  # its stubs are generic, the library is not
        pages = {name: pdoc.doc.Module(_loaded(name)) for name in modules(packages)}
        _lend(pages.values())
        faults = [fault for page in pages.values() for fault in _prepare(page)]
        texts = {f"{name.replace('.', '/')}.html": pdoc.render.html_module(page, pages) for name, page in pages.items()}
        template = pdoc.render.env.get_template("tutorial.html.jinja2")
        for tutorial in TUTORIALS:
            text = tutorial.read_text(encoding="utf-8")
            texts[f"{tutorial.stem}.html"] = template.render(title=_title(text), text=text, all_modules=pages)
        tutorials = {f"{tutorial.stem}.html": _title(tutorial.read_text(encoding="utf-8")) for tutorial in TUTORIALS}
        index = pdoc.render.env.get_template("index.html.jinja2")
        looked_for = {
            what: {name: _address(name, pages) for name in names}
            for what, names in LOOKED_FOR.items()
            if names[0].partition(".")[0] in packages
        }
        texts["index.html"] = index.render(
            all_modules=pages, packages=packages, tutorials=tutorials, looked_for=looked_for
        )
        search = _FORMULA_WORD.sub("", pdoc.render.search_index(pages))
    for name, text in texts.items():
        faults += [f"{name}: {fault}" for fault in _faults(name, text, texts)]
    return {**texts, "search.js": search}, faults


def modules(packages: Sequence[str] = PACKAGES) -> Iterator[str]:
    """Yield the names of the modules of packages that have a page."""
    for package in packages:
        yield package
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            if module.name not in _INSIDE_BLENDER and not module.name.rpartition(".")[2].startswith("_"):
                yield module.name


def _address(name: str, pages: Collection[str]) -> str:
    """Return the page of a module, or the place of a member on the page of its module."""
    module, _, member = (name, "", "") if name in pages else name.rpartition(".")
    return f"{module.replace('.', '/')}.html" + (f"#{member}" if member else "")


def _configure() -> None:
    pdoc.render.configure(docformat="google", include_undocumented=False, template_directory=HERE / "template")
    pdoc.render.env.filters["finish"] = _finish
    pdoc.render.env.filters["tutorial"] = _tutorial


def _loaded(name: str) -> ModuleType:
    module = importlib.import_module(name)
    for member in getattr(module, "__all__", ()):
        getattr(module, member)  # ident3d loads its names when they are first used
    return module


def _lend(pages: Collection[pdoc.doc.Module]) -> None:
    """Give values that a package shows of its modules the docstrings that they have there."""
    described = [doc for page in pages for doc in page.own_members if doc.kind == "variable" and doc.docstring]
    for page in pages:
        for doc in page.own_members:
            if doc.kind == "variable" and not doc.docstring:
                twins = [
                    twin for twin in described if twin.name == doc.name and twin.default_value is doc.default_value
                ]
                doc.__dict__["docstring"] = twins[0].docstring if twins else ""


def _prepare(page: pdoc.doc.Module) -> Iterator[str]:
    """Turn the docstrings of a page into what pdoc takes, and yield what cannot be."""
    waiting: list[pdoc.doc.Doc[object]] = [page]
    while waiting:
        doc = waiting.pop()
        if isinstance(doc, pdoc.doc.Namespace):
            waiting += [member for member in doc.own_members if member.kind != "module"]
        text = _STARS.sub(
            r"\1", _EXAMPLES.sub(_as_code, _EXAMPLE.sub(_as_python, _FORMULA.sub(_as_word, doc.docstring)))
        )
        home = importlib.import_module(doc.taken_from[0])
        for name in set(_ROLE.findall(text)):
            target = _full_name(name, home, doc.taken_from[1]) or _full_name(name, page.obj, "")
            if target is not None:
                text = re.sub(r":\w+:`~?" + re.escape(name) + "`", f"`{target}`", text)
        yield from (f"{doc.fullname}: {role} refers to nothing" for role in sorted(set(_ANY_ROLE.findall(text))))
        doc.__dict__["docstring"] = text


def _as_code(section: re.Match[str]) -> str:
    lines = [line[4:] for line in section[1].splitlines()]
    return "\n".join(["###### Examples", "", "```sh", *lines, "```", ""])


def _as_python(section: re.Match[str]) -> str:
    lines = [line[4:] for line in section[1].splitlines()]
    return "\n".join(["###### Example", "", "```pycon", *lines, "```", ""])


def _as_word(formula: re.Match[str]) -> str:
    """Return a formula as a word in which Markdown finds nothing to do."""
    return f"FORMULAx{formula[1].encode().hex()}x"


def _set(word: re.Match[str]) -> str:
    return convert(bytes.fromhex(word[1]).decode(), display="block")


def _full_name(name: str, home: ModuleType, place: str) -> str | None:
    """Return the full name of what a docstring at ``place`` in a module calls ``name``."""
    scopes = place.split(".") if place else []
    for depth in range(len(scopes), -1, -1):
        holder: object = home
        for scope in scopes[:depth]:
            holder = getattr(holder, scope, None)
        found = _member(holder, name)
        if found is not None:
            return found
    if name.partition(".")[0] not in PACKAGES:
        return None
    for split in range(name.count(".") + 1, 0, -1):
        parts = name.split(".")
        try:
            module = importlib.import_module(".".join(parts[:split]))
        except ImportError:
            continue
        return name if split == len(parts) else _member(module, ".".join(parts[split:]))
    return None


def _member(holder: object, name: str) -> str | None:
    """Return the full name of a member, a class's by the class that it is looked up in."""
    *path, last = name.split(".")
    for part in path:
        holder = getattr(holder, part, None)
    if not isinstance(holder, type | ModuleType):
        return None
    if not hasattr(holder, last) and last not in getattr(holder, "__annotations__", {}):
        return None
    if isinstance(holder, type):
        return f"{holder.__module__}.{holder.__qualname__}.{last}"
    value = getattr(holder, last)
    if isinstance(value, ModuleType):
        return value.__name__
    if hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    return f"{holder.__name__}.{last}"


def _finish(text: str) -> Markup:
    """Set the formulas of a docstring in HTML, and shorten the names that are linked."""
    return Markup(_FORMULA_WORD.sub(_set, _NAME.sub(_short, str(text))))  # noqa: S704 - of our own docstrings


def _short(name: re.Match[str]) -> str:
    opening, full, closing = name[1] or "", name[2], name[3]
    *_, scope, last = full.split(".")
    shown = full if not opening or "#" not in opening else f"{scope}.{last}" if scope[:1].isupper() else last
    return f"<code>{opening}{shown}{closing}</code>"


def _tutorial(text: str) -> str:
    return to_html(re.sub(r"\]\((\S+?)\.md\)", r"](\1.html)", text))


def _title(text: str) -> str:
    return text.partition("\n")[0].removeprefix("# ")


def _faults(name: str, text: str, texts: dict[str, str]) -> Iterator[str]:
    for docstring in _DOCSTRING.findall(text):
        yield from (f"{found[2]} is on no page" for found in _NAME.finditer(docstring) if not found[1])
        if "<em>" in docstring:
            yield f"an emphasis: {docstring[max(0, docstring.find('<em>') - 60) :][:140]!r}"
    for link in sorted(set(_LINK.findall(_SCRIPT.sub("", text)))):
        target, anchor = urldefrag(link)
        if target.startswith(("http", "data:", "mailto:")):
            continue
        path = _relative(name, target)
        if path not in texts and not (HERE / path).is_file():
            yield f"the link {link} leads nowhere"
        elif anchor and path in texts and f'id="{anchor}"' not in texts[path]:
            yield f"the link {link} leads to nothing on that page"


def _relative(name: str, target: str) -> str:
    parts = name.split("/")[:-1]
    for part in target.split("/") if target else [name.rpartition("/")[2]]:
        if part == "..":
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
