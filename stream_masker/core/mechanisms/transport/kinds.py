"""Kinds of values: their chapters, their blocks, in a graph what is near them, and the sensitive groups among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stream_masker.core.arrays import offsets_from_lengths
from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import Float64Array, Float64Matrix, Int32Array, Int64Array
from stream_masker.core.kernels.jit import part
from stream_masker.core.ontology.graph import descendants_of
from stream_masker.core.ontology.taxonomy import Taxonomy
from stream_masker.core.risk.sensitive import present_groups

LEVELS = {"chapter": 2, "block": 3}
"""The levels by name: the depth of their concepts. The names are those of ICD."""
RADII = {"within 0.25": 0.25, "within 0.5": 0.5}
"""More levels of a graph, whose concepts of equal depth are hardly of one size: the greatest sd from the guess to the
original, by name."""
COMPARED_ROWS = 512
"""The number of values that are compared with all others at once."""


class KindTable(NamedTuple):
    """Guesses, each of which may name one of several sets of values, as compressed rows for kernels.

    * ``guesses``: (g + 1,) where the sets of each guess start. ``starts``: (n + 1,) where the members of each set
      start. ``members``: indices of values.
    """

    guesses: Int64Array
    starts: Int64Array
    members: Int64Array


@dataclass(frozen=True, slots=True, eq=False)
class Kinds:
    """The kinds of n values. Immutable.

    * ``levels``: the names of the levels. ``groups``: those of the sensitive groups.
    * ``sets``: for each level, then for each group, the indices of the values of each kind. In a graph a value can be
      of several. A value above a level is a kind of its own. A kind of ``RADII`` is what is near one of the values. A
      group is a single kind.
    """

    levels: tuple[str, ...]
    groups: tuple[str, ...]
    sets: tuple[tuple[Int64Array, ...], ...]

    @classmethod
    def of(cls, distance: Distance, values: Int32Array) -> Kinds:
        """Return the kinds of values; ``values``: (n,) positions. Groups without any of them are left out."""
        taxonomy = distance.taxonomy
        groups = {name: np.flatnonzero(members[values]) for name, members in present_groups(taxonomy).items()}
        occupied = {name: members for name, members in groups.items() if members.size}
        radii = {} if taxonomy.is_tree else RADII
        sets = [_level(taxonomy, values, depth) for depth in LEVELS.values()]
        sets += [_near(distance, values, radius) for radius in radii.values()]
        return cls((*LEVELS, *radii), tuple(occupied), (*sets, *((members,) for members in occupied.values())))

    @property
    def table(self) -> KindTable:
        """The kinds for kernels."""
        kinds = [kinds for level in self.sets for kinds in level]
        return KindTable(
            _offsets([len(level) for level in self.sets]),
            _offsets([kind.size for kind in kinds]),
            np.concatenate([np.empty(0, np.int64), *kinds]),
        )

    def greatest(self, joint: Float64Matrix) -> Float64Matrix:
        """Return (g, K): the greatest mass of a kind in each column, for each level and each group.

        ``joint``: (n, K) masses of the values.
        """
        rows = [[joint[members].sum(axis=0) for members in level] for level in self.sets]
        return np.array([np.max(row, axis=0) for row in rows])


NO_KINDS = Kinds((), (), ())
"""No kinds, where they are not needed."""


def _level(taxonomy: Taxonomy, values: Int32Array, depth: int) -> tuple[Int64Array, ...]:
    """Return the values below each concept of a depth, and each value above it."""
    concepts = np.flatnonzero(taxonomy.depth == depth).tolist()
    below = (descendants_of(c, taxonomy.child_offsets, taxonomy.children)[values] for c in concepts)
    sets = [np.flatnonzero(inside) for inside in below if inside.any()]
    return (*sets, *np.flatnonzero(taxonomy.depth[values] < depth)[:, None])


def _near(distance: Distance, values: Int32Array, radius: float) -> tuple[Int64Array, ...]:
    """Return the values within a radius of each value, without kinds that are part of another one: no guess of them is
    the best one."""
    parts = np.array_split(values, -(-values.size // COMPARED_ROWS))
    rows = [np.packbits(distance.between(part, values) <= radius, axis=1) for part in parts]
    kinds = np.unpackbits(np.unique(np.concatenate(rows), axis=0), axis=1, count=values.size).astype(np.float32)
    sizes = kinds.sum(axis=1)
    part_of = (kinds @ kinds.T == sizes[:, None]) & (sizes > sizes[:, None])
    return tuple(np.flatnonzero(kind) for kind in kinds[~part_of.any(axis=1)])


def _offsets(lengths: Sequence[int]) -> Int64Array:
    return offsets_from_lengths(np.array(lengths, np.int64))


@part
def greatest_kinds(column: Float64Array, total: float, kinds: KindTable, shares: Float64Array) -> None:
    """Set ``shares``, (g,), to the greatest share of a kind in a column, for each guess; ``total``: its sum."""
    for guess in range(shares.size):
        best = 0.0
        for kind in range(kinds.guesses[guess], kinds.guesses[guess + 1]):
            inside = 0.0
            for k in range(kinds.starts[kind], kinds.starts[kind + 1]):
                inside += column[kinds.members[k]]
            best = max(best, inside)
        shares[guess] = best / total
