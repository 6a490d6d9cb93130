"""What a loss is to whoever trains with it."""

from typing import ClassVar

from jaxtyping import Float
from torch import Tensor, nn

__all__ = ["Loss"]


class Loss(nn.Module):
    """A loss on the embeddings of a batch; every loss that is trained with derives from it.

    A loss is called with the (B, d) embeddings of each of its views, and after them with the (B, k) latents if it sees
    them; it returns a scalar. What it learns itself are its parameters, which get a learning rate of their own.

    A loss takes what it needs by name when it is made. On offer are ``dim`` (d), the recipe's ``temperature``, ``p``,
    ``precision``, ``negatives`` and ``symmetric``, and ``across_processes``; whatever else it takes is given with the
    recipe's ``loss_options``.

    Attributes:
        views: images of an item that are embedded: 2 for a pair, the anchor and its positive; 1 for the anchor alone.
        sees_latents: whether the true latents of the anchors are shown to it.
        label: what it measures, with its unit, as a plot's axis says it.
    """

    views: ClassVar[int] = 2
    sees_latents: ClassVar[bool] = False
    label: ClassVar[str] = "loss in nats"

    @property
    def precision(self) -> Float[Tensor, " dim"] | None:
        """(d,) the diagonal of Lambda, if embeddings are compared by a metric that is learned."""
        return None

    def learned_numbers(self) -> dict[str, float]:
        """Return what the loss learns, by name, for the metrics of a run."""
        precision = self.precision
        return {} if precision is None else {f"precision/{k}": value for k, value in enumerate(precision.tolist())}
