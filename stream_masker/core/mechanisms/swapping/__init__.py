"""Swapping mechanisms (2019): values are exchanged within a group of records.

Each attribute keeps its values exactly.

* ``base``: the values of a group, forced swaps, and the exchange itself.
* ``data``: data swapping, the paper's first baseline.
* ``interval``: swaps within an interval of ranks (Algorithm 1), and distributional rank swapping, the second baseline.
* ``rank``: semantic rank swapping, the paper's method (Algorithms 1 to 3).
"""
