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
    """What masks tell of the values of an attribute.

    ``masks``: (m,) indices of the attribute's masks, which are those of the rows or of the columns of ``told``, by
    ``which``. ``redraw_chance``: (n,) float32 η. ``share``: of the records it is about, and whether it is ``drawn`` to
    stand for others too.
    """

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

    @property
    def target(self) -> Float32Array:
        """(k_A, k_B) float32 P(b* | a*)."""
        return self.tree.target[:, : self.redraw_chance.shape[1]]

    @cached_property
    def owners(self) -> Int64Array:
        """(E,) int64: the value b of each number that ``couple`` returns."""
        lines, widths = self.tree.lines, np.diff(self.tree.entries)
        above = np.concatenate([upper[np.unique(line, return_index=True)[1]] for line, upper in pairwise(lines)])
        return ranges(self.tree.first[above], widths)

    @cached_property
    def tree(self) -> Tree:
        """The values, and the blocks, chapters and root above them, with the mass of each in both laws."""
        own, lines = self.law.values[1], [np.arange(len(self.law.values[1]))]
        names = [own.positions.astype(np.int64)]
        for depth in BLOCK_DEPTHS:
            concepts = own.ancestors(depth)
            begins = np.diff(concepts, prepend=-1) != 0
            lines.append(lines[-1][-1] + np.cumsum(begins))
            names.append(concepts[begins])
        starts = [np.flatnonzero(np.diff(line, prepend=-1)) for line in lines]
        first, end = (np.concatenate(each) for each in (starts, [np.append(own[1:], len(names[0])) for own in starts]))
        above = np.concatenate([line[own] for line, own in zip(lines[1:], starts, strict=False)])
        source, target = conditional(self.law.table(self.law.share)), conditional(self.law.target)
        rows, held = np.nonzero(source)
        masses = [
            np.concatenate([np.add.reduceat(law, own, axis=1) for own in starts], axis=1)
            for law in (source, target, self.redraw_chance * target)
        ]
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
            offsets_from_lengths((end - first)[above]),
            np.arange(first.size),
            np.ones(first.size, np.float32),
        )

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
        plain, redraw_chance, near, far = cls(law, root, np.zeros_like(law.target)), np.zeros_like(law.target), 0.0, 0.0
        for each in plain.tables():
            squares, told = law.values[1].squares[each.masks], each.told
            near += float((told.first * squares).sum()) * each.share
            far += float(told.chance @ squares @ told.limits.prior) * each.share
        floor = float(np.clip((wanted - near) / max(far - near, 1e-12), 0.0, 1.0))
        for new in np.flatnonzero(root.sum(axis=0) > 0.0).tolist():
            parts, bounds = plain.coupled(new, limits)
            masks = plain.telling(new, parts, bounds)
            own, least = least_redraw([plain.told(new, masks, parts, bounds)], floor)
            redraw_chance[new] = least
            redraw_chance[new, masks] = own
        return cls(law, root, redraw_chance)

    def tables(self) -> Iterator[Table]:
        """Yield a table for each mask of the root; if they are more than ``DRAWN``, for that many drawn ones."""
        chances = self.root.sum(axis=0)
        drawn = bool(np.count_nonzero(chances) > DRAWN)
        for new, share in zip(*sampled(chances, DRAWN), strict=True):
            masks = np.flatnonzero(self.target[new])
            told = self.told(int(new), masks, *self.coupled(int(new)))
            yield Table(masks, told, 0, self.redraw_chance[new, masks], float(share), drawn)

    def coupled(self, new: int, limits: Limits | None = None) -> tuple[Float32Array, Limits]:
        """Return P(b, n | a*) for the mask ``new`` of the root, see ``couple``, and the limits of b given it.

        ``limits``: of all values, 1 without them. The least probable values of the root are left out; the limits are
        lowered by their share.
        """
        chances = self.root[:, new] / self.root[:, new].sum()
        likely = np.argsort(-chances)
        likely = likely[: np.searchsorted(np.cumsum(chances[likely]), 1.0 - NEGLECTED) + 1]
        kept = float(chances[likely].sum())
        parts = couple(self.tree, likely, chances[likely] / kept, new)
        prior: Float64Array = np.bincount(self.owners, parts, self.target.shape[1]).astype(np.float64)
        if limits is None:
            return parts, Limits.of(prior)
        return parts, Limits.of(prior, limits.greatest - max(1.0 - kept, 0.0), limits.groups)

    def telling(self, new: int, parts: Float32Array, limits: Limits) -> Int64Array:
        """Return the masks some posterior of which can exceed what η aims at.

        A posterior is a sum over the nodes of the mask's line; the greatest numbers of each node bound it.
        """
        tree, size, starts = self.tree, self.target.shape[1], self.tree.entries[:-1]
        tops = [np.maximum.reduceat(parts / limits.aims[:size].astype(np.float32)[self.owners], starts)]
        for weights, aim in zip(limits.groups.astype(np.float32), limits.aims[size:], strict=True):
            tops.append(np.add.reduceat(parts * weights[self.owners], starts) / np.float32(aim))
        shares = ratio(np.array(tops), np.broadcast_to(tree.target[new, :-1], (len(tops), starts.size)))
        greatest = shares[:, tree.lines[:-1]].sum(axis=1).max(axis=0)
        return np.flatnonzero((greatest > 1.0) & (self.target[new] > 0.0))

    def told(self, new: int, masks: Int64Array, parts: Float32Array, limits: Limits) -> Told:
        """Return what some masks tell; ``parts``, ``limits``: see ``coupled``."""
        tree, law = self.tree, self.target[new]
        joint = np.zeros((masks.size, law.size), np.float32)
        for row, mask in zip(joint, masks.tolist(), strict=True):
            for node, above in pairwise(tree.lines[:, mask].tolist()):
                own = parts[tree.entries[node] :][: tree.end[above] - tree.first[above]]
                row[tree.first[above] : tree.end[above]] += own * (law[mask] / tree.target[new, node])
        chance = law[masks]
        return Told(joint, np.ones((law.size, 1), np.float32), chance[:, None], chance.astype(np.float64), limits)


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
