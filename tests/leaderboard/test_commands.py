"""The commands, through the command line."""

import hashlib
import json
import subprocess
import threading
from contextlib import closing
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save

import ident3d
from ident3d.dataset import ThreeDIdent
from ident3d.embedding import OnnxEncoder
from ident3d.submission import Submission
from leaderboard.__main__ import main
from leaderboard.board import DEFAULT_FOLDER, Board
from leaderboard.commands.serve import server
from leaderboard.entry import Kind
from leaderboard.recompute import differences
from leaderboard.verification import (
    MeasuredR2,
    VerificationError,
    sealed_rows_needed,
    sealed_tolerance,
    verify,
)
from tests.leaderboard.conftest import TRACKS


@pytest.fixture
def call(folder):
    return lambda *arguments: main([*map(str, arguments), "--board", str(folder)])


class TestAdd:
    def test_scores_are_recomputed(self, call, folder, submit, dataset, capsys):
        path = submit(seeds=(0, 1, 2), claimed={"r2": 1.0})
        assert call("add", path, "--data", dataset, "--track", "tiny") == 0
        assert "(claimed 1.0000)" in capsys.readouterr().out
        (entry,) = Board.read(folder).entries.values()
        assert 0.97 < entry.results["r2"].mean < 0.999
        assert entry.results["r2"].std > 0
        assert entry.results["r2"].low < entry.results["r2"].mean < entry.results["r2"].high
        assert set(entry.results["r2"].per_group) == {"position", "rotation", "spotlight", "hue"}
        assert len(entry.embeddings_sha256) == entry.runs == 3
        assert entry.claimed == {"r2": 1.0}
        assert entry.protocol == "ident3d-1"

    def test_revisions(self, call, folder, submit, dataset, caplog):
        assert call("add", submit(), "--data", dataset, "--track", "tiny") == 0
        assert call("add", submit(), "--data", dataset, "--track", "tiny") == 1
        assert "raise the revision" in caplog.text
        assert call("add", submit("r2.zip", revision=2), "--data", dataset, "--track", "tiny") == 0
        assert len(Board.read(folder).entries) == 2

    def test_the_archive_is_kept_beside_the_entry(self, call, folder, submit, dataset, capsys, monkeypatch):  # noqa: PLR0917
        path = submit()
        assert call("add", path, "--data", dataset, "--track", "tiny", "--json") == 0
        kept = Path(json.loads(capsys.readouterr().out)["submission"])
        (name,) = Board.read(folder).entries
        assert kept == folder / "submissions" / "tiny" / f"{Path(name).stem}.zip"
        assert kept.read_bytes() == path.read_bytes()
        monkeypatch.setattr("leaderboard.board.MAX_SUBMISSION_BYTES", 100)
        assert call("add", submit("r2.zip", revision=2), "--data", dataset, "--track", "tiny") == 0
        assert "it is not kept, and the submission has to link to it" in capsys.readouterr().out
        assert len(list(kept.parent.iterdir())) == 1

    def test_another_dataset(self, call, folder, submit, sealed, caplog):
        assert call("add", submit(), "--data", sealed, "--track", "tiny") == 1
        assert "the submission does not fit the dataset" in caplog.text
        tracks = json.loads((folder / "tracks.json").read_text())
        tracks["tracks"][0]["rows"] = 81
        (folder / "tracks.json").write_text(json.dumps(tracks))
        assert call("add", submit(), "--data", sealed, "--track", "tiny") == 1
        assert "splits.test is 80, the track's is 81" in caplog.text

    def test_unknown_track(self, call, submit, dataset, caplog):
        assert call("add", submit(), "--data", dataset, "--track", "huge") == 2
        assert "unknown track 'huge'; choose from tiny, other" in caplog.text


