"""Conditionals as text: what command lines take and manifests keep.

The grammar is a small part of Python's, and nothing is evaluated::

    conditional := name | name "(" [value {"," value}] ")"         values by position, or as field=value
    value       := number | "[" number, ... "]" | "{" name ":" number, ... "}"
    product     := "product({" key ":" conditional, ... "})"
    key         := name | "[" column, ... "]"

A name in braces is a factor, a group, or "rest" for all others::

    normal(sigma=0.1)
    normal(sigma=[0.1, 0.1, 0.1, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5])
    normal(sigma={position: 0.1, rest: 0.5})
    product({position: normal(sigma=0.1), hue: laplace(scale=0.5), rest: uniform()})

Names of conditionals may be written as their classes are; ``vmf`` is short for ``von_mises_fisher``.
"""

import ast
from dataclasses import fields
from typing import Any

from ident3d.conditionals.conditional import Conditional
from ident3d.conditionals.exponential import GeneralizedNormal, Laplace, Normal
from ident3d.conditionals.product import Product
from ident3d.conditionals.scales import per_factor
from ident3d.conditionals.sphere import AnisotropicNormal, VonMisesFisher
from ident3d.conditionals.uniform import Uniform
from ident3d.factors import FACTORS, Factors

__all__ = ["parse"]

_CLASSES: tuple[type[Conditional], ...] = (
    Normal,
    Laplace,
    GeneralizedNormal,
    VonMisesFisher,
    AnisotropicNormal,
    Uniform,
)
_SHORT: dict[type[Conditional], tuple[str, ...]] = {VonMisesFisher: ("vmf",)}
_LONGEST = 20_000  # characters; a per-factor list of 1,000 widths fits


def parse(text: str, factors: Factors = FACTORS) -> Conditional:
    """Return the conditional that a text describes; the inverse of ``str`` and of ``repr``.

    Args:
        text: such as ``"normal(sigma=0.1)"``; the grammar stands at the top of this module.
        factors: the factors that names of factors and groups refer to.

    Returns:
        The conditional.

    Raises:
        TypeError: if text is no string.
        ValueError: if it cannot be read, names something unknown, or has numbers that the conditional refuses.
    """
    if not isinstance(text, str):
        raise TypeError(f"a conditional is described by a text, not by {type(text).__name__}")
    if len(text) > _LONGEST:
        raise ValueError(f"a conditional's text has at most {_LONGEST} characters, not {len(text)}")
    try:
        return _conditional(_tree(text.strip()), factors)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        shown = text if len(text) <= 200 else f"{text[:200]}..."
        raise ValueError(f"cannot read the conditional {shown!r}: {error}") from error


def _tree(text: str) -> ast.expr:
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(f"it is not of the form name(field=value, ...); {_known()}") from error


def _conditional(node: ast.expr, factors: Factors) -> Conditional:
    call = ast.Call(func=node, args=[], keywords=[]) if isinstance(node, ast.Name) else node
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
        name = call.func.id.lower().replace("_", "")
        if name == "product":
            return _product(call, factors)
        for kind in _CLASSES:
            if name in {kind.name.replace("_", ""), *_SHORT.get(kind, ())}:
                return kind(**_arguments(kind, call, factors))
    raise ValueError(f"there is no conditional {_source(node)}; {_known()}")


def _arguments(kind: type[Conditional], call: ast.Call, factors: Factors) -> dict[str, Any]:
    names = _fields(kind)
    if len(call.args) > len(names):
        raise ValueError(f"{_signature(kind)} takes {len(names)} numbers or lists, not {len(call.args)}")
    given = list(zip(names, call.args, strict=False))
    given += [(keyword.arg or "**", keyword.value) for keyword in call.keywords]
    arguments: dict[str, Any] = {}
    for name, node in given:
        if name not in names or name in arguments:
            raise ValueError(f"{_signature(kind)} does not take {name}{' twice' if name in arguments else ''}")
        arguments[name] = _value(node, name, factors)
    missing = [name for name in names if name not in arguments]
    if missing:
        raise ValueError(f"{_signature(kind)} needs {', '.join(missing)}")
    return arguments


def _product(call: ast.Call, factors: Factors) -> Product:
    if len(call.args) != 1 or call.keywords or not isinstance(call.args[0], ast.Dict):
        raise ValueError("a product is written product({position: normal(sigma=0.1), rest: uniform()})")
    keys, values = call.args[0].keys, call.args[0].values
    parts = [(_key(key), _conditional(value, factors)) for key, value in zip(keys, values, strict=True)]
    return Product(parts, factors)  # type: ignore[arg-type]  # names and columns are told apart there


def _key(node: ast.expr | None) -> str | tuple[int, ...]:
    if isinstance(node, ast.List | ast.Tuple):
        columns = [item.value for item in node.elts if isinstance(item, ast.Constant) and type(item.value) is int]
        if len(columns) == len(node.elts):
            return tuple(columns)
    return _name(node)


def _name(node: ast.expr | None) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    raise ValueError(f"expected the name of a factor or group, found {_source(node)}")


def _value(node: ast.expr, name: str, factors: Factors) -> Any:
    if isinstance(node, ast.List | ast.Tuple):
        return tuple(_number(item) for item in node.elts)
    if not isinstance(node, ast.Dict):
        return _number(node)
    keys = [_name(key) for key in node.keys]
    if len(set(keys)) != len(keys):
        raise ValueError(f"every name may stand once, not {', '.join(keys)}")
    widths = dict(zip(keys, map(_number, node.values), strict=True))
    return per_factor(widths, name, factors)


def _number(node: ast.expr) -> float:
    sign = 1.0
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        sign, node = -1.0, node.operand
    if isinstance(node, ast.Constant) and type(node.value) in {int, float}:
        return sign * float(node.value)  # type: ignore[arg-type]  # the line above has checked it
    raise ValueError(f"expected a number, found {_source(node)}")


def _source(node: ast.expr | None) -> str:
    return "nothing" if node is None else ast.unparse(node)


def _fields(kind: type[Conditional]) -> list[str]:
    return [field.name for field in fields(kind)]  # type: ignore[arg-type]  # every kind is a dataclass


def _signature(kind: type[Conditional]) -> str:
    return f"{kind.name}({', '.join(_fields(kind))})"


def _known() -> str:
    return f"known are {', '.join(map(_signature, _CLASSES))} and product({{factors: conditional, ...}})"
