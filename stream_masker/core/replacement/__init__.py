"""The choice of a replacement: a concept whose distance to the value matches the noise (2017: algorithms 1 to 3).

``rule`` specifies the choice, and ``select`` picks the fastest engine: ``tree_bitset`` for low trees, ``dag`` for
other trees and directed acyclic graphs with the Wu–Palmer distance, ``rows`` for everything else, and for
candidates that are drawn by their frequencies in a window.
"""
