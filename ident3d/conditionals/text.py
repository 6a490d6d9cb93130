"""Conditionals as text: what command lines take and manifests keep.

The grammar is a small part of Python's, and nothing is evaluated::

    conditional := name | name "(" [value {"," value}] ")"         values by position, or as field=value
    name        := a name in CONDITIONALS | package.module:Class
    value       := number | "[" number, ... "]" | "{" factors ":" number, ... "}" | "{" key ":" conditional, ... "}"
    key         := factors | "[" column, ... "]"
    factors     := the name of a factor or a group, or "rest" for all others

    normal(sigma=0.1)
    normal(sigma=[0.1, 0.1, 0.1, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5])
    normal(sigma={position: 0.1, rest: 0.5})
    product({position: normal(sigma=0.1), hue: laplace(scale=0.5), rest: uniform()})
    my_lab.tails:StudentT(df=3, scale=0.2)

Names may be written as classes are, ``VonMisesFisher`` for ``von_mises_fisher``; ``vmf`` is short for it.

A conditional of your own needs no entry: ``package.module:Class`` imports the module and calls the class, which has to
be derived from :class:`~ident3d.conditionals.Conditional`, with the numbers that are written. Nothing else is imported
or called. ``CONDITIONALS.register("student_t", StudentT)`` gives it a shorter name; any function that returns a
conditional can be registered, and one with a parameter ``factors`` gets those that names refer to.
"""

import ast
import inspect
import io
import tokenize
from collections.abc import Callable
from typing import Any, NamedTuple

from ident3d.conditionals.conditional import CONDITIONALS, Conditional, per_factor
from ident3d.errors import NotLoadedError
from ident3d.factors import FACTORS, Factors

__all__ = ["parse"]

_LONGEST = 20_000  # characters; a list of 1,000 scales, one per factor, fits

Builder = Callable[..., Conditional]


class _Reading(NamedTuple):
    factors: Factors
    may_import: bool


def parse(text: str, factors: Factors = FACTORS, *, may_import: bool = True) -> Conditional:
    """Return the conditional that a text describes; the inverse of ``str``.

    Args:
        text: such as ``"normal(sigma=0.1)"`` or ``"my_lab.tails:StudentT(df=3, scale=0.2)"``; the grammar is
            in the docstring of this module.
        factors: the factors that names of factors and groups refer to.
        may_import: whether the module of a ``package.module:Class`` may be imported. Give False for a text from a file
            that somebody else may have written, such as a manifest: it is to run no code.

    Returns:
        The conditional.

    Raises:
        TypeError: if text is not a string.
        ValueError: if it cannot be read, names something unknown, or has numbers that the conditional refuses.
        NotLoadedError: if it names something that is neither registered nor in a module that is imported already, and
            ``may_import`` is False.
    """
    if not isinstance(text, str):
        raise TypeError(f"a conditional is described by a string, not by {type(text).__name__}")
    if len(text) > _LONGEST:
        raise ValueError(f"a conditional's text has at most {_LONGEST} characters, not {len(text)}")
    try:
        return _conditional(_tree(text.strip()), _Reading(factors, may_import))
    except NotLoadedError:
        raise
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        shown = text if len(text) <= 200 else f"{text[:200]}..."
        raise ValueError(f"cannot read the conditional {shown!r}: {error}") from error


def _tree(text: str) -> ast.expr:
    try:
        if "@" in text:
            raise SyntaxError  # noqa: TRY301 - as any other sign that has no meaning here
        return ast.parse(_with_operators(text), mode="eval").body
    except (SyntaxError, tokenize.TokenError, RecursionError, MemoryError) as error:
        raise ValueError(f"it is not of the form name(field=value, ...); {_choices()}") from error


def _with_operators(text: str) -> str:
    """Replace the colon of every ``package.module:Class`` by @, an operator of Python, which a colon is not.

    Within braces, the first colon of an item separates its key from its value.
    """
    lines = text.splitlines(keepends=True)
    open_brackets: list[str] = []  # "{" until the key of an item has been read, then ":"
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.OP:
            continue
        if token.string in "([{":
            open_brackets.append(token.string)
        elif token.string in ")]}" and open_brackets:
            open_brackets.pop()
        elif token.string == "," and open_brackets[-1:] == [":"]:
            open_brackets[-1] = "{"
        elif token.string == ":" and open_brackets[-1:] == ["{"]:
            open_brackets[-1] = ":"
        elif token.string == ":":
            line, column = token.start
            lines[line - 1] = f"{lines[line - 1][:column]}@{lines[line - 1][column + 1 :]}"
    return "".join(lines)


