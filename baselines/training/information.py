"""Mutual information between two views: how much of it an encoder keeps, on pairs like those that it was trained on."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from baselines.pairs import find_source, matching_index
from baselines.training.conditional import pair_conditional
from baselines.training.placement import place
from baselines.training.run import Run
from ident3d import Box, ThreeDIdent, true_mutual_information
from ident3d.conditionals import parse
from ident3d.embedding import embed
from ident3d.errors import DatasetError
from ident3d.metrics import Information, information
from ident3d.randomness import torch_generator

if TYPE_CHECKING:
    from baselines.recipes import Recipe
    from ident3d.conditionals import Conditional

__all__ = ["KeptInformation", "kept_information", "run_information"]


@dataclass(frozen=True)
class KeptInformation:
    """Mutual information between the embeddings of two views, and between their latents, in nats.

    Attributes:
        conditional: the conditional of the positives, as text.
        images: number of images; each is the anchor of one pair.
        is_matched: whether positives are the nearest stored images to a draw, not images rendered for their anchor.
        embeddings: the estimate for the embeddings. Its ``true`` is the information that uniform latents share with
            draws from the conditional; None if the latents of the dataset are clearly not uniform and independent.
        latents: the same estimate for the latents of the same pairs, which a perfect encoder would reach.
    """

    conditional: str
    images: int
    is_matched: bool
    embeddings: Information
    latents: Information

    @property
    def matching_cap(self) -> float | None:
        """The logarithm of ``images``, the most that matched pairs can share; None for rendered pairs."""
        return math.log(self.images) if self.is_matched else None

    @property
    def share_of_latents(self) -> float | None:
        """The estimate for the embeddings over that for the latents; None if the latter is not positive."""
        return self.embeddings.estimate / self.latents.estimate if self.latents.estimate > 0 else None

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as plain data."""
        return {
            "conditional": self.conditional,
            "pairs": "matched" if self.is_matched else "rendered",
            "images": self.images,
            "estimate": self.embeddings.estimate,
            "estimate_of_latents": self.latents.estimate,
            "items": self.embeddings.items,
            "cap": self.embeddings.cap,
            "matching_cap": self.matching_cap,
            "true": self.embeddings.true,
            "share_of_true": self.embeddings.share,
            "share_of_latents": self.share_of_latents,
        }

    def table(self) -> str:
        """Return the numbers as text for a terminal."""
        found = self.embeddings
        how = f"matched among {self.images:,} images" if self.is_matched else "rendered as pairs"
        lines = [
            f"{self.images:,} pairs, {self.conditional}, {how}; in nats",
            f"{found.estimate:8.4f}  embeddings of the two views, InfoNCE estimate",
            f"{self.latents.estimate:8.4f}  latents of the same pairs, same estimate",
            f"{found.cap:8.4f}  ln {found.items:,}: the most that the estimate can be",
        ]
        if self.matching_cap is not None:
            lines.append(f"{self.matching_cap:8.4f}  ln {self.images:,}: the most that matched pairs can share")
        if found.true is not None and found.share is not None:
            lines.append(f"{found.true:8.4f}  latents, true, for draws from the conditional")
            lines.append(f"{found.share:8.1%}  of the true information kept")
        if self.share_of_latents is not None:
            lines.append(f"{self.share_of_latents:8.1%}  of the latents' estimate kept")
        return "\n".join(lines)


def kept_information(
    encoder: Callable[[Tensor], Tensor],
    data: ThreeDIdent,
    conditional: Conditional,
    device: torch.device,
    *,
    is_matched: bool,
    in_own_metric: bool = False,
    seed: int = 0,
    items: int = 4096,
) -> KeptInformation:
    """Estimate the mutual information between an encoder's embeddings of the two views of a pair.

    Every image is the anchor of one pair. The critic of the estimate is fitted on half of the pairs, and the other half
    is scored; see :func:`ident3d.metrics.information`.

    Args:
        encoder: maps (B, 3, H, W) float RGB in [0, 1] to (B, d), in evaluation mode.
        data: the split.
        conditional: the conditional of the positives.
        device: device of the encoder.
        is_matched: whether positives are matched to draws from the conditional, or else the rendered ones.
        in_own_metric: whether matching divides each factor by the conditional's standard deviation in it.
        seed: seed of the draws.
        items: number of items that a positive is told apart from; fewer if the split has fewer.

    Raises:
        ValueError: if the conditional is not defined on the box of the latents or makes pairs independent, or there are
            too few images for the width of the embeddings.
        DatasetError: if rendered pairs are requested of a dataset without them.
    """
    true = _true(conditional, data)
    latents = data.latents
    if is_matched:
        generator = torch_generator(seed, "information/targets")
        targets = conditional.sample(latents, Box(len(data.factors)), generator)
        rows = torch.arange(len(data))
        partners, _ = matching_index(conditional, data, in_own_metric=in_own_metric).match(targets, exclude=rows)
        embeddings = embed(encoder, data, device=device)
        embeddings_pos, latents_pos = embeddings[partners.numpy()], latents[partners]
    else:
        if data.positives is None:
            raise DatasetError(f"{data.root} has no exact positives: give a conditional to match pairs")
        embeddings, latents_pos = embed(encoder, data, device=device), data.positives.latents
        embeddings_pos = embed(encoder, data.positives, device=device)
    return KeptInformation(
        conditional=str(conditional),
        images=len(data),
        is_matched=is_matched,
        embeddings=information(embeddings, embeddings_pos, data.ids, items=items, true=true),
        latents=information(latents, latents_pos, data.ids, items=items, true=true),
    )


