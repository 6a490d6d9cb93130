"""The examples of docstrings, run as they stand."""

import doctest
import importlib
import inspect
import pkgutil

import pytest

import ident3d
from ident3d import metrics

FLAGS = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
NEEDS_WARP = ("LivePairs", "LivePool", "LiveRenderer", "render")
NEED_NONE = {"Metric", "FactorScores", "MetricScores", "Measurement", "Statistic", "Summary", "Information"}
NEED_NONE |= {"ExplainedVariance", "Disentanglement", "Dimension", "DegenerateEmbeddingWarning", "AffineFit", "Halves"}
"""What only comes out of other calls, and what only names things."""


def examples():
    """Yield every example of a docstring of ident3d, with its name."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    for info in pkgutil.walk_packages(ident3d.__path__, "ident3d."):
        if info.name in ("ident3d.__main__", "ident3d.live.kernels"):
            continue
        module = importlib.import_module(info.name)
        yield from (found for found in finder.find(module, globs={}) if found.examples)


@pytest.mark.parametrize("example", [pytest.param(each, id=each.name) for each in examples()])
def test_an_example_prints_what_it_shows(example):
    if example.name.rpartition(".")[2] in NEEDS_WARP:
        pytest.importorskip("warp")
        ident3d.live.render(ident3d.sample_latents(1), resolution=16, device="cpu")  # it prints a word at first
    printed = []
    result = doctest.DocTestRunner(optionflags=FLAGS).run(example, out=printed.append)
    assert result.attempted > 0
    assert result.failed == 0, "".join(printed)


def public():
    """Return what users construct and call, by name."""
    named = {name: getattr(ident3d, name) for name in ident3d.__all__}
    named |= {name: getattr(metrics, name) for name in metrics.__all__ if name not in NEED_NONE}
    return {name: value for name, value in named.items() if inspect.isclass(value)}


@pytest.mark.parametrize("name", public())
def test_every_public_class_has_an_example(name):
    assert ">>> " in (inspect.getdoc(public()[name]) or "")
