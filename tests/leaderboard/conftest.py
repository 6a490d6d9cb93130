"""Small datasets whose images show their latents, boards, entries, and a browser."""

import json
import shutil
import socket
import subprocess
import time
from contextlib import closing
from dataclasses import replace
from http.client import HTTPConnection

import numpy as np
import pytest
from PIL import Image

from ident3d.dataset import ThreeDIdent
from ident3d.factors import FACTORS
from ident3d.submission import Compute, Metadata, Submission
from leaderboard.board import Board
from leaderboard.entry import Entry, Kind, Result

SIDE = 8
ROWS = 80
TRACKS = {
    "tracks": [
        {
            "name": name,
            "title": name.title(),
            "description": "Images that show their latents",
            "split": "test",
            "rows": ROWS,
            "resolution": SIDE,
            "requires": {"render.hue_map": "published"},
        }
        for name in ("tiny", "other")
    ]
}


def make_dataset(root, seed):
    """Write a test split whose first ten pixels are the latents, in the published layout."""
    latents = np.random.default_rng(seed).uniform(-1, 1, (ROWS, 10))
    folder = root / "test"
    (folder / "images").mkdir(parents=True)
    np.save(folder / "raw_latents.npy", latents)
    for row, values in enumerate(latents):
        image = np.zeros((SIDE * SIDE, 3), np.uint8)
        image[:10, 0] = np.round((values + 1) / 2 * 255)
        Image.fromarray(image.reshape(SIDE, SIDE, 3)).save(folder / "images" / f"{row:02d}.png")
    return root


@pytest.fixture
def dataset(tmp_path):
    return make_dataset(tmp_path / "data", 0)


@pytest.fixture
def sealed(tmp_path):
    return make_dataset(tmp_path / "sealed", 1)


@pytest.fixture
def metadata(dataset):
    return Metadata(
        name="Pixels",
        authors=("Ada L.",),
        method="reads the latents off",
        encoder="none",
        training_data="none",
        conditional="none",
        fingerprint=ThreeDIdent(dataset, split="test").fingerprint,
        compute=Compute(0.25, "1 core"),
    )


@pytest.fixture
def submit(tmp_path, dataset, metadata):
    """Write a submission of embeddings that are the latents with noise."""

    def write(name="s.zip", noise=0.05, **changes):
        data = ThreeDIdent(dataset, split="test")
        about = replace(metadata, **changes)
        rng = np.random.default_rng(len(about.name) + about.revision)
        runs = [data.latents.numpy() + noise * rng.normal(size=(ROWS, 10)) for _ in about.seeds]
        Submission.write(tmp_path / name, [run.astype(np.float32) for run in runs], data.ids, about)
        return tmp_path / name

    return write


@pytest.fixture
def folder(tmp_path):
    """An empty board."""
    path = tmp_path / "board"
    path.mkdir()
    (path / "tracks.json").write_text(json.dumps(TRACKS))
    return path


@pytest.fixture
def make_entry():
    """Make an entry with an R2 and an interval of half a percent about it."""

    def make(name="Method", r2=0.5, **changes):
        seed = int.from_bytes(f"{name}{changes.get('revision', 1)}".encode(), "little") % 2**32
        rng = np.random.default_rng(seed)
        per_factor = dict.fromkeys(FACTORS.names, r2)
        fields = {
            "kind": Kind.RECOMPUTED,
            "track": "tiny",
            "name": name,
            "revision": 1,
            "added": "2026-01-31",
            "authors": ("Ada L.",),
            "method": "m",
            "encoder": "e",
            "training_data": "t",
            "conditional": "c",
            "results": {
                "r2": Result(r2, low=r2 - 0.005, high=min(r2 + 0.005, 1), chance=0.0, per_factor=per_factor),
                "mcc_pearson": Result(0.9 * r2, chance=0.1),
            },
            "protocol": "ident3d-1",
            "version": "0.1.0",
            "fingerprint": "ab" * 32,
            "embeddings_sha256": (rng.bytes(32).hex(),),
            "width": 10,
        }
        if changes.get("kind") == Kind.REPORTED:
            gone = {"protocol": None, "version": None, "fingerprint": None, "embeddings_sha256": (), "width": None}
            fields |= {**gone, "source": "a paper", "results": {"r2": Result(r2, 0.001)}}
        return Entry(**(fields | changes)).sealed()

    return make


@pytest.fixture
def board_of(folder):
    """Write entries and read the board that they make."""

    def write(*entries):
        for entry in entries:
            Board.read(folder).add(entry)
        return Board.read(folder)

    return write


class Browser:
    """Chromium, driven over the WebDriver protocol."""

    def __init__(self, port):
        self._port = port
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1280,1000"]
        options = {"goog:chromeOptions": {"args": arguments}, "goog:loggingPrefs": {"browser": "ALL"}}
        self._session = self._call("POST", "/session", {"capabilities": {"alwaysMatch": options}})["sessionId"]

    def _call(self, method, path, data=None):
        body = None if data is None else json.dumps(data).encode()
        with closing(HTTPConnection("127.0.0.1", self._port, timeout=60)) as connection:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            value = json.loads(answer.read())["value"]
        assert answer.status == 200, value
        return value

    def call(self, method, path, data=None):
        return self._call(method, f"/session/{self._session}{path}", data)

    def devtools(self, command, parameters):
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def open(self, path):
        self.call("POST", "/url", {"url": path.as_uri()})

    def script(self, text, *arguments):
        return self.call("POST", "/execute/sync", {"script": text, "args": list(arguments)})

    def press(self, *keys):
        strokes = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self.call("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": strokes}]})

    def comes_true(self, expression, seconds=20):
        """Whether an expression is true within so many seconds: a page answers to keys when it gets to it."""
        deadline = time.monotonic() + seconds
        while not (found := self.script(f"return Boolean({expression})")) and time.monotonic() < deadline:
            time.sleep(0.05)
        return found

    def errors(self):
        """What the page, its content security policy included, complained about."""
        return [line["message"] for line in self.call("POST", "/se/log", {"type": "browser"})]

    def close(self):
        self.call("DELETE", "")


def _wait_for(port):
    deadline = time.monotonic() + 30
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
        except ConnectionError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return


@pytest.fixture(scope="session")
def browser():
    program = shutil.which("chromedriver")
    if program is None:
        pytest.skip("needs Chromium: apt-get install chromium chromium-driver")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    driver = subprocess.Popen([program, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_for(port)
        chromium = Browser(port)
        yield chromium
        chromium.close()
    finally:
        driver.terminate()
        driver.wait(timeout=30)
