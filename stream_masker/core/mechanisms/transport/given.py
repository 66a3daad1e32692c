"""Attributes that are masked given the root: further scalars, and the elements of arrays.

A value b of a record with the root a, whose mask is a*, moves by a coupling from P(b | a) to P(b* | a*), and is redrawn
from P(b* | a*) where its mask would tell too much. Given a*, the mask b* is independent of a, so that what a record's
masks tell about a, a* tells already. Each attribute keeps its law with the root, and its relation to others as far as
the root explains it. Elements are drawn independently of each other given the root, but differ where the originals do.

The coupling matches the masses of both laws, the nearest first: a value stays itself as far as both have it, then
becomes another one of its block, of its chapter, or any. A redraw of all values alike adds distance where the laws
force less of it than is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from stream_masker.core.arrays import offsets_from_lengths
from stream_masker.core.dtypes import (
    Float32Array,
    Float32Matrix,
    Float64Array,
    Float64Matrix,
    Int32Array,
    Int64Array,
    UInt64Array,
)
from stream_masker.core.kernels import Couplings, column_costs, draw_given, joint_given
from stream_masker.core.mechanisms.transport.certainty import Limits, Redraw, Table
from stream_masker.core.mechanisms.transport.fit import BLOCK_DEPTHS, Tuples, Values
from stream_masker.core.random import salts_of

NEGLECTED = 1e-3
"""The greatest share of records whose root values are left out, the least probable ones, where it is computed what
masks tell. Limits are lowered by it."""
TRIED = 64
"""From how many masks of the root the distance without a redraw is estimated."""
DRAWN, DRAWN_GIVEN = 100, 40
"""How many masks of the root, and of the value for each of them, stand for all in the risk."""


class Moves(NamedTuple):
    """P(b, b* | a*) of k_B values in the order of the couplings and n masks.

    ``new``: the index of a*. ``share``: P(a*). ``neglected``: the share of records with other values of the root than
    those from which the law is computed; no posterior is wrong by more. ``masks``: (n,) the places of masks.
    ``chance``: (n,) P(b* | a*). ``prior``: (k_B,) P(b | a*). ``joint``: (k_B, n) float32.
    """

    new: int
    share: float
    neglected: float
    masks: Int32Array
    chance: Float64Array
    prior: Float64Array
    joint: Float32Matrix


@dataclass(frozen=True, eq=False)
class Given:
    """An attribute that is masked given the root.

    * ``attribute``: its index. ``values``: of the root and of the attribute. ``tuples``: the window's pairs of both.
    * ``order``: (k_B,) the indices of values in the order of the couplings. ``couplings``: with η.
    * ``root``: (k_A, k_A) float64 P(a, a*) of the root.
    * ``wanted``, ``moved``: E[d²] that is asked for, and what it is, because a and a* force it.
    * ``greatest``: what no posterior exceeds, over all masks of the root and of the attribute.
    """

    attribute: int
    values: tuple[Values, Values]
    tuples: Tuples
    order: Int64Array
    couplings: Couplings
    root: Float64Matrix
    wanted: float
    moved: float = 0.0
    greatest: float = 1.0

    @classmethod
    def of(cls, attribute: int, values: tuple[Values, Values], tuples: Tuples, wanted: float) -> Given:
        """Create the masking of an attribute given a root that stays, by which nothing is redrawn."""
        law, size = tuples.law(values), len(values[1])
        lines = np.array([np.arange(size), *(values[1].ancestors(depth) for depth in BLOCK_DEPTHS)])
        order = np.lexsort(lines)
        nodes = np.cumsum(np.diff(lines[:, order], axis=1, prepend=-1) != 0, axis=1, dtype=np.int32)
        source, target = (_rows(each[:, order]) for each in (law.dense(law.share), law.target))
        salts = salts_of(values[1].positions[order])
        couplings = Couplings(*source, *target, np.zeros(target[1].size), nodes, salts)
        return cls(attribute, values, tuples, order, couplings, np.diag(law.share_of(0)), wanted)

    def draw(
        self, root: Int32Array, root_new: Int32Array, codes: Int32Array, words: UInt64Array, lengths: Int64Array
    ) -> Int32Array:
        """Return the masks of values; all are positions. ``lengths``: (n,) the numbers of values of n records."""
        offsets, (first, own), place = offsets_from_lengths(lengths), self.values, np.argsort(self.order)
        indices = first.indices(root), first.indices(root_new), place[own.indices(codes)].astype(np.int32)
        return own.positions[self.order[draw_given(self.couplings, *indices, words, offsets)]]

    def of_root(self, joint: Float64Matrix) -> Given:
        """Return the masking given a root with another P(a, a*)."""
        return replace(self, root=joint)

    @cached_property
    def source(self) -> Float64Matrix:
        """(k_A, k_B) float64 P(b | a)."""
        table = np.zeros((len(self.values[0]), self.order.size))
        offsets, places = self.couplings.source_offsets, self.couplings.source
        rows = np.repeat(np.arange(len(table)), np.diff(offsets))
        table[rows, self.order[places]] = self.couplings.shares
        return table

    def fitted(self, limits: Limits) -> Given:
        """Return the masking with the redraw that the limits, and the distance that is asked for, need."""
        squares = self.values[1].squares[np.ix_(self.order, self.order)]
        any_mask = squares @ self._target.T
        floor, greatest, moved, eta = self._floor(squares, any_mask), 0.0, 0.0, np.zeros_like(self.couplings.eta)
        ordered = limits._replace(groups=limits.groups[:, self.order])
        asked = np.concatenate([limits.greatest[self.order], limits.greatest[self.order.size :]])
        for each in self.moves(self._news):
            prior = ordered.masses(each.prior)
            own = ordered._replace(prior=prior, greatest=np.maximum(asked - each.neglected, prior))
            found = Redraw.least((Table.of(each.joint, each.chance, own),), floor)
            eta[self._entries(each.new)], surest = found.eta, found.greatest[0] + each.neglected
            greatest, least = max(greatest, min(surest, float(asked.max()))), float(found.eta.min())
            more = np.flatnonzero(found.eta > least)
            weights = (found.eta[more] - least) * each.chance[more]
            again = least * any_mask[:, each.new] + squares[:, each.masks[more]] @ weights
            distance = (1.0 - found.eta) @ column_costs(each.joint, each.prior, squares, each.masks)
            moved += each.share * float(distance + found.means[0] @ again)
        return replace(self, couplings=self.couplings._replace(eta=eta), moved=moved, greatest=greatest)

    @cached_property
    def _news(self) -> Int64Array:
        """The masks of the root."""
        return np.flatnonzero(self.root.sum(axis=0) > 0.0)

    @cached_property
    def _target(self) -> Float32Matrix:
        """(k_A, k_B) float32 P(b* | a*), in the order of the couplings."""
        table, offsets = np.zeros((len(self.root), self.order.size), np.float32), self.couplings.target_offsets
        table[np.repeat(np.arange(len(table)), np.diff(offsets)), self.couplings.target] = self.couplings.chances
        return table

    def moves(self, news: Int64Array) -> Iterator[Moves]:
        """Yield P(b, b* | a*) of some masks of the root, before the redraw. Each is valid until the next one."""
        room = np.empty(self.order.size * int(np.diff(self.couplings.target_offsets).max()), np.float32)
        for new in news.tolist():
            chances, some = self.root[:, new] / self.root[:, new].sum(), self._entries(new)
            likely = np.argsort(-chances)
            likely = likely[: np.searchsorted(np.cumsum(chances[likely]), 1.0 - NEGLECTED) + 1]
            kept = np.zeros_like(chances)
            kept[likely] = chances[likely] / chances[likely].sum()
            joint, prior = joint_given(self.couplings, kept, new, room)
            share, neglected = float(self.root[:, new].sum()), max(1.0 - float(chances[likely].sum()), 0.0)
            masks, chance = self.couplings.target[some], self.couplings.chances[some]
            yield Moves(new, share, neglected, masks, chance, prior, joint)

    def blocks(self, which: int) -> tuple[Iterator[Float64Matrix], bool]:
        """Return the joint law of the attribute's value and its record's masks, a block (k_B, m) for each mask of the
        root, or for ``DRAWN`` masks of it, which are drawn with ``DRAWN_GIVEN`` of the value by their chance; and
        whether they are drawn. ``which``: 1."""
        news, shares, drawn = self._some
        return self._blocks(news, shares, DRAWN_GIVEN if drawn else None), drawn

    def _blocks(self, news: Int64Array, shares: Float64Array, count: int | None) -> Iterator[Float64Matrix]:
        back = np.argsort(self.order)
        for each, share in zip(self.moves(news), shares.tolist(), strict=True):
            picked, weights = np.arange(each.masks.size), each.chance
            if count is not None:
                picked = np.searchsorted(np.cumsum(weights), (np.arange(count) + 0.5) / count * weights.sum())
                weights = np.full(count, 1.0 / count)
            joint = self._redrawn(each)[:, picked] * (share * weights / each.chance[picked])
            yield joint[back]

    def joint(self, which: int) -> Float64Matrix:
        """Return (k_B, k_B) float64 P(b, b*), from ``DRAWN`` masks of the root, if it has more; ``which``: 1."""
        return self._joint

    @cached_property
    def _joint(self) -> Float64Matrix:
        news, shares, _ = self._some
        result = np.zeros((self.order.size,) * 2)
        for each, share in zip(self.moves(news), shares.tolist(), strict=True):
            result[:, each.masks] += self._redrawn(each) * share
        back = np.argsort(self.order)
        return result[np.ix_(back, back)]

    @cached_property
    def _some(self) -> tuple[Int64Array, Float64Array, bool]:
        """All masks of the root, with their chances, or some that are drawn by them; whether they are drawn."""
        news, chances = self._news, self.root.sum(axis=0)
        if news.size <= DRAWN:
            return news, chances[news], False
        steps = np.cumsum(chances)
        return np.searchsorted(steps, (np.arange(DRAWN) + 0.5) / DRAWN * steps[-1]), np.full(DRAWN, 1.0 / DRAWN), True

    def _redrawn(self, moves: Moves) -> Float64Matrix:
        """Return P(b, b* | a*) with the redraw."""
        joint, eta = moves.joint.astype(np.float64), self.couplings.eta[self._entries(moves.new)]
        if not eta.any():
            return joint
        weights = eta * moves.chance
        return np.asarray(joint * (1.0 - eta) + np.outer(joint @ eta, weights / weights.sum()))

    def _entries(self, new: int) -> slice:
        """Return which entries of the couplings are those of a mask of the root."""
        return slice(*self.couplings.target_offsets[new : new + 2].tolist())

    def _floor(self, squares: Float32Matrix, any_mask: Float32Matrix) -> float:
        """Return the η of all masks by which values move as far as is asked for; 0 where they move so anyway.

        ``any_mask``: (k_B, k_A) float32 E[d²] of each value and any mask of each a*.
        """
        chances = self.root.sum(axis=0)[self._news]
        some = np.unique(np.searchsorted(np.cumsum(chances), (np.arange(TRIED) + 0.5) / TRIED * chances.sum()))
        near = far = total = 0.0
        for each in self.moves(self._news[some]):
            near += each.share * float(column_costs(each.joint, each.prior, squares, each.masks).sum())
            far += each.share * float(each.prior @ any_mask[:, each.new])
            total += each.share
        return float(np.clip((self.wanted * total - near) / max(far - near, 1e-12), 0.0, 1.0))


def _rows(law: Float32Matrix) -> tuple[Int64Array, Int32Array, Float64Array]:
    """Return P(b | a) as compressed rows; that of all rows for a row without any."""
    wide = law.astype(np.float64)
    sums = wide.sum(axis=1, keepdims=True)
    table = np.where(sums > 0.0, wide / np.where(sums > 0.0, sums, 1.0), wide.sum(axis=0) / wide.sum())
    rows, columns = np.nonzero(table)
    lengths = np.bincount(rows, minlength=len(table))
    return offsets_from_lengths(lengths), columns.astype(np.int32), table[rows, columns]


def given_groups(source: Float64Matrix, limits: Limits) -> list[tuple[Float32Array, float]]:
    """Return the groups by which the root's mask tells of an attribute: the chance of each value given the root.

    ``source``: (k_A, k_B) P(b | a). ``limits``: of the attribute. What cannot exceed its limit is left out.
    """
    weights = limits.masses(source.T).astype(np.float32)
    over = weights.max(axis=1) > limits.greatest
    return list(zip(weights[over], limits.greatest[over].tolist(), strict=True))
