"""Recomputing, beside what the commands' tests hold."""

import hashlib
from dataclasses import replace

from ident3d.dataset import ThreeDIdent
from ident3d.metrics import METRICS, FactorMetric
from ident3d.metrics.mcc import correlations
from ident3d.storage.manifest import Manifest, ShardRecord, shard_name
from ident3d.submission import Submission
from leaderboard.board import Board
from leaderboard.entry import Result
from leaderboard.page import generate
from leaderboard.ranking import ranked
from leaderboard.recompute import images_sha256, recompute


def test_images_are_told_apart_by_their_files():
    shards = tuple(ShardRecord(shard_name(s, i, 2), s, i, 1, f"{s}{i}") for s in ("train", "test") for i in (0, 1))
    manifest = Manifest(splits={"train": 2, "test": 2}, rows_per_shard=1, resolution=8, shards=shards)
    assert images_sha256(manifest, "test") == hashlib.sha256(b"test0test1").hexdigest()
    assert images_sha256(manifest.with_shards(()), "test") is None


class Best(FactorMetric):
    """The correlation of each factor with the dimension that suits it best."""

    label = "best"

    def values(self, evaluation):
        targets = evaluation.targets
        return correlations(evaluation.embeddings, targets.columns, targets).max(axis=1)


def test_an_entry_holds_the_metrics_that_were_asked_for(submit, dataset, folder, monkeypatch):
    monkeypatch.setattr(METRICS, "_entries", dict(METRICS))
    METRICS.register("best", Best())
    track, data = Board.read(folder).track("tiny"), ThreeDIdent(dataset, split="test")
    submission = Submission.read(submit())
    plain = recompute(submission, data, track, "2026-01-31")
    assert list(plain.results) == ["r2", "mcc_pearson", "mcc_spearman"]
    entry = recompute(submission, data, track, "2026-01-31", extras=("best", "nonlinear_r2"))
    assert set(entry.results) == {*plain.results, "best", "nonlinear_r2"}
    assert entry.results["best"].low < entry.results["best"].mean <= entry.results["best"].high
    Board.read(folder).add(entry)
    board = Board.read(folder)
    assert list(board.entries.values()) == [entry]
    page = generate(board)["index.html"]
    assert "<dt>best</dt>" in page
    rows = ranked([entry, replace(plain, name="other", results={"r2": Result(0.1)})], "tiny")
    assert [row.rank for row in rows] == [1, 2], "ranked by R2 alone"
