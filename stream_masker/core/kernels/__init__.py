"""Compilation by numba, and functions that kernels share.

``jit`` has the decorators of kernels, which make the only calls of numba's compiler. ``draws`` draws from random words,
``bits`` counts and finds bits, and ``sums`` adds up arrays.
"""