def run_information(
    run: Run,
    root: str | Path,
    *,
    split: str = "test",
    conditional: str | None = None,
    items: int = 4096,
    seed: int = 0,
    device: str = "auto",
) -> tuple[int, KeptInformation]:
    """Estimate the information that the encoder of a run's last checkpoint keeps, on pairs like its training pairs.

    Args:
        run: the run.
        root: folder of the dataset, in any layout; "sample" is the one inside the package.
        split: the split that pairs are taken from.
        conditional: match pairs under this conditional, as text, whatever the run was trained on; None for its own.
        items: number of items that a positive is told apart from; fewer if the split has fewer.
        seed: seed of the draws that are matched.
        device: "auto", "cpu", "cuda" or "cuda:N".

    Returns:
        The step of the checkpoint, and the information.

    Raises:
        ValueError: if the run has no pairs with a known conditional and none is given, or :func:`kept_information`
            cannot measure it.
        DatasetError: if the run is on rendered pairs, and the dataset has none.
    """
    if items < 2:
        raise ValueError(f"expected --items of 2 or more, the positive and one other, not {items}")
    recipe = run.recipe()
    data = ThreeDIdent(root, split=split)
    of_pairs = _conditional_of(recipe, data) if conditional is None else parse(conditional, data.factors)
    with place(device) as placement, torch.inference_mode():
        encoder, checkpoint = run.encoder(placement.device)
        found = kept_information(
            encoder,
            data,
            of_pairs,
            placement.device,
            is_matched=conditional is not None or find_source(recipe.pairs).is_matched,
            in_own_metric=recipe.match_in_own_metric,
            seed=seed,
            items=items,
        )
    return checkpoint.step, found


def _conditional_of(recipe: Recipe, data: ThreeDIdent) -> Conditional:
    if not find_source(recipe.pairs).takes_conditional:
        raise ValueError(f"{recipe.name} has no pairs with a known conditional: give --conditional to match some")
    conditional = pair_conditional(recipe, data.factors, data.provenance.pairs)
    if conditional is None:
        raise DatasetError(
            f"{recipe.name} was trained on pairs rendered as pairs, and {data.root} has none whose conditional is "
            "known here: give --conditional to match some"
        )
    return conditional


def _true(conditional: Conditional, data: ThreeDIdent) -> float | None:
    true = true_mutual_information(conditional, Box(len(data.factors)))
    if not true > 0:
        raise ValueError(f"the latents of a pair are independent under {conditional} and share no information")
    return true if _looks_uniform(data.latents) else None


def _looks_uniform(latents: Tensor) -> bool:
    """Return whether the factors look uniform on [-1, 1] and uncorrelated, as far as a sample of this size shows."""
    z = latents.double()
    steps = torch.arange(len(z) + 1, dtype=torch.float64)[:, None] / len(z)
    expected = (z.sort(dim=0).values + 1) / 2
    largest = torch.maximum((expected - steps[:-1]).abs(), (expected - steps[1:]).abs()).max()
    correlations = torch.corrcoef(z.T).reshape(z.shape[1], -1).fill_diagonal_(0)
    # Quantiles of Kolmogorov's and the normal distribution at one in a million: uniform latents hardly ever fail.
    return bool(largest < math.sqrt(math.log(2e6) / (2 * len(z)))) and bool(
        correlations.abs().max() < 5 / math.sqrt(len(z))
    )
