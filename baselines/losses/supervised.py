"""The supervised loss, which shows what an encoder reaches when it is given the latents."""

from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from baselines.losses.loss import Loss

__all__ = ["SupervisedMSE", "supervised_mse"]


def supervised_mse(embeddings: Float[Tensor, "batch dim"], latents: Float[Tensor, "batch dim"]) -> Float[Tensor, ""]:
    """Return the mean squared error between embeddings and the true latents.

    Args:
        embeddings: (B, d); half precision is computed in float32.
        latents: (B, d) true latents.

    Returns:
        The scalar mean over items and dimensions.

    Raises:
        ValueError: if the shapes differ.

    Reference:
        Zimmermann et al., Contrastive Learning Inverts the Data Generating Process, section 4.1, the supervised model.
    """
    if embeddings.shape != latents.shape:
        raise ValueError(
            f"embeddings and latents must have the same shape, not {tuple(embeddings.shape)} and {tuple(latents.shape)}"
        )
    widest = torch.promote_types(torch.promote_types(embeddings.dtype, latents.dtype), torch.float32)
    return (embeddings.to(widest) - latents.to(widest)).square().mean()


class SupervisedMSE(Loss):
    """:func:`supervised_mse` as a module without parameters."""

    views: ClassVar[int] = 1
    sees_latents: ClassVar[bool] = True
    label: ClassVar[str] = "mean squared error"

    def forward(self, embeddings: Float[Tensor, "batch dim"], latents: Float[Tensor, "batch dim"]) -> Float[Tensor, ""]:
        """Return the loss of a batch."""
        return supervised_mse(embeddings, latents)
