"""Fingerprints of kernels, which identify the sources of their machine code.

A fingerprint covers the bytecode of a kernel and of all kernels that it calls, and the values that they refer to. A new
comment, docstring or modification time leaves it unchanged.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numba
import numpy as np
from llvmlite import binding
from numba.core.dispatcher import Dispatcher

SCALARS = (bool, int, float, complex, str, bytes, type(None), np.generic)
PACKAGE = Path(__file__).parents[2]
LIBRARIES = ("builtins", "math", "numpy")
"""Packages whose functions numba compiles by itself; numba's version is part of the key of the disk cache."""


@cache
def fingerprint(kernel: Any) -> str:
    """Return the SHA-256 of a kernel, of all kernels that it calls, directly or not, and of all values that they refer
    to.

    Raises TypeError if one of them refers to a value that has no fingerprint.
    """
    digest = hashlib.sha256()
    reached = {kernel: None}
    waiting = [kernel]
    while waiting:
        content, called = _description(waiting.pop())
        digest.update(content)
        waiting += [other for other in called if other not in reached]
        reached |= dict.fromkeys(called)
    return digest.hexdigest()


@cache
def build_digest() -> str:
    """Return the SHA-256 of this package's files, the versions of Python, NumPy and numba, and the processor."""
    digest = hashlib.sha256(
        repr(
            (
                sys.version,
                np.__version__,
                numba.__version__,
                binding.get_host_cpu_name(),
                binding.get_host_cpu_features().flatten(),
            )
        ).encode()
    )
    for file in sorted(PACKAGE.rglob("*.py")):
        digest.update(str(file.relative_to(PACKAGE)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


@cache
def _description(kernel: Any) -> tuple[bytes, tuple[Any, ...]]:
    """Return the digest of one kernel, and the kernels that it calls."""
    function = kernel.py_func
    referred = dict(_references(function))
    values = {name: _content(value, function) for name, value in referred.items()}
    code = _code(function.__code__, function.__doc__)
    options = sorted(kernel.targetoptions.items())
    text = repr((function.__module__, function.__qualname__, options, code, function.__defaults__, values))
    called = tuple(value for value in referred.values() if isinstance(value, Dispatcher))
    return hashlib.sha256(text.encode()).digest(), called


def _references(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield the global and enclosing names that a function may read, with their values."""
    for code in _nested(function.__code__):
        for name in code.co_names:
            if name in function.__globals__:
                yield name, function.__globals__[name]
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield name, cell.cell_contents


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)


def _code(code: CodeType, docstring: str | None = None) -> object:
    """Bytecode, names and constants, without the docstring and without line numbers."""
    constants = [
        _code(value) if isinstance(value, CodeType) else None if value is docstring else _ordered(value)
        for value in code.co_consts
    ]
    return code.co_code, code.co_names, code.co_varnames, code.co_argcount, constants


def _ordered(value: object) -> object:
    """Return a set in an order that is the same in all processes; other values as they are."""
    return ("set", sorted(value, key=repr)) if isinstance(value, set | frozenset) else value


def _content(value: Any, function: FunctionType) -> object:
    """Return the part of a value's content that the machine code of a kernel depends on."""
    if isinstance(value, Dispatcher):
        return value.py_func.__module__, value.py_func.__qualname__
    if isinstance(value, SCALARS):
        return type(value).__name__, repr(value)
    if isinstance(value, tuple):
        return type(value).__qualname__, getattr(value, "_fields", ()), [_content(item, function) for item in value]
    if isinstance(value, np.dtype):
        return "dtype", repr(value)
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, hashlib.sha256(value.tobytes()).digest()
    return _definition(value, function)


def _definition(value: Any, function: FunctionType) -> object:
    """Return the part of a module, a class or a function that machine code depends on."""
    module = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", "")
    if module.partition(".")[0] in LIBRARIES and hasattr(value, "__name__"):
        return module, value.__name__
    if isinstance(value, type):
        return module, value.__qualname__, getattr(value, "_fields", ())
    if callable(value):
        return module, _folder_content(module)
    raise TypeError(f"{function.__module__}.{function.__qualname__} refers to {value!r}, which has no fingerprint")


@cache
def _folder_content(module: str) -> bytes:
    """Return the SHA-256 of the Python files beside a module.

    Intrinsics generate machine code with functions of these files.
    """
    digest = hashlib.sha256()
    for file in sorted(Path(str(sys.modules[module].__file__)).parent.glob("*.py")):
        digest.update(file.read_bytes())
    return digest.digest()
