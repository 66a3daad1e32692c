"""Noise addition (2017): semantic noise for nominal attributes, ordinary noise for numeric ones.

* ``semantic``: the mechanism. It draws noise, and replaces each value by a concept whose distance matches it.
* ``sampling``: noise of nominal attributes with the covariance Σ, also for arrays and absent values.
* ``prepared``: what masking needs from the statistics in force, some of which are held from an earlier version.
* ``channel``, ``situations``, ``moments``: the exact transition probabilities.
* ``numeric``: noise added to numeric attributes.

The choice of the replacement is in ``core.replacement``.
"""
