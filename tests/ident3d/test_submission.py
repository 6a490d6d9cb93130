"""Submissions: written and read, and everything that can be wrong with one."""

import io
import json
import stat
import zipfile
from dataclasses import replace

import numpy as np
import pytest
import torch

from ident3d.errors import SubmissionError
from ident3d.submission import Compute, Metadata, Submission

METADATA = Metadata(
    name="Ünïversal encoder",
    authors=("Ada L.", "Grace H."),
    method="InfoNCE on the box",
    encoder="ResNet18",
    training_data="mini, 20,000 images",
    conditional="Normal(sigma=0.1)",
    fingerprint="ab" * 32,
    seeds=(0, 7),
    steps=1000,
    compute=Compute(0.5, "2 CPU cores"),
    links=("https://example.org/a?b=c",),
    claimed={"r2": 0.5},
)
N, D = 12, 3


@pytest.fixture
def arrays():
    rng = np.random.default_rng(0)
    return [rng.normal(size=(N, D)).astype(np.float32) for _ in range(2)], np.arange(N)[::-1] * 5


@pytest.fixture(params=["folder", "one.zip"])
def written(request, tmp_path, arrays):
    path = tmp_path / request.param
    Submission.write(path, *arrays, METADATA)
    return path


@pytest.fixture
def archive(tmp_path, arrays):
    path = tmp_path / "one.zip"
    Submission.write(path, *arrays, METADATA)
    return path


def members(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rewrite(path, changes, compression=zipfile.ZIP_STORED):
    content = members(path) | changes
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in content.items():
            if data is not None:
                archive.writestr(name, data)


def npy(array, **options):
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


def document(path, **changes):
    data = json.loads(members(path)["submission.json"])
    data["metadata"] |= changes
    return json.dumps(data)


class TestRoundTrip:
    def test_what_was_written_is_read(self, written, arrays):
        found = Submission.read(written)
        assert found.metadata == METADATA
        np.testing.assert_array_equal(found.ids, arrays[1])
        for run, expected in zip(found.embeddings, arrays[0], strict=True):
            np.testing.assert_array_equal(run, expected)
        assert Submission.faults(written) == ()

    def test_torch_and_a_single_seed(self, tmp_path):
        embeddings = torch.randn(N, D, dtype=torch.float64, requires_grad=True)
        metadata = replace(METADATA, seeds=(3,))
        Submission.write(tmp_path / "s.zip", embeddings, torch.arange(N), metadata)
        found = Submission.read(tmp_path / "s.zip")
        np.testing.assert_array_equal(found.embeddings[0], embeddings.detach().float().numpy())

    def test_the_same_submission_has_the_same_bytes(self, tmp_path, arrays):
        for name in ("a.zip", "b.zip"):
            Submission.write(tmp_path / name, *arrays, METADATA)
        assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()

    def test_writing_again_replaces(self, written, arrays):
        Submission.write(written, arrays[0][:1], arrays[1], replace(METADATA, seeds=(1,)))
        assert len(Submission.read(written).embeddings) == 1

    def test_a_foreign_folder_is_left_alone(self, tmp_path, arrays):
        (tmp_path / "thesis.tex").write_text("precious")
        with pytest.raises(FileExistsError, match="is no submission"):
            Submission.write(tmp_path, *arrays, METADATA)
        assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]

    def test_a_foreign_file_is_left_alone(self, tmp_path, arrays):
        with zipfile.ZipFile(tmp_path / "thesis.zip", "w") as thesis:
            thesis.writestr("thesis.tex", "precious")
        (tmp_path / "thesis.tex").write_text("precious")
        for name in ("thesis.zip", "thesis.tex"):
            with pytest.raises(FileExistsError, match="is no submission"):
                Submission.write(tmp_path / name, *arrays, METADATA)
        assert (tmp_path / "thesis.tex").read_text() == "precious"
        assert list(members(tmp_path / "thesis.zip")) == ["thesis.tex"]

    def test_nothing_is_written_that_could_not_be_read(self, tmp_path, arrays):
        embeddings, ids = arrays
        embeddings[1][4, 2] = np.nan
        with pytest.raises(SubmissionError) as caught:
            Submission.write(tmp_path / "s.zip", embeddings, np.zeros_like(ids), replace(METADATA, name=" "))
        for part in ("metadata.name", "row 4, column 2 is nan", "1 id occurs (0) more than once"):
            assert part in str(caught.value)
        assert not (tmp_path / "s.zip").exists()

    @pytest.mark.parametrize(
        ("embeddings", "ids", "message"),
        [
            (np.zeros(N), np.arange(N), "embeddings-0.npy: expected a non-empty array with 2 axes of float32"),
            (np.zeros((N, D)), np.arange(N) + 0.5, "ids: expected a non-empty array with 1 axes of int64"),
            (np.full((N, D), 1e300), np.arange(N), "numbers must be finite; row 0, column 0 is inf"),
        ],
    )
    def test_arrays_of_another_kind(self, tmp_path, embeddings, ids, message):
        with pytest.raises(SubmissionError, match=message.replace("(", r"\(")):
            Submission.write(tmp_path / "s.zip", embeddings, ids, replace(METADATA, seeds=(0,)))


