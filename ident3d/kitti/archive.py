"""Reading the published archive of KITTI Masks, a pickle, without running anything of it.

Unpickling calls whatever the file names. Here the file is read twice: first its operations alone, of which only those
are allowed that build numbers, text, bytes, lists, tuples, dicts and arrays; then its values, where every name that an
array is made of stands for a record of shape, type and bytes. NumPy sees bytes only after they are known to fill the
shape.
"""

import math
import pickle
import pickletools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from ident3d.errors import DatasetError
from ident3d.files import open_regular

__all__ = ["MASK_SIZE", "Pedestrian", "read_archive"]

MASK_SIZE = 64
"""Height and width of a mask, in pixels."""

_MASKS, _LATENTS = "pedestrians", "pedestrians_latents"
_LATENT_COUNT = 3
_REMEDY = "fetch it again"
_ALLOWED = frozenset(
    """
    PROTO FRAME MARK STOP POP POP_MARK NONE NEWTRUE NEWFALSE INT BININT BININT1 BININT2 LONG LONG1 FLOAT BINFLOAT
    STRING BINSTRING SHORT_BINSTRING UNICODE BINUNICODE SHORT_BINUNICODE BINUNICODE8 BINBYTES SHORT_BINBYTES BINBYTES8
    BYTEARRAY8 EMPTY_LIST LIST APPEND APPENDS EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 EMPTY_DICT DICT SETITEM SETITEMS
    PUT BINPUT LONG_BINPUT MEMOIZE GET BINGET LONG_BINGET GLOBAL STACK_GLOBAL REDUCE BUILD
    """.split()  # noqa: SIM905 - a list of 50 strings is harder to read
)
_PUTS = {"PUT", "BINPUT", "LONG_BINPUT"}
_TYPES = {
    **dict.fromkeys(("b1", "?", "bool"), "?"),
    **{name: name for name in ("u1", "i1", "i2", "i4", "i8", "u2", "u4", "u8", "f2", "f4", "f8")},
}
_BYTE_ORDERS = {"<", ">", "|", "="}


@dataclass(frozen=True, eq=False)
class Pedestrian:
    """The frames of one pedestrian, in order.

    Attributes:
        masks: (T, 64, 64) bool, True where the pedestrian is.
        latents: (T, 3) float32: vertical and horizontal centre of mass in pixels, and area in square pixels.
    """

    masks: npt.NDArray[np.bool_]
    latents: npt.NDArray[np.float32]


def read_archive(path: str | Path) -> list[Pedestrian]:
    """Read the pedestrians of a pickle in the format of ``kitti_peds_v2.pickle``, running nothing of it.

    Args:
        path: the file: a dict of "pedestrians", a list of (T, 64, 64) bool arrays, and "pedestrians_latents", a list of
            (T, 3) float arrays.

    Raises:
        FileNotFoundError: if there is no such file.
        DatasetError: if it holds anything but numbers, text, lists, dicts and arrays; if it is damaged; or if masks and
            latents do not go together. The message names what was found.

    Reference:
        Klindt et al., Towards Nonlinear Disentanglement in Natural Data with Temporal Sparse Coding, ICLR 2021;
        Zenodo record 3931823.
    """
    file = Path(path)
    with open_regular(file) as content:
        _check_operations(content, file)
        content.seek(0)
        held = _values(content, file)
    masks, latents = _columns(held, file)
    if len(masks) != len(latents):
        raise DatasetError(f"{file} holds masks of {len(masks):,} pedestrians and latents of {len(latents):,}")
    if not masks:
        raise DatasetError(f"{file} holds no pedestrians; {_REMEDY}")
    return [
        _pedestrian(item, values, f"pedestrian {number} of {file}")
        for number, (item, values) in enumerate(zip(masks, latents, strict=True))
    ]


def _check_operations(content: IO[bytes], file: Path) -> None:
    """Raise DatasetError unless the pickle only builds plain values and calls what arrays are made of."""
    try:
        for count, (operation, argument, _) in enumerate(pickletools.genops(content)):
            if operation.name not in _ALLOWED:
                raise DatasetError(
                    f"{file} uses the pickle operation {operation.name}, which no file of arrays, lists and dicts "
                    "needs; nothing of it was run"
                )
            # An unpickler makes room for the largest number that is put.
            if operation.name in _PUTS and isinstance(argument, int) and argument > count:
                raise DatasetError(f"{file} numbers its values from {argument:,} on; nothing of it was run")
    except (ValueError, MemoryError, OverflowError, IndexError) as error:
        raise _damaged(file, error) from error


def _values(content: IO[bytes], file: Path) -> Any:
    try:
        return _Reader(content, file).load()
    except DatasetError:
        raise
    except Exception as error:  # a damaged pickle can raise anything
        raise _damaged(file, error) from error


class _Reader(pickle.Unpickler):
    """Reads plain values, and arrays as records."""

    def __init__(self, content: IO[bytes], file: Path) -> None:
        super().__init__(content, encoding="bytes")
        self._file = file

    def find_class(self, module: str, name: str) -> Any:
        """Return what stands for a name of the file."""
        found = _NAMES.get(f"{module.replace('numpy._core', 'numpy.core')}.{name}")
        if found is None:
            raise DatasetError(
                f"{self._file} names {module}.{name}, which no file of arrays, lists and dicts needs; "
                "nothing of it was run"
            )
        return found


