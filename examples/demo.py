# ruff: noqa: INP001 - a script, not a package
"""The whole chain in a few minutes, on images that it renders itself: render, pair, train, embed, score, rank.

Every step is a command line, shown before it runs, that can also be typed. Finished steps are not repeated: a demo that
was killed is resumed, and a finished one shows its table again.
"""

import hashlib
import importlib
import json
import os
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # render, baselines and leaderboard are run from a checkout

from ident3d import __version__, commandline  # noqa: E402 - the lines above find it
from ident3d.codec import read_file  # noqa: E402
from ident3d.doctor.libraries import look_at, missing_packages  # noqa: E402
from ident3d.errors import Ident3DError  # noqa: E402
from ident3d.files import write_text  # noqa: E402

PROGRAMS = {
    "ident3d": "ident3d",
    "render": "python -m render",
    "baselines": "python -m baselines",
    "leaderboard": "python -m leaderboard",
}
LIBRARIES = ("torch", "torchvision", "numpy", "bpy", "faiss-gpu", "faiss-cpu")

ISOTROPIC = "normal(sigma=0.3)"
ANISOTROPIC = "normal(sigma={position: 0.2, hue: 0.2, rest: 0.5})"

UNTRAINED = "random-resnet18"
TRAINED: dict[str, tuple[str, ...]] = {
    "supervised": ("supervised",),
    "infonce": ("infonce-unbounded", "--conditional", ISOTROPIC, "--temperature", "0.1"),
    # Few steps: Lambda starts near where it belongs, and learns quickly.
    "aninfonce": (
        *("aninfonce-box", "--conditional", ANISOTROPIC),
        *("--initial-precision", "5", "--loss-learning-rate", "0.05"),
    ),
}
"""The encoders, and the recipe of each, with what is changed in it so that it learns something in a minute."""

TRACK = "demo"


@dataclass(frozen=True)
class Demo:
    """Run the whole chain on images that are rendered for it, and show what the encoders have learned.

    Examples:
        python examples/demo.py
        python examples/demo.py --out /tmp/larger --train 6000 --test 1000 --steps 500
    """

    out: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("demo-output")
    """The folder that everything goes into."""
    train: int = 1500
    """Images to train on."""
    test: int = 300
    """Images to score on."""
    resolution: int = 64
    """Width and height of the images in pixels."""
    quality: Literal["published", "standard", "draft"] = "standard"
    """Quality of the images."""
    steps: int = 160
    """Optimisation steps of the encoders that learn from pairs."""
    supervised_steps: int = 200
    """Optimisation steps of the supervised encoder, whose steps see half as many images."""
    batch_size: int = 64
    """Pairs, or images with their latents, in a step."""
    validation: int = 150
    """Images of the train split that training is watched on."""

    def run(self) -> int:
        """Run the chain; return the exit status."""
        from filelock import FileLock, Timeout

        packages = missing_packages()
        if packages:
            raise Ident3DError(f"Blender needs system libraries: apt-get install {' '.join(packages)}")
        story = Story(self, _precision())
        story.claim()
        try:
            with FileLock(self.out / ".lock", blocking=False):
                story.tell()
        except Timeout:
            raise Ident3DError(f"another demo is at work in {self.out}") from None
        except KeyboardInterrupt:
            _say("\nFinished steps are kept: the same command resumes the demo.\n")
            return commandline.EXIT_INTERRUPTED
        return commandline.EXIT_OK


