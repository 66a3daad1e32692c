"""Comparison of the signatures that kernels state with the types that numba has inferred for them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np
from numba import types
from numba.core.dispatcher import Dispatcher
from numba.np import numpy_support


def wrong_signatures() -> list[str]:
    """The differences of every kernel of the package that this process has compiled or loaded."""
    return list(dict.fromkeys(line for kernel in kernels() for line in differences(kernel)))


def kernels() -> list[Dispatcher]:
    """All kernels of the imported modules of the package."""
    modules = [module for name, module in sorted(sys.modules.items()) if name.startswith("stream_masker.")]
    found = [value for module in modules for value in list(vars(module).values()) if isinstance(value, Dispatcher)]
    return list(dict.fromkeys(found))


def differences(kernel: Dispatcher) -> Iterator[str]:
    """A line for each parameter, result and field of a named tuple that has another type than stated."""
    function = kernel.py_func
    stated = hints_of(function)
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    for overload in kernel.overloads.values():
        signature = overload.signature
        for name, kind in zip((*names, "return"), (*signature.args, signature.return_type), strict=True):
            yield from compared(f"{function.__module__}.{function.__qualname__}, {name}", stated.get(name, Any), kind)


def compared(place: str, hint: Any, kind: types.Type) -> Iterator[str]:
    if not agrees(hint, kind):
        yield f"{place}: {hint}, but {kind}"
    elif isinstance(kind, types.BaseNamedTuple):
        for (field, inner), inner_kind in zip(hints_of(hint).items(), kind.types, strict=True):
            yield from compared(f"{hint.__module__}.{hint.__qualname__}.{field}", inner, inner_kind)


@cache
def hints_of(annotated: Any) -> dict[str, Any]:
    return get_type_hints(annotated)


def agrees(hint: Any, kind: types.Type) -> bool:
    """Whether an annotation states an inferred type. ``Any`` states none."""
    if get_origin(hint) in (Union, UnionType):
        return any(agrees(one, kind) for one in get_args(hint))
    if isinstance(kind, types.Literal):
        return agrees(hint, kind.literal_type)
    if isinstance(kind, types.Array):
        return agrees_with_array(hint, kind)
    if isinstance(kind, types.BaseNamedTuple):
        return hint is kind.instance_class
    if isinstance(kind, types.BaseTuple):
        stated = get_args(hint)
        return get_origin(hint) is tuple and len(stated) == len(kind.types) and all(map(agrees, stated, kind.types))
    return agrees_with_scalar(hint, kind)


def agrees_with_array(hint: Any, kind: types.Array) -> bool:
    """An annotation without a shape states one dimension."""
    hint = without_alias(hint)
    if get_origin(hint) is not np.ndarray:
        return False
    shape, dtype = map(without_alias, get_args(hint))
    dimensions = 1 if Ellipsis in get_args(shape) else len(get_args(shape))
    (element,) = get_args(dtype)
    elements = get_args(element) if get_origin(element) in (Union, UnionType) else (element,)
    return dimensions == kind.ndim and numpy_support.as_dtype(kind.dtype).type in elements


def without_alias(hint: Any) -> Any:
    """The type that an alias of a ``type`` statement stands for, such as ``NDArray`` from NumPy 2.5 on."""
    alias = get_origin(hint) or hint
    if not hasattr(alias, "__value__"):
        return hint
    return alias.__value__[get_args(hint)] if get_args(hint) else alias.__value__


def agrees_with_scalar(hint: Any, kind: types.Type) -> bool:
    if hint is int:
        return isinstance(kind, types.Integer) and kind != types.uint64
    stated = {
        float: types.float64,
        bool: types.boolean,
        None: types.none,
        NoneType: types.none,
        np.uint64: types.uint64,
    }
    return hint in stated and kind == stated[hint]
