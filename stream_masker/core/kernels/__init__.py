"""How numba compiles and caches kernels, and the machine instructions that kernels use.

``jit`` has the decorators of kernels, the only calls of numba's compiler. ``disk_cache`` keeps compiled kernels,
named after what ``fingerprint`` finds that they come from. ``compilations`` reports which kernels are compiled.
``intrinsics``, ``simd``, ``cache_lines`` and ``blake2b_simd`` provide instructions that numba does not offer by itself.
"""
