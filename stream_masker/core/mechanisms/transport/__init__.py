"""Semantic transport: an optimal random map of records that preserves the joint law of the window.

* ``mechanism``: the mechanism. ``target``: what a transport has to meet.
* ``values``, ``nearest``: the values that are written, and the search for the nearest of them.
* ``table``, ``products``: a sparse joint law, and products with kernels.
* ``solver``: the scaling φ for a given sharpness λ. ``search``: the search for λ. ``disclosure``: what attackers learn.
* ``fit``, ``fitting``: a transport of one attribute or of a pair, fitted to a window's counts.
* ``couplings``, ``conditional``, ``tree``: attributes that are masked given another one: arrays, and more than two
  attributes.
* ``model``, ``prepared``: the model that statistics carry, and the form in which it masks. ``sampling``: the draws.
"""
