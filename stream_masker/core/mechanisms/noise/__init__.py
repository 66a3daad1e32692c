"""Noise addition (2017): semantic noise for nominal attributes, ordinary noise for numeric ones.

* ``semantic``: the mechanism. It draws noise, and replaces each value by a concept whose distance matches it.
* ``sampling``: noise of nominal attributes with the covariance Σ, also for arrays and absent values.
* ``numeric``: noise added to numeric attributes.

The choice of the replacement is in ``core.replacement``.
"""
