"""Rungs: all distances at which candidates can lie around a value of a tree, in order.

In a tree, sd(c, a) depends on two numbers alone: the links i from a up to its ancestor s that is the least common
subsumer of both, and the links k from s down to c. A *rung* is such a pair; the rungs of a value depend on its depth
alone. Of a tree of height h, a value has fewer than h·(h + 1) / 2 rungs, so that those which hold candidates, those
that a sign condition leaves, and those of one distance are each a word of bits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import (
    Float64Matrix,
    Int64Array,
    Int64Cube,
    Int64Matrix,
    UInt64Array4D,
    UInt64Matrix,
)
from stream_masker.core.kernels.jit import kernel
from stream_masker.core.replacement.levels import is_beyond, level_of

MAX_HEIGHT = 10
"""Nodes on the longest way down of trees whose values have at most 64 rungs."""

WORD_BITS = 64
LEVEL_BUCKETS = 256
"""Parts of [0, 1] in which a distance's place among the rungs is looked up first."""

FARTHER, NEARER = range(2)
"""Sides of a sign condition."""

UP, DOWN = range(2)
"""Columns of ``LevelBitsets.links``."""


class LevelBitsets(NamedTuple):
    """The rungs of values at each depth da, 1 … h, ascending by distance, then by links up.

    links: (h + 1, 64, 2) int64 of each rung, up and down. distances: (h + 1, 66) of each rung, after a 0 that stands
    for the value itself and before inf. equal: (h + 1, 64) the rungs at the same distance as each. starts: (h + 1,
    ``LEVEL_BUCKETS``) rungs nearer than where a bucket begins. over: (h + 1, h + 1) the rungs of each ancestor, by
    links up.
    beyond: (2, h + 1, h + 1, h + 1), by side, da, the depth of the subsumer of a and a reference, and the reference's:
    the rungs that meet the sign condition; of those of the subsumer, where the reference lies below it, all that may.
    lengths: (h + 1, 2·h + 1) the distance of two concepts, by their subsumer's depth and the links from both up to it.
    """

    links: Int64Cube
    distances: Float64Matrix
    equal: UInt64Matrix
    starts: Int64Matrix
    over: UInt64Matrix
    beyond: UInt64Array4D
    lengths: Float64Matrix


def level_bitsets(distance: Distance) -> LevelBitsets:
    """The rungs of a tree of height ``MAX_HEIGHT`` or less."""
    height = int(distance.taxonomy.depth.max())
    of_depth = [_ordered(distance.kind, depth, height) for depth in range(1, height + 1)]
    rungs = _empty(height)
    for depth, ordered in enumerate(of_depth, start=1):
        _write(rungs, depth, ordered)
    for depth in range(1, height + 1):
        for links in range(2 * height + 1):
            rungs.lengths[depth, links] = level_of(distance.kind, depth, links)
    write_beyond(rungs.links, np.array([0, *map(len, of_depth)]), rungs.lengths, rungs.beyond)
    return rungs


def _empty(height: int) -> LevelBitsets:
    size = height + 1
    return LevelBitsets(
        links=np.zeros((size, WORD_BITS, 2), np.int64),
        distances=np.full((size, WORD_BITS + 2), np.inf),
        equal=np.zeros((size, WORD_BITS), np.uint64),
        starts=np.zeros((size, LEVEL_BUCKETS), np.int64),
        over=np.zeros((size, size), np.uint64),
        beyond=np.zeros((2, size, size, size), np.uint64),
        lengths=np.zeros((size, 2 * height + 1)),
    )


def _ordered(kind: int, depth: int, height: int) -> list[tuple[float, int, int]]:
    """(distance, links up, links down) of all rungs of a depth, ascending."""
    pairs = [(up, down) for up in range(depth) for down in range(height - depth + up + 1) if up or down]
    return sorted((level_of(kind, depth - up, up + down), up, down) for up, down in pairs)


def _write(rungs: LevelBitsets, depth: int, ordered: list[tuple[float, int, int]]) -> None:
    rungs.distances[depth, 0] = 0.0
    for rung, (distance, up, down) in enumerate(ordered):
        rungs.links[depth, rung] = up, down
        rungs.distances[depth, rung + 1] = distance
        rungs.equal[depth, rung] = sum(1 << other for other, same in enumerate(ordered) if same[0] == distance)
        rungs.over[depth, up] |= np.uint64(1 << rung)
    levels = np.array([distance for distance, _, _ in ordered])
    rungs.starts[depth] = np.searchsorted(levels, np.arange(LEVEL_BUCKETS) / LEVEL_BUCKETS, side="left")


@kernel
def write_beyond(links: Int64Cube, counts: Int64Array, lengths: Float64Matrix, beyond: UInt64Array4D) -> None:
    """Fills in which rungs can meet a sign condition."""
    height = counts.size - 1
    for depth in range(1, height + 1):
        for meeting in range(1, depth + 1):
            for reference in range(meeting, height + 1):
                own = lengths[meeting, depth + reference - 2 * meeting]
                for rung in range(counts[depth]):
                    at, down = depth - links[depth, rung, UP], links[depth, rung, DOWN]
                    subsumer = min(at, meeting)
                    distance = lengths[subsumer, at + down + reference - 2 * subsumer]
                    beside = at == meeting and reference != meeting
                    bit = np.uint64(1) << np.uint64(rung)
                    if is_beyond(1, distance, own):
                        beyond[FARTHER, depth, meeting, reference] |= bit
                    if beside or is_beyond(-1, distance, own):
                        beyond[NEARER, depth, meeting, reference] |= bit