class TestPin:
    @pytest.fixture
    def unpinned(self, folder):
        """A board whose tracks nobody has pinned yet."""
        path = folder / "tracks.json"
        tracks = json.loads(path.read_text())
        for track in tracks["tracks"]:
            track["latents_sha256"] = ""
        path.write_text(json.dumps(tracks))
        return folder

    @pytest.mark.usefixtures("unpinned")
    def test_until_it_is_pinned_a_track_takes_reported_numbers_alone(self, call, submit, dataset, tmp_path, caplog):
        assert call("add", submit(), "--data", dataset, "--track", "tiny") == 1
        assert "takes reported numbers alone: a maintainer who has its dataset runs" in caplog.text
        (tmp_path / "row.json").write_text(json.dumps(TestReport.DESCRIPTION))
        assert call("report", tmp_path / "row.json") == 0

    def test_what_is_pinned_is_the_checksum_of_the_latents(  # noqa: PLR0917
        self, call, unpinned, submit, dataset, sealed, capsys, caplog
    ):
        assert call("pin", "tiny", "--data", dataset, "--json") == 0
        latents = np.load(dataset / "test" / "raw_latents.npy").astype("<f4")
        expected = hashlib.sha256(latents.tobytes()).hexdigest()
        assert json.loads(capsys.readouterr().out)["latents_sha256"] == expected
        assert [track.latents_sha256 for track in Board.read(unpinned).tracks.values()] == [expected, ""]
        assert call("add", submit(), "--data", dataset, "--track", "tiny") == 0
        assert call("pin", "tiny", "--data", sealed) == 1
        assert f"pinned to other latents, whose checksum is {expected}" in caplog.text
        assert call("add", submit("2.zip", revision=2), "--data", sealed, "--track", "tiny") == 1
        assert f"its latents are others than the track's, whose checksum is {expected}" in caplog.text

    def test_a_track_that_needs_none(self, call, dataset, caplog):
        assert call("pin", "tiny", "--data", dataset) == 1
        assert "needs no pin" in caplog.text
        assert call("pin", "huge", "--data", dataset) == 2

    def test_an_entry_that_was_put_there_by_hand_is_damaged(self, unpinned, make_entry):
        entry = make_entry()
        path = unpinned / "entries" / "tiny" / entry.file_name
        path.parent.mkdir(parents=True)
        path.write_text(entry.to_json())
        (faults,) = Board.read(unpinned).damaged.values()
        assert "takes reported numbers alone" in faults[0]

    def test_ours_awaits_its_maintainer(self):
        tracks = Board.read(DEFAULT_FOLDER).tracks
        assert {name: track.is_unpinned for name, track in tracks.items()} == {"3dident": True, "mini": False}


class TestRecompute:
    @pytest.fixture
    def added(self, call, submit, dataset, folder):
        assert call("add", submit(), "--data", dataset, "--track", "tiny") == 0
        return next(iter(Board.read(folder).entries))

    def test_an_honest_entry(self, call, added, dataset, capsys):
        assert call("recompute", "--data", dataset) == 0
        assert f"{added}: the same" in capsys.readouterr().out

    def test_an_entry_that_says_more_than_its_submission(self, call, added, dataset, folder, capsys):
        board = Board.read(folder)
        entry = board.entries[added]
        better = replace(entry.results["r2"], mean=0.9999, high=1.0)
        board.replace(added, replace(entry, results=entry.results | {"r2": better}, method="magic"))
        assert call("recompute", folder / added, "--data", dataset, "--json") == 1
        found = json.loads(capsys.readouterr().out)
        assert len(found["faults"][added]) == 3
        assert any(line.startswith("entry.results.r2.mean is 0.999900 in the entry") for line in found["faults"][added])

    def test_without_images_the_latents_follow_from_the_seed(self, folder, metadata, make_entry, tmp_path):
        settings = {"latents": "uniform", "seed": "3"}
        track = TRACKS["tracks"][0] | {"requires": settings, "fingerprints": [metadata.fingerprint]}
        (folder / "tracks.json").write_text(json.dumps({"tracks": [track]}))
        latents = ident3d.sample_latents(80, seed=3, split="test")
        Submission.write(tmp_path / "s.zip", latents, np.arange(80), metadata)
        submission, board = Submission.read(tmp_path / "s.zip"), Board.read(folder)
        faults = differences(make_entry(), submission, board.track("tiny"))
        assert "entry.results.r2.mean is 0.500000 in the entry, 1.000000 from the submission" in faults

    def test_what_has_no_submission(self, call, board_of, make_entry, dataset, capsys):
        names = list(board_of(make_entry("A"), make_entry("B", links=("https://example.org/b.zip",))).entries)
        assert call("recompute", "--json") == 1
        found = json.loads(capsys.readouterr().out)
        assert list(found["faults"]) == names[:1]
        assert found["entries"][names[1]].startswith("left to a maintainer")

    @pytest.fixture
    def submit_as(self, submit, metadata, tmp_path):
        """Write a submission of embeddings of its own under a name."""

        def write(name):
            whole = Submission.read(submit(revision=len(name)))
            embeddings = [whole.embeddings[0] * len(name)]
            Submission.write(tmp_path / f"{name}.zip", embeddings, whole.ids, replace(metadata, name=name))
            return tmp_path / f"{name}.zip"

        return write

    def test_what_changed_since_a_commit(self, call, folder, submit_as, dataset, capsys):
        git = ["git", "-C", str(folder), "-c", "user.name=A", "-c", "user.email=a@example.org"]
        subprocess.run([*git, "init", "--quiet"], check=True)
        for name in ("Older", "New"):
            assert call("add", submit_as(name), "--data", dataset, "--track", "tiny") == 0
            subprocess.run([*git, "add", "-A"], check=True)
            subprocess.run([*git, "commit", "--quiet", "-m", name], check=True)
        capsys.readouterr()
        assert call("recompute", "--since", "HEAD~1", "--data", dataset) == 0
        shown = capsys.readouterr().out
        assert "entries/tiny/new-" in shown
        assert "entries/tiny/older-" not in shown
        assert call("add", submit_as("Newest"), "--data", dataset, "--track", "tiny") == 0
        assert call("recompute", "--since", "HEAD", "--data", dataset) == 0
        assert "entries/tiny/newest-" in capsys.readouterr().out, "what is in no commit yet counts"
        assert call("recompute", "--since", "nowhere") == 1


