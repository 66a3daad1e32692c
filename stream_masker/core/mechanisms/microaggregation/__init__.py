"""Microaggregation on marginality (2013): groups of at least k similar records with one common value.

* ``mechanism``: the mechanism. It masks scalars and numbers by record and array elements by themselves, and verifies
  k-anonymity.
* ``groups``: records with the same attributes, their distances, and their groups.
* ``mdav``: the compiled partition of records into groups.
* ``centroids``: the masked values of a group: its mean, or values within its radius.
"""
