"""VICUS (2012): replacement by values that occur together with the same values of other attributes.

* ``base``: similarity and parts of the window's values, and the parameters of both mechanisms.
* ``partition``: the genetic algorithm that divides values into parts of similar values.
* ``mechanism``: VICUS. ``baseline``: the paper's Random method, which uses the same parts.

The similarity of values is in ``core.similarity``.
"""
