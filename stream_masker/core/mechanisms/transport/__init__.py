"""Semantic transport: an optimal random map of records that preserves the joint law of the window.

* ``mechanism``: the mechanism. ``target``, ``limits``: what a transport has to meet, and what no mask may tell.
* ``values``: the values that are written, and the search for the nearest of them.
* ``kernel``: the kernel of an attribute, by which the best guess is right as rarely as possible.
* ``scaling``: the transport of one attribute, or of two. ``fitting``: its fit to a window's counts, and what a model
  holds of it. ``sampling``: the draws.
* ``star``: attributes that are masked given another one.
* ``model``, ``prepared``: the model that statistics carry, and the form in which it masks.
* ``strata``: the models of contexts. ``disclosure``: what records tell.
"""
