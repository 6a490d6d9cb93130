"""Verification of a dataset on disk."""

import hashlib
import json
import os
import shutil
import sys
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest

from ident3d.__main__ import main
from ident3d.commands.verify import Verify
from ident3d.conditionals import parse
from ident3d.errors import DatasetError
from ident3d.files import sha256_of
from ident3d.latents import sample_latents
from ident3d.pairs.rendered import exact_positives
from ident3d.registry import load_extensions
from ident3d.storage.card import CARD_NAME, write_card
from ident3d.storage.conversion import convert
from ident3d.storage.images import encode_png
from ident3d.storage.manifest import Manifest, ShardRecord
from ident3d.storage.native import ShardRows, write_shard
from ident3d.storage.verification import verify

MANIFEST = Manifest(splits={"train": 12, "test": 6}, rows_per_shard=5, resolution=8, seed=2)
PAIRS = "normal(sigma=0.1)"


def _image(row, size=8):
    return encode_png(np.random.default_rng(row).integers(0, 256, (size, size, 3), dtype=np.uint8))


def _flipped(image):
    """Change the checksum of the image's data, which comes before the last chunk and decoding passes over."""
    return image[:-13] + bytes([image[-13] ^ 1]) + image[-12:]


def _rows(manifest, split, rows):
    latents = sample_latents(len(rows), manifest.seed, rows.start, split=split)
    second = (None, None)
    if manifest.pairs is not None:
        positives = exact_positives(latents, parse(manifest.pairs), manifest.seed, split=split, start=rows.start)
        second = ([_image(1000 + row) for row in rows], positives)
    return ShardRows(np.array(rows), [_image(row) for row in rows], latents, *second)


def _write(root, manifest, changed=None, settings=""):
    """Write a dataset; ``changed`` maps the name of a shard to a function of its rows."""
    records = []
    for split in manifest.splits:
        for name, rows in manifest.planned(split):
            stored = _rows(manifest, split, rows)
            if changed and name in changed:
                stored = changed[name](stored)
            write_shard(root / "data" / name, replace(stored, settings=settings))
            records.append(ShardRecord(name, split, rows.start, len(rows), sha256_of(root / "data" / name)))
    finished = manifest.with_shards(tuple(records))
    finished.write(root)
    write_card(root, finished)
    return root


SECOND = "train-00001-of-00003.parquet"


@pytest.mark.parametrize("pairs", [None, PAIRS])
def test_a_sound_dataset_has_no_faults_and_every_row_is_counted(tmp_path, pairs):
    counted = []
    assert verify(_write(tmp_path, replace(MANIFEST, pairs=pairs)), counted.append).faults == ()
    assert sum(counted) == 18


def _with_row(rows, column, row, value):
    changed = getattr(rows, column).copy()
    changed[row] = value
    return replace(rows, **{column: changed})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda rows: _with_row(rows, "images", 2, b"no image"), "id 7, is not a readable image"),
        (lambda rows: _with_row(rows, "images", 2, _image(7)[:-40]), "id 7, is not a readable image"),
        (lambda rows: _with_row(rows, "images", 2, _flipped(_image(7))), "id 7, is not a readable image"),
        (lambda rows: _with_row(rows, "images", 2, _image(7, 9)), "id 7: an image of 9x9 pixels; expected 8x8"),
        (lambda rows: _with_row(rows, "latents", 1, 1.5), "row 1, position_x is 1.5"),
        (lambda rows: _with_row(rows, "latents", 1, np.nan), "row 1, position_x is nan"),
        (lambda rows: _with_row(rows, "latents", 1, 0.5), "1 rows of latents, 6 first, are not those of seed 2"),
        (lambda rows: _with_row(rows, "index", 1, 5), "its ids are not 5 to 9"),
        (
            lambda rows: _with_row(rows, "latents_pos", 3, 0.5),
            "exact positives: 1 rows, 8 first, are not those of seed",
        ),
        (lambda rows: _with_row(rows, "images_pos", 3, b""), "exact positives, id 8, is not a readable image"),
        (lambda rows: replace(rows, images_pos=None, latents_pos=None), "no exact positives"),
    ],
)
def test_a_fault_in_a_shard_is_named(tmp_path, change, said):
    root = _write(tmp_path, replace(MANIFEST, pairs=PAIRS), {SECOND: change})
    faults = verify(root).faults
    assert len(faults) == 1
    assert said in faults[0]
    assert SECOND in faults[0]


