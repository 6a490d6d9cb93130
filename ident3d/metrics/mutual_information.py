"""Mutual information between two views, estimated after training: bounds, critics, and fresh critics on held-out pairs.

An estimate has two parts. A bound (:data:`BOUNDS`) says how many nats the scores of a critic account for: scores of K
pairs against each other, positives on the diagonal. A critic (:data:`CRITICS`) gives the scores, a network that is
trained to make the bound large. :func:`estimate_information` trains one on half of the pairs and scores the other half.
No bound is both unbiased and of small variance where the information is large; each says in its docstring which way it
errs. A bound or a critic of your own is a class and an entry.

:func:`ident3d.metrics.information` is the quick estimate: InfoNCE with a quadratic critic, without torch.

Reference:
    Poole et al., On variational bounds of mutual information, ICML 2019; Song and Ermon, Understanding the limitations
    of variational mutual information estimators, ICLR 2020.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from ident3d.arguments import check_count
from ident3d.latents import check_finite
from ident3d.metrics.evaluation import as_ids, as_matrix, hashed_half
from ident3d.randomness import torch_generator
from ident3d.registry import Registry

__all__ = [
    "BOUNDS",
    "CRITICS",
    "MINE",
    "NWJ",
    "SMILE",
    "Critic",
    "DonskerVaradhan",
    "InfoNCEBound",
    "InformationBound",
    "InformationEstimate",
    "JensenShannon",
    "JointCritic",
    "SeparableCritic",
    "estimate_information",
]

_WIDTH = 256
_EMBEDDED = 32
_LEAST_PAIRS = 8


class InformationBound(ABC):
    """A number of nats that the scores of a critic account for, and what the critic is trained to make large."""

    @abstractmethod
    def estimate(self, scores: Float[Tensor, "items items"]) -> Float[Tensor, ""]:
        """Return the estimate in nats.

        Args:
            scores: (K, K), of anchor i (row) and positive j (column); positives of their own anchors on the diagonal.
        """

    def objective(self, scores: Float[Tensor, "items items"]) -> Float[Tensor, ""]:
        """Return what a critic is trained to make large: the estimate, where nothing else is said."""
        return self.estimate(scores)

    def cap(self, items: int) -> float:  # noqa: ARG002 - of the bounds that have one
        """Return the most that the estimate of ``items`` pairs can be."""
        return math.inf


class InfoNCEBound(InformationBound):
    """InfoNCE: ln K minus the cross-entropy of telling the positive from all K. The optimum is f = ln p(v|u) + c(u).

    A lower bound in expectation, of small variance, that cannot exceed ln K: where the information is larger, it says
    about ln K.

    Reference:
        van den Oord et al. (2018); Poole et al. (2019), eq. 10.
    """

    def estimate(self, scores: Float[Tensor, "items items"]) -> Float[Tensor, ""]:
        """Return the estimate in nats."""
        return math.log(len(scores)) + (scores.diagonal() - scores.logsumexp(dim=1)).mean()

    def cap(self, items: int) -> float:
        """Return ln K."""
        return math.log(items)


class NWJ(InformationBound):
    """The bound of Nguyen, Wainwright and Jordan. The optimum is f = 1 + ln p(v|u) / p(v).

    A lower bound in expectation without bias at the optimum, whose variance grows with the exponential of the
    information: beyond a few nats, the mean of few batches is far below the truth, and now and then far above.

    Reference:
        Nguyen et al. (2010); Poole et al. (2019), eq. 6.
    """

    def estimate(self, scores: Float[Tensor, "items items"]) -> Float[Tensor, ""]:
        """Return the estimate in nats."""
        return scores.diagonal().mean() - (_log_mean_exp_of_negatives(scores) - 1).exp()


class DonskerVaradhan(InformationBound):
    """The bound of Donsker and Varadhan. The optimum is f = ln p(v|u) / p(v) + c.

    Tighter than :class:`NWJ` for the same critic. With a sample in place of the expectation, the logarithm errs
    upwards: from few pairs the estimate can exceed the truth, so it is neither an upper nor a lower bound.

    Reference:
        Donsker and Varadhan (1983); Poole et al. (2019), eq. 4.
    """

    def estimate(self, scores: Float[Tensor, "items items"]) -> Float[Tensor, ""]:
        """Return the estimate in nats."""
        return scores.diagonal().mean() - _log_mean_exp_of_negatives(scores)


class MINE(DonskerVaradhan):
    """Donsker-Varadhan, trained with a moving average of the negatives' exponentials in the denominator.

    The gradient of Donsker-Varadhan on a batch is biased, since the logarithm is taken of the batch's own mean; the
    average over batches takes most of that away. The estimate errs as :class:`DonskerVaradhan` does.

    Args:
        decay: the weight of the past in the moving average, in [0, 1).

    Reference:
        Belghazi et al., MINE: mutual information neural estimation, ICML 2018, section 3.2.
    """

    def __init__(self, decay: float = 0.9) -> None:
        if not 0 <= decay < 1:
            raise ValueError(f"the decay of a moving average is in [0, 1), not {decay}")
        self.decay = decay
        self._log_average: Tensor | None = None

    def objective(self, scores: Float[Tensor, "items items"]) -> Float[Tensor, ""]:
        """Return what a critic is trained to make large; its value is not an estimate."""
        log_mean = _log_mean_exp_of_negatives(scores)
        now = log_mean.detach()
        if self._log_average is None:
            self._log_average = now
        else:
            past = self._log_average + math.log(self.decay) if self.decay else torch.full_like(now, -math.inf)
            self._log_average = torch.logaddexp(past, now + math.log1p(-self.decay))
        return scores.diagonal().mean() - (log_mean - self._log_average).exp()


class JensenShannon(InformationBound):
    """Telling pairs from mixed pairs, with :class:`NWJ` as the estimate. The optimum is f = ln p(v|u) / p(v).

    Training is stable, as it involves no exponential; the estimate has the variance of :class:`NWJ`.

    Reference:
        Hjelm et al., Learning deep representations by mutual information estimation and maximization, ICLR 2019;
        Poole et al. (2019), section 2.3.
    """

    def estimate(self, scores: Float[Tensor, "items items"]) -> Float[Tensor, ""]:
        """Return the estimate in nats."""
        return 1 + scores.diagonal().mean() - _log_mean_exp_of_negatives(scores).exp()

    def objective(self, scores: Float[Tensor, "items items"]) -> Float[Tensor, ""]:
        """Return the log-likelihood of telling pairs from mixed pairs."""
        return -F.softplus(-scores.diagonal()).mean() - F.softplus(_negatives(scores)).mean()


class SMILE(JensenShannon):
    """Donsker-Varadhan with the negatives' scores clipped, for a critic trained as that of :class:`JensenShannon`.

    Clipping bounds the variance and makes the estimate err: it can be above the truth or below, and is no bound. It
    tends to Donsker-Varadhan as ``clip`` grows.

    Args:
        clip: the largest absolute score of a negative, in nats; positive.

    Reference:
        Song and Ermon (2020), eq. 18.
    """

    def __init__(self, clip: float = 5.0) -> None:
        if not 0 < clip < math.inf:
            raise ValueError(f"scores are clipped to a positive and finite number of nats, not {clip}")
        self.clip = clip

    def estimate(self, scores: Float[Tensor, "items items"]) -> Float[Tensor, ""]:
        """Return the estimate in nats."""
        return scores.diagonal().mean() - _log_mean_exp_of_negatives(scores.clamp(-self.clip, self.clip))


BOUNDS: Registry[Callable[[], InformationBound]] = Registry(
    "bound",
    {
        "infonce": InfoNCEBound,
        "nwj": NWJ,
        "js": JensenShannon,
        "dv": DonskerVaradhan,
        "mine": MINE,
        "smile": SMILE,
    },
)
"""The bounds by name; an entry makes one."""


def _negatives(scores: Tensor) -> Tensor:
    """Return the K (K - 1) scores beside the diagonal."""
    items = len(scores)
    return scores.flatten()[:-1].view(items - 1, items + 1)[:, 1:].flatten()


def _log_mean_exp_of_negatives(scores: Tensor) -> Tensor:
    negatives = _negatives(scores)
    return negatives.logsumexp(dim=0) - math.log(len(negatives))


class Critic(nn.Module, ABC):
    """Scores of all pairs of K anchors and K positives; the constructor is called with both widths and a generator."""

    @abstractmethod
    def forward(self, u: Float[Tensor, "items dim"], v: Float[Tensor, "items dim_pos"]) -> Float[Tensor, "items items"]:
        """Return the scores of anchors (rows) and positives (columns)."""


class SeparableCritic(Critic):
    """f(u, v) = g(u) . h(v), with two networks of two hidden layers of 256: K evaluations for K^2 scores.

    Args:
        dim: width of the anchors' embeddings.
        dim_pos: width of the positives' embeddings.
        generator: source of the initial weights.

    Reference:
        van den Oord et al. (2018); Poole et al. (2019), section 2.
    """

    def __init__(self, dim: int, dim_pos: int, generator: torch.Generator) -> None:
        super().__init__()
        self.anchors = _network(dim, _EMBEDDED, generator)
        self.positives = _network(dim_pos, _EMBEDDED, generator)

    def forward(self, u: Float[Tensor, "items dim"], v: Float[Tensor, "items dim_pos"]) -> Float[Tensor, "items items"]:
        """Return the scores of anchors (rows) and positives (columns)."""
        scores: Tensor = self.anchors(u) @ self.positives(v).T
        return scores


class JointCritic(Critic):
    """f(u, v) of both together, one network of two hidden layers of 256: more general, at K^2 evaluations.

    Args:
        dim: width of the anchors' embeddings.
        dim_pos: width of the positives' embeddings.
        generator: source of the initial weights.

    Reference:
        Belghazi et al. (2018); Poole et al. (2019), section 2.
    """

    def __init__(self, dim: int, dim_pos: int, generator: torch.Generator) -> None:
        super().__init__()
        # The first layer of both together is the sum of one of each: K evaluations of it, and not K^2.
        self.of_anchors, self.of_positives = (_linear(width, _WIDTH, generator) for width in (dim, dim_pos))
        self.rest = nn.Sequential(
            nn.ReLU(), _linear(_WIDTH, _WIDTH, generator), nn.ReLU(), _linear(_WIDTH, 1, generator)
        )

    def forward(self, u: Float[Tensor, "items dim"], v: Float[Tensor, "items dim_pos"]) -> Float[Tensor, "items items"]:
        """Return the scores of anchors (rows) and positives (columns)."""
        hidden = self.of_anchors(u)[:, None] + self.of_positives(v)[None]
        scores: Tensor = self.rest(hidden)[..., 0]
        return scores


CRITICS: Registry[Callable[[int, int, torch.Generator], Critic]] = Registry(
    "critic", {"separable": SeparableCritic, "joint": JointCritic}
)
"""The critics by name; an entry makes one for two widths, with initial weights from a generator."""


def _linear(width: int, outputs: int, generator: torch.Generator) -> nn.Linear:
    layer = nn.Linear(width, outputs, dtype=torch.float32, device="cpu")
    bound = 1 / math.sqrt(width)  # torch's own initialisation, from the generator
    with torch.no_grad():
        layer.weight.uniform_(-bound, bound, generator=generator)
        layer.bias.uniform_(-bound, bound, generator=generator)
    return layer


def _network(width: int, outputs: int, generator: torch.Generator) -> nn.Sequential:
    first, second = _linear(width, _WIDTH, generator), _linear(_WIDTH, _WIDTH, generator)
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), _linear(_WIDTH, outputs, generator))


@dataclass(frozen=True)
class InformationEstimate:
    """An estimate of mutual information, in nats.

    Attributes:
        bound: name of the bound.
        critic: name of the critic.
        values: one estimate for each critic that was trained.
        items: number of pairs that were scored against each other at once.
        cap: the most that the estimate can be; infinite where there is no such number.
        true: the true mutual information; None where none was given.
    """

    bound: str
    critic: str
    values: tuple[float, ...]
    items: int
    cap: float
    true: float | None = None

    @property
    def estimate(self) -> float:
        """The mean over critics."""
        return float(np.mean(self.values))

    @property
    def std(self) -> float | None:
        """The standard deviation between critics; None of a single one."""
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else None

    def __str__(self) -> str:
        spread = "" if self.std is None else f" ± {self.std:.3f}"
        cap = "" if math.isinf(self.cap) else f", at most {self.cap:.3f}"
        true = "" if self.true is None else f"; true: {self.true:.3f}"
        return f"{self.estimate:.3f}{spread} nats ({self.bound}, {self.critic} critic{cap}{true})"

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as plain data; a cap that is infinite is null."""
        return {
            "bound": self.bound,
            "critic": self.critic,
            "estimate": self.estimate,
            "std": self.std,
            "values": list(self.values),
            "items": self.items,
            "cap": None if math.isinf(self.cap) else self.cap,
            "true": self.true,
        }


