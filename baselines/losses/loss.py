"""The base class of losses."""

from typing import ClassVar

from jaxtyping import Float
from torch import Tensor, nn

__all__ = ["Loss"]


class Loss(nn.Module):
    """A loss of the embeddings of a batch; the base class of all losses that encoders are trained with.

    A loss is called with the (B, d) embeddings of each of its views, followed by the (B, k) latents if it sees them; it
    returns a scalar. Its parameters are learned with a learning rate of their own.

    The constructor is called with those of these arguments that it names: ``dim`` (d), the recipe's ``temperature``,
    ``p``, ``precision``, ``negatives`` and ``symmetric``, and ``across_processes``. All other arguments come from the
    recipe's ``loss_options``.

    Attributes:
        views: images of an item that are embedded: 2 for a pair, the anchor and its positive; 1 for the anchor alone.
        sees_latents: whether it gets the true latents of the anchors.
        label: label of a plot's axis, with the unit.
    """

    views: ClassVar[int] = 2
    sees_latents: ClassVar[bool] = False
    label: ClassVar[str] = "loss in nats"

    @property
    def precision(self) -> Float[Tensor, " dim"] | None:
        """(d,) diagonal of Lambda, if embeddings are compared by a learned metric; else None."""
        return None

    def learned_numbers(self) -> dict[str, float]:
        """Return the learned numbers by name, for the metrics of a run."""
        precision = self.precision
        return {} if precision is None else {f"precision/{k}": value for k, value in enumerate(precision.tolist())}
