"""Measures of what masking preserves and what it discloses, and the tables of the papers on any data set.

* ``dataset``: the records to evaluate on. ``candidates``: the mechanisms with their parameters.
* ``measurement``: all measures of a candidate, also by an attack for mechanisms that mask groups, and with
  ``downstream``, models that learn from masked records.
* ``grouped`` (2019 and 2013) and ``co_occurrence`` (2012): the tables of the papers.
* ``evaluation``: the tasks of an evaluation, in several processes. ``report``: its HTML page, JSON and CSV.
* ``recommendation``: the choice of a candidate within limits.
* ``papers``: the tables of the papers next to the printed figures.
"""
