"""Attributes that are masked given the root: further scalars, and the elements of arrays.

A value b of a record with the root a, whose mask is a*, moves by a coupling from P(b | a) to P(b* | a*), and is redrawn
from P(b* | a*) where its mask would tell too much. Given a*, the mask b* is independent of a. So all masks of a record
tell no more about a than a* alone. Each attribute keeps its law with the root, and its relation to others as far as the
root explains it. Elements are drawn independently of each other given the root, but differ where the originals do.

b and b* walk down the tree of chapters and blocks together as long as both laws allow: from each node they go to the
same node below it as often as a coupling of both laws can (Lindvall 2002, section I.5). Once b* has parted, it is drawn
by P(b* | a*) alone. If the laws force a smaller distance than is asked for, a redraw of all values adds the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from stream_masker.core.arrays import (
    Float32Array,
    Float64Array,
    Int32Array,
    Int64Array,
    UInt64Array,
    offsets_from_lengths,
    ranges,
    ratio,
)
from stream_masker.core.kernels import Tree, couple, draw_given
from stream_masker.core.mechanisms.transport.certainty import Exceeding, Limits, Told, least_redraw
from stream_masker.core.mechanisms.transport.fit import BLOCK_DEPTHS, Law
from stream_masker.core.random import salts_of

NEGLECTED = 3e-3
"""The greatest share of records whose root values are left out, the least probable ones, where it is computed what
masks tell. Limits are lowered by it."""
DRAWN = 100
"""How many masks of the root stand for all where it is computed how far values move, and in the risk."""


@dataclass(frozen=True, eq=False)
class Given:
    """An attribute that is masked given the root.

    * ``law``: of the root and of it. ``root``: (k_A, k_A) float64 P(a, a*) of the root.
    * ``redraw_chance``: (k_A, k_B) float32, the chance of each mask to be drawn again.
    """

    law: Law
    root: Float64Array
    redraw_chance: Float32Array

    @property
    def target(self) -> Float32Array:
        """(k_A, k_B) float32 P(b* | a*)."""
        return self.tree.laws[1, :, : self.redraw_chance.shape[1]]

    @cached_property
    def tree(self) -> Tree:
        """The values, and the blocks, chapters and root above them, with the mass of each in both laws."""
        own, size = self.law.values[1], len(self.law.values[1])
        lines, names = [np.arange(size)], [own.positions.astype(np.int64)]
        for depth in BLOCK_DEPTHS:
            concepts = own.ancestors(depth)
            begins = np.diff(concepts, prepend=-1) != 0
            lines.append(lines[-1][-1] + np.cumsum(begins))
            names.append(concepts[begins])
        starts = [np.flatnonzero(np.diff(line, prepend=-1)) for line in lines]
        below = [np.zeros(size, np.int64), *(line[each] for line, each in zip(lines, starts[1:], strict=False))]
        children = np.append(np.concatenate(below), lines[-1][-1])
        first, end = (np.concatenate(each) for each in (starts, [np.append(each[1:], size) for each in starts]))
        source, target = conditional(self.law.table(self.law.share)), conditional(self.law.target)
        laws = np.stack([source, target, self.redraw_chance * target])
        return Tree(
            np.concatenate([np.add.reduceat(laws, each, axis=2) for each in starts], axis=2),
            self.redraw_chance,
            np.array(lines),
            first,
            end,
            children,
            salts_of(np.concatenate(names)),
            offsets_from_lengths(np.diff(children)[np.array(lines[1:])].T.ravel()),
        )

    @cached_property
    def cells(self) -> tuple[Int64Array, Int64Array, Int64Array]:
        """(E,) the value and the node of each number of ``couple``, and (k_B,) where those of each value begin."""
        above, entries = self.tree.lines[1:].T, self.tree.entries
        values, widths = np.indices(above.shape)[0].ravel(), np.diff(entries)
        nodes = ranges(self.tree.children[above].ravel(), widths)
        return np.repeat(values, widths), nodes, entries[: -1 : above.shape[1]]

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
        plain, squares = cls(law, root, np.zeros_like(law.target)), law.values[1].squares
        (roots, shares, _), source = plain.drawn, plain.tree.laws[0, :, : len(law.values[1])]
        chances = root[:, roots] / root[:, roots].sum(axis=0)
        redrawn = (source.T @ chances.astype(np.float32) * shares) @ plain.target[roots]
        near, far = (float((each * squares).sum()) for each in (plain.joint(), redrawn))
        floor = float(np.clip((wanted - near) / max(far - near, 1e-12), 0.0, 1.0))
        redraw_chance = np.zeros_like(law.target)
        for new in np.flatnonzero(root.sum(axis=0) > 0.0).tolist():
            redraw_chance[new] = least_redraw([plain.told(new, limits)], floor)
        return cls(law, root, redraw_chance)

    def joint(self) -> Float64Array:
        """Return (k_B, k_B) float64 P(b, b*), which sums to 1."""
        tree, (values, nodes, _), (roots, shares) = self.tree, self.cells, self.drawn[:2]
        parted = np.array([self.parted(new)[0] for new in roots.tolist()])
        masks, redraw_chance = shares[:, None] * self.target[roots], self.redraw_chance[roots]
        again, kept = masks * redraw_chance, (masks * (1.0 - redraw_chance)).astype(np.float32)
        means = [self.sums(own, more) / max(more.sum(), 1e-300) for own, more in zip(parted, again, strict=True)]
        joint, posteriors = np.array(means).T @ again, np.ascontiguousarray(parted.T)
        by_node = np.split(np.argsort(nodes, kind="stable"), np.cumsum(np.bincount(nodes))[:-1])
        for own, first, end in zip(by_node, tree.first, tree.end, strict=False):
            joint[values[own], first:end] += posteriors[own] @ kept[:, first:end]
        return np.asarray(joint / joint.sum())

    @property
    def drawn(self) -> tuple[Int64Array, Float64Array, bool]:
        """The masks of the root, and their shares; ``DRAWN`` of them that stand for all, if they are more (True)."""
        return sampled(self.root.sum(axis=0), DRAWN)

    def told(self, new: int, limits: Limits | None = None) -> Told:
        """Return what masks tell beside the mask ``new`` of the root; ``limits``: of all values, 1 without them.

        The least probable values of the root are left out; the limits are lowered by their share. b and b* part once,
        so the posterior of b is the same for all masks below the node at which b* parts.
        """
        tree, (values, nodes, _), chance = self.tree, self.cells, self.target[new].astype(np.float64)
        parted, prior, kept = self.parted(new)

        def exceeding(aims: Float64Array) -> Exceeding:
            some = np.flatnonzero(parted > aims.astype(np.float32)[values])
            below = tree.end[nodes[some]] - tree.first[nodes[some]]
            masks, own = ranges(tree.first[nodes[some]], below), np.repeat(some, below)
            there = chance[masks] > 0.0
            return masks[there], values[own[there]], parted[own[there]].astype(np.float64)

        def posteriors(masks: Int64Array) -> Float64Array:
            by_node = np.zeros((tree.first.size, chance.size))
            by_node[nodes, values] = parted
            return np.asarray(by_node[tree.lines[:-1, masks]].sum(axis=0).T)

        def members(weights: Float64Array) -> Float64Array:
            inside = np.bincount(nodes, parted * weights[values], tree.first.size)
            return np.asarray(inside[tree.lines[:-1]].sum(axis=0))

        bounds = Limits.of(prior) if limits is None else Limits.of(prior, limits.greatest - 1.0 + kept, limits.groups)
        return Told(chance, bounds, exceeding, posteriors, partial(self.sums, parted), members)

    def sums(self, parted: Float32Array, weights: Float64Array) -> Float64Array:
        """Return (k_B,) the sums of the posteriors of b given all masks, with (k_B,) weights; see ``parted``."""
        tree, (_, nodes, starts), up_to = self.tree, self.cells, np.append(0.0, np.cumsum(weights))
        return np.asarray(np.add.reduceat(parted * (up_to[tree.end] - up_to[tree.first])[nodes], starts))

    def parted(self, new: int) -> tuple[Float32Array, Float64Array, float]:
        """Return (E,) the posteriors of b by the node at which b* parts, (k_B,) P(b | a*), and the share of records."""
        chances, (_, nodes, starts) = self.root[:, new] / self.root[:, new].sum(), self.cells
        likely = np.argsort(-chances)
        likely = likely[: np.searchsorted(np.cumsum(chances[likely]), 1.0 - NEGLECTED) + 1]
        kept = min(float(chances[likely].sum()), 1.0)
        parts = couple(self.tree, likely, chances[likely] / kept, new)
        return ratio(parts, self.tree.laws[1, new][nodes]), np.add.reduceat(parts, starts).astype(np.float64), kept


def sampled(chances: Float64Array, count: int) -> tuple[Int64Array, Float64Array, bool]:
    """Return the indices that can be drawn, their shares, and False; if they are more than ``count``, that many, drawn
    in proportion to their chances at equal steps, with equal shares, and True."""
    found, steps = np.flatnonzero(chances), np.cumsum(chances)
    if found.size <= count:
        return found, chances[found] / steps[-1], False
    return np.searchsorted(steps, (np.arange(count) + 0.5) / count * steps[-1]), np.full(count, 1.0 / count), True


def conditional(law: Float32Array) -> Float32Array:
    """Return P(b | a) of a joint law; that of all rows for a row without any."""
    sums = law.sum(axis=1, keepdims=True, dtype=np.float64)
    every = law.sum(axis=0, dtype=np.float64)
    return np.asarray(np.where(sums > 0.0, law, every) / np.where(sums > 0.0, sums, every.sum()), np.float32)
