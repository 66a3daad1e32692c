"""Attributes that are masked given another one: the elements of arrays, and all but one of three or more scalars.

* ``edges``: the star, an edge from its root to a child, its fit to a distance, and the pairs that masks may be.
* ``couplings``: how a child moves given the root's value and mask, and different masks of an array's elements.
* ``figures``: what the masks of the root and of a child tell, and the draws that limit it.
"""