class TestReport:
    DESCRIPTION: ClassVar = {
        "track": "tiny",
        "name": "From a paper",
        "revision": 1,
        "added": "2026-01-31",
        "authors": ["Ada L."],
        "method": "m",
        "encoder": "e",
        "training_data": "t",
        "conditional": "c",
        "results": {"r2": {"mean": 0.9, "std": 0.01}},
        "source": "A paper, Table 1",
    }

    def test_it_is_marked_as_reported(self, call, folder, tmp_path):
        (tmp_path / "row.json").write_text(json.dumps(self.DESCRIPTION | {"kind": "recomputed"}))
        assert call("report", tmp_path / "row.json") == 0
        (entry,) = Board.read(folder).entries.values()
        assert (entry.kind, entry.results["r2"].mean) == ("reported", 0.9)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"source": None}, "a reported entry has a source"),
            ({"results": {"r2": {"mean": 90}}}, "entry.results.r2.mean: expected a number, at most 1, got 90"),
            ({"track": "huge"}, "unknown track 'huge'"),
        ],
    )
    def test_faults_are_named(self, call, tmp_path, caplog, changes, message):
        (tmp_path / "row.json").write_text(json.dumps(self.DESCRIPTION | changes))
        assert call("report", tmp_path / "row.json") == 1
        assert message in caplog.text


class TestBuildAndCheck:
    def test_build_then_check(self, call, board_of, make_entry, folder, capsys):
        board_of(make_entry())
        assert call("check") == 1
        assert "index.html is not up to date with the entries" in capsys.readouterr().out
        assert call("build") == 0
        assert call("check") == 0
        assert "1 entries, all sound" in capsys.readouterr().out
        assert call("check", "--json") == 0
        assert json.loads(capsys.readouterr().out) == {"sound": True, "entries": 1, "faults": []}

    def test_check_finds_what_changed(self, call, board_of, make_entry, folder, capsys):
        board_of(make_entry("A"), make_entry("B"))
        assert call("build") == 0
        path = folder / "entries" / "tiny" / make_entry("A").file_name
        path.write_text(path.read_text().replace("0.5", "0.9", 1))
        capsys.readouterr()
        assert call("check", "--json") == 1
        found = json.loads(capsys.readouterr().out)
        assert found["entries"] == 1
        assert any("changed after it was written" in fault for fault in found["faults"])
        assert any("README.md is not up to date with the entries" in fault for fault in found["faults"])
        assert call("build") == 0, "a damaged entry stops nothing"

    def test_a_stale_page(self, call, board_of, make_entry, folder, capsys):
        board_of(make_entry())
        call("build")
        (folder / "index.html").write_text((folder / "index.html").read_text() + " ")
        assert call("check") == 1

    def test_the_leaderboards_own_files_are_fresh(self):
        assert main(["check"]) == 0


