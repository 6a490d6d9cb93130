"""Datasets that somebody made to break what reads them: every use ends in an error of ours, never in a traceback."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ident3d import codec
from ident3d.__main__ import main
from ident3d.dataset import ThreeDIdent
from ident3d.errors import Ident3DError
from ident3d.storage.conversion import convert
from ident3d.submission import Metadata, Submission
from tests.ident3d.conftest import make_native, make_published

CASES = 200
LAYOUTS = ("native", "archives", "published", "decoded")
OURS = (Ident3DError, ValueError, TypeError, KeyError, OSError)

VALUES = (
    *(None, True, -1, 0, 1, 7, 10**30, -(10**400), 2**63, 1e308, -1e-300, 0.5, "", "\x1b[2J", "a" * 10_000),
    *("../../x", "train", "normal(sigma=0.1)", "normal(" * 500, "normal(sigma=" + "9" * 5000 + ")", "laplace()"),
    *("vmf(kappa=1e999)", "uniform", "os:system", "{" * 3000, "(" * 300, "normal(sigma={hue: {hue: 1}})", "\udcff"),
    *([], {}, [[]], [None], {"": 0}, {"a": {"b": []}}, ["x"] * 300, {str(k): k for k in range(300)}, [1, 2, 3]),
)
CONDITIONALS = [value for value in VALUES if isinstance(value, str)]
TEXTS = (
    *(b"", b"\xff\xfe", b"[" * 100_000, b'{"a":' * 30_000, b"1" * 5000, b"1e99999", b"NaN", b"null", b"{}", b"[]"),
    *(b'{"schema_version": 1}', b'"' + b"x" * 100_000 + b'"', b'{"a": 1, "a": 2}', b"\x00" * 100, b"-" * 10_000),
)
HEADERS = (
    *("{" * 3000, "(" * 9000, "-" * 9000, "[" * 90, "{'descr': '|O', 'fortran_order': False, 'shape': (5, 10), }"),
    *("", "\x00" * 99, "1" * 9000, "9**9**9", "__import__('os')", "{'descr': '<f4', 'shape': (5, 10)}"),
    *(
        f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"
        for descr in (
            "'<f4'",
            "'<V9'",
            "'<U9'",
            "'<c8'",
            "'<M8[s]'",
            "'<f3'",
            "[]",
            "[('a', '<f4')]",
            "None",
            "7",
            "b'x'",
        )
        for shape in ("(5, 10)", "(-5, 10)", "(10**12, 10)", "(1000000000000, 10)", "(9223372036854775808, 10)", "(5,)")
        for order in ("False", "True", "0")
    ),
    *(f"{{'descr': '<f4', 'fortran_order': False, 'shape': {s}, }}" for s in ("()", "5", "('5', 10)", "(1e9, 10)")),
)


class _Choices:
    """What is done to a case, from its number."""

    def __init__(self, case):
        self._rng = np.random.default_rng(case)

    def random(self):
        return self._rng.random()

    def randrange(self, end):
        return int(self._rng.integers(end))

    def choice(self, values):
        return values[self.randrange(len(values))]

    def randbytes(self, count):
        return self._rng.bytes(count)


def _places(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from _places(item, (*path, key))


def _document(rng, path):
    """Spoil a document of JSON: one value in it, or the whole text."""
    if rng.random() < 0.3:
        path.write_bytes(rng.choice(TEXTS))
        return
    data, seal = codec.unsealed(json.loads(path.read_text()))
    place = rng.choice([found for found in _places(data) if found])
    below = data
    for key in place[:-1]:
        below = below[key]
    if rng.random() < 0.15:
        del below[place[-1]]
    else:
        below[place[-1]] = rng.choice(VALUES)
    if seal is not None and rng.random() < 0.7:
        data = codec.sealed(data)
    path.write_text(json.dumps(data))


def _array(rng, path):
    """Spoil an array: its header, its values or its length."""
    if rng.random() < 0.6:
        header = rng.choice(HEADERS).encode()
        size = len(header).to_bytes(2, "little")
        path.write_bytes(b"\x93NUMPY" + bytes([rng.choice((1, 1, 1, 2, 3, 9)), 0]) + size + header + bytes(200))
        return
    _bytes(rng, path)


def _bytes(rng, path):
    """Spoil a file of any kind: a bit, the end, or everything."""
    data = bytearray(path.read_bytes())
    how = rng.randrange(4) if data else 3
    if how < 2:
        for _ in range(1 + 20 * how):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif how == 2:
        del data[rng.randrange(len(data)) :]
    else:
        data[:] = rng.randbytes(rng.choice((0, 1, 100, 5000)))
    path.write_bytes(data)


def _shard(rng, path):
    """Spoil a shard: its bytes, or the types of its columns."""
    if rng.random() < 0.5:
        _bytes(rng, path)
        return
    table = pq.read_table(path)
    column = rng.choice(["index", "image", "latents"])
    rows = len(table)
    values = rng.choice(
        [
            pa.nulls(rows, pa.int64()),
            pa.array(["x"] * rows),
            pa.array([[1.0] * (k % 4) for k in range(rows)]),
            pa.array([[None] * 10] * rows, pa.list_(pa.float32(), 10)),
            pa.array([{"bytes": b"", "path": None}] * rows),
            pa.array(
                [{"bytes": None, "path": "/etc/passwd"}] * rows, pa.struct({"bytes": pa.binary(), "path": pa.string()})
            ),
            pa.array([2**62] * rows),
            pa.array([-1.5] * rows),
        ]
    )
    columns = {name: values if name == column else table[name] for name in table.column_names}
    pq.write_table(pa.table(columns), path)


SPOIL = {".json": _document, ".npy": _array, ".parquet": _shard}


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """Sound datasets in every layout, and a submission for each split test."""
    folder = tmp_path_factory.mktemp("sound")
    make_native(folder / "native", pairs=True)
    make_published(folder / "archives")
    convert(folder / "native", folder / "published", "published")
    convert(folder / "native", folder / "decoded", "decoded")
    about = Metadata(
        name="mine",
        authors=("me",),
        method="InfoNCE",
        encoder="MLP",
        training_data="mini",
        conditional="uniform",
        fingerprint="ab" * 32,
        seeds=(0,),
    )
    for root in [folder / name for name in LAYOUTS]:
        data = ThreeDIdent(root, split="test")
        metadata = replace(about, fingerprint=data.fingerprint)
        Submission.write(root / "entry.zip", [np.asarray(data.latents)], np.asarray(data.ids), metadata)
    return folder


def _files(root):
    return sorted(path for path in root.rglob("*") if path.is_file() and path.suffix != ".zip")


def _use(root):
    """Use a dataset in every way; return what became of it."""
    for arguments in (["info", str(root)], ["verify", str(root)], ["score", str(root / "entry.zip"), str(root)]):
        try:
            assert main(arguments) in (0, 1, 2)
        except SystemExit as error:
            assert error.code == 2  # noqa: PT017 - a command line that cannot be parsed
    for split in ("train", "test"):
        try:
            data = ThreeDIdent(root, split=split)
            for row in range(len(data)):
                data[row]
        except OURS:
            pass


@pytest.mark.parametrize("block", range(8))
def test_every_use_of_a_spoiled_dataset_ends_in_an_error_of_ours(sound, tmp_path, block):
    for case in range(block * CASES // 8, (block + 1) * CASES // 8):
        rng = _Choices(case)
        root = tmp_path / f"{case}"
        shutil.copytree(sound / rng.choice(LAYOUTS), root)
        path = rng.choice(_files(root))
        SPOIL.get(path.suffix, _bytes)(rng, path)
        try:
            _use(root)
        except Exception as error:
            raise AssertionError(f"case {case}: {path.relative_to(root)} -> {error!r}") from error
        shutil.rmtree(root)


@pytest.mark.parametrize("number", range(len(CONDITIONALS)))
def test_every_text_of_a_conditional_ends_in_an_error_of_ours(sound, number):
    assert main(["info", str(sound / "native"), f"--conditional={CONDITIONALS[number]}", "--draws", "10"]) in (0, 1, 2)
