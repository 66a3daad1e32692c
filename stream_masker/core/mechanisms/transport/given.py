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
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from stream_masker.core.arrays import offsets_from_lengths
from stream_masker.core.dtypes import (
    Float32Matrix,
    Float64Array,
    Float64Matrix,
    Int32Array,
    Int64Array,
    UInt64Array,
)
from stream_masker.core.kernels import Tree, couple, draw_given
from stream_masker.core.mechanisms.transport.certainty import Limits, Told, least_redraw
from stream_masker.core.mechanisms.transport.fit import BLOCK_DEPTHS, Law, Values
from stream_masker.core.random import salts_of
from stream_masker.core.statistics.packing import unpack_array

NEGLECTED = 1e-3
"""The greatest share of records whose root values are left out, the least probable ones, where it is computed what
masks tell. Limits are lowered by it."""
TRIED = 64
"""From how many masks of the root the distance without a redraw is estimated."""
DRAWN, DRAWN_GIVEN = 100, 40
"""How many masks of the root, and of the value for each of them, stand for all in the risk."""


class Moves(NamedTuple):
    """P(b, b* | a*) before the redraw, for the values and masks that can be.

    ``rows``, ``masks``: (r,), (n,) indices. ``joint``: (r, n) float32. ``prior``: (r,) P(b | a*). ``chance``: (n,)
    P(b* | a*). ``neglected``: the share of records that are left out; no posterior is wrong by more.
    """

    rows: Int64Array
    masks: Int64Array
    joint: Float32Matrix
    prior: Float64Array
    chance: Float64Array
    neglected: float


