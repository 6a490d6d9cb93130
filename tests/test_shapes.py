"""The shapes and dtypes in annotations, checked at run time: every annotated public function is called once.

The calls stand in ``tests/shapes/``, a module for each part of the project with a dictionary ``EXAMPLES``: from the
full name of a function or method to what returns its arguments, the instance or the class first for a method. Those
that go by name stand last, in a dictionary.
"""

import dataclasses
import importlib
import inspect
import pkgutil
import re
import typing

import pytest
import torch
from beartype import beartype
from beartype.roar import BeartypeCallHintViolation
from jaxtyping import Float, TypeCheckError, jaxtyped
from torch import Tensor

import baselines
import ident3d
import tests.shapes

_ARRAY = type(Float[Tensor, "batch"])
_WRITTEN = re.compile(r"\b(Shaped|Num|Real|Float|Float32|Float64|Int|Int64|UInt8|Bool|Complex)\[")


def mentions_arrays(hint):
    return isinstance(hint, _ARRAY) or any(mentions_arrays(part) for part in typing.get_args(hint))


def is_annotated(function):
    """Return whether a function's annotations hold shapes; raise NameError where they cannot be looked up."""
    try:
        hints = typing.get_type_hints(function)
    except NameError:
        written = [hint for hint in function.__annotations__.values() if isinstance(hint, str)]
        if any(map(_WRITTEN.search, written)):
            raise
        return False
    return any(map(mentions_arrays, hints.values()))


def functions_of(module):
    """Yield the public functions and methods that a module defines, each with its full name."""
    for name, thing in vars(module).items():
        if name.startswith("_") or getattr(thing, "__module__", None) != module.__name__:
            continue
        if inspect.isfunction(thing):
            yield f"{module.__name__}.{name}", thing
        elif inspect.isclass(thing) and not getattr(thing, "_is_protocol", False):
            for attribute, member in vars(thing).items():
                function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
                is_public = not attribute.startswith("_") or attribute == "__call__"
                if is_public and inspect.isfunction(function) and not inspect.isabstract(function):
                    yield f"{module.__name__}.{name}.{attribute}", function


def annotated():
    """Return every function whose annotations are to be checked, by its full name."""
    found = {}
    for package in (ident3d, baselines):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                found |= functions_of(importlib.import_module(module.name))
    return {
        name: function
        for name, function in found.items()
        if not getattr(function, "__isabstractmethod__", False) and is_annotated(function)
    }


def examples():
    """Return the arguments of every example call, by the full name of the function."""
    modules = [importlib.import_module(f"tests.shapes.{m.name}") for m in pkgutil.iter_modules(tests.shapes.__path__)]
    found = {}
    for module in modules:
        assert not found.keys() & module.EXAMPLES.keys()
        found |= module.EXAMPLES
    return found


FUNCTIONS, EXAMPLES = annotated(), examples()


def test_every_annotated_function_has_an_example_and_every_example_a_function():
    assert sorted(FUNCTIONS) == sorted(EXAMPLES)


@pytest.mark.parametrize("name", sorted(FUNCTIONS.keys() & EXAMPLES.keys()))
def test_shapes_are_as_annotated(name):
    arguments = EXAMPLES[name]()
    by_name = arguments[-1] if arguments and isinstance(arguments[-1], dict) else {}
    by_place = arguments[:-1] if by_name else arguments
    jaxtyped(FUNCTIONS[name], typechecker=beartype)(*by_place, **by_name)


def test_the_test_above_can_fail():
    def keep(z: Float[Tensor, "batch dim"]) -> Float[Tensor, " batch"]:
        return z

    checked = jaxtyped(keep, typechecker=beartype)
    with pytest.raises((TypeCheckError, BeartypeCallHintViolation)):
        checked(torch.zeros(2, 3))
    with pytest.raises((TypeCheckError, BeartypeCallHintViolation)):
        checked(torch.zeros(2))


@dataclasses.dataclass
class _Holder:
    def method(self, z: Float[Tensor, " batch"]) -> Tensor:
        return z


def test_methods_are_found():
    assert is_annotated(_Holder.method)
    assert not is_annotated(test_methods_are_found)
