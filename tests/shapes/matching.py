"""Example calls for the pair index."""

import pytest
import torch

from ident3d.matching.exact import CellBackend
from ident3d.matching.faiss import GpuFlatBackend, HnswBackend
from ident3d.matching.index import PairIndex
from ident3d.matching.points import Options, Points
from ident3d.matching.torch import TorchBackend
from tests.ident3d.matching.latents import rows

HOME = "ident3d.matching"
QUERIES = torch.from_numpy(rows(5, seed=1))
IDS = torch.arange(5)
CANDIDATES = torch.arange(15).reshape(5, 3)


def points():
    latents = torch.from_numpy(rows(200))
    latents[7] = latents[9]  # one point with two ids
    return Points.from_latents(latents)


def built(kind, device="cpu"):
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    return kind.build(points(), Options(torch.device(device)))


EXAMPLES = {
    f"{HOME}.index.nearest_candidate": lambda: (points(), QUERIES, CANDIDATES, IDS),
    f"{HOME}.index.PairIndex.nearest": lambda: (PairIndex(rows(200), "torch"), QUERIES, IDS),
    f"{HOME}.index.nearest_of_all": lambda: (points(), QUERIES, IDS),
    f"{HOME}.points.Points.scaled": lambda: (points(), QUERIES),
    f"{HOME}.points.Points.banned": lambda: (points(), IDS),
    f"{HOME}.points.Points.answers": lambda: (points(), CANDIDATES, IDS),
    f"{HOME}.points.is_settled": lambda: (
        CANDIDATES,
        CANDIDATES.double(),
        IDS,
        torch.full((5,), 0.1, dtype=torch.float64),
    ),
    f"{HOME}.exact.CellBackend.candidates": lambda: (built(CellBackend), QUERIES, IDS),
    f"{HOME}.faiss.FaissBackend.candidates": lambda: (built(HnswBackend), QUERIES, IDS),
    f"{HOME}.faiss.GpuFlatBackend.candidates": lambda: (built(GpuFlatBackend, "cuda"), QUERIES, IDS),
    f"{HOME}.torch.TorchBackend.candidates": lambda: (built(TorchBackend), QUERIES, None),
}
