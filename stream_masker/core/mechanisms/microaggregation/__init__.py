"""Microaggregation on marginality (2013): groups of at least k similar records with one common value.

* ``mechanism``: the mechanism. It masks the scalars and numbers of a record together, array elements separately, and
  verifies k-anonymity.
* ``groups``: records with the same attributes, their distances and groups, also of units of several records; and the
  masked values of a group: its mean, or values within its radius.
* ``mdav``: the compiled partition of records into groups.
"""
