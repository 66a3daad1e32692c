"""The tree of attributes along which records with arrays, or with more than two attributes, are masked.

* ``structure``: the tree, its edges, and the fit of λ to a mean squared distance.
* ``edge_kernels``, ``edge_risk``: what the masks of an edge tell, from its exact channel.
* ``targets``: the fit of λ to a vulnerability or to an ε.
"""
