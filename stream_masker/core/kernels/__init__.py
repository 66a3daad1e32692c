"""Every compiled function of the core, and the decorators that compile them.

``jit`` has the decorators, which make the only calls of numba's compiler. ``draws`` draws from random words and from
rows of weights. ``distance`` fills matrices of distances, ``replacement`` draws by the papers' rule, ``noise`` gives
its probabilities, ``transport`` scales and draws couplings.
"""
