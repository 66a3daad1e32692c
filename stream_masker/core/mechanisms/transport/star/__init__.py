"""Attributes that are masked given another one: the elements of arrays, and all but one of three or more scalars.

* ``edges``: the star, an edge from its root to a child, and its fit to a distance.
* ``couplings``: how a child moves given the root's value and mask.
* ``rare``: the pairs that masks may be, where many of the window's are of too few patients.
* ``figures``: what the masks of the root and of a child tell, and the draws that limit it.
"""
