"""Lines of ancestors, by which concepts are generalized.

A line follows one parent of each concept: of its parents one level above it, the one with the least position. In a tree
it is the only one. Each concept thus has one line, with one ancestor at every level up to the root.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from stream_masker.core.dtypes import BoolArray, Int32Array, Int64Array
from stream_masker.core.ontology.taxonomy import Taxonomy

NO_POSITION = -1
"""The position of a parent or an ancestor that does not exist."""


def line_parents(taxonomy: Taxonomy) -> Int32Array:
    """Return (m,) int32: the parent of each concept in its line of ancestors, ``NO_POSITION`` for the root."""
    if taxonomy.is_tree:
        return taxonomy.tree.parent
    children = np.repeat(np.arange(len(taxonomy)), np.diff(taxonomy.parent_offsets))
    above = taxonomy.depth[taxonomy.parents] == taxonomy.depth[children] - 1
    linked, first = np.unique(children[above], return_index=True)
    parents = np.full(len(taxonomy), NO_POSITION, np.int32)
    parents[linked] = taxonomy.parents[above][first]
    return parents


@lru_cache(maxsize=16)
def to_level(taxonomy: Taxonomy, depth: int) -> Int32Array:
    """Return (m,) int32: the ancestor of each concept at a depth from 1 on; a concept above it is its own."""
    return nearest(taxonomy, taxonomy.depth <= depth)


def nearest(taxonomy: Taxonomy, chosen: BoolArray) -> Int32Array:
    """Return (m,) int32: each concept itself, or the nearest of its ancestors, that is chosen; ``NO_POSITION`` if
    there is none. ``chosen``: (m,) bool."""
    parents, ancestors = line_parents(taxonomy), np.full(len(taxonomy), NO_POSITION, np.int32)
    for level in levels(taxonomy):
        above = parents[level]
        inherited = np.where(above == NO_POSITION, NO_POSITION, ancestors[above])
        ancestors[level] = np.where(chosen[level], level, inherited)
    return ancestors


def levels(taxonomy: Taxonomy) -> list[Int64Array]:
    """Return the concepts of each depth, the root first; positions are ordered by depth."""
    starts = np.searchsorted(taxonomy.depth, np.arange(2, int(taxonomy.depth[-1]) + 1))
    return np.split(np.arange(len(taxonomy)), starts)