@dataclass(frozen=True, eq=False)
class Given:
    """An attribute that is masked given the root.

    * ``attribute``: its index. ``law``: of the root and of it.
    * ``wanted``: E[d²] that is asked for; a and a* can force another one.
    * ``root``: (k_A, k_A) float64 P(a, a*) of the root.
    * ``redraw_chance``: (k_A, k_B) float32, the chance of each mask to be drawn again.
    """

    attribute: int
    law: Law
    wanted: float
    root: Float64Matrix
    redraw_chance: Float32Matrix

    @classmethod
    def read(cls, attribute: int, law: Law, wanted: float, root: Float64Matrix, redrawn: object) -> Given:
        """Create the masking from its published η of the masks that can be, in row order."""
        redraw_chance, can = np.zeros(law.shape, np.float32), _conditional(law.target) > 0.0
        redraw_chance[can] = unpack_array(redrawn, np.float32, int(np.count_nonzero(can)))
        return cls(attribute, law, wanted, root, redraw_chance)

    @cached_property
    def source(self) -> Float64Matrix:
        """(k_A, k_B) float64 P(b | a)."""
        return _conditional(self.law.dense(self.law.share))

    @cached_property
    def target(self) -> Float64Matrix:
        """(k_A, k_B) float64 P(b* | a*)."""
        return _conditional(self.law.target)

    @property
    def prior(self) -> Float64Array:
        """(k_B,) float64 P(b)."""
        return np.asarray(self.root.sum(axis=1) @ self.source)

    @property
    def values(self) -> Values:
        """Those of the attribute."""
        return self.law.values[1]

    @cached_property
    def tree(self) -> Tree:
        """The values, and the blocks, chapters and root above them, with the mass of each in both laws."""
        size, masses = len(self.values), [[self.source], [self.target]]
        names, lines, parent = [self.values.positions.astype(np.int64)], [np.arange(size)], np.zeros(0, np.int64)
        for depth in BLOCK_DEPTHS:
            concepts, of = np.unique(self.values.ancestors(depth), return_inverse=True)
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

    def fitted(self, limits: Limits) -> Given:
        """Return the masking with the redraw that the limits, and the distance that is asked for, need."""
        redraw_chance, floor = np.zeros(self.law.shape, np.float32), self._floor()
        for new in np.flatnonzero(self.root.sum(axis=0) > 0.0).tolist():
            each = self.moves(new)
            bounds, ones = limits.given(each.prior, each.neglected, each.rows), np.ones((1, each.rows.size), np.float32)
            told = Told(ones, each.joint, each.chance.astype(np.float32)[None], each.chance, bounds)
            redraw_chance[new, each.masks] = least_redraw([told], floor)
        return replace(self, redraw_chance=redraw_chance)

    def moves(self, new: int) -> Moves:
        """Return what moves beside the mask ``new`` of the root."""
        chances = self.root[:, new] / self.root[:, new].sum()
        likely = np.argsort(-chances)
        likely = likely[: np.searchsorted(np.cumsum(chances[likely]), 1.0 - NEGLECTED) + 1]
        kept = chances[likely] / chances[likely].sum()
        prior = kept @ self.source[likely]
        rows, masks = np.flatnonzero(prior), self._walk[self.target[new, self._walk] > 0.0]
        joint = couple(self.tree, likely, kept, new, masks)[rows]
        neglected = max(1.0 - float(chances[likely].sum()), 0.0)
        return Moves(rows, masks, joint, prior[rows], self.target[new, masks], neglected)

    @cached_property
    def _walk(self) -> Int64Array:
        """(k_B,) the values, those of a block next to each other, and those of a chapter."""
        return np.lexsort(self.tree.lines[:3])

    def joint(self) -> Float64Matrix:
        """Return (k_B, k_B) float64 P(b, b*), from ``DRAWN`` masks of the root, if it has more."""
        result, (news, shares, _) = np.zeros((len(self.values),) * 2), sampled(self.root.sum(axis=0), DRAWN)
        for new, share in zip(news.tolist(), shares.tolist(), strict=True):
            each = self.moves(new)
            result[np.ix_(each.rows, each.masks)] += self._redrawn(new, each) * share
        return result

    def blocks(self) -> tuple[Iterator[Float64Matrix], bool]:
        """Return the joint law of the attribute's value and its record's masks, a block (k_B, m) for each mask of the
        root, or for ``DRAWN`` masks of it, which are drawn with ``DRAWN_GIVEN`` of the value by their chance; and
        whether they are drawn."""
        news, shares, drawn = sampled(self.root.sum(axis=0), DRAWN)

        def block(new: int, share: float) -> Float64Matrix:
            each = self.moves(new)
            picked, weights, _ = sampled(each.chance, DRAWN_GIVEN if drawn else each.chance.size)
            columns = np.zeros((len(self.values), picked.size))
            columns[each.rows] = self._redrawn(new, each)[:, picked] * (share * weights / each.chance[picked])
            return columns

        return map(block, news.tolist(), shares.tolist()), drawn

    def _redrawn(self, new: int, moves: Moves) -> Float64Matrix:
        """Return (r, n) float64 P(b, b* | a*) with the redraw."""
        joint, redraw_chance = moves.joint.astype(np.float64), self.redraw_chance[new, moves.masks].astype(np.float64)
        weights = redraw_chance * moves.chance
        again = np.outer(joint @ redraw_chance, weights / max(weights.sum(), 1e-300))
        return np.asarray(joint * (1.0 - redraw_chance) + again)

    def _floor(self) -> float:
        """Return the η of all masks by which values move as far as is asked for; 0 where they move so anyway."""
        near = far = 0.0
        for new in systematic(self.root.sum(axis=0), TRIED).tolist():
            each = self.moves(new)
            between = self.values.squares[np.ix_(each.rows, each.masks)]
            near += float((each.joint * between).sum()) / TRIED
            far += float(each.prior @ between @ each.chance) / TRIED
        return float(np.clip((self.wanted - near) / max(far - near, 1e-12), 0.0, 1.0))

    def groups(self, limits: Limits) -> list[tuple[Float64Array, float]]:
        """Return the groups by which the root's mask tells of the attribute: the chance of each value given the root.

        ``limits``: of the attribute. What cannot exceed its limit is left out.
        """
        weights = np.concatenate([self.source.T, limits.groups @ self.source.T])
        over = weights.max(axis=1) > limits.greatest
        return list(zip(weights[over], limits.greatest[over].tolist(), strict=True))


def sampled(chances: Float64Array, count: int) -> tuple[Int64Array, Float64Array, bool]:
    """Return the indices that can be drawn and their shares; if they are more than ``count``, that many drawn ones with
    equal shares. Also return whether they are drawn."""
    found = np.flatnonzero(chances)
    if found.size <= count:
        return found, chances[found] / chances.sum(), False
    return systematic(chances, count), np.full(count, 1.0 / count), True


def systematic(chances: Float64Array, count: int) -> Int64Array:
    """Return (count,) indices that are drawn in proportion to their chances, at equal steps."""
    steps = np.cumsum(chances)
    return np.asarray(np.searchsorted(steps, (np.arange(count) + 0.5) / count * steps[-1]), np.int64)


def _conditional(law: Float32Matrix) -> Float64Matrix:
    """Return P(b | a); that of all rows for a row without any."""
    wide = law.astype(np.float64)
    sums = wide.sum(axis=1, keepdims=True)
    return np.where(sums > 0.0, wide / np.where(sums > 0.0, sums, 1.0), wide.sum(axis=0) / wide.sum())
