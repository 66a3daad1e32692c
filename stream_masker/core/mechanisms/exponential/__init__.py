"""The exponential mechanism over semantic distance.

* ``mechanism``: the mechanism and its parameters.
* ``tree``: exact draws in a tree, from the number of concepts at each distance.
* ``graph``: exact draws in any taxonomy, with cached cumulative weights of blocks of candidates.
"""