def _conditional(node: ast.expr, reading: _Reading) -> Conditional:
    of_module = isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult)
    call = node.right if isinstance(node, ast.BinOp) and of_module else node
    target = call.func if isinstance(call, ast.Call) else call
    if isinstance(node, ast.BinOp) and of_module:
        name = f"{_dotted(node.left)}:{_dotted(target)}"
        builder = _of_module(name, reading)
    elif isinstance(target, ast.Name):
        name = _entry(target.id)
        builder = CONDITIONALS.find(name, may_import=reading.may_import)
    else:
        raise ValueError(f"expected a conditional, found {_source(node)}; {_choices()}")
    made = builder(**_arguments(name, builder, call, reading))
    if not isinstance(made, Conditional):
        raise TypeError(f"{name} makes {made!r}, which is not a conditional")
    return made


def _entry(name: str) -> str:
    """Return the registered name that a name means, whether it is written as a function or as a class."""
    squeezed = _squeezed(name)
    return next((entry for entry in CONDITIONALS if _squeezed(entry) == squeezed), name)


def _squeezed(name: str) -> str:
    return name.lower().replace("_", "")


def _of_module(name: str, reading: _Reading) -> Builder:
    found = CONDITIONALS.find(name, may_import=reading.may_import)
    # Whatever else a text names is not called: it may come from a dataset that somebody else made.
    if not (isinstance(found, type) and issubclass(found, Conditional)):
        raise ValueError(f"{name} is not a class derived from ident3d.Conditional")  # noqa: TRY004 - the text is wrong
    return found


def _arguments(name: str, builder: Builder, node: ast.expr, reading: _Reading) -> dict[str, Any]:
    """Return what a builder is to be called with."""
    fields = _fields(builder)
    signature = f"{name}({', '.join(fields)})"
    positional = node.args if isinstance(node, ast.Call) else []
    keywords = node.keywords if isinstance(node, ast.Call) else []
    if len(positional) > len(fields):
        raise ValueError(
            f"{signature} takes {len(fields)} value{'' if len(fields) == 1 else 's'}, not {len(positional)}"
        )
    given = list(zip(fields, positional, strict=False))
    given += [(keyword.arg or "**", keyword.value) for keyword in keywords]
    arguments: dict[str, Any] = {}
    for field, value in given:
        if field not in fields or field in arguments:
            raise ValueError(f"{signature} does not take {field}{' twice' if field in arguments else ''}")
        arguments[field] = _value(value, field, reading)
    missing = [field for field, has_default in fields.items() if not has_default and field not in arguments]
    if missing:
        raise ValueError(f"{signature} needs {', '.join(missing)}")
    return arguments | ({_FACTORS: reading.factors} if _FACTORS in inspect.signature(builder).parameters else {})


_FACTORS = "factors"


def _fields(builder: Builder) -> dict[str, bool]:
    """Return the parameters that a text may give, and whether each has a default."""
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = inspect.signature(builder).parameters.values()
    return {p.name: p.default is not p.empty for p in parameters if p.kind in named and p.name != _FACTORS}


def _value(node: ast.expr, field: str, reading: _Reading) -> Any:
    if isinstance(node, ast.List | ast.Tuple):
        return tuple(_number(item) for item in node.elts)
    if not isinstance(node, ast.Dict):
        return _number(node, "a number, [number, ...] or {name: ..., ...}")
    if not any(isinstance(value, ast.Name | ast.Call | ast.BinOp) for value in node.values):
        names = [_name(key) for key in node.keys]
        if len(set(names)) != len(names):
            raise ValueError(f"every name may occur once, not {', '.join(names)}")
        return per_factor(dict(zip(names, map(_number, node.values), strict=True)), field, reading.factors)
    keys = [_key(key) for key in node.keys]
    return list(zip(keys, (_conditional(value, reading) for value in node.values), strict=True))


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


def _number(node: ast.expr, expected: str = "a number") -> float:
    sign = 1
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        sign, node = -1, node.operand
    if isinstance(node, ast.Constant) and type(node.value) in {int, float}:
        number: float = node.value  # type: ignore[assignment]  # the line above has checked it
        return sign * number
    raise ValueError(f"expected {expected}, found {_source(node)}")


def _dotted(node: ast.expr) -> str:
    """Return the dotted name that a node is."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    raise ValueError(f"expected package.module:Class, found {_source(node)}")


def _source(node: ast.expr | None) -> str:
    return "nothing" if node is None else ast.unparse(node).replace(" @ ", ":")


def _choices() -> str:
    known = (f"{name}({', '.join(_fields(builder))})" for name, builder in CONDITIONALS.items())
    return f"choose from {', '.join(known)}, or name a class of your own as package.module:Class(...)"
