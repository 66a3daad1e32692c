"""Semantic transport: an optimal random map of records that preserves the joint law of the window.

* ``mechanism``: the mechanism. ``target``: what a transport has to meet.
* ``values``, ``nearest``: the values that are written, and the search for the nearest of them.
* ``table``, ``products``: a sparse joint law, and products with kernels.
* ``solver``: the scaling φ for a given sharpness λ. ``search``: the search for λ. ``disclosure``: what attackers learn.
* ``records``: the law of masked pairs. ``fit``, ``fitting``: a transport of one attribute or of a pair, fitted to a
  window's counts.
* ``field``: scalars that are masked together: three or more, or two or more beside arrays.
* ``couplings``, ``conditional``: arrays, which are masked given a scalar. ``short``: those of few elements, which are
  masked together with it. ``tree``: how attributes depend on each other, and targets of all attributes together.
* ``model``, ``reading``, ``prepared``: the model that statistics carry, its reading, and the form in which it masks.
  ``sampling``: the draws.
"""
