"""The true mutual information of a positive pair's latents, which bounds what two encoders' embeddings can share.

An InfoNCE estimate with K items never exceeds ln K, and pairs matched among N stored images carry at most ln N, so
report an estimate beside its cap and beside the truth.
"""

from ident3d.conditionals.conditional import Conditional, check_conditional
from ident3d.spaces import Box, Space, Sphere

__all__ = ["mutual_information_per_factor", "true_mutual_information"]


def true_mutual_information(conditional: Conditional, space: Space) -> float:
    """Return the mutual information of z and z_pos in nats, for anchors z that are uniform on the space.

    On a box the factors are independent and the information of each adds up, computed by quadrature. On a sphere it is
    known for :class:`~ident3d.VonMisesFisher`, for :class:`~ident3d.Normal` with one sigma, and for
    :class:`~ident3d.AnisotropicNormal` up to 0.001 nats; a conditional of your own may bring its own
    :meth:`~ident3d.Conditional.mutual_information`.

    Example:
        >>> import ident3d
        >>> round(ident3d.true_mutual_information(ident3d.Normal(0.1), ident3d.Box(1)), 2)  # in nats
        1.65

    Args:
        conditional: the distribution of the positive.
        space: a box or a sphere.

    Returns:
        Nats, 0 or larger.

    Raises:
        ValueError: if the conditional is not defined on the space, no distribution is uniform there, or the mutual
            information of this conditional is not known there.
    """
    check_conditional(conditional)
    conditional.check(space)
    if not isinstance(space, Box | Sphere):
        raise ValueError(f"anchors cannot be uniform on {space}; use a Box or a Sphere")  # noqa: TRY004 - it is a Space
    return conditional.mutual_information(space)


def mutual_information_per_factor(conditional: Conditional, space: Box) -> tuple[float, ...]:
    """Return the mutual information of each factor's z and z_pos in nats, for anchors that are uniform on a box.

    The positives' marginal is not uniform near the walls, which is taken into account.

    Args:
        conditional: the distribution of the positive.
        space: a box, on which factors are independent.

    Returns:
        One number per factor, in the order of the columns.

    Raises:
        ValueError: if the space is not a box, or the conditional does not fit it.
    """
    check_conditional(conditional)
    if not isinstance(space, Box):
        raise ValueError(f"factors are independent on a Box only, not on {space}")  # noqa: TRY004 - it is a Space
    return tuple(law.information(space.width) for law in conditional.coordinates(space))
