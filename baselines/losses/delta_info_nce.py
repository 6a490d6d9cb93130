"""delta-InfoNCE: InfoNCE with an L^p distance in place of the dot product."""

from typing import Unpack

from jaxtyping import Float
from torch import Tensor

from baselines.losses.contrast import ContrastOptions, contrast, temperature_scale
from baselines.losses.costs import Cost, MinkowskiDistance, MinkowskiPower, SquaredEuclidean
from baselines.losses.loss import Loss

__all__ = ["DeltaInfoNCE", "delta_info_nce"]


def delta_info_nce(
    z: Float[Tensor, "batch dim"],
    z_pos: Float[Tensor, "batch dim"],
    z_neg: Float[Tensor, "negatives dim"] | Float[Tensor, "batch negatives dim"] | None = None,
    p: float = 2,
    temperature: float | Float[Tensor, ""] = 1.0,
    *,
    metric: bool = False,
    **options: Unpack[ContrastOptions],
) -> Float[Tensor, ""] | Float[Tensor, " batch"]:
    r"""delta-InfoNCE: tell an anchor's positive from negatives by an L^p distance.

    $$-\log \frac{e^{-\delta(z, z^{+}) / \tau}}
    {e^{-\delta(z, z^{+}) / \tau} + \sum_{j=1}^{M} e^{-\delta(z, z^{-}_j) / \tau}},
    \qquad \delta(a, b) = \sum_k |a_k - b_k|^p$$

    By default delta is the p-th power sum_k |a_k - b_k|^p, a semi-metric. Then exp(-delta) is proportional to the
    density of a normal conditional for p = 2, and of a Laplace conditional for p = 1. ``metric=True`` takes its p-th
    root, the metric of the paper's definition.

    For p = 2 the powers come from one matrix multiplication; other distances are computed in blocks. No tensor of
    B x B x d numbers exists for any p. On a CUDA device the multiplication follows
    ``torch.set_float32_matmul_precision``: leave it at "highest", because TF32 has too few digits for differences.

    Args:
        z: (B, d) embeddings of the anchors; half precision is computed in float32.
        z_pos: (B, d) embeddings of their positives.
        z_neg: (M, d) negatives shared by all anchors, (B, M, d) negatives of each anchor, or None: the batch's other
            items are the negatives.
        p: exponent of the distance, at least 1.
        temperature: divides delta; a number, or a scalar tensor that is learned.
        metric: whether delta is the L^p metric itself, not its p-th power.
        **options: see :class:`~baselines.losses.contrast.ContrastOptions`.

    Returns:
        The scalar mean loss in nats, or (B,) with ``reduction="none"``.

    Raises:
        ValueError: if shapes do not match, p is below 1, the temperature is not positive, or a batch of one has no
            negatives.
        TypeError: if the embeddings are not floating-point.

    Reference:
        Zimmermann et al., Contrastive Learning Inverts the Data Generating Process, definition 1, eq. 6; semi-metrics
        in appendix A.2.4.
    """
    degree = 1 if metric else p
    return contrast(_cost(p, metric=metric), temperature_scale(temperature, degree), z, z_pos, z_neg, options=options)


class DeltaInfoNCE(Loss):
    """:func:`delta_info_nce` as a module without parameters.

    Args:
        p: exponent of the distance, at least 1.
        temperature: divides delta.
        metric: whether delta is the L^p metric and not its p-th power.
        **options: see :class:`~baselines.losses.contrast.ContrastOptions`.
    """

    def __init__(
        self, p: float = 2, temperature: float = 1.0, *, metric: bool = False, **options: Unpack[ContrastOptions]
    ) -> None:
        super().__init__()
        _cost(p, metric=metric)
        temperature_scale(temperature, 1)
        self.p = p
        self.temperature = temperature
        self.metric = metric
        self.options = options

    def forward(
        self,
        z: Float[Tensor, "batch dim"],
        z_pos: Float[Tensor, "batch dim"],
        z_neg: Float[Tensor, "negatives dim"] | Float[Tensor, "batch negatives dim"] | None = None,
    ) -> Float[Tensor, ""] | Float[Tensor, " batch"]:
        """Return the loss of a batch."""
        return delta_info_nce(z, z_pos, z_neg, self.p, self.temperature, metric=self.metric, **self.options)


def _cost(p: float, *, metric: bool) -> Cost:
    if metric:
        return MinkowskiDistance(p)
    return SquaredEuclidean() if p == 2 else MinkowskiPower(p)
