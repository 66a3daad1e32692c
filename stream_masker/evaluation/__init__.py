"""Measures of what masking preserves and what it discloses, and the tables of the papers on any data set.

* ``dataset``: the records to evaluate on. ``candidates``: the mechanisms with their parameters.
* ``measurement``: all measures of a candidate, among them ``attack`` (the risk of mechanisms that mask groups),
  ``linkage`` (record linkage) and ``downstream`` (models that learn from masked records).
* ``swapping`` (2019), ``sse`` (2013) and ``co_occurrence`` (2012, with ``entropy``): the tables of
  the papers.
* ``evaluation``: the tasks of an evaluation, in several processes. ``report``: its HTML page, JSON and CSV.
* ``recommendation``: the choice of a candidate within limits.
* ``papers``: the tables of the papers next to the printed figures.
"""
