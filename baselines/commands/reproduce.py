"""``python -m baselines reproduce``: the papers' controlled experiments."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import tyro

from ident3d.arguments import check_count
from ident3d.codec import read_file
from ident3d.commandline import EXIT_OK, write_json

__all__ = ["Reproduce"]

_LOG = logging.getLogger("ident3d.baselines")


def _studies() -> Iterable[str]:
    from baselines.synthetic import STUDIES

    return STUDIES


@dataclass(frozen=True)
class Reproduce:
    """Reproduce a table or figure of the papers: latents, a mixing network, an encoder, no images.

    Measured values are shown next to those that the papers report. Results are written as JSON, Markdown and plots; a
    run that was interrupted is resumed, and finished rows are not trained again.

    Studies:
        table1     identifiability up to affine maps, Zimmermann et al.
        table2     identifiability up to permutations and signs, Zimmermann et al.
        figure2    marginals that are not uniform, Zimmermann et al.
        aninfonce  positives that change by different amounts, AnInfoNCE

    Examples:
        python -m baselines reproduce table2 --row 8
        python -m baselines reproduce aninfonce --seeds 5
        python -m baselines reproduce table1 --row 5 --budget 3600 --json
    """

    completions: ClassVar[Mapping[str, Callable[[], Iterable[str]]]] = {"": _studies}

    study: tyro.conf.Positional[str]
    """table1, table2, figure2 or aninfonce; or your own study as package.module:attribute."""
    row: tuple[int, ...] = ()
    """Rows or points, from 1; by default all."""
    seeds: int = 3
    """Number of runs of each row, which train side by side."""
    first_seed: int = 0
    """Seed of the first run; the others have the seeds after it."""
    budget: str = "quick"
    """quick: fewer latents, a minute or two a row on two cores; paper: appendix A.3, for a GPU; or seconds a row."""
    limit: float | None = None
    """Seconds after which a training ends, however many steps are left; it becomes part of the budget's name."""
    supervised: bool = True
    """Whether the supervised models of the tables are trained too."""
    dim: int | None = None
    """Number of latents, by default the budget's; it becomes part of the budget's name."""
    batch_size: int | None = None
    """Pairs in a batch, by default the budget's."""
    learning_rate: float | None = None
    """Learning rate of the encoder, by default the budget's."""
    scalar_learning_rate: float | None = None
    """Learning rate of Lambda and of the box's size, by default the budget's."""
    precision: Literal["auto", "float32", "bfloat16"] | None = None
    """Data type of the encoder's hidden layers, by default the budget's; auto is bfloat16 where it is native."""
    device: str = "auto"
    """auto, cpu, cuda, or cuda:N."""
    threads: int = 0
    """Threads on the CPU; 0 leaves the choice to torch."""
    out: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """Folder of the results; by default baselines/results/synthetic/BUDGET."""
    checkpoints: Path = Path("runs/synthetic")
    """Folder of the checkpoints that trainings are resumed from."""
    config: Path | None = None
    """TOML file with options by their names; options given here come before it."""
    json: bool = False
    """Print what was done as JSON."""

    def run(self) -> int:
        """Train what is missing, and print the table."""
        import torch

        from baselines.synthetic import STUDIES, parse_budget, reproduce
        from baselines.training.placement import place

        check_count(self.seeds, "the number of seeds", 1)
        check_count(self.first_seed, "the first seed", 0)
        if self.threads > 0:
            torch.set_num_threads(self.threads)
        study = STUDIES.find(self.study)
        budget = parse_budget(self.budget, learns_precision=study.learns_precision)
        budget = budget if self.limit is None else budget.limited(self.limit)
        budget = budget.adjusted(
            dim=self.dim,
            batch=self.batch_size,
            learning_rate=self.learning_rate,
            scalar_learning_rate=self.scalar_learning_rate,
            hidden_precision=self.precision,
        )
        with place(self.device) as placement:
            reproduction = reproduce(
                study,
                budget,
                self.out or Path(__file__).parents[1] / "results" / "synthetic" / budget.name,
                checkpoints=self.checkpoints,
                seeds=range(self.first_seed, self.first_seed + self.seeds),
                numbers=self.row,
                supervised=self.supervised,
                device=placement.device,
            )
        if self.json:
            write_json(read_file(reproduction.path, "run it again"))
        else:
            sys.stdout.write(reproduction.markdown)
            _LOG.info("the results are in %s", reproduction.path.parent)
        return EXIT_OK