def test_rows_that_are_in_two_splits_are_found(tmp_path):
    train = sample_latents(12, MANIFEST.seed)
    test = "test-00000-of-00002.parquet"
    root = _write(tmp_path, MANIFEST, {test: lambda rows: replace(rows, latents=train[3:8])})
    assert [fault.split(": ")[1] for fault in verify(root).faults] == [
        "5 rows of latents, 0 first, are not those of seed 2",
        "5 rows of latents are both in train and in test",
    ]


def test_files_are_missing_foreign_and_damaged_at_once(tmp_path):
    root = _write(tmp_path, MANIFEST)
    (root / "data" / SECOND).unlink()
    (root / "data" / "train-00000-of-00007.parquet").write_bytes(b"foreign")
    third = root / "data" / "train-00002-of-00003.parquet"
    third.write_bytes(third.read_bytes()[:-1])
    faults = "\n".join(verify(root).faults)
    assert f"{SECOND}: in the manifest and not there" in faults
    assert "train-00000-of-00007.parquet: there and not planned" in faults
    assert f"{third}: its checksum is not that of the manifest" in faults
    assert f"{third} cannot be read as Parquet" in faults


def test_a_dataset_that_is_not_complete_says_what_is_missing(tmp_path):
    root = _write(tmp_path, MANIFEST)
    manifest = Manifest.read(root)
    manifest.with_shards(manifest.shards[2:]).write(root)
    (root / "data" / manifest.shards[0].name).unlink()
    faults = verify(root).faults
    assert len(faults) == 2
    assert f"{manifest.shards[0].name}: planned and not there yet" in faults[0]
    assert f"{manifest.shards[1].name}: there and not in the manifest" in faults[1]


def test_a_shard_that_is_listed_twice_is_duplicated(tmp_path):
    root = _write(tmp_path, MANIFEST)
    manifest = Manifest.read(root)
    manifest.with_shards((*manifest.shards, manifest.shards[0])).write(root)
    assert "in the manifest more than once" in verify(root).faults[0]


def test_given_latents_are_checked_by_their_checksum(tmp_path):
    given = np.random.default_rng(0).uniform(-1, 1, (12, 10)).astype(np.float32)
    source = {"train": hashlib.sha256(given.tobytes()).hexdigest(), "test": "uniform"}
    names = [name for name, _ in MANIFEST.planned("train")]
    changed = {name: lambda rows: replace(rows, latents=given[rows.index]) for name in names}
    root = _write(tmp_path, replace(MANIFEST, latents=source), changed)
    assert verify(root).faults == ()
    manifest = Manifest.read(root)
    replace(manifest, latents=source | {"train": "0" * 64}).write(root)
    assert "train: the latents are not those" in verify(root).faults[0]


def test_a_damaged_manifest_does_not_hide_the_shards(tmp_path):
    root = _write(tmp_path, MANIFEST, {SECOND: lambda rows: _with_row(rows, "images", 2, b"no image")})
    (root / "manifest.json").write_text("{")
    faults = verify(root).faults
    assert "not strict JSON" in faults[0]


def test_other_layouts_are_verified_as_their_readers_see_them(tmp_path):
    for split, count in (("train", 12), ("test", 6)):
        (tmp_path / split / "images").mkdir(parents=True)
        np.save(tmp_path / split / "raw_latents.npy", sample_latents(count, 2, split=split))
        for row in range(count):
            (tmp_path / split / "images" / f"{row:0{len(str(count - 1))}d}.png").write_bytes(_image(row))
    assert verify(tmp_path).faults == ()
    (tmp_path / "train" / "images" / "03.png").write_bytes(b"")
    (tmp_path / "test" / "images" / "5.png").write_bytes(_image(5, 9))
    faults = "\n".join(verify(tmp_path).faults)
    assert "id 3, is not a readable image" in faults
    assert "id 5: an image of 9x9 pixels; expected all square, and of one size" in faults


def test_a_folder_without_a_dataset_is_refused(tmp_path):
    with pytest.raises(DatasetError, match="holds no dataset"):
        verify(tmp_path)
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        verify(tmp_path / "nowhere")


def test_the_command_prints_faults_and_ends_honestly(tmp_path, capsys):
    root = _write(tmp_path, MANIFEST)
    assert Verify(str(root)).run() == 0
    assert "sound (train, test)" in capsys.readouterr().out
    (root / "data" / SECOND).write_bytes(b"")
    assert Verify(str(root)).run() == 1
    assert capsys.readouterr().out.endswith(": 2 faults\n")


