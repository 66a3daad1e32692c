"""Attributes that are masked given the root: further scalars, and the elements of arrays.

A value b of a record with the root a, whose mask is a*, moves by a coupling from P(b | a) to P(b* | a*), and is redrawn
from P(b* | a*) where its mask would tell too much. Given a*, the mask b* is independent of a. So all masks of a record
tell no more about a than a* alone. Each attribute keeps its law with the root, and its relation to others as far as the
root explains it. Elements are drawn independently of each other given the root, but differ where the originals do.

The coupling moves as little mass through the tree of blocks and chapters as both laws allow (an optimal transport for
the distance of this tree). A value leaves a node with the share of mass that the node loses from P(b | a) to P(b* |
a*), and comes down from the last node that it does not leave, in proportion to the mass that the nodes below it win. If
the laws force a smaller distance than is asked for, a redraw of all values adds the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.arrays import (
    Float32Array,
    Float64Array,
    Int32Array,
    Int64Array,
    UInt64Array,
    offsets_from_lengths,
)
from stream_masker.core.kernels import Tree, couple, draw_given
from stream_masker.core.mechanisms.transport.certainty import Limits, Told, least_redraw
from stream_masker.core.mechanisms.transport.fit import BLOCK_DEPTHS, Law
from stream_masker.core.random import salts_of

NEGLECTED = 3e-3
"""The greatest share of records whose root values are left out, the least probable ones, where it is computed what
masks tell. Limits are lowered by it."""
DRAWN = 100
"""How many masks of the root stand for all where it is computed how far values move, and in the risk."""


class Table(NamedTuple):
    """What masks tell of k values of an attribute.

    ``rows``, ``masks``: (k,), (m,) indices of values, and of the attribute's masks, which are those of the rows or of
    the columns of ``told``, by ``which``. ``redraw_chance``: (n,) float32 η. ``share``: of the records it is about, and
    whether it is ``drawn`` to stand for others too.
    """

    rows: Int64Array
    masks: Int64Array
    told: Told
    which: int
    redraw_chance: Float32Array
    share: float = 1.0
    drawn: bool = False


@dataclass(frozen=True, eq=False)
class Given:
    """An attribute that is masked given the root.

    * ``law``: of the root and of it. ``root``: (k_A, k_A) float64 P(a, a*) of the root.
    * ``redraw_chance``: (k_A, k_B) float32, the chance of each mask to be drawn again.
    """

    law: Law
    root: Float64Array
    redraw_chance: Float32Array

    @cached_property
    def source(self) -> Float64Array:
        """(k_A, k_B) float64 P(b | a)."""
        return conditional(self.law.share)

    @cached_property
    def target(self) -> Float64Array:
        """(k_A, k_B) float64 P(b* | a*)."""
        return conditional(self.law.target)

    @cached_property
    def tree(self) -> Tree:
        """The values, and the blocks, chapters and root above them, with the mass of each in both laws."""
        own, masses = self.law.values[1], [[self.source], [self.target]]
        names, lines, parent = [own.positions.astype(np.int64)], [np.arange(len(own))], np.zeros(0, np.int64)
        for depth in BLOCK_DEPTHS:
            concepts, of = np.unique(own.ancestors(depth), return_inverse=True)
            start = parent.size + names[-1].size
            below = np.zeros(names[-1].size, np.int64)
            below[lines[-1] - parent.size] = of + start
            parent = np.concatenate([parent, below])
            member = (of[:, None] == np.arange(concepts.size)).astype(np.float64)
            for each in masses:
                each.append(each[0] @ member)
            names.append(concepts)
            lines.append(of + start)
        children = np.argsort(parent, kind="stable")
        starts = np.searchsorted(parent[children], np.arange(parent.size + 2))
        source, target = (np.concatenate(each, axis=1).astype(np.float32) for each in masses)
        parent = np.append(parent, parent.size)
        salts = salts_of(np.concatenate(names))
        return Tree(source, target, self.redraw_chance, np.array(lines), parent, children, starts, salts)

    def draw(
        self, root: Int32Array, root_new: Int32Array, codes: Int32Array, words: UInt64Array, lengths: Int64Array
    ) -> Int32Array:
        """Return the masks of values; all are positions. ``lengths``: (n,) the numbers of values of n records."""
        first, own = self.law.values
        indices = first.indices(root), first.indices(root_new), own.indices(codes)
        return own.positions[draw_given(self.tree, *indices, words, offsets_from_lengths(lengths))]

    @classmethod
    def fitted(cls, law: Law, root: Float64Array, limits: Limits, wanted: float) -> Given:
        """Return the masking with the redraw that the limits need, and E[d²] = ``wanted``; a and a* can force more."""
        plain, redraw_chance = cls(law, root, np.zeros_like(law.target)), np.zeros_like(law.target)
        near = far = 0.0
        for each in plain.tables():
            squares, told = law.values[1].squares[np.ix_(each.rows, each.masks)], each.told
            near += float((told.second * squares).sum()) * each.share
            far += float(told.limits.prior @ squares @ told.chance) * each.share
        floor = float(np.clip((wanted - near) / max(far - near, 1e-12), 0.0, 1.0))
        for new in np.flatnonzero(root.sum(axis=0) > 0.0).tolist():
            each = plain.table(new, limits)
            redraw_chance[new, each.masks] = least_redraw([each.told], floor)
        return cls(law, root, redraw_chance)

    def table(self, new: int, limits: Limits | None = None) -> Table:
        """Return what masks tell beside the mask ``new`` of the root; ``limits``: of all values, 1 without them.

        The least probable values of the root are left out; the limits are lowered by their share.
        """
        chances = self.root[:, new] / self.root[:, new].sum()
        likely = np.argsort(-chances)
        likely = likely[: np.searchsorted(np.cumsum(chances[likely]), 1.0 - NEGLECTED) + 1]
        kept = chances[likely] / chances[likely].sum()
        prior = kept @ self.source[likely]
        rows, walk = np.flatnonzero(prior), np.lexsort(self.tree.lines[:3])  # each block and chapter in one piece
        masks = walk[self.target[new, walk] > 0.0]
        joint, chance = couple(self.tree, likely, kept, new, masks)[rows], self.target[new, masks]
        limits, neglected = limits or Limits.of(prior), max(1.0 - float(chances[likely].sum()), 0.0)
        asked = np.append(limits.greatest[rows], limits.greatest[prior.size :]) - neglected
        bounds = Limits.of(prior[rows], asked, limits.groups[:, rows])
        told = Told(np.ones((1, rows.size), np.float32), joint, chance.astype(np.float32)[None], chance, bounds)
        return Table(rows, masks, told, 1, self.redraw_chance[new, masks])

    def tables(self) -> Iterator[Table]:
        """Yield a table for each mask of the root; if they are more than ``DRAWN``, for that many drawn ones."""
        chances = self.root.sum(axis=0)
        drawn = bool(np.count_nonzero(chances) > DRAWN)
        for new, share in zip(*sampled(chances, DRAWN), strict=True):
            yield self.table(int(new))._replace(share=float(share), drawn=drawn)


def sampled(chances: Float64Array, count: int) -> tuple[Int64Array, Float64Array]:
    """Return the indices that can be drawn, and their shares; if they are more than ``count``, that many, drawn in
    proportion to their chances at equal steps, with equal shares."""
    found, steps = np.flatnonzero(chances), np.cumsum(chances)
    if found.size <= count:
        return found, chances[found] / steps[-1]
    return np.searchsorted(steps, (np.arange(count) + 0.5) / count * steps[-1]), np.full(count, 1.0 / count)


def conditional(law: NDArray[np.floating]) -> Float64Array:
    """Return P(b | a) of a joint law; that of all rows for a row without any."""
    wide = law.astype(np.float64)
    sums = wide.sum(axis=1, keepdims=True)
    return np.where(sums > 0.0, wide / np.where(sums > 0.0, sums, 1.0), wide.sum(axis=0) / wide.sum())
