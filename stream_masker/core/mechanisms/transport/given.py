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

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

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
from stream_masker.core.mechanisms.transport.certainty import Limits, Told, least_redraw
from stream_masker.core.mechanisms.transport.fit import BLOCK_DEPTHS, Law
from stream_masker.core.random import salts_of

NEGLECTED = 3e-3
"""The greatest share of records whose root values are left out, the least probable ones, where it is computed what
masks tell. Limits are lowered by it."""
DRAWN = 100
"""How many masks of the root stand for all where it is computed how far values move, and in the risk."""


class Table(NamedTuple):
    """What masks tell of the values of an attribute, with (n,) float32 η; the ``share`` of the records it is about, and
    whether it is ``drawn`` to stand for others too."""

    told: Told
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

    @property
    def target(self) -> Float32Array:
        """(k_A, k_B) float32 P(b* | a*)."""
        return self.tree.target[:, : self.redraw_chance.shape[1]]

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
        first, end = (np.concatenate(each) for each in (starts, [np.append(each[1:], size) for each in starts]))
        source, target = conditional(self.law.table(self.law.share)), conditional(self.law.target)
        rows, held = np.nonzero(source)
        masses = [
            np.concatenate([np.add.reduceat(law, each, axis=1) for each in starts], axis=1)
            for law in (source, target, self.redraw_chance * target)
        ]
        children = [np.bincount(above[each])[above] for each, above in zip(starts, lines[1:], strict=False)]
        entries = offsets_from_lengths(np.array(children).T.ravel())
        return Tree(
            masses[0],
            masses[1],
            masses[2],
            self.redraw_chance,
            held,
            np.searchsorted(rows, np.arange(len(source) + 1)),
            np.array(lines),
            first,
            end,
            salts_of(np.concatenate(names)),
            np.vstack([entries[:-1].reshape(size, -1).T, np.full(size, entries[-1])]),
            np.arange(first.size),
            np.ones(first.size, np.float32),
        )

    @cached_property
    def cells(self) -> tuple[Int64Array, Int64Array, Int64Array]:
        """(E,) the value and the node of each number of ``couple``, and (k_B,) where those of each value begin."""
        tree, (starts, *_, ends) = self.tree, self.tree.entries
        children = np.array([line[tree.first[above]] for line, above in pairwise(tree.lines)])
        widths = np.diff(np.append(tree.entries[:-1].T, ends[0]))
        values = np.repeat(np.arange(starts.size), np.diff(np.append(starts, ends[0])))
        return values, ranges(children.T.ravel(), widths), starts

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
        plain, redrawn = (cls(law, root, np.full_like(law.target, each)) for each in (0.0, 1.0))
        near, far = (float((each.joint() * law.values[1].squares).sum()) for each in (plain, redrawn))
        floor, redraw_chance = float(np.clip((wanted - near) / max(far - near, 1e-12), 0.0, 1.0)), plain.redraw_chance
        for new in np.flatnonzero(root.sum(axis=0) > 0.0).tolist():
            redraw_chance[new] = least_redraw([plain.told(new, limits)], floor)
        return cls(law, root, redraw_chance)

    def joint(self) -> Float64Array:
        """Return (k_B, k_B) float64 P(b, b*), which sums to 1."""
        roots, shares = self.drawn
        tree, told, redraw_chance = self.tree, [self.told(new) for new in roots.tolist()], self.redraw_chance[roots]
        posteriors = np.array([each.parted for each in told]).T
        masks = shares[:, None] * self.target[roots].astype(np.float64)
        again, kept = masks * redraw_chance, (masks * (1.0 - redraw_chance)).astype(np.float32)
        means = [each.mean(own)[: masks.shape[1]] for each, own in zip(told, redraw_chance, strict=True)]
        joint = np.array(means).T @ again
        for line, above, starts in zip(tree.lines, tree.lines[1:], tree.entries, strict=False):
            for node in np.unique(line).tolist():
                below, upper = slice(tree.first[node], tree.end[node]), above[tree.first[node]]
                beside = slice(tree.first[upper], tree.end[upper])
                joint[beside, below] += posteriors[starts[beside] + (node - line[beside.start])] @ kept[:, below]
        return np.asarray(joint / joint.sum())

    @property
    def drawn(self) -> tuple[Int64Array, Float64Array]:
        """The masks of the root, and their shares; ``DRAWN`` of them that stand for all, if they are more."""
        return sampled(self.root.sum(axis=0), DRAWN)

    def tables(self) -> Iterator[Table]:
        """Yield a table for each of ``drawn``."""
        (roots, shares), possible = self.drawn, np.count_nonzero(self.root.any(axis=0))
        for new, share in zip(roots.tolist(), shares.tolist(), strict=True):
            yield Table(self.told(new), self.redraw_chance[new], share, bool(roots.size < possible))

    def told(self, new: int, limits: Limits | None = None) -> ToldByCoupling:
        """Return what masks tell beside the mask ``new`` of the root; ``limits``: of all values, 1 without them.

        The least probable values of the root are left out; the limits are lowered by their share.
        """
        chances = self.root[:, new] / self.root[:, new].sum()
        likely = np.argsort(-chances)
        likely = likely[: np.searchsorted(np.cumsum(chances[likely]), 1.0 - NEGLECTED) + 1]
        kept, (_, nodes, starts) = float(chances[likely].sum()), self.cells
        parts, chance = couple(self.tree, likely, chances[likely] / kept, new), self.tree.target[new]
        prior = np.asarray(np.add.reduceat(parts, starts), np.float64)
        bounds = Limits.of(prior)
        if limits is not None:
            bounds = Limits.of(prior, limits.greatest - max(1.0 - kept, 0.0), limits.groups)
        posteriors = ratio(parts, chance[nodes])
        return ToldByCoupling(self, posteriors, self.target[new].astype(np.float64), bounds)


