"""What a finite dataset makes of a conditional.

A target that is drawn from the conditional is replaced by the nearest stored latents. With few images the nearest
ones are farther away than the conditional is wide, so positives spread more than asked for, and from one anchor only
a few of them are ever reached. An encoder learns from the conditional that it sees, which is this one.
"""

from __future__ import annotations

import html
import io
import math
import warnings
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ident3d.arguments import as_numbers, check_count
from ident3d.conditionals.conditional import Conditional, check_conditional
from ident3d.display import embedded
from ident3d.errors import MissingDependencyError
from ident3d.factors import Factors, resolve_factors
from ident3d.matching.index import PairIndex, check_index
from ident3d.randomness import torch_generator
from ident3d.spaces import Box, Space

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["RealisedConditional", "check_plot", "estimated", "realised_conditional"]

_WIDENING = 1.5
_QUERIES_AT_ONCE = 2048
_ANCHORS = 100
_DRAWS_FROM_ANCHOR = 100


@dataclass(frozen=True)
class RealisedConditional:
    """A conditional, as asked for and as realised by matching in a finite dataset.

    Displacements are positive minus anchor: of the target that was drawn, and of the stored latents that it was
    matched to.

    Example:
        >>> import ident3d
        >>> pairs = ident3d.PositivePairs(ident3d.ThreeDIdent("sample"), ident3d.Normal(0.5))
        >>> found = pairs.realised_conditional(draws=2000)
        >>> found.is_too_small, 1.1 < max(found.widening) < 1.3
        (False, True)

    Attributes:
        conditional: text of the conditional.
        images: number of images of the dataset.
        draws: number of pairs that this was estimated from.
        names: names of the factors.
        nominal_std: standard deviation of the targets' displacement, one per factor.
        realised_std: standard deviation of the positives' displacement, one per factor.
        correlation: between the two displacements, one per factor: what is left of the target in the positive; 0 where
            one of them is the same in every pair.
        self_match: share of targets whose nearest stored latents are the anchor's own, which is excluded.
        distinct_partners: mean number of different positives that 100 draws from one anchor reach, of as many anchors
            as draws are hundreds, 100 at most.
        distance: mean distance from a target to the positive, in the metric of the match.
    """

    conditional: str
    images: int
    draws: int
    names: tuple[str, ...]
    nominal_std: tuple[float, ...]
    realised_std: tuple[float, ...]
    correlation: tuple[float, ...]
    self_match: float
    distinct_partners: float
    distance: float

    @property
    def widening(self) -> tuple[float, ...]:
        """Realised over nominal standard deviation, one per factor."""
        return tuple(map(_ratio, self.realised_std, self.nominal_std))

    @property
    def is_too_small(self) -> bool:
        """Whether the dataset widens the conditional by more than half in some factor."""
        return max(self.widening) > _WIDENING

    @property
    def advice(self) -> str:
        """What is wrong with the pair of dataset and conditional, and what helps; empty when it is fine."""
        if not self.is_too_small:
            return ""
        worst = int(np.argmax(self.widening))
        return (
            f"{self.images:,} images are too few for {self.conditional}: in {self.names[worst]}, positives spread "
            f"{self.widening[worst]:.1f} times as far as asked for (std {self.realised_std[worst]:.3f}, not "
            f"{self.nominal_std[worst]:.3f}). More images or a wider conditional help, PairIndex(scale=...) for a "
            "conditional with a scale per factor, and exact pairs: python -m render ROOT --pairs CONDITIONAL"
        )

    @property
    def sentence(self) -> str:
        """What the dataset makes of the conditional, in a sentence: the advice where there is any."""
        mean = float(np.mean(self.realised_std)), float(np.mean(self.nominal_std))
        return self.advice or (
            f"{self.conditional} matched in {self.images:,} images: positives spread {_ratio(*mean):.2f} times as far "
            f"as asked for (mean std {mean[0]:.3f}, not {mean[1]:.3f})"
        )

    def table(self) -> str:
        """Return all of this as text, a line for each factor."""
        width = max(len(name) for name in (*self.names, "factor"))
        lines = [f"{'factor':{width}}  nominal std  realised std  correlation"]
        columns = (self.names, self.nominal_std, self.realised_std, self.correlation)
        lines += [f"{n:{width}}  {a:11.4f}  {b:12.4f}  {c:11.3f}" for n, a, b, c in zip(*columns, strict=True)]
        means = [float(np.mean(column)) for column in columns[1:]]
        lines += [f"{'mean':{width}}  {means[0]:11.4f}  {means[1]:12.4f}  {means[2]:11.3f}"]
        lines += [
            "",
            f"{self.conditional} matched in {self.images:,} images, from {self.draws:,} pairs",
            f"nearest to the target is the anchor itself: {self.self_match:.1%} (excluded from the match)",
            f"different positives in {_DRAWS_FROM_ANCHOR} draws from one anchor: {self.distinct_partners:.1f}",
            f"distance from target to positive: {self.distance:.3f}",
        ]
        return "\n".join([*lines, self.advice] if self.advice else lines)

    def plot(self, path: str | Path) -> None:
        """Draw nominal and realised standard deviations of the factors to an image file.

        Raises:
            MissingDependencyError: if matplotlib is not installed.
            FileNotFoundError: if there is no such folder.
            ValueError: if the file is not of a kind that can be drawn to.
        """
        check_plot(path)
        self.figure().savefig(path, dpi=150)

    def figure(self) -> Figure:
        """Return the plot of :meth:`plot` as a figure of matplotlib.

        Raises:
            MissingDependencyError: if matplotlib is not installed.
        """
        _check_matplotlib()
        from matplotlib.figure import Figure

        figure = Figure(figsize=(8, 4), layout="constrained")
        axes = figure.add_subplot()
        places = np.arange(len(self.names))
        axes.bar(places - 0.2, self.nominal_std, 0.4, label="asked for", color="tab:blue")
        axes.bar(places + 0.2, self.realised_std, 0.4, label="realised", color="tab:orange")
        axes.set_xticks(places, self.names, rotation=45, ha="right")
        axes.set_ylabel("standard deviation of positive - anchor")
        axes.set_title(f"{self.conditional}, {self.images:,} images", loc="left")
        figure.legend(loc="outside upper right", ncols=2)
        return figure

    def __repr__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        if find_spec("matplotlib") is None:
            return f"<pre>{html.escape(self.table())}</pre>"
        image = io.BytesIO()
        self.figure().savefig(image, format="png", dpi=90)
        return embedded(image.getvalue(), self.sentence) + f"<p>{html.escape(self.sentence)}</p>"


