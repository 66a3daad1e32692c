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

from stream_masker.core.arrays import offsets_from_lengths, ranges, ratio
from stream_masker.core.dtypes import (
    Float32Array,
    Float32Matrix,
    Float64Array,
    Float64Matrix,
    Int32Array,
    Int64Array,
    UInt64Array,
)
from stream_masker.core.kernels import Tree, draw_given
from stream_masker.core.mechanisms.transport.certainty import Limits, Redraw, Told
from stream_masker.core.mechanisms.transport.fit import BLOCK_DEPTHS, Law, Values
from stream_masker.core.random import salts_of

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

    * ``attribute``: its index. ``law``: of the root and of it. ``source``, ``target``: (k_A, k_B) float64 P(b | a) and
      P(b* | a*). ``root``: (k_A, k_A) float64 P(a, a*) of the root.
    * ``redraw_chance``: (k_A, k_B) float32, the chance of each mask to be drawn again.
    * ``wanted``: E[d²] that is asked for; a and a* can force another one.
    """

    attribute: int
    law: Law
    source: Float64Matrix
    target: Float64Matrix
    root: Float64Matrix
    redraw_chance: Float32Matrix
    wanted: float

    @classmethod
    def of(cls, attribute: int, law: Law, wanted: float) -> Given:
        """Create the masking of an attribute given a root that stays, by which nothing is redrawn."""
        source, target = _conditional(law.dense(law.share)), _conditional(law.target)
        return cls(attribute, law, source, target, np.diag(law.marginal(0)), np.zeros(law.shape, np.float32), wanted)

    def redrawn(self, root: Float64Matrix, chances: Float32Array) -> Given:
        """Return the masking with another law of the root, and the η of all masks that can be, in row order."""
        redraw_chance = np.zeros_like(self.redraw_chance)
        redraw_chance[self.target > 0.0] = chances
        return replace(self, root=root, redraw_chance=redraw_chance)

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
        return Tree(
            source,
            target,
            self.redraw_chance,
            np.array(lines),
            parent,
            children,
            starts,
            salts_of(np.concatenate(names)),
        )

    def draw(
        self, root: Int32Array, root_new: Int32Array, codes: Int32Array, words: UInt64Array, lengths: Int64Array
    ) -> Int32Array:
        """Return the masks of values; all are positions. ``lengths``: (n,) the numbers of values of n records."""
        first, own = self.law.values
        indices = first.indices(root), first.indices(root_new), own.indices(codes)
        return own.positions[draw_given(self.tree, *indices, words, offsets_from_lengths(lengths))]

    def fitted(self, root: Float64Matrix, limits: Limits) -> Given:
        """Return the masking with the redraw that the limits, and the distance that is asked for, need.

        ``root``: (k_A, k_A) P(a, a*).
        """
        own, redraw_chance, chances = replace(self, root=root), np.zeros_like(self.redraw_chance), root.sum(axis=0)
        floor = own._floor()
        for new in np.flatnonzero(chances > 0.0).tolist():
            each = own.moves(new)
            bounds, ones = limits.given(each.prior, each.neglected, each.rows), np.ones((1, each.rows.size), np.float32)
            told = Told(ones, each.joint, each.chance.astype(np.float32)[None], each.chance, bounds)
            redraw_chance[new, each.masks] = Redraw.least([told], floor).redraw_chance
        return replace(own, redraw_chance=redraw_chance)

    def moves(self, new: int) -> Moves:
        """Return what moves beside the mask ``new`` of the root.

        K values of the root are likely, with E values of the attribute in all.
        """
        chances = self.root[:, new] / self.root[:, new].sum()
        likely = np.argsort(-chances)
        likely = likely[: np.searchsorted(np.cumsum(chances[likely]), 1.0 - NEGLECTED) + 1]
        kept = chances[likely] / chances[likely].sum()
        first, columns, shares = self._rows
        lengths = first[likely + 1] - first[likely]
        entries, of = ranges(first[likely], lengths), np.repeat(np.arange(likely.size), lengths)
        values, mass = columns[entries], kept[of] * shares[entries]
        places, row = np.unique(np.argsort(self._walk)[values], return_inverse=True)
        rows, q, masks = self._walk[places], self.tree.target[new], self._walk[self.target[new, self._walk] > 0.0]
        stays = kept[of] * np.minimum(shares[entries], q[values])
        joint = np.zeros((rows.size, masks.size), np.float32)
        _, at, to = np.intersect1d(rows, masks, assume_unique=True, return_indices=True)
        joint[at, to] = np.bincount(row, stays)[at]
        rising, falling = self._rising(likely, of, values, mass - stays, kept, q), self._falling(likely, masks, q)
        chapter = self.tree.lines[2]
        for nodes, turned, reached in zip(self.tree.lines[1:], rising, falling, strict=False):
            up = np.zeros((likely.size, rows.size), np.float32)
            up[of, row] = turned
            if nodes[0] == self.tree.parent.size - 1:
                joint += up.T @ reached
                break
            for each in np.unique(chapter[masks]).tolist():
                some, those = (slice(*np.searchsorted(chapter[own], (each, each + 1))) for own in (rows, masks))
                same = nodes[rows[some]][:, None] == nodes[masks[those]]
                joint[some, those] += np.where(same, up[:, some].T @ reached[:, those], np.float32(0.0))
        neglected = max(1.0 - float(chances[likely].sum()), 0.0)
        return Moves(rows, masks, joint, np.bincount(row, mass).astype(np.float64), self.target[new, masks], neglected)

    def _rising(
        self,
        likely: Int64Array,
        of: Int64Array,
        values: Int64Array,
        up: Float64Array,
        kept: Float64Array,
        q: Float32Array,
    ) -> Iterator[Float64Array]:
        """Yield, for each level above the values, (E,) the mass of each value that rises to it and no higher.

        ``of``: (E,) the value of the root, of K. ``up``: (E,) the mass that does not stay. ``q``: (N,) P(b* | a*).
        """
        size, tree = len(self.values), self.tree
        chapters = int(tree.lines[2].min())
        lost = np.maximum(tree.source[likely, size:] - q[size:], np.float32(0.0))
        gross = np.bincount(of * lost.shape[1] + tree.lines[1, values] - size, up / kept[of], lost.size).reshape(
            lost.shape
        )
        below = lost[:, tree.children[size:] - size]
        gross[:, chapters - size :] = np.add.reduceat(below, tree.starts[chapters:-1] - size, axis=1)
        leaving = np.minimum(ratio(lost.astype(np.float64), gross), 1.0)
        leaving[:, -1] = 0.0
        for nodes in tree.lines[1:]:
            share = leaving[of, nodes[values] - size]
            yield up * (1.0 - share)
            up = up * share

    def _falling(self, likely: Int64Array, masks: Int64Array, q: Float32Array) -> Iterator[Float32Matrix]:
        """Yield, for each level above the values, (K, n) the chance of each mask from its node of this level."""
        down, own, nodes = np.ones((likely.size, masks.size), np.float32), np.arange(masks.size), masks
        for _ in self.tree.lines[1:]:
            won = np.maximum(q[nodes] - self.tree.source[np.ix_(likely, nodes)], np.float32(0.0))
            starts = np.flatnonzero(np.diff(self.tree.parent[nodes], prepend=-1))
            above = np.repeat(np.arange(starts.size), np.diff(starts, append=nodes.size))
            down = down * ratio(won, np.add.reduceat(won, starts, axis=1)[:, above])[:, own]
            yield down
            own, nodes = above[own], self.tree.parent[nodes][starts]

    @cached_property
    def _rows(self) -> tuple[Int64Array, Int64Array, Float64Array]:
        """P(b | a) as compressed rows: offsets (k_A + 1,), the values and their shares."""
        rows, columns = np.nonzero(self.source)
        return np.searchsorted(rows, np.arange(len(self.source) + 1)), columns, self.source[rows, columns]

    @cached_property
    def _walk(self) -> Int64Array:
        """(k_B,) the values, those of a block next to each other, and those of a chapter."""
        return np.lexsort(self.tree.lines[:3])

    def joint(self) -> Float64Matrix:
        """Return (k_B, k_B) float64 P(b, b*), from ``DRAWN`` masks of the root, if it has more."""
        result = np.zeros((len(self.values),) * 2)
        for new, share in self._some[0]:
            each = self.moves(new)
            result[np.ix_(each.rows, each.masks)] += self._redrawn(new, each) * share
        return result

    def blocks(self) -> tuple[Iterator[Float64Matrix], bool]:
        """Return the joint law of the attribute's value and its record's masks, a block (k_B, m) for each mask of the
        root, or for ``DRAWN`` masks of it, which are drawn with ``DRAWN_GIVEN`` of the value by their chance; and
        whether they are drawn."""
        some, drawn = self._some
        return (self._block(new, share, drawn) for new, share in some), drawn

    def _block(self, new: int, share: float, drawn: bool) -> Float64Matrix:
        each = self.moves(new)
        picked, weights = np.arange(each.masks.size), each.chance
        if drawn:
            picked, weights = systematic(weights, DRAWN_GIVEN), np.full(DRAWN_GIVEN, 1.0 / DRAWN_GIVEN)
        block = np.zeros((len(self.values), picked.size))
        block[each.rows] = self._redrawn(new, each)[:, picked] * (share * weights / each.chance[picked])
        return block

    def _redrawn(self, new: int, moves: Moves) -> Float64Matrix:
        """Return (r, n) float64 P(b, b* | a*) with the redraw."""
        joint, redraw_chance = moves.joint.astype(np.float64), self.redraw_chance[new, moves.masks].astype(np.float64)
        weights = redraw_chance * moves.chance
        return np.asarray(
            joint * (1.0 - redraw_chance) + np.outer(joint @ redraw_chance, weights / max(weights.sum(), 1e-300))
        )

    @cached_property
    def _some(self) -> tuple[list[tuple[int, float]], bool]:
        """All masks of the root, with their chances, or some that are drawn by them; whether they are drawn."""
        chances = self.root.sum(axis=0)
        news = np.flatnonzero(chances > 0.0)
        if news.size <= DRAWN:
            return list(zip(news.tolist(), chances[news].tolist(), strict=True)), False
        return [(new, 1.0 / DRAWN) for new in systematic(chances, DRAWN).tolist()], True

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


def systematic(chances: Float64Array, count: int) -> Int64Array:
    """Return (count,) indices that are drawn in proportion to their chances, at equal steps."""
    steps = np.cumsum(chances)
    return np.asarray(np.searchsorted(steps, (np.arange(count) + 0.5) / count * steps[-1]), np.int64)


def _conditional(law: Float32Matrix) -> Float64Matrix:
    """Return P(b | a); that of all rows for a row without any."""
    wide = law.astype(np.float64)
    sums = wide.sum(axis=1, keepdims=True)
    return np.where(sums > 0.0, wide / np.where(sums > 0.0, sums, 1.0), wide.sum(axis=0) / wide.sum())