class _Type:
    """Records what a pickle says of an array's type: its name and its byte order."""

    __slots__ = ("name", "order")

    def __init__(self, name: object) -> None:
        self.name, self.order = _text(name), "|"

    def __setstate__(self, state: object) -> None:
        order = _text(state[1]) if isinstance(state, tuple) and len(state) > 1 else ""
        if order not in _BYTE_ORDERS:
            raise ValueError(f"a type with the state {state!r:.80}")
        self.order = order

    def numpy(self) -> np.dtype[Any]:
        if self.name not in _TYPES:
            raise ValueError(f"an array of the type {self.name!r}")
        return np.dtype(self.order + _TYPES[self.name])


class _Array:
    """Records what a pickle says of an array, and is one once its bytes are known to fill its shape."""

    __slots__ = ("values",)

    def __init__(self) -> None:
        self.values: npt.NDArray[Any] | None = None

    def __setstate__(self, state: object) -> None:
        if not isinstance(state, tuple) or len(state) != 5:
            raise ValueError("an array without shape, type and bytes")
        _, shape, dtype, is_fortran, content = state
        self.fill(content, dtype, shape, "F" if is_fortran else "C")

    def fill(self, content: object, dtype: object, shape: object, order: object) -> None:
        if not isinstance(content, bytes | bytearray) or not isinstance(dtype, _Type) or order not in {"C", "F", b"C"}:
            raise ValueError("an array that is not made of bytes")
        if not isinstance(shape, tuple) or not all(type(size) is int and size >= 0 for size in shape) or len(shape) > 8:
            raise ValueError(f"an array of the shape {shape!r:.80}")
        kind = dtype.numpy()
        if math.prod(shape) * kind.itemsize != len(content):
            raise ValueError(f"an array of shape {shape} and type {kind} in {len(content):,} bytes")
        self.values = np.frombuffer(content, kind).reshape(shape, order="F" if order == "F" else "C")


class _Call:
    """A function that a pickle may call; it cannot be changed by the pickle."""

    __slots__ = ("_function",)
    _function: Callable[..., Any]

    def __init__(self, function: Callable[..., Any]) -> None:
        object.__setattr__(self, "_function", function)

    def __call__(self, *arguments: Any) -> Any:
        return self._function(*arguments)

    def __setattr__(self, name: str, value: object) -> None:
        raise ValueError("a pickle that changes a function")

    def __setstate__(self, state: object) -> None:
        raise ValueError("a pickle that changes a function")


def _from_buffer(content: object, dtype: object, shape: object, order: object = "C") -> _Array:
    array = _Array()
    array.fill(content, dtype, shape, order)
    return array


def _encode(text: object, encoding: object) -> bytes:
    if not isinstance(text, str) or _text(encoding) not in {"latin1", "latin-1"}:
        raise ValueError(f"bytes in the encoding {encoding!r:.40}")
    return text.encode("latin-1")


_NAMES: dict[str, _Call] = {
    "numpy.core.multiarray._reconstruct": _Call(lambda *_: _Array()),
    "numpy.core.numeric._frombuffer": _Call(_from_buffer),
    "numpy.ndarray": _Call(lambda *_: _Array()),  # named as an argument of _reconstruct, never called
    "numpy.dtype": _Call(lambda name, *_: _Type(name)),
    "_codecs.encode": _Call(_encode),
}


def _text(value: object) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _columns(held: object, file: Path) -> tuple[list[Any], list[Any]]:
    if not isinstance(held, dict):
        raise DatasetError(
            f"{file} holds a value of type {type(held).__name__}; expected a dict of {_MASKS} and {_LATENTS}"
        )
    named = {_text(key): value for key, value in held.items() if isinstance(key, str | bytes)}
    columns = []
    for name in (_MASKS, _LATENTS):
        column = named.get(name)
        if not isinstance(column, list):
            found = (
                f"{name!r} of type {type(column).__name__}"
                if name in named
                else f"only {', '.join(sorted(named)) or 'nothing'}"
            )
            raise DatasetError(f"{file} holds {found}; expected a list of arrays under {name!r}")
        columns.append(column)
    return columns[0], columns[1]


def _pedestrian(masks: object, latents: object, what: str) -> Pedestrian:
    shown, known = _array(masks, f"the masks of {what}"), _array(latents, f"the latents of {what}")
    if shown.dtype != np.bool_ or shown.ndim != 3 or not len(shown) or shown.shape[1:] != (MASK_SIZE, MASK_SIZE):
        raise DatasetError(
            f"the masks of {what} are {shown.dtype} of shape {shown.shape}; expected bool of shape "
            f"(frames, {MASK_SIZE}, {MASK_SIZE}) with at least one frame"
        )
    if known.shape != (len(shown), _LATENT_COUNT) or known.dtype.kind not in "fiu":
        raise DatasetError(
            f"the latents of {what} are {known.dtype} of shape {known.shape}; expected numbers of shape "
            f"({len(shown)}, {_LATENT_COUNT}), three for each mask"
        )
    if not np.isfinite(known).all():
        raise DatasetError(f"the latents of {what} hold numbers that are not finite")
    return Pedestrian(shown, known.astype(np.float32))


def _array(value: object, what: str) -> npt.NDArray[Any]:
    if not isinstance(value, _Array) or value.values is None:
        found = type(value).__name__.removeprefix("_").lower()
        raise DatasetError(f"{what} are of type {found}; expected an array")
    return value.values


def _damaged(file: Path, error: BaseException) -> DatasetError:
    return DatasetError(f"{file} is damaged, or not a pickle of arrays ({error or type(error).__name__}); {_REMEDY}")
