"""VICUS (2012): replacement by values that occur together with the same values of other attributes.

* ``partition``: the genetic algorithm that divides values into parts of similar values.
* ``mechanism``: VICUS, and the paper's Random method, which uses the same parts.

The similarity of values is in ``core.similarity``.
"""
