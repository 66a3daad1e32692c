"""Swapping mechanisms (2019): values are exchanged within a group of records.

Each attribute keeps its values exactly.

* ``base``: the common parts: the values of a group, and the partners that they are exchanged with.
* ``interval``: mechanisms that swap within an interval of k values, or of p percent of them.
* ``kernels``: the compiled loops of the algorithms.
* ``rank``: semantic rank swapping, the paper's method.
* ``data`` and ``frequency``: the paper's baselines, data swapping and distributional rank swapping.
"""
