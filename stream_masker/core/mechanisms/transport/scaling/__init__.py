"""The optimal transport of the law of one attribute, or of two, onto itself.

* ``table``, ``products``: a sparse joint law, and products with kernels.
* ``solver``: the scaling φ, ψ for given kernels. ``columns``, ``binding``: the posteriors given a mask, and the factors
  that limit them.
* ``search``: the exponents of the kernels that meet a target.
"""
