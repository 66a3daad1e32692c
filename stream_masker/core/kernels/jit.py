"""The decorators that compile kernels: numba's ``njit`` with one set of options.

Nothing else in the package compiles functions. All kernels run without the interpreter lock and divide as NumPy does
(x / 0 is inf or nan). numba compiles a kernel when it is first called and keeps it on disk: in ``$NUMBA_CACHE_DIR`` if
set, else in ``__pycache__`` beside its source, else in the user's cache folder. It compiles a kernel again when the
kernel's own file changes, but not when that of a function it calls does. After such a change, delete the ``.nbi``
files.

Sums and elementary functions have the same bits in all processes of one installation on one kind of processor. Another
processor, or another version of numba or NumPy, may round a last bit differently.

A kernel states its signature: ``int`` for integers of any width except uint64, ``np.uint64``, ``float`` for float64,
``bool``, an alias of ``core.dtypes`` for an array. A part is a function that only kernels call; each kernel contains
the code of its parts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, ClassVar, Final, TypeVar, cast

import numpy as np
from numba import njit
from numba.core import event
from numba.core.caching import CompileResultCacheImpl, FunctionCache, InTreeCacheLocator

log = logging.getLogger(__name__)

FIRST_USE_SECONDS: Final = 15
"""The compile time of a first use on one core, measured with semantic noise on pairs."""

F = TypeVar("F", bound=Callable[..., Any])

int32 = cast(Callable[[Any], int], np.int32)
int64 = cast(Callable[[Any], int], np.int64)
"""NumPy's int64, typed as the ``int`` that signatures use for integers of any width."""


def kernel(function: F) -> F:
    """Compile a kernel that Python or other kernels call."""
    return _compiled(function)


def inlined(function: F) -> F:
    """Compile a part, which only kernels and parts call and which creates no array; Python cannot call it."""
    return _compiled(function, _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True, forceinline=True)


class _ReadableLocator(InTreeCacheLocator):  # type: ignore[misc]
    """``__pycache__`` beside the source, also where it can only be read, as in an image whose build has filled it."""

    def ensure_cache_path(self) -> None:
        """Accept the folder as it is."""


class _ReadableCacheImpl(CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes: ClassVar[list[Any]] = [*CompileResultCacheImpl._locator_classes, _ReadableLocator]


class _Cache(FunctionCache):  # type: ignore[misc]
    """numba's cache. Where no folder can be written, it reads what is there; numba's own raises an error.

    A kernel is compiled again with another version of the package, which may have changed a function that it calls.
    """

    _impl_class = _ReadableCacheImpl

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file._source_stamp = self._cache_file._source_stamp, _release()

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a compiled form if the folder can be written."""
        with suppress(OSError):
            super().save_overload(sig, data)


@cache
def _release() -> str:
    """Return the version of the installed package; empty for a checkout that is not installed."""
    with suppress(PackageNotFoundError):
        return version("stream-masker")
    return ""


def _compiled(function: F, **options: Any) -> F:
    compiled = njit(nogil=True, error_model="numpy", **options)(function)
    if compiled is not function:  # NUMBA_DISABLE_JIT leaves it as it is
        compiled._cache = _Cache(function)
    return cast(F, compiled)


SILENT_SECONDS: Final = 2.0
"""How long kernels are compiled before a log line says so."""


class _CompilationNotice(event.TimingListener):  # type: ignore[misc]
    """Writes one log line once the kernels of this process have been compiled for ``SILENT_SECONDS``."""

    def __init__(self) -> None:
        super().__init__()
        self._spent, self._said = 0.0, False

    def on_start(self, event: Any) -> None:
        super().on_start(event)
        if self._spent > SILENT_SECONDS and not self._said:
            self._said = True
            log.warning("compiling numerical code for the first use, about %d seconds", FIRST_USE_SECONDS)

    def on_end(self, event: Any) -> None:
        super().on_end(event)
        if self.done:
            self._spent += self.duration


NOTICE: Final = _CompilationNotice()

event.register("numba:compile", NOTICE)
