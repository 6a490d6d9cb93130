"""Submissions: written and read, and what their documents may say."""

import json
import zipfile
from dataclasses import replace

import numpy as np
import pytest
import torch

from ident3d.errors import SubmissionError
from ident3d.submission import Submission
from tests.ident3d.submission.zips import members, npy, rewrite

N, D = 12, 3


def document(path, **changes):
    data = json.loads(members(path)["submission.json"])
    data["metadata"] |= changes
    return json.dumps(data)


class TestRoundTrip:
    def test_what_was_written_is_read(self, written, arrays, metadata):
        found = Submission.read(written)
        assert found.metadata == metadata
        np.testing.assert_array_equal(found.ids, arrays[1])
        for run, expected in zip(found.embeddings, arrays[0], strict=True):
            np.testing.assert_array_equal(run, expected)
        assert Submission.faults(written) == ()

    def test_torch_and_a_single_seed(self, tmp_path, metadata):
        embeddings = torch.randn(N, D, dtype=torch.float64, requires_grad=True)
        metadata = replace(metadata, seeds=(3,))
        Submission.write(tmp_path / "s.zip", embeddings, torch.arange(N), metadata)
        found = Submission.read(tmp_path / "s.zip")
        np.testing.assert_array_equal(found.embeddings[0], embeddings.detach().float().numpy())

    def test_the_same_submission_has_the_same_bytes(self, tmp_path, arrays, metadata):
        for name in ("a.zip", "b.zip"):
            Submission.write(tmp_path / name, *arrays, metadata)
        assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()

    def test_writing_again_replaces(self, written, arrays, metadata):
        Submission.write(written, arrays[0][:1], arrays[1], replace(metadata, seeds=(1,)))
        assert len(Submission.read(written).embeddings) == 1

    def test_a_foreign_folder_is_left_alone(self, tmp_path, arrays, metadata):
        (tmp_path / "thesis.tex").write_text("precious")
        with pytest.raises(FileExistsError, match="is not a submission"):
            Submission.write(tmp_path, *arrays, metadata)
        assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]

    def test_a_foreign_file_is_left_alone(self, tmp_path, arrays, metadata):
        with zipfile.ZipFile(tmp_path / "thesis.zip", "w") as thesis:
            thesis.writestr("thesis.tex", "precious")
        (tmp_path / "thesis.tex").write_text("precious")
        for name in ("thesis.zip", "thesis.tex"):
            with pytest.raises(FileExistsError, match="is not a submission"):
                Submission.write(tmp_path / name, *arrays, metadata)
        assert (tmp_path / "thesis.tex").read_text() == "precious"
        assert list(members(tmp_path / "thesis.zip")) == ["thesis.tex"]

    def test_nothing_is_written_that_could_not_be_read(self, tmp_path, arrays, metadata):
        embeddings, ids = arrays
        embeddings[1][4, 2] = np.nan
        with pytest.raises(SubmissionError) as caught:
            Submission.write(tmp_path / "s.zip", embeddings, np.zeros_like(ids), replace(metadata, name=" "))
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
    def test_arrays_of_another_kind(self, tmp_path, embeddings, ids, message, metadata):
        with pytest.raises(SubmissionError, match=message.replace("(", r"\(")):
            Submission.write(tmp_path / "s.zip", embeddings, ids, replace(metadata, seeds=(0,)))


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
            (b'{"metadata": 1, "metadata": 2}', "the key 'metadata' occurs twice"),
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
