"""The decorators that compile kernels: numba's ``njit`` with one set of options.

numba compiles a kernel when it is first called and keeps it on disk: in ``$NUMBA_CACHE_DIR`` if set, else in
``__pycache__`` beside its source, else in the user's cache folder; nowhere if no folder can be written. It compiles a
kernel again when the kernel's own file changes, but not when that of a function it calls does. After such a change,
delete the ``.nbi`` files.

Kernels run without the interpreter lock and divide as NumPy does (x / 0 is inf or nan). A kernel states its signature:
``int`` for integers of any width except uint64, ``np.uint64``, ``float`` for float64, ``bool``, an alias of
``core.dtypes`` for an array. A part is a function that only kernels call; each kernel contains the code of its parts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

import numpy as np
from numba import njit
from numba.core import event

log = logging.getLogger(__name__)

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


def _compiled(function: F, **options: Any) -> F:
    try:
        return cast(F, njit(nogil=True, error_model="numpy", cache=True, **options)(function))
    except RuntimeError:  # no folder can be written
        return cast(F, njit(nogil=True, error_model="numpy", **options)(function))


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
            log.warning("compiling numerical code for the first use, about 15 seconds")

    def on_end(self, event: Any) -> None:
        super().on_end(event)
        if self.done:
            self._spent += self.duration


NOTICE: Final = _CompilationNotice()

event.register("numba:compile", NOTICE)
