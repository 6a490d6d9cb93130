"""A submission of two seeds, twelve rows and three dimensions."""

import numpy as np
import pytest

from ident3d.submission import Compute, Metadata, Submission


@pytest.fixture
def metadata():
    return Metadata(
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


@pytest.fixture
def arrays():
    rng = np.random.default_rng(0)
    return [rng.normal(size=(12, 3)).astype(np.float32) for _ in range(2)], np.arange(12)[::-1] * 5


@pytest.fixture(params=["folder", "one.zip"])
def written(request, tmp_path, arrays, metadata):
    path = tmp_path / request.param
    Submission.write(path, *arrays, metadata)
    return path


@pytest.fixture
def archive(tmp_path, arrays, metadata):
    path = tmp_path / "one.zip"
    Submission.write(path, *arrays, metadata)
    return path
