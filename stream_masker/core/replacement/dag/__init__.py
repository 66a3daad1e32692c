"""The replacement engine for directed acyclic graphs with the Wu-Palmer distance.

For each value a with noise ε and reference r, the engine draws a replacement c by the rule of
``core.replacement.rule``. It never visits all concepts of the graph. ``docs/architecture/dag-engine.md`` explains the
engine with a picture and an example.

* ``index``: arrays that depend on the taxonomy and the candidates alone; built once.
* ``query``: the named tuples that kernels pass to each other, first of all ``Query``.
* ``cache``: levels of values and results of queries, in bounded memory.
* ``scratch``: memory for one query at a time, with the marked ancestors of its value and its reference.
* ``pruning``: bounds that exclude members, blocks and lists that contain no admissible candidate.
* ``enumeration``: all admissible candidates of a level; ``near_set`` finds those of all levels at once.
* ``sampling``: one admissible candidate of a level, drawn uniformly.
* ``engine``: the choice of the level, and the loop over a batch. It is the only module with a class for other packages.

Notation in kernels: a is the value, r the reference and c a candidate, all as positions in the taxonomy; s is an
ancestor of a, t one of r, u one of r that may also be one of a. A concept is an ancestor of itself.
"""
