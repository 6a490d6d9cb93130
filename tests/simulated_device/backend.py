"""A device that needs no GPU: tensors on the device "simulated" that compute on the CPU and tell on their users.

A tensor there holds a CPU tensor, and every operation is carried out on that, so that results are those of the CPU bit
for bit. As on a GPU, tensors on it do not mix with those of the CPU, but for single numbers; and whatever makes the CPU
wait for the device is counted. It rests on torch's interface for backends in Python, which is private and may change:
:func:`install` is to be called in a process of its own.
"""

from collections import Counter
from functools import partial

import torch
from torch.utils._pytree import tree_iter, tree_map

NAME = "simulated"
DEVICE = f"{NAME}:0"
CPU = torch.device("cpu")

WAITS = {
    "aten::_local_scalar_dense": "a number is read",
    "aten::equal": "tensors are compared in Python",
    "aten::is_nonzero": "a truth is read",
    "aten::masked_select": "a shape depends on numbers",
    "aten::nonzero": "a shape depends on numbers",
    "aten::repeat_interleave.Tensor": "a shape depends on numbers",
    "aten::_unique2": "a shape depends on numbers",
    "aten::unique_dim": "a shape depends on numbers",
    "aten::unique_consecutive": "a shape depends on numbers",
    "aten::bincount": "a shape depends on numbers",
    "aten::linalg_lstsq": "a factorisation is checked",
}
"""Operations that make the CPU wait for a CUDA device, and why."""
FACTORIES = (
    *("arange", "arange.start", "arange.start_step", "randperm", "randperm.generator", "eye", "eye.m"),
    *("linspace", "tril_indices", "triu_indices"),
)
"""Operations that make a tensor of no other, and would resize an empty one to do so."""
INDEXING = {"aten::index.Tensor", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_"}


class MixedDevicesError(RuntimeError):
    """An operation got tensors of the CPU and of the device."""


class Simulated(torch.Tensor):
    """A tensor on the simulated device."""

    held: torch.Tensor

    @staticmethod
    def __new__(cls, held):
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=torch.device(DEVICE),
        )
        made.held = held
        return made

    def __repr__(self):
        return f"Simulated({self.held!r})"

    def tolist(self):
        waits["tolist: numbers are read"] += 1
        return self.held.tolist()

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        # In inference mode, operations that are made of others come whole.
        if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"):
            return func.decompose(*args, **(kwargs or {}))
        return _run(func, args, kwargs or {})


waits: Counter[str] = Counter()
"""How often the CPU waited since :func:`install`, by reason."""


def _run(func, args, kwargs):
    name = func.name()
    tensors = [leaf for leaf in tree_iter((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    copies = name in {"aten::copy_", "aten::_to_copy", "aten::_copy_from"}
    if not copies:
        _refuse_mixture(name, args, tensors)
    _count(name, args, kwargs, tensors)
    target = kwargs.get("device")
    if name == "aten::_to_copy" and target is not None:
        target = torch.device(target)
        moved = {**kwargs, "device": CPU}
        found = func(*tree_map(_inner, args), **moved)
        if found.data_ptr() == _inner(args[0]).data_ptr():
            found = found.clone()
        return found if target.type == "cpu" else Simulated(found)
    own = {id(tensor.held): tensor for tensor in tensors if isinstance(tensor, Simulated)}
    found = func(*tree_map(_inner, args), **tree_map(_inner, kwargs))

    def outer(value):
        if not isinstance(value, torch.Tensor):
            return value
        known = own.get(id(value))
        if known is None:
            return Simulated(value)
        if known.shape != value.shape:
            raise NotImplementedError(f"{name} changes the shape of its argument in place")
        return known

    return tree_map(outer, found)


def _inner(value):
    if isinstance(value, Simulated):
        return value.held
    if isinstance(value, torch.device) and value.type == NAME:
        return CPU
    return value


def _refuse_mixture(name, args, tensors):
    indices = args[1] if name in INDEXING else ()
    for tensor in tensors:
        if isinstance(tensor, Simulated) or tensor.ndim == 0:
            continue
        # CUDA takes indices of the CPU, and waits for their copy.
        if any(tensor is index for index in indices) and isinstance(args[0], Simulated):
            waits[f"{name}: indices are copied"] += 1
            continue
        raise MixedDevicesError(f"{name} got tensors on {', '.join(sorted({str(other.device) for other in tensors}))}")


def _count(name, args, kwargs, tensors):
    if name in WAITS:
        waits[f"{name}: {WAITS[name]}"] += 1
    elif name in INDEXING and any(i is not None and i.dtype in {torch.bool, torch.uint8} for i in args[1]):
        waits[f"{name}: a mask is counted"] += 1
    elif name in {"aten::copy_", "aten::_to_copy"}:
        waits_for_it = not kwargs.get("non_blocking", args[2] if name == "aten::copy_" and len(args) > 2 else False)
        if name == "aten::copy_":
            crosses = len({isinstance(tensor, Simulated) for tensor in tensors}) == 2
        else:
            target = kwargs.get("device")
            crosses = target is not None and torch.device(target).type != args[0].device.type
        if crosses and waits_for_it:
            waits[f"{name}: a blocking copy"] += 1


class _Module:
    """What torch asks of the module of a device."""

    def is_initialized(self):
        return True

    def is_available(self):
        return True

    def current_device(self):
        return 0

    def device_count(self):
        return 1

    def _is_in_bad_fork(self):
        return False

    def manual_seed_all(self, seed):
        pass

    def get_amp_supported_dtype(self):
        return [torch.bfloat16]


class _Generator(torch.Generator):
    """A generator that says that it is on the device; its numbers are those of the CPU."""

    def __new__(cls, device="cpu"):
        made = super().__new__(cls, "cpu")
        made._place = torch.device(device)
        return made

    @property
    def device(self):
        return self._place

    def manual_seed(self, seed):
        super().manual_seed(seed)
        return self


_kept = []


def _made(factory, *args, **kwargs):
    packet, _, overload = factory.partition(".")
    return _run(getattr(getattr(torch.ops.aten, packet), overload or "default"), args, kwargs)


def _copy_from(source, target, non_blocking=False):
    """Copy between the CPU and the device; torch.tensor(..., device=...) comes here past everything else."""
    if not non_blocking:
        waits["aten::_copy_from: a blocking copy"] += 1
    _inner(target).copy_(_inner(source))
    return target


def install():
    """Make the device known to torch, in this process, for good."""
    from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

    _setup_privateuseone_for_python_backend(NAME, backend_module=_Module())
    library = torch.library.Library("_", "IMPL")
    library.fallback(lambda op, *args, **kwargs: _run(op, args, kwargs), "PrivateUse1")
    copies = torch.library.Library("aten", "IMPL")
    copies.impl("_copy_from", _copy_from, "PrivateUse1")
    for factory in FACTORIES:
        copies.impl(factory, partial(_made, factory), "PrivateUse1")
    _kept.extend([library, copies])  # what they register goes with them
    torch.Generator = _Generator
