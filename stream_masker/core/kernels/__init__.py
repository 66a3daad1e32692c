"""Compilation and caching of kernels by numba, and machine instructions for kernels.

``jit`` has the decorators of kernels, which make the only calls of numba's compiler. ``disk_cache`` stores compiled
kernels under the fingerprints of their sources (``fingerprint``). ``intrinsics`` and ``simd`` provide instructions that
numba does not offer by itself.
"""
