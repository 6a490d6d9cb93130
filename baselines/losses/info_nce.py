"""InfoNCE with the dot product, for embeddings on a sphere."""

from typing import Unpack

from jaxtyping import Float
from torch import Tensor

from baselines.losses.contrast import ContrastOptions, contrast, temperature_scale
from baselines.losses.costs import NegativeDot
from baselines.losses.loss import Loss

__all__ = ["InfoNCE", "info_nce"]


def info_nce(
    z: Float[Tensor, "batch dim"],
    z_pos: Float[Tensor, "batch dim"],
    z_neg: Float[Tensor, "negatives dim"] | Float[Tensor, "batch negatives dim"] | None = None,
    temperature: float | Float[Tensor, ""] = 1.0,
    **options: Unpack[ContrastOptions],
) -> Float[Tensor, ""] | Float[Tensor, " batch"]:
    r"""InfoNCE: tell an anchor's positive from negatives by the dot product.

    $$-\log \frac{e^{z \cdot z^{+} / \tau}}{e^{z \cdot z^{+} / \tau} + \sum_{j=1}^{M} e^{z \cdot z^{-}_j / \tau}}$$

    The embeddings are not normalised: an encoder with a spherical output, or ``F.normalize``, puts them on a sphere.

    Args:
        z: (B, d) embeddings of the anchors; half precision is computed in float32.
        z_pos: (B, d) embeddings of their positives.
        z_neg: (M, d) negatives shared by all anchors, (B, M, d) negatives of each anchor, or None: the batch's other
            items are the negatives.
        temperature: divides the dot product; a number, or a scalar tensor that is learned.
        **options: see :class:`~baselines.losses.contrast.ContrastOptions`.

    Returns:
        The scalar mean loss in nats, or (B,) with ``reduction="none"``.

    Raises:
        ValueError: if shapes do not match, the temperature is not positive, or a batch of one has no negatives.
        TypeError: if the embeddings are not floating-point.

    Reference:
        Zimmermann et al., Contrastive Learning Inverts the Data Generating Process, eq. 1.
    """
    return contrast(NegativeDot(), temperature_scale(temperature, 2), z, z_pos, z_neg, options=options)


class InfoNCE(Loss):
    """:func:`info_nce` as a module without parameters.

    Args:
        temperature: divides the dot product.
        **options: see :class:`~baselines.losses.contrast.ContrastOptions`.
    """

    def __init__(self, temperature: float = 1.0, **options: Unpack[ContrastOptions]) -> None:
        super().__init__()
        temperature_scale(temperature, 2)
        self.temperature = temperature
        self.options = options

    def forward(
        self,
        z: Float[Tensor, "batch dim"],
        z_pos: Float[Tensor, "batch dim"],
        z_neg: Float[Tensor, "negatives dim"] | Float[Tensor, "batch negatives dim"] | None = None,
    ) -> Float[Tensor, ""] | Float[Tensor, " batch"]:
        """Return the loss of a batch."""
        return info_nce(z, z_pos, z_neg, self.temperature, **self.options)
