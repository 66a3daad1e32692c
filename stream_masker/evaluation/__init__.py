"""What masking preserves and what it discloses, measured for many methods on a data set.

* ``dataset``: the records. ``candidates``: the mechanisms with their parameters.
* ``measurement``: the measures of one candidate, by an attack for mechanisms that mask groups.
* ``evaluation``: all of them, in several processes. ``limits``: the choice of a candidate within limits.
* ``report``: the HTML page, JSON and CSV. It needs the extra ``evaluate``.
"""
