"""The exponential mechanism over semantic distance.

* ``mechanism``: the mechanism, its parameters, and exact draws in any taxonomy, with cached weights of blocks.
* ``tree``: exact draws in a tree, from the number of concepts at each distance.
"""