class TestServe:
    def test_it_gives_the_page_and_nothing_else(self, board_of, make_entry, folder):
        board_of(make_entry("Served"))
        with server(folder, 0) as serving:
            thread = threading.Thread(target=serving.serve_forever)
            thread.start()
            try:
                found = {}
                for path in ("/", "/index.html", "/tracks.json", "/../board/tracks.json"):
                    with closing(HTTPConnection("127.0.0.1", serving.server_port, timeout=30)) as connection:
                        connection.request("GET", path)
                        answer = connection.getresponse()
                        found[path] = (answer.status, b"Served" in answer.read())
            finally:
                serving.shutdown()
                thread.join()
        assert list(found.values()) == [(200, True), (200, True), (404, False), (404, False)]

    @pytest.mark.parametrize("port", [-1, 65536])
    def test_no_such_port(self, call, port, caplog):
        assert call("serve", "--port", port) == 2
        assert f"a port is a number from 0 to 65535, not {port}" in caplog.text

    def test_a_port_in_use(self, call, folder, caplog):
        with server(folder, 0) as serving:
            assert call("serve", "--port", serving.server_port) == 1
        assert "in use" in caplog.text


class TestVerify:
    @pytest.fixture
    def encoder(self, tmp_path):
        """Make an ONNX graph that reads latents off the first ten pixels."""

        def make(columns=10):
            weight = np.zeros((3 * 64, columns), np.float32)
            weight[range(columns), range(columns)] = 1
            graph = helper.make_graph(
                [helper.make_node("Flatten", ["x"], ["flat"]), helper.make_node("MatMul", ["flat", "w"], ["y"])],
                "g",
                [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["B", 3, 8, 8])],
                [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["B", columns])],
                [numpy_helper.from_array(weight, "w")],
            )
            opset = [helper.make_opsetid("", 17)]
            save(helper.make_model(graph, opset_imports=opset, ir_version=8), tmp_path / "encoder.onnx")
            return tmp_path / "encoder.onnx"

        return make

    @pytest.fixture
    def added(self, call, submit, dataset, folder):
        """The name of an entry that is on the board."""
        assert call("add", submit(noise=0.001), "--data", dataset, "--track", "tiny") == 0
        return next(iter(Board.read(folder).entries))

    @pytest.fixture
    def verify(self, call, dataset, sealed):
        def run(name, encoder, hidden=sealed):
            return call("verify", name, "--encoder", encoder, "--data", dataset, "--sealed", hidden)

        return run

    def test_an_encoder_that_holds(self, verify, added, encoder, folder, capsys):
        assert verify(added, encoder()) == 0
        board = Board.read(folder)
        assert not board.damaged
        assert board.entries[added].verification.sealed_r2 > 0.99
        assert board.entries[added].verification.sealed_rows == 80
        assert 0 < board.entries[added].verification.tolerance < 0.03
        assert "sealed images, where 0.00" in capsys.readouterr().out

    def test_an_entry_by_its_path(self, verify, added, encoder, folder):
        assert verify(folder / added, encoder()) == 0
        assert Board.read(folder).entries[added].verification is not None

    def test_an_encoder_that_knows_less(self, verify, added, encoder, folder, caplog):
        assert verify(added, encoder(columns=5)) == 1
        assert "not verified: the encoder's R2 on the track's split is" in caplog.text
        assert Board.read(folder).entries[added].verification is None

    def test_an_encoder_that_learned_the_split_by_heart(self, added, encoder, dataset, sealed, folder):
        data, hidden = (ThreeDIdent(root, split="test") for root in (dataset, sealed))
        known = data.latents.numpy()

        class ByHeart(OnnxEncoder):
            def __call__(self, images):
                distance = np.abs(2 * super().__call__(images).numpy()[:, None] - 1 - known).max(axis=2)
                nearest, seen = distance.argmin(axis=1), distance.min(axis=1) < 0.02
                return np.where(seen[:, None], known[nearest], known[::-1][nearest])

        board = Board.read(folder)
        with pytest.raises(VerificationError, match="on the sealed one"):
            verify(board.entries[added], ByHeart(encoder()), data, hidden, board.tracks["tiny"], date="2026-02-01")

    def test_the_size_of_the_sealed_split_follows_from_the_interval(self):
        found = MeasuredR2(0.8, 0.02, 2000, 10)
        needed = sealed_rows_needed(found, 0.1)
        enough, fewer = (
            sealed_tolerance(found, MeasuredR2(0.8, 0.02 * np.sqrt(2000 / rows), rows, 10))
            for rows in (needed, needed - 1)
        )
        assert enough <= 0.1 < fewer
        with pytest.raises(
            VerificationError, match=r"no sealed split can show a fall of 0\.0300; allow 0\.0410 or more"
        ):
            sealed_rows_needed(found, 0.03)

    def test_a_sealed_split_that_is_too_small_says_how_many_images_it_takes(
        self, verify, added, encoder, folder, caplog
    ):
        board = Board.read(folder)
        low = replace(board.entries[added].results["r2"], mean=0.2452)
        board.replace(added, replace(board.entries[added], results=board.entries[added].results | {"r2": low}))
        assert verify(added, encoder(columns=5)) == 1
        assert "no sealed split can show a fall of 0.0300" in caplog.text

    def test_honest_encoders_pass_and_others_do_not(self):
        # Latents seen through noise; of the other encoder, on sealed images, one factor of ten fewer.
        def seen(rows, seed, factors):
            latents = ident3d.sample_latents(rows, seed)
            noise = np.random.default_rng(seed).normal(size=(rows, 10))
            scores = ident3d.metrics.score(latents, latents * (np.arange(10) < factors) + 0.3 * noise).metrics["r2"]
            return MeasuredR2(scores.value.mean, (scores.high.mean - scores.low.mean) / 2, rows, 10)

        found = seen(1000, 0, 10)
        needed = sealed_rows_needed(found, 0.05)
        assert 200 < needed < 1000
        falls = []
        for seed in range(1, 13):
            for factors in (10, 9):
                sealed = seen(needed, seed, factors)
                falls.append((factors, found.r2 - sealed.r2 > sealed_tolerance(found, sealed)))
        assert set(falls) == {(10, False), (9, True)}

    def test_the_sealed_split_must_be_another(self, verify, added, encoder, dataset, caplog):
        assert verify(added, encoder(), dataset) == 1
        assert "the sealed split shares 80 samples with the track's" in caplog.text

    def test_no_graph(self, verify, added, tmp_path, caplog):
        (tmp_path / "evil.onnx").write_bytes(b"\x80\x04cos\nsystem\n")
        assert verify(added, tmp_path / "evil.onnx") == 1
        assert "cannot be loaded as ONNX" in caplog.text

    def test_a_graph_that_names_another_file(self, verify, added, tmp_path, caplog, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "w.bin").write_bytes(np.zeros((192, 10), np.float32).tobytes())
        weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[192, 10], data_location=TensorProto.EXTERNAL)
        place = weight.external_data.add()
        place.key, place.value = "location", "w.bin"
        graph = helper.make_graph(
            [helper.make_node("Flatten", ["x"], ["flat"]), helper.make_node("MatMul", ["flat", "w"], ["y"])],
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["B", 3, 8, 8])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["B", 10])],
            [weight],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        (tmp_path / "evil.onnx").write_bytes(model.SerializeToString())
        assert verify(added, tmp_path / "evil.onnx") == 1
        assert "cannot be loaded as ONNX" in caplog.text

    def test_reported_entries_and_unknown_ones(self, verify, board_of, make_entry, encoder, caplog):
        (name,) = board_of(make_entry("Paper", kind=Kind.REPORTED)).entries
        assert verify(name, encoder()) == 1
        assert "a reported entry cannot be verified" in caplog.text
        assert verify("entries/tiny/none.json", encoder()) == 2
        assert "unknown entry 'entries/tiny/none.json'" in caplog.text
