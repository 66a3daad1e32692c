"""The optimal transport of the law of one attribute, or of two, onto itself.

* ``table``: a sparse joint law, its products with kernels, and the factors that limit what its masks tell.
* ``solver``: the scaling φ, ψ for given kernels. ``columns``: the posteriors given a mask, and their limitation.
* ``search``: the exponents of the kernels that meet a target.
"""