def check_plot(path: str | Path) -> None:
    """Check that a plot can be drawn to a file, before anything is computed for it.

    Raises:
        MissingDependencyError: if matplotlib is not installed.
        FileNotFoundError: if there is no folder for it.
        ValueError: if it is a folder, or not an image of a kind that can be drawn.
    """
    _check_matplotlib()
    from matplotlib.figure import Figure

    file, kinds = Path(path), Figure().canvas.get_supported_filetypes()
    if not file.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {file.parent} to put the plot into")
    if file.is_dir() or file.suffix[1:].lower() not in kinds:
        raise ValueError(f"a plot is an image file, such as realised.png, not {file}; the kinds are {', '.join(kinds)}")


def _check_matplotlib() -> None:
    try:
        import matplotlib.figure  # noqa: F401 - whether it can be
    except ImportError as error:
        raise MissingDependencyError("matplotlib", "plot the realised conditional", "plot") from error


def realised_conditional(
    latents: Tensor | npt.ArrayLike,
    conditional: Conditional,
    *,
    space: Space | None = None,
    index: PairIndex | None = None,
    seed: int = 0,
    draws: int = 20_000,
    factors: Factors | None = None,
) -> RealisedConditional:
    """Estimate what matching in a finite dataset makes of a conditional; needs no images.

    Args:
        latents: (N, d) latents of the dataset.
        conditional: what targets are drawn from.
        space: where the latents live; None: the box [-1, 1]^d.
        index: what matches targets to ``latents``; None: an exact one in plain L2.
        seed: of the draws.
        draws: number of pairs to estimate from, 2 or more.
        factors: what the columns are, ``data.factors`` for a dataset's; None: 3DIdent's where d is 10, nameless ones
            otherwise.

    Warns:
        UserWarning: if the dataset is too small for the conditional: some factor's standard deviation is realised
            more than 1.5 times as large.

    Raises:
        TypeError: if conditional or index are of another type, or seed or draws are not integers.
        ValueError: if the conditional is not defined on the space, latents lie outside it, the index is one of other
            latents, seed is negative, or draws is below 2.
    """
    found = estimated(latents, conditional, space=space, index=index, seed=seed, draws=draws, factors=factors)
    if found.is_too_small:
        warnings.warn(found.advice, UserWarning, stacklevel=2)
    return found