def test_what_nothing_tells_is_said_to_be_unchecked(tmp_path):
    report = verify(_write(tmp_path / "native", MANIFEST))
    assert report.is_sound
    assert verify(convert(tmp_path / "native", tmp_path / "published", "published")).is_sound
    (tmp_path / "published" / "SHA256SUMS").unlink()
    (tmp_path / "published" / "manifest.json").unlink()
    report = verify(tmp_path / "published")
    assert report.faults == ()
    assert not report.is_sound
    told = "\n".join(report.unchecked)
    assert "train: whether the images are those that were published" in told
    assert "whether latents and settings of train, test are those that were rendered" in told


class TestAConditionalOfOnesOwn:
    TEXT = "my_tails:Tails(sigma=0.1)"

    @pytest.fixture
    def root(self, tmp_path, monkeypatch):
        """A dataset with exact positives of a class that is no longer imported, and its module beside the manifest."""
        monkeypatch.chdir(_write(tmp_path / "mine", replace(MANIFEST, pairs=PAIRS)))
        manifest = replace(Manifest.read(tmp_path / "mine"), pairs=self.TEXT)
        manifest.write(tmp_path / "mine")
        write_card(tmp_path / "mine", manifest)
        (tmp_path / "mine" / "my_tails.py").write_text("import ident3d\n\nclass Tails(ident3d.Normal):\n    pass\n")
        yield tmp_path / "mine"
        sys.modules.pop("my_tails", None)

    def test_a_manifest_imports_no_module_beside_it(self, root, capsys):
        (root / "my_tails.py").write_text("raise SystemExit('this ran')\n")
        declared = root / "hostile-1.0.dist-info"
        declared.mkdir()
        (declared / "METADATA").write_text("Name: hostile\nVersion: 1.0\n")
        (declared / "entry_points.txt").write_text("[ident3d]\nhostile = my_tails\n")
        load_extensions.cache_clear()
        assert main(["verify", "."]) == 0
        told = capsys.readouterr().out
        assert "unchecked: " in told
        assert "whether the exact positives are those of the seed" in told
        assert "import my_tails first" in told
        assert "no faults in what could be checked" in told
        assert main(["info", "."]) == 0
        replace(Manifest.read(root), pairs="tails(0.1)").write(root)
        assert main(["verify", "."]) == 0
        assert "unknown conditional 'tails'" in capsys.readouterr().out
        assert "my_tails" not in sys.modules

    def test_the_user_may_name_it(self, root, capsys):
        assert main(["verify", ".", "--pairs", self.TEXT]) == 0
        assert "sound (train, test)" in capsys.readouterr().out

    def test_one_that_is_imported_is_checked(self, root, monkeypatch):
        monkeypatch.syspath_prepend(root)
        import_module("my_tails")
        assert verify(root).is_sound
        replace(Manifest.read(root), pairs="my_tails:Tails(0.2)").write(root)
        assert "are not those of seed 2" in "\n".join(verify(root).faults)

    def test_another_one_than_the_manifests_is_refused(self, root, caplog):
        assert main(["verify", ".", "--pairs", "my_tails:Tails(0.3)"]) == 2
        assert f"were drawn from {self.TEXT}, as the manifest says, not from my_tails:Tails(0.3)" in caplog.text
        with pytest.raises(ValueError, match="there are none"):
            verify(_write(root / "plain", MANIFEST), pairs=PAIRS)

    @pytest.mark.parametrize("text", ["normal(sigma=-1)", "vmf(kappa=1)"])
    def test_a_text_that_makes_no_sense_is_a_fault(self, root, text):
        replace(Manifest.read(root), pairs=text).write(root)
        assert "its conditional is not understood" in "\n".join(verify(root).faults)