@dataclass(frozen=True)
class Story:
    """The steps of the demo, in their order.

    Attributes:
        options: how much of everything.
        precision: what the encoders compute in.
        seconds: wall time and time of the processor that each step took.
    """

    options: Demo
    precision: str
    seconds: dict[str, tuple[float, float]] = field(default_factory=dict)

    def tell(self) -> None:
        """Run the steps that are not done yet, then show the results."""
        with self._step("Render"):
            self.render()
        with self._step("Draw pairs"):
            self.draw_pairs()
        for name in TRAINED:
            with self._step(f"Train: {name}"):
                self.train(name)
        with self._step("Embed and score"):
            for name in (UNTRAINED, *TRAINED):
                self.embed(name)
        with self._step("Rank"):
            self.rank()
        self.show_places()
        self.show_seconds()
        self.show_scores()

    def render(self) -> None:
        """Render both splits, and look at what is there."""
        options = self.options
        _call(
            "render",
            self.images,
            *("--train", options.train, "--test", options.test, "--resolution", options.resolution),
            *("--seed", 0, "--quality", options.quality),
        )
        _call("ident3d", "verify", self.images)
        sheet = self.place("contact-sheet.png")
        if not sheet.is_file():
            _call("render", "contact-sheet", self.images, sheet)

    def draw_pairs(self) -> None:
        """Draw a batch of pairs, and say which conditional they really come from."""
        import ident3d

        data = ident3d.ThreeDIdent(self.images)
        batch = ident3d.PositivePairs(data, ident3d.Normal(0.3), batch_size=64).batch(0)
        distance = float((batch.z - batch.z_pos).norm(dim=1).mean())
        _say(
            f">>> data = ident3d.ThreeDIdent({self.images!r})\n"
            ">>> batch = ident3d.PositivePairs(data, ident3d.Normal(0.3), batch_size=64).batch(0)\n"
            f"images {tuple(batch.x.shape)}; the latents of a pair are {distance:.2f} apart on average\n"
        )
        _call("ident3d", "info", self.images, "--conditional", ISOTROPIC, "--plot", self.place("realised.png"))

    def train(self, name: str) -> None:
        """Train an encoder, or resume its training."""
        options, run = self.options, self.place("runs", name)
        if _is_newer(run / "report.html", run / "checkpoint.pt"):
            _say(f"{run} is trained already\n")
            return
        steps = options.supervised_steps if name == "supervised" else options.steps
        recipe, *changes = TRAINED[name]
        _call(
            "baselines",
            *("train", recipe, self.images, "--out", run, *changes),
            *("--steps", steps, "--batch-size", options.batch_size, "--learning-rate", "1e-3"),
            *("--precision", self.precision, "--validation", options.validation),
            *("--log-every", 10, "--evaluate-every", 50, "--checkpoint-every", 25),
        )
        last = read_file(run / "metrics.jsonl", "train again")[-1]
        _say(f"R2 on the {options.validation} images held out: {last['r2']:.2f}\n")

    def embed(self, name: str) -> None:
        """Embed the test split, check the submission, and score it."""
        encoder = UNTRAINED if name == UNTRAINED else self.place("runs", name)
        submission = self.submission(name)
        made_of = () if name == UNTRAINED else (self.place("runs", name, "checkpoint.pt"),)
        if not _is_newer(submission, *made_of):
            _call("baselines", "embed", encoder, self.images, "--out", submission, "--authors", "the demo")
        _call("ident3d", "validate", submission)
        _call("ident3d", "score", submission, self.images)

    def rank(self) -> None:
        """Create a leaderboard with a track for these images, add every encoder, and build its page."""
        board = self.place("leaderboard")
        if board.exists():
            shutil.rmtree(board)  # scoring again takes seconds, and nothing outdated is left
        write_text(board / "tracks.json", json.dumps({"tracks": [self.track()]}, indent=1) + "\n")
        for name in (UNTRAINED, *TRAINED):
            submission = self.submission(name)
            _call("leaderboard", "add", submission, "--data", self.images, "--track", TRACK, "--board", board)
        _call("leaderboard", "build", "--board", board)
        _call("leaderboard", "check", "--board", board)

    def track(self) -> dict[str, Any]:
        """Return the track: what tells that a dataset is the one that is rendered here."""
        options = self.options
        return {
            "name": TRACK,
            "title": "Demo",
            "description": f"{options.train} images to train on, {options.test} to test on, rendered by make demo.",
            "split": "test",
            "rows": options.test,
            "resolution": options.resolution,
            "requires": {"render.hue_map": "wrapped", "render.quality.name": options.quality, "seed": "0"},
            "fingerprints": [],
        }

    def show_places(self) -> None:
        """Say where everything is."""
        places = {
            "images": self.place("contact-sheet.png"),
            "pairs": self.place("realised.png"),
            **{f"report: {name}": self.place("runs", name, "report.html") for name in TRAINED},
            "leaderboard": self.place("leaderboard", "index.html"),
        }
        _title("What to look at")
        _say("".join(f"  {what:<20} {path}\n" for what, path in places.items()))

    def show_seconds(self) -> None:
        """Say what took how long."""
        wall, busy = (sum(column) for column in zip(*self.seconds.values(), strict=True))
        rows = self.seconds | {"all": (wall, busy)}
        _title("Seconds, and seconds of a core")
        _say("".join(f"  {what:<20} {rows[what][0]:6.0f} {rows[what][1]:6.0f}\n" for what in rows))

    def show_scores(self) -> None:
        """Show the scores of every encoder, of the untrained one, and the chance level."""
        entries = self._entries()
        groups = list(next(iter(entries.values())).results["r2"].per_group)
        _title(f"R2 on {self.options.test} images that no encoder has seen, in percent")
        _say(_row("", "R2", "95%", "MCC", *groups))
        for name, entry in entries.items():
            r2, mcc = entry.results["r2"], entry.results["mcc_pearson"]
            interval = f"{100 * r2.low:.0f} to {100 * r2.high:.0f}"
            _say(_row(name, *_percent(r2.mean), interval, *_percent(mcc.mean, *(r2.per_group[g] for g in groups))))
        chances = [[entry.results[name].chance for entry in entries.values()] for name in ("r2", "mcc_pearson")]
        _say(_row("chance", *_percent(max(chances[0])), "", *_percent(max(chances[1])), *["" for _ in groups]))
        floor = entries["untrained"].results["r2"].high
        above = [name for name in TRAINED if entries[name].results["r2"].low > floor]
        _say(f"\nThe intervals of {', '.join(above) or 'no encoder'} are above that of the untrained one.\n")

    def _entries(self) -> dict[str, Any]:
        """Return the leaderboard's entries, the best first and the untrained one last."""
        from ident3d import Submission
        from leaderboard.board import Board

        board = Board.read(self.place("leaderboard"))
        of_embeddings = {entry.embeddings_sha256: entry for entry in board.entries.values()}
        entries = {
            name: of_embeddings[Submission.read(self.submission(name)).embeddings_sha256]
            for name in (*TRAINED, UNTRAINED)
        }
        untrained = entries.pop(UNTRAINED)
        ranked = sorted(entries, key=lambda name: -entries[name].results["r2"].mean)
        return {name: entries[name] for name in ranked} | {"untrained": untrained}

    @property
    def images(self) -> str:
        """The folder of the dataset."""
        return str(self.place("images"))

    def submission(self, name: str) -> Path:
        """Return the file of an encoder's embeddings."""
        return self.place("submissions", f"{name}.zip")

    def place(self, *names: str) -> Path:
        """Return a place in the demo's folder."""
        return self.options.out.joinpath(*names)

    def claim(self) -> None:
        """Write the settings of the demo into its folder, or check that they are the same.

        Raises:
            Ident3DError: if they differ, or the folder holds something else; the message names the differences.
        """
        settings = {name: value for name, value in asdict(self.options).items() if name != "out"}  # it may be moved
        now = {
            **settings,
            "precision": self.precision,
            "recipes": {name: list(words) for name, words in TRAINED.items()},
            **_versions(),
            "sources": _sources(),
        }
        path, out = self.place("demo.json"), self.options.out
        again = f"make clean-demo removes demo-output; for another folder: rm -r {shlex.quote(str(out))}"
        if not path.is_file():
            if out.is_dir() and any(out.iterdir()):
                raise Ident3DError(f"{out} holds something that is not a demo: give another folder with --out")
            write_text(path, json.dumps(now, indent=1) + "\n")
            return
        before = read_file(path, again)
        differing = [key for key in {**before, **now} if before.get(key) != now.get(key) and key != "sources"]
        if differing:
            shown = "; ".join(f"{key} was {before.get(key)}, is {now.get(key)}" for key in differing)
            raise Ident3DError(f"{out} was made in another way: {shown}. {again}")
        if before["sources"] != now["sources"]:
            _say(f"The sources have changed since {out} was begun, and what is there is kept: {again}.\n")

    @contextmanager
    def _step(self, title: str) -> Iterator[None]:
        _title(title)
        wall, busy = time.perf_counter(), _busy()
        yield
        self.seconds[title] = (time.perf_counter() - wall, _busy() - busy)
        _say("{}: {:.0f} s, {:.0f} s of a core\n".format(title, *self.seconds[title]))


