"""Recomputing, beside what the commands' tests hold."""

import hashlib

from ident3d.storage.manifest import Manifest, ShardRecord
from leaderboard.recompute import pictures_sha256


def test_images_are_told_apart_by_their_files():
    shards = tuple(ShardRecord(f"{s}-{i}", s, i, 1, f"{s}{i}") for s in ("train", "test") for i in (0, 1))
    manifest = Manifest(splits={"train": 2, "test": 2}, rows_per_shard=1, resolution=8, shards=shards)
    assert pictures_sha256(manifest, "test") == hashlib.sha256(b"test0test1").hexdigest()
    assert pictures_sha256(manifest.with_shards(()), "test") is None
