"""Names of factors and groups, and the columns of a latents tensor that they stand for."""

from collections.abc import Iterable

from ident3d.factors import Factors

__all__ = ["REST", "columns_by_name"]

REST = "rest"
"""The name that stands for every column that no other name covers."""


def columns_by_name(names: Iterable[str], factors: Factors) -> dict[str, tuple[int, ...]]:
    """Give every column of the factors to one name.

    A factor's own name goes before its group's, and its group's before :data:`REST`. So with the names "rotation",
    "rotation_x" and "rest", column rotation_x belongs to "rotation_x", the other rotations to "rotation", and
    everything else to "rest".

    Args:
        names: names of factors, names of groups, or "rest".
        factors: the factors, one a column.

    Returns:
        The columns of each name, in the order of ``names``.

    Raises:
        ValueError: if a name is unknown or stands for no column, or a column has no name.
    """
    columns: dict[str, list[int]] = {name: [] for name in names}
    known = (*factors.names, *factors.groups, REST)
    unknown = [str(name) for name in columns if name not in known]
    if unknown:
        raise ValueError(
            f"no factor or group is called {', '.join(unknown)}; the factors are {', '.join(factors.names)}, "
            f"the groups {', '.join(factors.groups)}, and {REST} stands for all others"
        )
    left_out = []
    for column, factor in enumerate(factors):
        owner = next((name for name in (factor.name, factor.group, REST) if name in columns), None)
        if owner is None:
            left_out.append(factor.name)
        else:
            columns[owner].append(column)
    if left_out:
        raise ValueError(f"nothing is given for {', '.join(left_out)}; name them, their group, or {REST}")
    idle = [name for name, owned in columns.items() if not owned]
    if idle:
        raise ValueError(f"no column is left for {', '.join(idle)}: other names cover them all")
    return {name: tuple(owned) for name, owned in columns.items()}