def _call(package: str, *arguments: object) -> None:
    """Show a command line and run it in this process, so that a signal that ends the demo ends the command too."""
    words = [str(argument) for argument in arguments]
    _say(f"$ {PROGRAMS[package]} {shlex.join(words)}\n")
    status = importlib.import_module(f"{package}.__main__").main(words)
    if status == commandline.EXIT_INTERRUPTED:
        raise KeyboardInterrupt
    if status != commandline.EXIT_OK:
        raise Ident3DError(
            f"that command ended with exit status {status}; once its cause is fixed, the same command resumes the demo"
        )


def _is_newer(made: Path, *of: Path) -> bool:
    """Return whether something is there and newer than all that it is made of."""
    return made.is_file() and all(part.is_file() and part.stat().st_mtime_ns <= made.stat().st_mtime_ns for part in of)


def _precision() -> str:
    """Return what the encoders compute in: bfloat16 on a processor that has it, because it is faster."""
    torch = look_at("torch")
    if torch.get("cuda_devices"):
        return "auto"
    return "bfloat16" if torch.get("bfloat16") else "float32"


def _versions() -> dict[str, str]:
    found = {"ident3d": __version__, "python": f"{sys.version_info[0]}.{sys.version_info[1]}"}
    for library in LIBRARIES:
        try:
            found[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            continue
    return found


def _sources() -> str:
    """Return a checksum of the sources."""
    digest = hashlib.sha256()
    for package in PROGRAMS:
        for path in sorted((ROOT / package).rglob("*.py")):
            digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _busy() -> float:
    """Return the seconds that cores have worked for this process and for those that it has started."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _percent(*fractions: float) -> list[str]:
    return [f"{100 * fraction:.0f}" for fraction in fractions]


def _row(name: str, *cells: str) -> str:
    return f"  {name:<12}" + "".join(f"{cell:>11}" for cell in cells) + "\n"


def _title(text: str) -> None:
    _say(f"\n== {text}\n")


def _say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()  # keeps the order relative to the commands' messages on the standard error


def main(arguments: list[str] | None = None) -> int:
    """Run the demo; return the exit status."""
    return commandline.main("python examples/demo.py", str(__doc__), {"": Demo}, arguments)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C, so that no worker is left behind
    sys.exit(main())