class TestContainers:
    def test_nothing_there(self, tmp_path):
        with pytest.raises(FileNotFoundError, match=r"expected a folder or a zip archive with submission.json"):
            Submission.read(tmp_path / "none.zip")

    def test_not_an_archive(self, tmp_path):
        (tmp_path / "x.zip").write_bytes(b"PK no")
        assert "no readable zip archive" in Submission.faults(tmp_path / "x.zip")[0]

    def test_truncated(self, archive):
        archive.write_bytes(archive.read_bytes()[:-40])
        assert "no readable zip archive" in Submission.faults(archive)[0]

    def test_a_flipped_bit(self, archive):
        data = bytearray(archive.read_bytes())
        data[data.index(b"\x93NUMPY") + 140] ^= 1
        archive.write_bytes(data)
        assert "Bad CRC-32" in Submission.faults(archive)[0]

    @pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
    def test_compressed_members_with_flipped_bits(self, archive, compression):
        rewrite(archive, {}, compression)
        assert Submission.faults(archive) == ()
        with zipfile.ZipFile(archive) as file:
            info = file.getinfo("embeddings-0.npy")
        data = bytearray(archive.read_bytes())
        start = info.header_offset + 30 + len(info.filename)
        for place in range(start, start + info.compress_size):
            data[place] ^= 0xFF
            archive.write_bytes(data)
            Submission.faults(archive)  # whatever the decompressor makes of it
        assert any("embeddings-0.npy" in fault for fault in Submission.faults(archive))

    @pytest.mark.parametrize("name", ["../../etc/passwd", "/tmp/x.npy", "sub/ids.npy", "run.py", "embeddings-0.npy\n"])  # noqa: S108
    def test_foreign_names(self, archive, name):
        rewrite(archive, {name: b"x"})
        (fault,) = Submission.faults(archive)
        assert "does not belong into a submission; expected submission.json, ids.npy" in fault
        assert "\n" not in fault

    def test_a_bomb_is_not_unpacked(self, archive):
        rewrite(archive, {"embeddings-1.npy": b"\0" * (1 << 23)}, zipfile.ZIP_DEFLATED)
        assert any("would grow" in fault and "embeddings-1.npy" in fault for fault in Submission.faults(archive))

    def test_too_many_members(self, archive):
        rewrite(archive, {f"embeddings-{i}.npy": b"" for i in range(100)})
        assert "holds 102 entries" in Submission.faults(archive)[0]

    @pytest.mark.filterwarnings("ignore:Duplicate name")
    def test_a_member_twice(self, archive):
        with zipfile.ZipFile(archive, "a") as file:
            file.writestr("ids.npy", b"again")
        assert "ids.npy is there twice" in Submission.faults(archive)

    def test_a_link_in_a_folder(self, tmp_path, arrays):
        Submission.write(tmp_path / "s", *arrays, METADATA)
        (tmp_path / "s" / "ids.npy").rename(tmp_path / "ids.npy")
        (tmp_path / "s" / "ids.npy").symlink_to(tmp_path / "ids.npy")
        assert "'ids.npy' is no plain file" in Submission.faults(tmp_path / "s")

    def test_a_link_in_an_archive_is_only_bytes(self, archive):
        link = zipfile.ZipInfo("embeddings-2.npy")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        with zipfile.ZipFile(archive, "a") as file:
            file.writestr(link, "/etc/passwd")
        assert any("embeddings-2.npy is no .npy file" in fault for fault in Submission.faults(archive))


