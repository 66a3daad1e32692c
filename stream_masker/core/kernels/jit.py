"""The decorators that compile kernels.

Nothing else in the package calls ``numba.njit``. All kernels run without the interpreter lock, divide as NumPy does
(x / 0 is inf or nan) and are kept in the disk cache of ``core.kernels.disk_cache``.
"""

from __future__ import annotations

from typing import Any

from numba import njit
from numba.core.dispatcher import Dispatcher

from stream_masker.core.kernels.disk_cache import KernelCache


def kernel(function: Any) -> Any:
    """A kernel that Python or other kernels call."""
    return _compiled(function)


def part(function: Any) -> Any:
    """A kernel that only kernels call and that creates no array.

    It does not count references to the arrays that it receives. Counting them would cost several times what most parts
    do.
    """
    return _compiled(function, _nrt=False)


def inlined(function: Any) -> Any:
    """A part whose machine code is inserted at each call."""
    return _compiled(function, _nrt=False, forceinline=True)


def _compiled(function: Any, **options: bool) -> Any:
    compiled = njit(cache=True, nogil=True, error_model="numpy", **options)(function)
    if isinstance(compiled, Dispatcher):
        compiled._cache = KernelCache(compiled)
    return compiled
