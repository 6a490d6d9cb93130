"""``ident3d info``: what a folder holds, and what matching in it makes of a conditional."""

from __future__ import annotations

import sys
import warnings
from dataclasses import Field, asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import tyro

from ident3d.commandline import EXIT_OK, write_json
from ident3d.storage.description import describe

if TYPE_CHECKING:
    from ident3d.pairs.realised import RealisedConditional

__all__ = ["Info"]

_OF_CONDITIONAL = ("split", "scale", "draws", "seed", "plot")  # options that need a conditional


@dataclass(frozen=True)
class Info:
    """Show what a dataset holds: splits, factors and their ranges, layout, provenance, fingerprints, size on disk.

    With a conditional, also show the one that matching in this dataset realises: a target that is drawn from the
    conditional is replaced by the nearest stored latents, so that positives spread more than asked for.

    Examples:
        ident3d info sample
        ident3d info data/small --conditional 'normal(sigma=0.1)' --plot realised.png
        ident3d info data/small --json
    """

    root: tyro.conf.Positional[str]
    """Folder of the dataset, in any layout; "sample" is the one inside the package."""
    conditional: str | None = None
    """A conditional, such as 'normal(sigma=0.1)' or 'laplace(scale={position: 0.1, rest: 0.5})'."""
    split: str = "train"
    """The split that positives are matched in."""
    scale: Literal["plain", "own"] = "plain"
    """Match by plain distance, or with every factor divided by the conditional's standard deviation in it."""
    draws: int = 20_000
    """Number of pairs to draw from the conditional."""
    seed: int = 0
    """Seed of the draws."""
    plot: Path | None = None
    """Plot the standard deviations that were asked for and those that are realised to this image file."""
    json: bool = False
    """Print what is found as JSON."""

    def run(self) -> int:
        """Describe; return the exit status."""
        if self.conditional is None:
            idle = [
                f"--{option.name}"
                for option in fields(self)
                if option.name in _OF_CONDITIONAL and not self._is_default(option)
            ]
            if idle:
                raise ValueError(f"{', '.join(idle)} have no effect without a conditional: give one with --conditional")
        if self.plot is not None:
            from ident3d.pairs.realised import check_plot

            check_plot(self.plot)
        description = describe(self.root)
        realised = None if self.conditional is None else self._realised(self.conditional)
        if self.json:
            extra = {} if realised is None else {"realised_conditional": asdict(realised)}
            write_json(description.to_json() | extra)
        else:
            tables = [description.table(), *([] if realised is None else [realised.table()])]
            sys.stdout.write("\n\n".join(tables) + "\n")
        if realised is not None and self.plot is not None:
            realised.plot(self.plot)
        return EXIT_OK

    def _is_default(self, option: Field[Any]) -> bool:
        return bool(getattr(self, option.name) == option.default)

    def _realised(self, text: str) -> RealisedConditional:
        # These bring torch and FAISS, which a plain description should not wait for.
        from ident3d.conditionals import parse
        from ident3d.matching.index import PairIndex
        from ident3d.pairs.realised import realised_conditional
        from ident3d.spaces import Box
        from ident3d.storage.layouts import open_split

        stored = open_split(self.root, self.split)
        conditional = parse(text, stored.factors)
        space = Box(len(stored.factors))
        conditional.check(space)
        lengths = conditional.displacement_std(space) if self.scale == "own" else None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the table says the same
            return realised_conditional(
                stored.latents,
                conditional,
                space=space,
                index=PairIndex(stored.latents, scale=lengths, factors=stored.factors),
                seed=self.seed,
                draws=self.draws,
                factors=stored.factors,
            )
