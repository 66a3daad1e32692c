"""Algorithms over rooted DAGs of is-a links, given as compressed rows (offsets and indices).

m is the number of concepts. Except in ``compress`` and ``ordered``, the position of every parent is less than those of
its children, as in a ``Taxonomy``. Each works level by level, with NumPy.
"""

from __future__ import annotations

import numpy as np

from stream_masker.core.arrays import offsets_from_lengths, ranges
from stream_masker.core.dtypes import Int32Array, Int64Array


def compress(rows: Int64Array, columns: Int64Array, size: int) -> tuple[Int64Array, Int32Array]:
    """Compressed rows of the links (rows[k], columns[k]): offsets (size + 1,), and columns, ascending in each row."""
    links = np.sort(rows * size + columns)
    return offsets_from_lengths(np.bincount(rows, minlength=size)), (links % size).astype(np.int32)


def ordered(children: Int64Array, parents: Int64Array, size: int) -> list[Int64Array]:
    """Order concepts by depth, then by the place of the first parent in this order, then by index.

    ``children[k]`` is-a ``parents[k]``. Return the concepts of each depth in turn; those in or below a cycle are
    missing. A concept is as deep as the last of its parents is early (Kahn's algorithm, a level at a time).
    """
    offsets, below = compress(parents, children, size)
    waiting = np.bincount(children, minlength=size)
    first = np.full(size, size)
    level, levels, placed = np.flatnonzero(waiting == 0), [], 0
    while level.size:
        levels.append(level)
        lengths = offsets[level + 1] - offsets[level]
        reached = below[ranges(offsets[level], lengths)]
        np.minimum.at(first, reached, np.repeat(np.arange(placed, placed + level.size), lengths))
        np.subtract.at(waiting, reached, 1)
        placed += level.size
        ready = np.unique(reached[waiting[reached] == 0])
        level = ready[np.argsort(first[ready], kind="stable")]
    return levels


def closure(
    parent_offsets: Int64Array, parents: Int32Array, depth: Int32Array
) -> tuple[Int64Array, Int32Array, Int32Array]:
    """Return the ancestors of every concept, including itself: offsets (m + 1,), positions (descending), shortest
    paths.

    The ancestors of a concept are itself, at 0 links, and the ancestors of its parents, one link farther. ``depth``:
    (m,) int32, ascending; that of every parent is smaller.
    """
    m, span = depth.size, int(depth[-1]) + 1
    offsets, ancestors, paths = np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.int32)
    for level in np.split(np.arange(m), np.flatnonzero(np.diff(depth)) + 1):
        counts = np.diff(parent_offsets[level[0] : level[-1] + 2])
        above = parents[parent_offsets[level[0]] : parent_offsets[level[-1] + 1]]
        lengths = offsets[above + 1] - offsets[above]
        inherited = ranges(offsets[above], lengths)
        owners = np.concatenate((level, np.repeat(np.repeat(level, counts), lengths))) - level[0]
        reached = np.concatenate((level, ancestors[inherited]))
        links = np.concatenate((np.zeros(level.size, np.int64), paths[inherited] + 1))
        rows, shortest = np.divmod(np.sort((owners * m + (m - 1 - reached)) * span + links), span)
        is_first = np.diff(rows, prepend=-1) > 0
        owners, reached = np.divmod(rows[is_first], m)
        offsets = np.concatenate((offsets, offsets[-1] + np.cumsum(np.bincount(owners))))
        ancestors = np.concatenate((ancestors, (m - 1 - reached).astype(np.int32)))
        paths = np.concatenate((paths, shortest[is_first].astype(np.int32)))
    return offsets, ancestors, paths


def first_parents_of(parent_offsets: Int64Array, parents: Int32Array) -> Int32Array:
    """Return (m,) int32: the first parent of each concept, 0 for the root."""
    return np.concatenate((np.zeros(1, np.int32), parents[parent_offsets[1:-1]]))
