"""Attributes that are masked given the root: further scalars, and the elements of arrays.

A value b of a record with the root a, whose mask is a*, moves by a coupling from P(b | a) to P(b* | a*), or, with the
probability η(a*), is drawn from P(b* | a*) alone, so that no mask tells too much. Given a*, the mask b* is independent
of a. So all masks of a record tell no more about a than a* alone. Each attribute keeps its law with the root, and its
relation to others as far as the root explains it. Elements are drawn independently of each other given the root, but
differ where the originals do.

b and b* walk down the tree of chapters and blocks together as long as both laws allow: from each node they go to the
same node below it as often as a coupling of both laws can (Lindvall 2002, section I.5). Once b* has parted, it is drawn
by P(b* | a*) alone. If the laws force a smaller distance than is asked for, a redraw of all values adds the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from stream_masker.core.arrays import Float32Array, Float64Array, Int64Array, offsets_from_lengths, ranges, ratio
from stream_masker.core.kernels import Tree, couple
from stream_masker.core.mechanisms.transport.certainty import Limits, needed_redraw
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
    * ``redraw_chance``: (k_A,) float32 η by the mask of the root, the chance of a mask beside it to be drawn again.
    """

    law: Law
    root: Float64Array
    redraw_chance: Float32Array

    @property
    def target(self) -> Float32Array:
        """(k_A, k_B) float32 P(b* | a*)."""
        return self.tree.laws[1, :, : self.law.values[1].positions.size]

    @cached_property
    def tree(self) -> Tree:
        """The values, and the blocks, chapters and root above them, with the mass of each in both laws."""
        own, size = self.law.values[1], self.law.values[1].positions.size
        concepts = [own.positions.astype(np.int64), *map(own.ancestors, BLOCK_DEPTHS)]
        starts = [np.flatnonzero(np.diff(each, prepend=-1)) for each in concepts]
        before = np.cumsum([-1, *map(len, starts)])
        lines = [n + np.searchsorted(each, np.arange(size), "right") for n, each in zip(before, starts, strict=False)]
        names = [each[some] for each, some in zip(concepts, starts, strict=True)]
        below = [np.zeros(size, np.int64), *(line[each] for line, each in zip(lines, starts[1:], strict=False))]
        children = np.append(np.concatenate(below), lines[-1][-1])
        first, end = (np.concatenate(each) for each in (starts, [np.append(each[1:], size) for each in starts]))
        laws = np.stack([conditional(self.law.table(self.law.share)), conditional(self.law.target)])
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

    @classmethod
    def fitted(cls, law: Law, root: Float64Array, limits: Limits, wanted: float) -> Given:
        """Return the masking with the redraw that the limits need, and E[d²] = ``wanted``; a and a* can force more.

        Masks that are redrawn have the law P(b* | a*), so that the posterior after a redraw is P(b | a*). By this, the
        least η beside a mask of the root by which no posterior exceeds its limit is explicit.
        """
        plain = cls(law, root, np.zeros(len(root), np.float32))
        near, far = (float((plain.joint(share) * law.values[1].squares).sum()) for share in (0.0, 1.0))
        redraw_chance = np.full(len(root), np.clip((wanted - near) / max(far - near, 1e-12), 0.0, 1.0), np.float32)
        values, nodes, starts = plain.cells
        for new in np.flatnonzero(root.sum(axis=0) > 0.0).tolist():
            parted, prior, neglected = plain.parted(new)
            inside = [np.bincount(nodes, parted * each[values])[plain.tree.lines[:-1]] for each in limits.groups]
            surest = np.append(np.maximum.reduceat(parted, starts), [each.sum(axis=0).max() for each in inside])
            before = limits.with_groups(prior)
            own = Limits(before, np.maximum(limits.greatest - neglected, before), limits.groups)
            redraw_chance[new] = max(redraw_chance[new], needed_redraw(surest, own.aims, before).max())
        return cls(law, root, redraw_chance)

    def joint(self, redraw_chance: Float32Array | float) -> Float64Array:
        """Return (k_B, k_B) float64 P(b, b*), which sums to 1; ``redraw_chance``: (k_A,) η, or one for all."""
        tree, (values, nodes, _), (roots, shares, _) = self.tree, self.cells, self.drawn
        parted, priors = map(np.array, zip(*(self.parted(new)[:2] for new in roots.tolist()), strict=True))
        masks = shares[:, None] * self.target[roots]
        again = masks * np.broadcast_to(redraw_chance, len(self.root))[roots, None]
        joint, posteriors, kept = priors.T @ again, np.ascontiguousarray(parted.T), (masks - again).astype(np.float32)
        by_node = np.split(np.argsort(nodes, kind="stable"), np.cumsum(np.bincount(nodes))[:-1])
        for own, first, end in zip(by_node, tree.first, tree.end, strict=False):
            joint[values[own], first:end] += posteriors[own] @ kept[:, first:end]
        return np.asarray(joint / joint.sum())

    @cached_property
    def drawn(self) -> tuple[Int64Array, Float64Array, bool]:
        """The masks of the root, and their shares; ``DRAWN`` of them that stand for all, if they are more (True)."""
        roots, shares, are_drawn = sampled(self.root.sum(axis=0), DRAWN)
        some, index = np.unique(roots, return_inverse=True)
        return some, np.bincount(index, shares).astype(np.float64), are_drawn

    def told(self, masks: Int64Array) -> Float64Array:
        """Return (k_B, m) float64: the posteriors of b given m masks; ascending, mask r·k_B + t is t beside the r-th
        mask of the root that is ``drawn``."""
        (values, nodes, _), (places, own), columns = self.cells, np.divmod(masks, self.target.shape[1]), []
        for place in np.unique(places):
            new = int(self.drawn[0][place])
            parted, prior, _ = self.parted(new)
            by_node = np.zeros((self.tree.first.size, prior.size))
            by_node[nodes, values] = parted
            before = by_node[self.tree.lines[:-1, own[places == place]]].sum(axis=0)
            columns.append(before + self.redraw_chance[new] * (prior - before))
        return np.concatenate(columns).T

    def parted(self, new: int) -> tuple[Float32Array, Float64Array, float]:
        """Return (E,) the posteriors of b by the node at which b* parts, (k_B,) P(b | a*), and the share of records
        that is neglected: those with the least probable values of the root.

        b and b* part once, so the posterior of b is the same for all masks below the node at which b* parts.
        """
        chances, (_, nodes, starts) = self.root[:, new] / self.root[:, new].sum(), self.cells
        likely = np.argsort(-chances)
        likely = likely[: np.searchsorted(np.cumsum(chances[likely]), 1.0 - NEGLECTED) + 1]
        kept = min(float(chances[likely].sum()), 1.0)
        parts = couple(self.tree, likely, chances[likely] / kept, new)
        prior = np.add.reduceat(parts, starts).astype(np.float64)
        return ratio(parts, self.tree.laws[1, new][nodes]), prior, 1.0 - kept


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
