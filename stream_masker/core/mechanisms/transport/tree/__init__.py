"""How attributes depend on each other, arrays that are masked given a scalar, and targets of all attributes together.

* ``structure``: the tree, the edges to arrays, and the fit of λ to a mean squared distance.
* ``edge_kernels``, ``edge_risk``: what the masks of an edge tell, from its exact channel.
* ``targets``: the fit of λ to a vulnerability or to an ε.
"""