def estimate_information(
    embeddings: Any,
    embeddings_pos: Any,
    ids: Any = None,
    *,
    bound: str = "infonce",
    critic: str = "separable",
    items: int = 128,
    steps: int = 2000,
    learning_rate: float = 5e-4,
    critics: int = 1,
    seed: int = 0,
    true: float | None = None,
    device: torch.device | str = "cpu",
) -> InformationEstimate:
    """Estimate the mutual information between the embeddings of two views, from pairs, with fresh critics.

    Critics are trained on half of the pairs, and the estimate is the mean over the batches of the other half, which no
    critic has seen: memorised pairs count for nothing. Embeddings are standardised first.

    Args:
        embeddings: (N, d) embeddings of the anchors.
        embeddings_pos: (N, d) embeddings of the positives; the width may differ.
        ids: (N,) integers, one per pair, that decide the halves; the row numbers where None.
        bound: a name of :data:`BOUNDS`, or ``package.module:Class``.
        critic: a name of :data:`CRITICS`, or ``package.module:Class``.
        items: number of pairs that are scored against each other, K; fewer where a half has fewer.
        steps: steps of Adam for each critic.
        learning_rate: learning rate of Adam.
        critics: number of critics, whose spread is part of the estimate.
        seed: seed of weights and batches.
        true: the true mutual information in nats, to stand beside the estimate.
        device: where critics are trained.

    Returns:
        The estimate in nats.

    Raises:
        ValueError: if shapes disagree, a value is NaN or infinite, a name is unknown, a count is too small, or there
            are fewer than 8 pairs in a half.
        TypeError: if an array is not numeric, or ids or counts are not integers.

    Reference:
        Poole et al. (2019); Song and Ermon (2020).
    """
    make_bound, make_critic = BOUNDS.find(bound), CRITICS.find(critic)
    for what, count, least in (("items", items, 2), ("steps", steps, 1), ("critics", critics, 1)):
        check_count(count, what, least)
    if not 0 < learning_rate < math.inf:
        raise ValueError(f"a learning rate is positive and finite, not {learning_rate}")
    if true is not None and not 0 <= true < math.inf:
        raise ValueError(f"the true information is 0 or larger and finite, not {true}")
    fitted, scored = _halves(embeddings, embeddings_pos, ids, torch.device(device))
    training = _Training(min(items, len(fitted.u)), steps, learning_rate)
    items = min(items, len(scored.u))
    values = []
    for number in range(critics):
        of_scores = make_bound()
        generator = torch_generator(seed, "information/critic", number)
        network = make_critic(fitted.u.shape[1], fitted.v.shape[1], generator).to(fitted.u.device)
        training.fit(network, of_scores, fitted, generator)
        values.append(_mean_estimate(network, of_scores, scored, items))
    return InformationEstimate(bound, critic, tuple(values), items, make_bound().cap(items), true)