class TestTheManifest:
    def edited(self, root, seal=False, **changes):
        data = json.loads((root / "manifest.json").read_text())
        data |= changes
        if seal:
            data.pop("sha256")
        (root / "manifest.json").write_text(json.dumps(data))
        return verify(root)

    @pytest.mark.parametrize(
        "changes", [{"render": {"hue_map": "published"}}, {"resolution": 9}, {"seed": 3}, {"pairs": "normal(1)"}]
    )
    @pytest.mark.parametrize("seal", [False, True])
    def test_an_edit_is_found(self, tmp_path, changes, seal):
        root = _write(tmp_path, MANIFEST, settings=MANIFEST.settings_digest)
        assert verify(root).is_sound
        faults = "\n".join(self.edited(root, seal=seal, **changes).faults)
        assert "does not hold the settings that test-00000-of-00002.parquet" in faults
        assert seal or "manifest.json was changed after it was written" in faults

    def test_a_range_of_a_factor_is_a_setting(self, tmp_path):
        root = _write(tmp_path, MANIFEST)
        factors = MANIFEST.factors.to_json()
        factors[0]["low"] = -4.0
        assert "manifest.json was changed" in self.edited(root, factors=factors).faults[0]

    def test_one_that_is_gone_is_missed(self, tmp_path):
        root = _write(tmp_path, MANIFEST, settings=MANIFEST.settings_digest)
        (root / "manifest.json").unlink()
        assert "manifest.json is missing, and the shards of the split 'train'" in "\n".join(verify(root).faults)


@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_a_shard_that_is_no_file_is_a_fault(tmp_path, kind):
    path = _write(tmp_path, MANIFEST) / "data" / SECOND
    path.unlink()
    {"link": lambda: path.symlink_to("nowhere"), "folder": path.mkdir, "pipe": lambda: os.mkfifo(path)}[kind]()
    assert f"{path} is not a regular file" in "\n".join(verify(tmp_path).faults)


def _flip(path, byte, bit=0):
    data = bytearray(path.read_bytes())
    data[byte] ^= 1 << bit
    path.write_bytes(data)


class TestPublished:
    @pytest.fixture
    def root(self, tmp_path):
        return convert(_write(tmp_path / "native", MANIFEST), tmp_path / "published", "published")

    def test_images_that_are_swapped_are_found(self, root):
        first, second = (root / "train" / "images" / name for name in ("03.png", "04.png"))
        one, other = first.read_bytes(), second.read_bytes()
        first.write_bytes(other)
        second.write_bytes(one)
        assert [f"{path}: its checksum is not the one that was recorded" for path in (first, second)] == list(
            verify(root).faults
        )

    def test_latents_are_those_of_the_seed_without_any_checksum(self, root):
        (root / "SHA256SUMS").unlink()
        latents = np.load(root / "train" / "raw_latents.npy")
        latents[[1, 2]] = latents[[2, 1]]
        np.save(root / "train" / "raw_latents.npy", latents)
        assert "2 rows of latents, 1 first, are not those of seed 2" in verify(root).faults[0]

    def test_what_is_gone_is_missed(self, root):
        (root / "SHA256SUMS").unlink()
        shutil.rmtree(root / "train")
        assert "the split 'train' of the manifest is not there" in "\n".join(verify(root).faults)
        (root / "test" / "raw_latents.npy").unlink()
        assert verify(root).faults

    @pytest.mark.parametrize("line", ["x", f"{'a' * 64}  ../x", f"{'a' * 64}  /x", f"{'a' * 64}  a/../../x"])
    def test_checksums_name_files_of_the_dataset_alone(self, root, line):
        (root / "SHA256SUMS").write_text(f"{line}\n")
        assert "SHA256SUMS, line 1 is not a checksum and the path of a file" in verify(root).faults[0]


class TestDecoded:
    @pytest.fixture
    def root(self, tmp_path):
        return convert(_write(tmp_path / "native", MANIFEST), tmp_path / "cache", "decoded")

    @pytest.mark.parametrize("name", ["train-pixels.npy", "train-latents.npy", "test-ids.npy", "cache.json"])
    def test_a_flipped_bit_is_found(self, root, name):
        assert verify(root).is_sound
        _flip(root / "decoded" / name, -40)
        assert verify(root).faults

    def test_an_array_that_is_gone_is_missed(self, root):
        (root / "decoded" / "train-pixels.npy").unlink()
        assert any("train-pixels.npy is missing" in fault for fault in verify(root).faults)

    def test_a_cache_of_an_earlier_version_is_held_against_the_images(self, tmp_path):
        root = _write(tmp_path / "native", MANIFEST)
        convert(root, root, "decoded")
        record = json.loads((root / "decoded" / "cache.json").read_text())
        del record["checksums"], record["sha256"]
        (root / "decoded" / "cache.json").write_text(json.dumps(record))
        assert verify(root).faults == ()
        assert "decoded: whether its files are as they were written" in verify(root).unchecked[0]
        _flip(root / "decoded" / "train-pixels.npy", -1)
        assert "row 11, is not the image beside the cache" in "\n".join(verify(root).faults)

    def test_an_image_that_was_replaced_makes_it_stale(self, tmp_path):
        root = convert(_write(tmp_path / "native", MANIFEST), tmp_path / "published", "published")
        convert(root, root, "decoded")
        assert verify(root).is_sound
        path = root / "train" / "images" / "05.png"
        path.write_bytes(encode_png(np.zeros((8, 8, 3), np.uint8)))  # of another size
        assert "was not made from the images beside it" in "\n".join(verify(root).faults)
        convert(root, root, "decoded")
        assert not np.load(root / "decoded" / "train-pixels.npy")[5].any()


