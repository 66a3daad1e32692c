"""What the masks of an attribute tell given one mask a* of the root, in closed form.

Given a and a*, b stays itself as far as p = P(b | a) and q = P(b* | a*) have it. What a node (a block, a chapter, all)
has too much of p becomes what it has too much of q, in proportion, the nearest level first. So P(b, b* | a, a*) is
min(p, q) on the diagonal, and for each level a rate of b times what the lower levels left of q − p at b*. Only values
that occur with a have p, so sums over the window's pairs give all that is asked, without a matrix of values.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.arrays import ratio
from stream_masker.core.dtypes import (
    BoolArray,
    Float32Array,
    Float32Matrix,
    Float64Array,
    Float64Matrix,
    Int32Array,
    Int32Matrix,
    Int64Array,
)
from stream_masker.core.kernels.transport import sparse_product
from stream_masker.core.mechanisms.transport.certainty import SLACK, Excess, Limits

ROUNDING = 1e-6
"""The relative difference of shares that are equal but for rounding."""


class Level(NamedTuple):
    """The nodes of one level with pairs of some root value. ``starts``: their first parts in the level below.
    ``of``: the node of each part. ``node``: which block, or chapter, it is."""

    starts: Int64Array
    of: Int64Array
    node: Int64Array


class Nodes(NamedTuple):
    """The pairs (a, b) of a window in the order of a, chapter, block and b; a value a without any is as all of them.

    * ``row``: (k_A,) the number of each a. ``source``: P(b | a) of each number.
    * ``a``, ``b``, ``p``: (m,) the number and the value of each pair, and P(b | a).
    * ``levels``: blocks, chapters, all. ``root``: for each level the number of a of its nodes. ``above``: for each
      level (k_B,) the node of each value. ``chapter``: that of each block.
    """

    row: Int64Array
    source: Float32Matrix
    a: Int32Array
    b: Int32Array
    p: Float64Array
    levels: tuple[Level, ...]
    root: tuple[Int64Array, ...]
    above: tuple[Int64Array, ...]
    chapter: Int64Array

    @classmethod
    def of(cls, source: Float32Matrix, block: Int32Array, nodes: Int32Matrix, known: BoolArray) -> Nodes:
        """Sort the pairs. ``source``: (k_A, k_B) P(b | a). ``known``: whether a has a pair."""
        some = np.flatnonzero(known) if known.all() else np.append(np.flatnonzero(known), np.flatnonzero(~known)[0])
        row = np.full(known.size, some.size - 1)
        row[some] = np.arange(some.size)
        above = tuple(node[block].astype(np.int64) for node in nodes)
        a, b = np.nonzero(source[some])
        order = np.lexsort((b, above[0][b], above[1][b], a))
        a, b = a[order], b[order]
        levels, keys = [], [(a, each[b]) for each in above]
        for level, (first, second) in enumerate(keys):
            changed = (np.diff(first, prepend=-1) != 0) | (np.diff(second, prepend=-1) != 0)
            starts, of = np.flatnonzero(changed), np.cumsum(changed) - 1
            levels.append(Level(starts, of, second[starts]))
            keys[level + 1 :] = [(x[starts], y[starts]) for x, y in keys[level + 1 :]]
        root, chance = tuple(first[level.starts] for (first, _), level in zip(keys, levels, strict=True)), source[some]
        p, pair = chance[a, b].astype(np.float64), (a.astype(np.int32), b.astype(np.int32))
        return cls(row, chance, *pair, p, tuple(levels), root, above, nodes[1].astype(np.int64))


@dataclass(eq=False)
class Coupled:
    """P(b, b* | a*) (``certainty.Told``).

    * ``chance``: (1, k_B) float64 q. ``weights``: (m,) P(a | a*); ``chances``: that of each number of a.
    * ``held``: (m,) min(p, q). ``rates``: for each level (m,) of b. ``kept``: for each level the share of q − p that
      its nodes leave for higher ones.
    * ``known``: (k_B, n) the posteriors of the n masks that were asked for; it grows. ``place``: (k_B,) their columns,
      −1 of others.
    """

    nodes: Nodes
    chance: Float64Matrix
    weights: Float64Array
    held: Float64Array
    rates: tuple[Float64Array, ...]
    kept: tuple[Float64Array, ...]
    chances: Float64Array
    known: Float32Matrix
    place: Int64Array

    @classmethod
    def of(cls, nodes: Nodes, chances: Float64Array, target: Float32Array) -> Coupled:
        """Couple all pairs with P(b* | a*), (k_B,); ``chances``: (k_A,) P(a | a*)."""
        q = target.astype(np.float64) / target.sum(dtype=np.float64)
        held = np.minimum(nodes.p, q[nodes.b])
        more = rest = nodes.p - held
        covered, place = held, np.arange(nodes.p.size)
        rates: list[Float64Array] = []
        kept: list[Float64Array] = []
        for level, above in zip(nodes.levels, nodes.above, strict=True):
            more, covered = (np.asarray(np.add.reduceat(x, level.starts), np.float64) for x in (more, covered))
            less = np.asarray(np.maximum(np.bincount(above, q)[level.node] - covered, 0.0), np.float64)
            matched, place = np.asarray(np.minimum(more, less), np.float64), level.of[place]
            rates.append(rest * ratio(matched, more * less)[place])
            kept.append(ratio(less - matched, less))
            rest = rest * ratio(more - matched, more)[place]
            more, covered = more - matched, covered + matched
        weights = np.bincount(nodes.row, chances).astype(np.float64)
        known, place = np.zeros((q.size, 0), np.float32), np.full(q.size, -1)
        return cls(nodes, q[None], weights[nodes.a], held, tuple(rates), tuple(kept), weights, known, place)

    @cached_property
    def prior(self) -> Float64Array:
        """(k_B,) float64 P(b | a*)."""
        return np.bincount(self.nodes.b, self.weights * self.nodes.p, self.chance.size).astype(np.float64)

    def mixed(self, weights: NDArray[np.floating]) -> Float64Array:
        """Return (k_B,) float64: Σ_b* P(b, b* | a*)·weights(b*) / q(b*); ``weights``: (1, k_B).

        The least share of all masks is one of the prior.
        """
        masks = np.flatnonzero(self.chance[0])
        shares = weights[0, masks] / self.chance[0, masks]
        least = float(shares.min())
        more = shares > least * (1.0 + ROUNDING)
        self._learn(masks[more])
        rest = np.zeros(self.known.shape[1], np.float32)
        rest[self.place[masks[more]]] = (shares[more] - least) * self.chance[0, masks[more]]
        return np.asarray(least * self.prior + self.known @ rest)

    def posteriors(self, masks: Int64Array) -> Float32Matrix:
        """Return (k_B, n) float32 P(b | b*, a*) of n masks that have a chance."""
        self._learn(masks)
        return self.known[:, self.place[masks]]

    def _learn(self, masks: Int64Array) -> None:
        new = np.unique(masks[self.place[masks] < 0])
        if new.size:
            self.place[new] = np.arange(self.known.shape[1], self.known.shape[1] + new.size)
            self.known = np.concatenate([self.known, self._columns(new)], axis=1)

    def _columns(self, masks: Int64Array) -> Float32Matrix:
        nodes, size, chances = self.nodes, self.chance.size, self.chance[0, masks]
        held = np.minimum(nodes.source[:, masks] / chances.astype(np.float32), np.float32(1.0))
        left = np.float32(1.0) - held
        result = np.zeros((size, masks.size), np.float32)
        for level, rate in enumerate(self.rates):
            weights = (self.weights * rate).astype(np.float32)
            found = sparse_product(nodes.b, nodes.a, weights, left, size)
            result += np.where(nodes.above[level][:, None] == nodes.above[level][masks], found, np.float32(0.0))
            if level < 2:
                kept = np.ones((len(left), nodes.above[level].max() + 1), np.float32)
                kept[nodes.root[level], nodes.levels[level].node] = self.kept[level]
                left = left * kept[:, nodes.above[level][masks]]
        result[masks, np.arange(masks.size)] += self.chances.astype(np.float32) @ held
        return result

    def exceeding(self, limits: Limits) -> Excess:
        """Return the posteriors above their limits. Only values whose rates allow it are looked at closely."""
        q, size, bounds = self.chance[0], self.chance.size, limits.all * (1.0 - SLACK)
        stays = ratio(np.bincount(self.nodes.b, self.weights * self.held, size), q)
        reach = self._reach()
        near = np.flatnonzero(reach > bounds[:size])
        own = np.flatnonzero(stays > bounds[:size])
        parts, others = [(own, own, stays[own])], [stays[stays <= bounds[:size]], reach[reach <= bounds[:size]]]
        asked = [(x, np.arange(size) == x) for x in near.tolist()]
        for which, weights in [*asked, *enumerate(limits.groups, size)]:
            posterior = ratio(self._back(weights.astype(np.float64)), q)
            if which < size:
                posterior[which] = 0.0
                others.append(posterior[posterior <= bounds[which]])
            masks = np.flatnonzero(posterior > bounds[which])
            parts.append((masks, np.full(masks.size, which), posterior[masks]))
        found, told, surest = (np.concatenate(each) for each in zip(*parts, strict=True))
        greatest = float(np.concatenate(others).max(initial=0.0))
        return Excess(np.zeros(found.size, np.int64), found, told, surest, greatest)

    def _reach(self) -> Float64Array:
        """Return (k_B,) float64: what the posterior of each value does not exceed at other masks."""
        nodes, (low, middle, high) = self.nodes, self.rates
        block = nodes.levels[0].of
        left, above = self.kept[0][block], self.kept[1][nodes.levels[1].of[block]]
        ways = (low + (middle + high * above) * left, middle + high * above, high)
        each = [np.bincount(nodes.b, self.weights * way, self.chance.size) for way in ways]
        return np.asarray(np.max(each, axis=0), np.float64)

    def _back(self, values: Float64Array) -> Float64Array:
        """Return (k_B,) float64: Σ_b values(b)·P(b, b* | a*)."""
        nodes, (blocks, chapters, every) = self.nodes, self.nodes.levels
        sums = [self.weights * rate * values[nodes.b] for rate in self.rates]
        chapter_of = chapters.of[blocks.of]
        low = np.bincount(blocks.of, sums[0], blocks.starts.size)
        middle = np.bincount(chapter_of, sums[1], chapters.starts.size)
        high = np.bincount(every.of[chapter_of], sums[2], every.starts.size)
        in_chapter = middle + high[every.of] * self.kept[1]
        in_block = low + in_chapter[chapters.of] * self.kept[0]
        by_chapter = np.bincount(chapters.node, in_chapter - high[every.of], nodes.chapter.max() + 1) + high.sum()
        by_block = np.bincount(blocks.node, in_block - in_chapter[chapters.of], nodes.chapter.size)
        rates = (by_block + by_chapter[nodes.chapter])[nodes.above[0]]
        covered = self.held * (self.weights * values[nodes.b] - in_block[blocks.of])
        back = self.chance[0] * rates + np.bincount(nodes.b, covered, self.chance.size)
        return np.asarray(np.maximum(back, 0.0), np.float64)
