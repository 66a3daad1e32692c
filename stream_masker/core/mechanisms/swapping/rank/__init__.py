"""Semantic rank swapping (2019: Algorithms 1 to 3).

* ``mechanism``: the mechanism and its parameters. It runs Algorithm 1 itself.
* ``records``: which values swap with their records (Algorithm 3) and which alone (Algorithm 2), and large groups.
* ``units``: Algorithms 2 and 3. It arranges the swapped units (records or single values) in arrays for compiled code.
* ``state``: these arrays, and the operations on unswapped values. ``search``: nearest and farthest units. ``kernels``:
  the main loop.
* ``distance_table``: distances between distinct values, as exact integers.
* ``order``: the paper's literal definitions, for readers and for small data.
"""
