"""Matching: which stored latents are nearest to a target.

:class:`PairIndex` answers for N stored latents, through one of several backends. Two are exact and return the same
ids, two are approximate. Which to choose:

* "exact", the default, for any dataset on a CPU: FAISS over the cells of a k-d tree, with a proof for each query that
  no other cell holds a nearer point (:mod:`~ident3d.matching.exact`). The cost of a match grows far more slowly than
  the dataset, whereas comparing all points costs ten times as much in ten times as many. With ``device="cuda"`` it is
  FAISS over all points.
* "torch" where there is no FAISS, and on a GPU: all points in blocks, in float64, on the device where images and
  encoder are too (:mod:`~ident3d.matching.torch`). It is what :meth:`PairIndex.on` moves an exact index to.
* "ivf" where a few wrong matches in a thousand do no harm and the cost is to be fixed beforehand: inverted lists of
  k-means cells, of which ``effort`` are searched, on a CPU or a GPU (:mod:`~ident3d.matching.faiss`).
* "hnsw" for comparisons with work that used it, or where a match has to be cheap and building may take minutes: a
  navigable small-world graph, on a CPU (:mod:`~ident3d.matching.faiss`).

``make bench-pairs`` shows it on the machine at hand: the time to build each, the cost of a match with each in datasets
of growing size, the recall of the approximate ones (:attr:`PairIndex.recall`), and that the exact ones agree. In
250,000 uniform latents of ten factors, and on one busy core, a match took 98 us with "exact", 106 with "ivf", 59 with
"hnsw", and 1,417 by comparing all points; both approximate ones found all of 1,000 neighbours. Building took 0.25 s
for "exact" and 26 s for "hnsw".

A backend of your own is a :class:`Backend`, named ``package.module:Class`` or added to :data:`BACKENDS`.
"""

from ident3d.matching.index import BACKENDS, PairIndex
from ident3d.matching.points import Backend, Options, Points

__all__ = ["BACKENDS", "Backend", "Options", "PairIndex", "Points"]
