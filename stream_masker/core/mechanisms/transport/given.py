"""Attributes that are masked given the root: further scalars, and the elements of arrays.

A value b of a record with the root a, whose mask is a*, moves by a coupling from P(b | a) to P(b* | a*), and is redrawn
from P(b* | a*) where its mask would tell too much. Given a*, the mask b* is independent of a, so that what a record's
masks tell about a, a* tells already. Each attribute keeps its law with the root, and its relation to others as far as
the root explains it. Elements are drawn independently of each other given the root, but differ where the originals do.

The coupling goes level by level, the nearest first: a value stays itself as far as both laws have it, then becomes
another one of its block, of its chapter, or any. A redraw of all values alike adds distance where the laws force less
of it than is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from stream_masker.core.arrays import offsets_from_lengths, ratio
from stream_masker.core.dtypes import (
    Float32Array,
    Float32Matrix,
    Float64Array,
    Float64Matrix,
    Int32Array,
    Int64Array,
    UInt64Array,
)
from stream_masker.core.kernels.draws import salts_of
from stream_masker.core.kernels.transport import Couplings, draw_given
from stream_masker.core.mechanisms.transport.certainty import SLACK, Limits, Redraw
from stream_masker.core.mechanisms.transport.coupled import Coupled, Nodes
from stream_masker.core.mechanisms.transport.fit import BLOCK_DEPTHS, Tuples, Values

SAMPLE, ROWS = 4_096, 256
"""The number of values from which the law of masks is estimated, and how many laws are computed at once."""
GOLDEN = (5.0**0.5 - 1.0) / 2.0


@dataclass(frozen=True, eq=False)
class Given:
    """An attribute that is masked given the root.

    * ``attribute``: its index. ``root``, ``values``: those of the root and of the attribute. ``tuples``: the window's
      pairs of both. ``couplings``: with η. ``joint``: (k_A, k_A) float64 P(a, a*) of the root.
    * ``wanted``, ``moved``: E[d²] that is asked for, and what it is, because a and a* force it.
    * ``greatest``: what no posterior exceeds, over all masks of the root and of the attribute.
    """

    attribute: int
    root: Values
    values: Values
    tuples: Tuples
    couplings: Couplings
    joint: Float64Matrix
    wanted: float
    moved: float
    greatest: float

    @classmethod
    def of(
        cls,
        attribute: int,
        values: tuple[Values, Values],
        tuples: Tuples,
        joint: Float64Matrix,
        wanted: float,
        moved: float = 0.0,
        greatest: float = 1.0,
        eta: Float32Matrix | None = None,
    ) -> Given:
        """Create the masking of an attribute given the root; without ``eta`` nothing is redrawn."""
        law, lines = tuples.law(values), np.array([values[1].ancestors(depth) for depth in BLOCK_DEPTHS[::-1]])
        found, block = np.unique(lines, axis=1, return_inverse=True)
        nodes = np.cumsum(np.diff(found[::-1], axis=1, prepend=found[::-1, :1]) != 0, axis=1, dtype=np.int32)
        couplings = Couplings(
            conditional(law.dense(law.share)),
            conditional(law.target),
            block.astype(np.int32),
            nodes,
            np.zeros(law.target.shape, np.float32) if eta is None else eta,
            salts_of(values[1].positions),
        )
        return cls(attribute, *values, tuples, couplings, joint, wanted, moved, greatest)

    def draw(
        self, root: Int32Array, root_new: Int32Array, codes: Int32Array, words: UInt64Array, lengths: Int32Array
    ) -> Int32Array:
        """Return the masks of values; all are positions. ``lengths``: (n,) the numbers of values of n records."""
        offsets = offsets_from_lengths(lengths)
        indices = (self.root.indices(root), self.root.indices(root_new), self.values.indices(codes))
        return self.values.positions[draw_given(self.couplings, *indices, words, offsets)]

    @property
    def prior(self) -> Float64Array:
        """(k_B,) float64 P(b)."""
        return np.asarray(self.joint.sum(axis=1) @ self.couplings.source)

    @cached_property
    def nodes(self) -> Nodes:
        """The pairs of the window, by block and chapter."""
        known = np.bincount(self.tuples.rows, minlength=len(self.root)) > 0
        return Nodes.of(self.couplings.source, self.couplings.block, self.couplings.nodes, known)

    def told(self, new: int) -> Coupled:
        """Return what masks tell given the mask ``new`` of the root, which has a chance."""
        return Coupled.of(self.nodes, self.joint[:, new] / self.joint[:, new].sum(), self.couplings.target[new])

    def fitted(self, limits: Limits) -> Given:
        """Return the masking with the redraw that the limits, and the distance that is asked for, need."""
        near, far = self._distance(np.zeros_like(self.couplings.eta)), self._distance(None)
        floor = float(np.clip((self.wanted - near) / max(far - near, 1e-12), 0.0, 1.0))
        eta, greatest = np.zeros_like(self.couplings.eta), 0.0
        for new in np.flatnonzero(self.joint.sum(axis=0) > 0.0).tolist():
            told = self.told(new)
            prior = told.prior
            own = limits._replace(values=np.maximum(limits.values, prior * (1.0 + SLACK)))
            own = own._replace(of_groups=np.maximum(own.of_groups, limits.masses(prior)[prior.size :] * (1.0 + SLACK)))
            found, surest = Redraw.least((told,), (own,), floor)
            eta[new], greatest = found.eta[0], max(greatest, *surest)
        moved = self._distance(eta)
        return replace(self, couplings=self.couplings._replace(eta=eta), moved=moved, greatest=greatest)

    @cached_property
    def width(self) -> int:
        """The number of different masks of the root and a value."""
        return int(np.count_nonzero(self.couplings.target[self.joint.sum(axis=0) > 0.0]))

    def columns(self, count: int) -> Iterator[Float64Matrix]:
        """Yield about ``count`` columns of the joint law of the attribute's value and its record's masks, drawn by
        their chance, or all of them if there are no more: (k_B, m) for each a*; all entries sum to 1."""
        chances, target = self.joint.sum(axis=0), self.couplings.target
        news = np.flatnonzero(chances > 0.0)
        every = self.width <= count
        picked = np.searchsorted(np.cumsum(chances), (np.arange(count) + 0.5) / count * chances.sum())
        news, numbers = (news, chances[news]) if every else np.unique(picked, return_counts=True)
        for new, number in zip(news.tolist(), numbers.tolist(), strict=True):
            told, eta = self.told(new), self.couplings.eta[new]
            found, masks = Redraw.of((told,), eta[None]), np.flatnonzero(target[new])
            weights = target[new, masks] * number
            if not every:
                points = (np.arange(number) + new * GOLDEN % 1.0) / number
                steps = np.cumsum(target[new], dtype=np.float64)
                masks = np.minimum(np.searchsorted(steps, points * steps[-1], side="right"), steps.size - 1)
                weights = np.full(number, 1.0 / count)
            kept = told.posteriors(masks) * (1.0 - eta[masks])
            yield (kept + found.mean[0][:, None] * eta[masks]) * weights

    @cached_property
    def channel(self) -> Float64Matrix:
        """(k_B, k_B) float64 P(b* | b), estimated from the records with b, at least one of each b."""
        result = np.tile(self.joint.sum(axis=0) @ self.couplings.target, (len(self.values), 1))
        seen = np.zeros(len(self.values), np.bool_)
        for b, _, laws in self._laws(self.couplings.eta):
            starts = np.flatnonzero(np.diff(b, prepend=-1))
            each = b[starts]
            result[each] = result[each] * seen[each, None] + np.add.reduceat(laws, starts, axis=0)
            seen[each] = True
        return np.asarray(result / result.sum(axis=1, keepdims=True), np.float64)

    def _distance(self, eta: Float32Matrix | None) -> float:
        """Return an estimate of E[d²] with these chances of a redraw; without, if all are redrawn."""
        squares, (_, new, b, weights) = self.values.squares, self._sample
        if eta is None:
            return float(weights @ (self.couplings.target[new] * squares[b]).sum(axis=1))
        return sum(float(weights @ (laws * squares[b]).sum(axis=1)) for b, weights, laws in self._laws(eta))

    def _laws(self, eta: Float32Matrix) -> Iterator[tuple[Int64Array, Float64Array, Float32Matrix]]:
        """Yield for some values, ascending, their indices, their weights, and the (n, k_B) laws of their masks."""
        a, new, b, weights = self._sample
        for start in range(0, a.size, ROWS):
            own = slice(start, start + ROWS)
            laws, again = self.laws(a[own], new[own], b[own]), eta[new[own]]
            if again.any():
                drawn = again * self.couplings.target[new[own]]
                moved = ratio((laws * again).sum(axis=1, keepdims=True), drawn.sum(axis=1, keepdims=True))
                laws = laws * (1.0 - again) + drawn * moved
            yield b[own], weights[own], laws

    @cached_property
    def _sample(self) -> tuple[Int64Array, Int64Array, Int64Array, Float64Array]:
        """(n,) each: root values, their masks, values, and their weights, which sum to 1: of each value at least one,
        spread evenly over the records with it."""
        chances = self.joint.sum(axis=1)[:, None] * self.couplings.source
        b, a = np.nonzero(chances.T)
        steps, prior = np.cumsum(chances[a, b]), chances.sum(axis=0)
        numbers = np.where(prior > 0.0, np.maximum(np.rint(prior / prior.sum() * SAMPLE), 1), 0).astype(np.int64)
        values, within = np.repeat(np.arange(prior.size), numbers), np.arange(numbers.sum())
        within = within - np.repeat(np.cumsum(numbers) - numbers, numbers)
        points = (np.cumsum(prior) - prior)[values] + prior[values] * (within + 0.5) / numbers[values]
        picked = a[np.minimum(np.searchsorted(steps, points), a.size - 1)]
        ways, parts = np.cumsum(self.joint, axis=1), np.arange(values.size) * GOLDEN % 1.0
        new = [np.searchsorted(ways[x], u * ways[x, -1]) for x, u in zip(picked.tolist(), parts.tolist(), strict=True)]
        return picked, np.array(new, np.int64), values, prior[values] / numbers[values] / prior.sum()

    def laws(self, a: Int64Array, new: Int64Array, b: Int64Array) -> Float32Matrix:
        """Return (n, k_B) float32: the law of the mask of each value before the redraw, given its root and mask."""
        p, q, (block, nodes) = self.couplings.source[a], self.couplings.target[new], self.couplings[2:4]
        held, row, order = np.minimum(p, q), np.arange(a.size), np.argsort(block, kind="stable")
        starts = np.flatnonzero(np.diff(block[order], prepend=-1))
        up, down = (np.add.reduceat((each - held)[:, order], starts, axis=1) for each in (p, q))
        rates, left, going = np.zeros_like(up), np.ones_like(up), np.ones((a.size, 1), np.float32)
        for node in nodes:
            starts, own = np.flatnonzero(np.diff(node, prepend=-1)), node[block[b]]
            more, less = (np.add.reduceat(each, starts, axis=1) for each in (up, down))
            kept = ratio(np.maximum(less - more, 0.0), less)[:, node]
            met = ratio(np.minimum(more, less), more)
            chance = going * met[row, own, None]
            rates += chance * ratio(np.float32(1.0), less[row, own, None]) * (left * (node == own[:, None]))
            up, down, left, going = up * (1.0 - met[:, node]), down * kept, left * kept, going - chance
        stays = ratio(held[row, b], p[row, b])
        laws = rates[:, block] * (q - held) * (1.0 - stays)[:, None]
        laws[row, b] += stays
        laws += q * np.maximum(1.0 - laws.sum(axis=1, keepdims=True), 0.0)
        return np.where(p[row, b, None] > 0.0, laws, q)


def conditional(law: Float32Matrix) -> Float32Matrix:
    """Return (k_A, k_B) float32: the law of each row; that of all rows for a row without any."""
    sums = law.sum(axis=1, keepdims=True)
    return np.where(sums > 0.0, law / np.where(sums > 0.0, sums, np.float32(1.0)), law.sum(axis=0) / law.sum())


def given_groups(source: Float32Matrix, limits: Limits) -> list[tuple[Float32Array, float]]:
    """Return the groups by which the root's mask tells of an attribute: the chance of each value given the root.

    ``source``: (k_A, k_B) P(b | a). ``limits``: of the attribute. What cannot exceed its limit is left out.
    """
    weights = np.concatenate([source.T, limits.groups @ source.T])
    over = weights.max(axis=1) > limits.all
    return list(zip(weights[over], limits.all[over].tolist(), strict=True))