class TestCard:
    @pytest.fixture
    def root(self, tmp_path):
        return _write(tmp_path, MANIFEST)

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ("path: data/test-*.parquet", "path: data/text-*.parquet"),
            ("  - split: test\n", ""),
            ("length: 10", "length: 11"),
            ("dataset_info:", "dataset_inf0:"),
            ("---\npretty", "--\npretty"),
            ("---\n\n#", "--\n\n#"),
            ("configs:\n", "configs: []\nconfigs:\n"),
        ],
    )
    def test_what_datasets_reads_is_as_composed(self, root, old, new):
        path = root / CARD_NAME
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new, 1))
        assert "load_dataset reads other files or fails" in verify(root).faults[0]

    @pytest.mark.parametrize(
        ("old", "new"), [("Images of", "My images of"), ('license: "mit"', "license: cc-by-4.0"), ("- 3dident", "- a")]
    )
    def test_the_rest_may_be_edited_and_is_said_to_be_unchecked(self, root, old, new):
        path = root / CARD_NAME
        path.write_text(path.read_text().replace(old, new, 1))
        found = verify(root)
        assert not found.faults
        assert found.unchecked == (f"{path}: its text, which was edited, or written by another ident3d",)
        assert not found.is_sound

    def test_one_that_is_gone_or_no_text_is_a_fault(self, root):
        path = root / CARD_NAME
        path.unlink()
        assert verify(root).faults[0].startswith(f"{path} is missing")
        path.write_bytes(b"---\n\xff\xfe\n---\n")
        assert "its header says of configs and dataset_info something else" in verify(root).faults[0]
        path.unlink()
        os.mkfifo(path)
        assert verify(root).faults[0].startswith(f"{path} cannot be read")

    @pytest.mark.parametrize("render", [{"quality": "draft"}, {"quality": [1]}, {"hue_map": {}}, {"blender": [1]}])
    def test_a_manifest_that_holds_anything_has_one(self, tmp_path, render):
        assert verify(_write(tmp_path, replace(MANIFEST, render=render))).faults == ()


LAYOUTS_ON_DISK = ["native", "part", "published", "decoded", "decoded beside native", "decoded beside published"]


def _written(folder, layout):
    """Write a small sound dataset of a layout."""
    made = _write(folder / "made", replace(MANIFEST, splits={"train": 4, "test": 2}), settings="")
    if layout == "part":
        manifest = Manifest.read(made)
        (made / "data" / manifest.shards[-1].name).unlink()
        part = manifest.with_shards(manifest.shards[:-1])
        part.write(made)
        write_card(made, part)
        return made
    if layout == "native":
        convert(made, folder / "between", "published")
        return convert(folder / "between", folder / "native", "native")
    root = made if "native" in layout else folder / "root"
    if "published" in layout:
        convert(made, root, "published")
    if "decoded" in layout:
        convert(root if "beside" in layout else made, root, "decoded")
    return root


@pytest.mark.parametrize("layout", LAYOUTS_ON_DISK)
def test_a_flip_of_any_bit_of_any_file_is_found(tmp_path, layout):
    root = _written(tmp_path, layout)
    files = [path for path in sorted(root.rglob("*")) if path.is_file() and path.stat().st_size]
    intact = verify(root)
    assert intact.is_sound or layout == "part"
    rng = np.random.default_rng(0)
    for path in [files[k] for k in rng.integers(len(files), size=40)]:
        before = path.read_bytes()
        byte, bit = int(rng.integers(len(before))), int(rng.integers(8))
        _flip(path, byte, bit)
        found = verify(root)
        # The text of a card may be edited: all else is a fault.
        assert found.faults != intact.faults or (path.name == CARD_NAME and found.unchecked), (path, byte, bit)
        path.write_bytes(before)