@dataclass(frozen=True, eq=False)
class ToldByCoupling(Told):
    """What masks of an attribute tell of its values beside one mask of the root.

    b and b* part once. So the posterior of b is the same for all masks below the node n at which b* parts.

    ``given``: the attribute. ``parted``: (E,) float32 the posteriors, by b and n (``kernels.couple``).
    """

    given: Given
    parted: Float32Array
    chance: Float64Array
    limits: Limits

    def above(self) -> tuple[Int64Array, Int64Array, Float64Array]:
        (values, nodes, _), size, tree = self.given.cells, self.chance.size, self.given.tree
        aims = self.limits.aims
        some = np.flatnonzero(self.parted > aims[:size].astype(np.float32)[values])
        first, below = tree.first[nodes[some]], tree.end[nodes[some]] - tree.first[nodes[some]]
        masks, own = [ranges(first, below)], [np.repeat(some, below)]
        found, posteriors = [values[own[0]]], [self.parted[own[0]].astype(np.float64)]
        for group, (weights, aim) in enumerate(zip(self.limits.groups, aims[size:], strict=True)):
            parts = np.bincount(nodes, self.parted * weights[values], tree.first.size)
            members = parts[tree.lines[:-1]].sum(axis=0)
            masks.append(np.flatnonzero(members > aim))
            found.append(np.full(masks[-1].size, size + group))
            posteriors.append(members[masks[-1]])
        mask, value, posterior = np.concatenate(masks), np.concatenate(found), np.concatenate(posteriors)
        there = self.chance[mask] > 0.0
        return mask[there], value[there], posterior[there]

    def sums(self, weights: Float64Array) -> Float64Array:
        (_, nodes, starts), tree, up_to = self.given.cells, self.given.tree, np.append(0.0, np.cumsum(weights))
        return np.asarray(np.add.reduceat(self.parted * (up_to[tree.end] - up_to[tree.first])[nodes], starts))

    def plain(self, masks: Int64Array) -> Float64Array:
        tree, told = self.given.tree, np.empty((self.chance.size, masks.size))
        for line, above, starts in [*zip(tree.lines, tree.lines[1:], tree.entries, strict=False)][::-1]:
            for column, mask in zip(told.T, masks.tolist(), strict=True):
                beside = slice(tree.first[above[mask]], tree.end[above[mask]])
                column[beside] = self.parted[starts[beside] + (line[mask] - line[beside.start])]
        return told


def sampled(chances: Float64Array, count: int) -> tuple[Int64Array, Float64Array]:
    """Return the indices that can be drawn, and their shares; if they are more than ``count``, that many, drawn in
    proportion to their chances at equal steps, with equal shares."""
    found, steps = np.flatnonzero(chances), np.cumsum(chances)
    if found.size <= count:
        return found, chances[found] / steps[-1]
    return np.searchsorted(steps, (np.arange(count) + 0.5) / count * steps[-1]), np.full(count, 1.0 / count)


def conditional(law: Float32Array) -> Float32Array:
    """Return P(b | a) of a joint law; that of all rows for a row without any."""
    sums = law.sum(axis=1, keepdims=True, dtype=np.float64)
    every = law.sum(axis=0, dtype=np.float64)
    return np.asarray(np.where(sums > 0.0, law, every) / np.where(sums > 0.0, sums, every.sum()), np.float32)