@dataclass(frozen=True)
class _Pairs:
    """Standardised float32 embeddings of N pairs: (N, d) anchors and (N, d) positives."""

    u: Tensor
    v: Tensor


@dataclass(frozen=True)
class _Training:
    """How a critic is trained."""

    items: int
    steps: int
    learning_rate: float

    def fit(self, critic: Critic, bound: InformationBound, pairs: _Pairs, generator: torch.Generator) -> None:
        """Train a critic on batches of pairs, each pair as often as any other."""
        optimiser = torch.optim.Adam(critic.parameters(), lr=self.learning_rate)
        order, place = self._shuffled(pairs, generator), 0
        for _ in range(self.steps):
            if place + self.items > len(order):
                order, place = self._shuffled(pairs, generator), 0
            rows = order[place : place + self.items].to(pairs.u.device)
            place += self.items
            optimiser.zero_grad()
            loss = -bound.objective(critic(pairs.u[rows], pairs.v[rows]))
            loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
            optimiser.step()

    @staticmethod
    def _shuffled(pairs: _Pairs, generator: torch.Generator) -> Tensor:
        return torch.randperm(len(pairs.u), dtype=torch.int64, device="cpu", generator=generator)


def _halves(embeddings: Any, embeddings_pos: Any, ids: Any, device: torch.device) -> tuple[_Pairs, _Pairs]:
    """Return the pairs that critics are trained on, and those that they are scored on."""
    u, v = as_matrix(embeddings, "embeddings"), as_matrix(embeddings_pos, "embeddings_pos")
    if len(u) != len(v):
        raise ValueError(f"expected two arrays (N, d) of as many rows, got shapes {u.shape} and {v.shape}")
    check_finite(u, "embeddings")
    check_finite(v, "embeddings_pos")
    keys = as_ids(ids, len(u))
    order = np.argsort(keys, kind="stable")
    is_fitted = hashed_half(keys[order])
    if min(is_fitted.sum(), (~is_fitted).sum()) < _LEAST_PAIRS:
        raise ValueError(f"too few pairs: {len(u)}, which leave fewer than {_LEAST_PAIRS} in a half")
    views = []
    for x in (u[order].astype(np.float64), v[order].astype(np.float64)):
        centred = x - x[is_fitted].mean(axis=0)
        scale = centred[is_fitted].std(axis=0)
        views.append(torch.from_numpy((centred / np.where(scale > 0, scale, 1)).astype(np.float32)).to(device))
    rows = [torch.from_numpy(np.flatnonzero(mask)).to(device) for mask in (is_fitted, ~is_fitted)]
    fitted, scored = (_Pairs(views[0][half], views[1][half]) for half in rows)
    return fitted, scored


@torch.no_grad()
def _mean_estimate(critic: Critic, bound: InformationBound, pairs: _Pairs, items: int) -> float:
    starts = range(0, len(pairs.u) - items + 1, items)
    blocks = [slice(start, start + items) for start in starts]
    estimates = [bound.estimate(critic(pairs.u[block], pairs.v[block]).double()) for block in blocks]
    return float(torch.stack(estimates).mean())