class TestArrays:
    @pytest.mark.parametrize(
        ("name", "data", "message"),
        [
            ("ids.npy", npy(np.array([{"a": 1}] * N, dtype=object), allow_pickle=True), "expected (N,) of int64"),
            ("ids.npy", npy(np.arange(N, dtype=np.int32)), "got shape (12,) of int32"),
            ("ids.npy", npy(np.arange(N))[:-8], "88 bytes do not hold an array of shape (12,)"),
            ("ids.npy", npy(np.arange(N) - 1), "ids are 0 or larger, not -1"),
            ("ids.npy", npy(np.arange(N) // 2), "6 ids occur (0, 1, 2, 3, 4 and 1 more) more than once"),
            ("ids.npy", npy(np.arange(N + 1)), "embeddings-0.npy has 12 rows, but ids.npy has 13"),
            ("embeddings-0.npy", npy(np.zeros((N, D))), "expected (N, d) of float32, got shape (12, 3) of float64"),
            ("embeddings-0.npy", npy(np.zeros((N, 5), np.float32)), "differ in width: [3, 5]"),
            (
                "embeddings-0.npy",
                npy(np.full((N, D), np.inf, np.float32)),
                "row 0, column 0 is inf (12 such rows in all)",
            ),
            ("embeddings-0.npy", npy(np.zeros((0, D), np.float32)), "expected (N, d) of float32"),
            ("embeddings-0.npy", npy(np.zeros((1, 70_000), np.float32)), "70000 dimensions; at most 65536"),
            ("embeddings-0.npy", b"\x80\x04N.", "is no .npy file"),
            ("embeddings-1.npy", None, "one array of embeddings for each of the 2 seeds"),
            ("embeddings-2.npy", npy(np.zeros((N, D), np.float32)), "for each of the 2 seeds"),
            ("embeddings-1.npy", npy(np.ones((N, D), np.float32)), "its SHA-256 differs"),
            ("ids.npy", None, "ids.npy is missing"),
        ],
    )
    def test_fault_is_named(self, archive, name, data, message):
        rewrite(archive, {name: data})
        faults = Submission.faults(archive)
        assert any(message in fault for fault in faults), faults

    def test_a_header_that_promises_too_much(self, archive):
        data = npy(np.zeros((N, D), np.float32)).replace(b"(12, 3)", b"(9999999999999, 9999999999999)")
        rewrite(archive, {"embeddings-0.npy": data})
        assert any("embeddings-0.npy" in fault for fault in Submission.faults(archive))

    @pytest.mark.parametrize(
        ("shape", "message"),
        [
            (b"(True, 36)", "expected (N, d) of float32, got shape (True, 36)"),
            (b"(-12, -3)", "got shape (-12, -3)"),
            (b"(12, 3 ", "embeddings-0.npy is no .npy file"),
        ],
    )
    def test_headers_that_numpy_does_not_write(self, archive, shape, message):
        data = npy(np.zeros((N, D), np.float32))
        length = len(data) - N * D * 4
        header = data[:length].replace(b"(12, 3)", shape)[: length - 1]
        rewrite(archive, {"embeddings-0.npy": header.ljust(length - 1) + b"\n" + data[length:]})
        faults = Submission.faults(archive)
        assert any(message in fault for fault in faults), faults

    def test_fortran_order_is_read(self, archive, arrays):
        rewrite(archive, {"embeddings-0.npy": npy(np.asfortranarray(arrays[0][0]))})
        (fault,) = Submission.faults(archive)
        assert "SHA-256 differs" in fault


class TestMetadata:
    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"name": ""}, "metadata.name: expected a line of text of 1 to 80 printable characters, got ''"),
            ({"name": "x" * 81}, "got 'xxxx"),
            ({"name": "a\nb"}, r"got 'a\nb'"),
            ({"name": "a\u202eb"}, r"got 'a\u202eb'"),
            ({"name": 3}, "got 3"),
            ({"authors": []}, "metadata.authors: expected a list of 1 to 100 items"),
            ({"authors": "Ada"}, "metadata.authors: expected a list"),
            ({"authors": ["Ada", None]}, "metadata.authors[1]: expected a line of text"),
            ({"revision": 0}, "metadata.revision: expected an integer from 1 to 10000, got 0"),
            ({"revision": True}, "metadata.revision: expected an integer"),
            ({"revision": 1.5}, "metadata.revision: expected an integer"),
            ({"fingerprint": "AB" * 32}, "metadata.fingerprint: expected a SHA-256"),
            ({"links": ["javascript:alert(1)"]}, "metadata.links[0]: expected a web address"),
            ({"links": ['https://a"onload="x']}, "metadata.links[0]: expected a web address"),
            ({"compute": {"hours": -1, "device": "gpu"}}, "metadata.compute.hours: expected a finite number from 0"),
            ({"compute": {"hours": 10**400, "device": "gpu"}}, "compute.hours: expected a finite number from 0"),
            ({"claimed": {"r2": -(10**400)}}, "metadata.claimed.r2: expected a fraction"),
            ({"compute": {"hours": 1}}, "metadata.compute.device is missing"),
            ({"compute": 3}, "metadata.compute: expected an object, got 3"),
            ({"claimed": {"r2": 96.7}}, "metadata.claimed.r2: expected a fraction, at most 1, got 96.7"),
            ({"claimed": {"f1": 0.5}}, "claimed scores are of r2, mcc_pearson, mcc_spearman, not of f1"),
            ({"seeds": [1, 1]}, "expected different seeds"),
            ({"role": "winner"}, "metadata.role: expected one of contender, floor, ceiling, got 'winner'"),
            ({"score": 1}, "metadata.score: no such field; the fields are name, authors"),
        ],
    )
    def test_fault_is_named(self, archive, changes, message):
        rewrite(archive, {"submission.json": document(archive, **changes)})
        faults = Submission.faults(archive)
        assert any(message in fault for fault in faults), faults

    def test_everything_at_once(self, archive):
        rewrite(
            archive,
            {
                "submission.json": document(archive, name=3, steps=-1, links=["ftp://x"]),
                "ids.npy": npy(np.zeros(N, dtype=int)),
                "embeddings-0.npy": npy(np.full((N, D), np.nan, np.float32)),
                "evil.py": b"",
            },
        )
        with pytest.raises(SubmissionError) as caught:
            Submission.read(archive)
        for part in ("metadata.name", "metadata.steps", "metadata.links[0]", "ids.npy", "is nan", "'evil.py'"):
            assert part in str(caught.value)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (b"\xff{", "not strict JSON"),
            (b"{", "not strict JSON"),
            (b"[]", "expected an object with the fields"),
            (b'{"schema_version": NaN}', "NaN is not a JSON number"),
            (b'{"schema_version": 1e999}', "the number 1e999 is too large"),
            (b'{"metadata": 1, "metadata": 2}', "the key 'metadata' stands twice"),
            (b"[" * 100_000, "not strict JSON"),
            (b'{"schema_version": 2, "metadata": {}, "sha256": {}}', "schema_version is 2; this ident3d reads 1"),
            (b'{"schema_version": 1, "metadata": {}, "sha256": []}', "sha256 must map"),
            (b" " * (2 << 20), "submission.json has 2097152 bytes; at most 1048576 are read"),
        ],
    )
    def test_the_document(self, archive, text, message):
        rewrite(archive, {"submission.json": text})
        faults = Submission.faults(archive)
        assert any(message in fault for fault in faults), faults

    def test_checksums_cannot_be_left_out(self, archive):
        data = json.loads(members(archive)["submission.json"])
        data["sha256"] = {}
        rewrite(archive, {"submission.json": json.dumps(data)})
        assert sum("its SHA-256 differs" in fault for fault in Submission.faults(archive)) == 3
