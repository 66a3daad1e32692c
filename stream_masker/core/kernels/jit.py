"""How kernels are compiled.

On disk a compiled kernel is known by the time of the file that it stands in, not of those that its parts stand in. So
after a change to a part, the kernels of other files stay as they were, in speed and in meaning, until the ``*.nbi``
files in their ``__pycache__`` are removed. An installation, whose files are all new, and a new clone are not concerned.
"""

from __future__ import annotations

from numba import njit

kernel = njit(cache=True, nogil=True, error_model="numpy")
"""A kernel that Python calls: compiled once for its types, kept on disk, runs without the interpreter's lock."""

part = njit(cache=True, nogil=True, error_model="numpy", _nrt=False)
"""A part of kernels. It makes no array, so that it need not count references to those that it is handed; counting them
would cost several times what most parts do."""

inlined = njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)
"""A part that is written out where it is called."""