def estimated(
    latents: Tensor | npt.ArrayLike,
    conditional: Conditional,
    *,
    space: Space | None,
    index: PairIndex | None,
    seed: int,
    draws: int,
    factors: Factors | None,
) -> RealisedConditional:
    """Return what :func:`realised_conditional` does, without its warning."""
    check_conditional(conditional)
    check_count(seed, "the seed", 0)
    check_count(draws, "the number of draws", 2)  # a standard deviation takes two
    stored = as_numbers(latents, "latents").cpu()
    stored = stored if stored.is_floating_point() else stored.float()
    columns = resolve_factors(factors, stored.shape[-1] if stored.ndim == 2 else 0)
    index = PairIndex(stored, factors=columns) if index is None else index
    check_index(index, stored)
    space = Box(index.width) if space is None else space
    conditional.check(space)
    space.check(stored, "the latents of the dataset")
    matching = _Matching(stored, conditional, space, index, seed)
    anchors = _rows(len(stored), draws, torch_generator(seed, "realised/anchors"))
    targets, positives, distances = matching.pairs(anchors)
    nominal, realised = targets - stored[anchors], stored[positives] - stored[anchors]
    anchors_alone = min(_ANCHORS, max(1, draws // _DRAWS_FROM_ANCHOR))
    few = _rows(len(stored), anchors_alone, torch_generator(seed, "realised/partners"))
    _, partners, _ = matching.pairs(few.repeat_interleave(_DRAWS_FROM_ANCHOR))
    return RealisedConditional(
        conditional=str(conditional),
        images=len(stored),
        draws=draws,
        names=columns.names,
        nominal_std=_numbers(nominal.double().std(dim=0)),
        realised_std=_numbers(realised.double().std(dim=0)),
        correlation=_numbers(_correlation(nominal.double(), realised.double())),
        self_match=float((_lengths(nominal, index.scale) < distances).double().mean()),
        distinct_partners=float(np.mean([len(row.unique()) for row in partners.view(anchors_alone, -1)])),
        distance=float(distances.double().mean()),
    )


@dataclass(frozen=True)
class _Matching:
    """Everything that decides which positives an anchor gets."""

    latents: Tensor
    conditional: Conditional
    space: Space
    index: PairIndex
    seed: int

    def pairs(self, anchors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return a target, the positive's id and the distance between them for each anchor."""
        targets, positives, distances = [], [], []
        for number, start in enumerate(range(0, len(anchors), _QUERIES_AT_ONCE)):
            part = anchors[start : start + _QUERIES_AT_ONCE]
            generator = torch_generator(self.seed, "realised/targets", number)
            targets.append(self.conditional.sample(self.latents[part], self.space, generator))
            ids, distance = self.index.match(targets[-1], exclude=part)
            positives.append(ids)
            distances.append(distance)
        return torch.cat(targets), torch.cat(positives), torch.cat(distances)


def _rows(among: int, n: int, generator: torch.Generator) -> Tensor:
    return torch.randint(among, (n,), dtype=torch.int64, device=generator.device, generator=generator)


def _ratio(realised: float, nominal: float) -> float:
    """Return realised / nominal, for targets that float32 tells from their anchor, and for those that it does not."""
    if nominal > 0:
        return realised / nominal
    return math.inf if realised > 0 else 1.0


def _correlation(a: Tensor, b: Tensor) -> Tensor:
    a, b = a - a.mean(dim=0), b - b.mean(dim=0)
    spread = a.square().mean(dim=0).sqrt() * b.square().mean(dim=0).sqrt()
    return torch.where(spread > 0, (a * b).mean(dim=0) / spread, 0.0)


def _lengths(displacement: Tensor, scale: Tensor | None) -> Tensor:
    return (displacement if scale is None else displacement / scale).square().sum(dim=1).sqrt()


def _numbers(values: Tensor) -> tuple[float, ...]:
    return tuple(values.tolist())
