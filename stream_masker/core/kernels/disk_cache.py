"""The disk cache of compiled kernels.

numba keys the machine code of a kernel by the kernel's own file, but the code also contains the parts that the kernel
calls and the constants that it reads, which other files define. ``KernelCache`` adds a fingerprint of all of them to
the key, so that machine code from other sources is never loaded. The fingerprint covers bytecode and values: a new
comment, docstring or modification time leaves it unchanged.

numba chooses the folder: ``$NUMBA_CACHE_DIR``, else ``__pycache__`` beside the source, else a folder of the user. numba
itself refuses read-only folders. ``KernelCache`` reads from them, for images with a read-only file system. A kernel
that such a folder does not contain is compiled at every start.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
from numba import types
from numba.core.caching import CompileResultCacheImpl, FunctionCache, InTreeCacheLocator, UserProvidedCacheLocator
from numba.core.dispatcher import Dispatcher

SCALARS = (bool, int, float, complex, str, bytes, type(None), np.generic)
LIBRARIES = ("builtins", "math", "numpy")
"""Packages whose functions numba compiles by itself; numba's version is part of its key."""


class _ExistingFolder:
    """A locator of a folder that exists, whether or not it is writable."""

    def ensure_cache_path(self) -> None:
        path = self.get_cache_path()  # type: ignore[attr-defined]
        if not os.path.isdir(path):
            raise FileNotFoundError(path)


class _ExistingProvidedFolder(_ExistingFolder, UserProvidedCacheLocator):
    """``$NUMBA_CACHE_DIR``."""


class _ExistingSourceFolder(_ExistingFolder, InTreeCacheLocator):
    """``__pycache__`` beside the source."""


class _AnyFolder(CompileResultCacheImpl):
    """The files of one kernel, in a writable folder if there is one, else in one that can be read."""

    _locator_classes = (*CompileResultCacheImpl._locator_classes, _ExistingProvidedFolder, _ExistingSourceFolder)


class KernelCache(FunctionCache):
    """numba's cache of one kernel, with the kernel's fingerprint in its key."""

    _impl_class = _AnyFolder

    def __init__(self, kernel: Any) -> None:
        super().__init__(kernel.py_func)
        self._kernel = kernel

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write machine code to the disk, if the folder is writable."""
        if os.access(self.cache_path, os.W_OK):
            super().save_overload(sig, data)

    def _index_key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        return (*super()._index_key(sig, codegen), _field_names(sig), fingerprint(self._kernel))


def _field_names(kinds: Any) -> tuple[Any, ...]:
    """The field names of the named tuples among argument types, which numba leaves out of its key."""
    return tuple(
        (getattr(kind, "fields", ()), _field_names(kind.types)) for kind in kinds if isinstance(kind, types.BaseTuple)
    )


@cache
def fingerprint(kernel: Any) -> str:
    """SHA-256 of a kernel, of all kernels that it calls, directly or not, and of all values that they refer to.

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
def _description(kernel: Any) -> tuple[bytes, tuple[Any, ...]]:
    """The digest of one kernel, and the kernels that it calls."""
    function = kernel.py_func
    referred = dict(_references(function))
    values = {name: _content(value, function) for name, value in referred.items()}
    code = _code(function.__code__, function.__doc__)
    options = sorted(kernel.targetoptions.items())
    text = repr((function.__module__, function.__qualname__, options, code, function.__defaults__, values))
    called = tuple(value for value in referred.values() if isinstance(value, Dispatcher))
    return hashlib.sha256(text.encode()).digest(), called


def _references(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """The global and enclosing names that a function may read, with their values."""
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
        _code(value) if isinstance(value, CodeType) else None if value is docstring else value
        for value in code.co_consts
    ]
    return code.co_code, code.co_names, code.co_varnames, code.co_argcount, constants


def _content(value: Any, function: FunctionType) -> object:
    """The part of a value's content that the machine code of a kernel depends on."""
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
    """The part of a module, a class or a function that machine code depends on."""
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
    """SHA-256 of the Python files beside a module: intrinsics generate machine code with functions of these files."""
    digest = hashlib.sha256()
    for file in sorted(Path(str(sys.modules[module].__file__)).parent.glob("*.py")):
        digest.update(file.read_bytes())
    return digest.digest()
