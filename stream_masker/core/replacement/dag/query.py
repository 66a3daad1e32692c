"""The named tuples that the kernels of the engine pass to each other.

A named tuple costs a kernel nothing. Each array in one, however, is seven words in a call of a function that is not
inlined, so a ``part`` receives ``DagArrays`` only where it needs most of them.
"""

from __future__ import annotations

from typing import NamedTuple

from stream_masker.core.dtypes import Float64Array, Int32Array, Int64Array, UInt8Array, UInt64Array
from stream_masker.core.replacement.rule import Separation


class Query(NamedTuple):
    """A value a, a reference r and a sign, with their entries in the cache.

    value, reference: positions; the reference is -1 if sign is 0.
    sign: 1 if a candidate must be farther from r than a is, -1 if nearer, 0 if there is no such condition.
    own_distance: between a and r.
    entry: index in ``CandidateCache.queries``.
    first_level, level_count: the levels of a in the cache are first_level … first_level + level_count - 1.
    """

    value: int
    reference: int
    sign: int
    own_distance: Separation
    entry: int
    first_level: int
    level_count: int


class TaskArrays(NamedTuple):
    """A ``ReplacementTask`` of k values, and the order in which they are replaced.

    order: (k,) indices, sorted by value and reference, so that equal queries are neighbours.
    """

    order: Int64Array
    codes: Int32Array
    references: Int32Array
    noise: Float64Array
    rounding: UInt64Array
    ties: UInt64Array


class ReplacementArrays(NamedTuple):
    """The arrays of a ``Replacement``, written in place."""

    codes: Int32Array
    distances: Float64Array
    flags: UInt8Array
