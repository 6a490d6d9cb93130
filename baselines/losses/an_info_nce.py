"""AnInfoNCE: InfoNCE for conditionals whose scale differs between factors."""

from collections.abc import Sequence
from typing import Unpack

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from baselines.losses.contrast import ContrastOptions, contrast
from baselines.losses.costs import SquaredEuclidean
from baselines.losses.loss import Loss
from ident3d.device import send

__all__ = ["AnInfoNCE", "an_info_nce"]

_SMALLEST_PRECISION = 1e-8  # keeps the gradient finite where softplus underflows


def an_info_nce(
    z: Float[Tensor, "batch dim"],
    z_pos: Float[Tensor, "batch dim"],
    z_neg: Float[Tensor, "negatives dim"] | Float[Tensor, "batch negatives dim"] | None = None,
    precision: Float[Tensor, ""] | Float[Tensor, " dim"] | Sequence[float] | float = 1.0,
    **options: Unpack[ContrastOptions],
) -> Float[Tensor, ""] | Float[Tensor, " batch"]:
    r"""AnInfoNCE: tell an anchor's positive from negatives by a distance with a learned diagonal metric.

    $$-\log \frac{e^{-c(z, z^{+})}}{e^{-c(z, z^{+})} + \sum_{j=1}^{M} e^{-c(z, z^{-}_j)}},
    \qquad c(a, b) = \sum_k \Lambda_k (a_k - b_k)^2$$

    The cost of a pair is (a - b)^T Lambda (a - b) with a diagonal Lambda, without a factor 1/2: Lambda here is half of
    what the authors' code calls Lambda.

    Args:
        z: (B, d) embeddings of the anchors; half precision is computed in float32.
        z_pos: (B, d) embeddings of their positives.
        z_neg: (M, d) negatives shared by all anchors, (B, M, d) negatives of each anchor, or None: the batch's other
            items are the negatives.
        precision: (d,) positive diagonal of Lambda, or one number for all of it.
        **options: see :class:`~baselines.losses.contrast.ContrastOptions`.

    Returns:
        The scalar mean loss in nats, or (B,) with ``reduction="none"``.

    Raises:
        ValueError: if shapes do not fit, a constant precision is not positive, or a batch of one has no negatives.
        TypeError: if the embeddings are not floating-point.

    Reference:
        Rusak et al., InfoNCE: Identifying the Gap Between Theory and Practice, the loss of AnInfoNCE.
    """
    widest = torch.promote_types(z.dtype, torch.float32)
    diagonal = torch.as_tensor(precision, dtype=widest)
    if diagonal.ndim > 0 and diagonal.shape != z.shape[-1:]:
        raise ValueError(f"precision must be one number or ({z.shape[-1]},), not {tuple(diagonal.shape)}")
    # The caller keeps a learned precision positive: reading it here would make the host wait for the GPU.
    if not diagonal.requires_grad and not bool(((diagonal > 0) & diagonal.isfinite()).all()):
        raise ValueError(f"expected a positive, finite precision, not {diagonal.tolist()}")
    scale = send(diagonal.sqrt(), z.device)
    return contrast(SquaredEuclidean(), scale, z, z_pos, z_neg, options=options)


class AnInfoNCE(Loss):
    """:func:`an_info_nce` with a trainable Lambda.

    Lambda is the softplus of an unconstrained parameter, so it stays positive and is part of the state dict. Adam
    changes that parameter by about one learning rate per step, so it usually needs a larger one than the encoder, in a
    parameter group of its own.

    Args:
        dim: dimension d of the embeddings.
        precision: initial diagonal of Lambda; one positive number, or d of them.
        isotropic: whether Lambda is one learned number for all dimensions: InfoNCE with a learned temperature, because
            on a sphere of radius r the squared distance is 2 r^2 less twice the dot product.
        **options: see :class:`~baselines.losses.contrast.ContrastOptions`.
    """

    def __init__(
        self,
        dim: int,
        precision: float | Sequence[float] = 1.0,
        *,
        isotropic: bool = False,
        **options: Unpack[ContrastOptions],
    ) -> None:
        super().__init__()
        initial = torch.as_tensor(precision, dtype=torch.float64).expand(dim)
        if not bool(((initial > 0) & initial.isfinite()).all()):
            raise ValueError(f"expected a positive, finite precision, not {precision}")
        if isotropic:
            if bool((initial != initial[0]).any()):
                raise ValueError(f"an isotropic Lambda has one precision for all dimensions, not {precision}")
            initial = initial[:1]
        self.dim = dim
        # The inverse of softplus, log(exp(x) - 1), without overflow.
        self.raw_precision = nn.Parameter((initial + torch.log(-torch.expm1(-initial))).float())
        self.options = options

    @property
    def precision(self) -> Float[Tensor, " dim"]:
        """(d,) the diagonal of Lambda, differentiable."""
        return F.softplus(self.raw_precision).clamp_min(_SMALLEST_PRECISION).expand(self.dim)

    def forward(
        self,
        z: Float[Tensor, "batch dim"],
        z_pos: Float[Tensor, "batch dim"],
        z_neg: Float[Tensor, "negatives dim"] | Float[Tensor, "batch negatives dim"] | None = None,
    ) -> Float[Tensor, ""] | Float[Tensor, " batch"]:
        """Return the loss of a batch."""
        return an_info_nce(z, z_pos, z_neg, self.precision, **self.options)
