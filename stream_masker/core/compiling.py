"""How kernels are compiled."""

from __future__ import annotations

from numba import njit

kernel = njit(cache=True, nogil=True, error_model="numpy")
"""A kernel that Python calls: compiled once for its types, kept on disk, runs without the interpreter's lock."""

part = njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
"""A part of kernels. It makes no array, so that it need not count references to those that it is handed; counting them
would cost several times what most parts do."""

inlined = njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
"""A part that is written out where it is called."""
