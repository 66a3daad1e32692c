"""Drawing codes as hospitals use them: a few very often, most hardly ever, related ones together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.dtypes import Float64Array, Int64Array
from stream_masker.core.ontology import Taxonomy

CHAPTER_DEPTH, BLOCK_DEPTH = 2, 3

EXPONENT, OFFSET = 2.0, 1.0
"""The share of rank r, from 1, is proportional to (r + OFFSET) ** -EXPONENT (Zipf–Mandelbrot).

So the blocks of a chapter share the events of the chapter, and the codes of a block those of the block; ranks are
random. With correlation 0.6 on ICD-10-CM, sdCor is about 0.29 and sdVar 0.09; of real discharges on ICD-9-CM they are
0.26 and 0.14.
"""

ICD10CM_CHAPTERS = dict(
    zip(
        map(str, range(1, 23)),
        (70, 60, 10, 50, 60, 25, 2, 2, 170, 100, 100, 20, 60, 60, 120, 30, 5, 40, 90, 1, 15, 3),
        strict=True,
    )
)
"""Weights of the chapters of ICD-10-CM, roughly as in hospital stays: circulation, pregnancy, respiration, ..."""

COMPANIONS = 8
"""Codes in a block's profile of co-morbidities, each half as likely as the one before."""

SAME_BLOCK, SAME_CHAPTER = 0.35, 0.25
"""Of the secondary codes that depend on the principal: the shares from its block and its chapter; else its profile."""

BEFORE, AFTER = 0, 1


class Popularity:
    """How often each leaf of a taxonomy is coded, before and after a drift in which the chapters change places.

    Leaves have numbers 0 … k-1, ordered by chapter, then block, then position, so that each chapter and block is a
    contiguous range of numbers. ``positions``: (k,) their positions in the taxonomy.
    """

    def __init__(self, taxonomy: Taxonomy, *, rng: np.random.Generator) -> None:
        leaves = np.flatnonzero(taxonomy.leaf)
        chapter, block = (_generalised(taxonomy, leaves, depth) for depth in (CHAPTER_DEPTH, BLOCK_DEPTH))
        order = np.lexsort((leaves, block, chapter))
        self.positions = leaves[order]
        self._chapters, self._blocks = _Ranges.of(chapter[order]), _Ranges.of(block[order])
        self._chapter_ids = taxonomy.decode(chapter[order][self._chapters.starts[:-1]])
        self._cumulative = self._popularities(rng)

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def blocks(self) -> int:
        """The number of blocks."""
        return self._blocks.count

    def block_of(self, numbers: Int64Array) -> Int64Array:
        """The blocks, from 0, of leaves."""
        return self._blocks.owner[numbers]

    def block_range(self, numbers: Int64Array) -> tuple[Int64Array, Int64Array]:
        """The first and the last plus one of the leaves in the blocks of the given leaves."""
        return self._blocks.around(numbers)

    def chapter_range(self, numbers: Int64Array) -> tuple[Int64Array, Int64Array]:
        """The first and the last plus one of the leaves in the chapters of the given leaves."""
        return self._chapters.around(numbers)

    def draw(
        self, uniform: Float64Array, regime: int, within: tuple[Int64Array, Int64Array] | None = None
    ) -> Int64Array:
        """Leaves by their popularity, one for each uniform number, from all or from the half-open ranges ``within``."""
        low, high = within or (np.int64(0), np.int64(len(self)))
        cumulative = self._cumulative[regime]
        target = cumulative[low] + uniform * (cumulative[high] - cumulative[low])
        return np.clip(np.searchsorted(cumulative, target, side="right") - 1, low, high - 1)

    def _popularities(self, rng: np.random.Generator) -> tuple[Float64Array, Float64Array]:
        block_chapters = self._chapters.owner[self._blocks.starts[:-1]]
        within = _shares(self._blocks.owner, rng) * _shares(block_chapters, rng)[self._blocks.owner]
        before = self._chapter_shares(rng)
        after = _exchanged(before)
        return _accumulated(within * before[self._chapters.owner]), _accumulated(within * after[self._chapters.owner])

    def _chapter_shares(self, rng: np.random.Generator) -> Float64Array:
        """As in hospital stays where the chapters are ICD-10-CM's, else by random ranks."""
        if set(self._chapter_ids) <= ICD10CM_CHAPTERS.keys():
            return np.array([ICD10CM_CHAPTERS[chapter] for chapter in self._chapter_ids], np.float64)
        return _shares(np.zeros(self._chapters.count, np.int64), rng)


@dataclass(frozen=True, slots=True)
class _Ranges:
    """Contiguous groups: ``owner`` (k,) is each leaf's; group g is the leaves ``starts[g]`` to ``starts[g + 1]``."""

    owner: Int64Array
    starts: Int64Array

    @property
    def count(self) -> int:
        return len(self.starts) - 1

    @classmethod
    def of(cls, groups: Int64Array) -> _Ranges:
        changes = np.flatnonzero(np.diff(groups, prepend=-1))
        owner = np.searchsorted(changes, np.arange(len(groups)), side="right") - 1
        return cls(owner, np.append(changes, len(groups)))

    def around(self, numbers: Int64Array) -> tuple[Int64Array, Int64Array]:
        group = self.owner[numbers]
        return self.starts[group], self.starts[group + 1]


class Companions:
    """Codes beside a principal code: with probability ``correlation`` they depend on it, else on popularity alone.

    A dependent one comes from the principal's block, its chapter or its block's profile of co-morbidities; where the
    two attributes have different taxonomies, always from the profile.
    """

    def __init__(self, principal: Popularity, own: Popularity, *, rng: np.random.Generator) -> None:
        self._principal, self._own = principal, own
        self._profile = own.draw(rng.random((principal.blocks, COMPANIONS)), BEFORE)

    @cached_property
    def _related(self) -> bool:
        return self._principal is self._own

    def draw(
        self, principal: Int64Array, per_event: int, *, correlation: float, regime: int, rng: np.random.Generator
    ) -> Int64Array:
        """(n, per_event) leaves beside n principal ones, none the principal nor twice in an event where avoidable."""
        shape = (len(principal), per_event)
        how = rng.random(shape)
        codes = self._own.draw(rng.random(shape), regime, self._ranges(principal, how, correlation))
        self._set_profile(codes, principal, how, correlation, rng)
        for _ in range(3):
            again = self._repeated(principal, codes)
            codes[again] = self._own.draw(rng.random(int(again.sum())), regime)
        return codes

    def _ranges(self, principal: Int64Array, how: Float64Array, correlation: float) -> tuple[Int64Array, Int64Array]:
        """Where each code is drawn from: the principal's block, its chapter, or everywhere."""
        low, high = np.zeros(how.shape, np.int64), np.full(how.shape, len(self._own))
        if self._related:
            _narrow(low, high, self._own.chapter_range(principal), how < correlation * (SAME_BLOCK + SAME_CHAPTER))
            _narrow(low, high, self._own.block_range(principal), how < correlation * SAME_BLOCK)
        return low, high

    def _set_profile(
        self, codes: Int64Array, principal: Int64Array, how: Float64Array, correlation: float, rng: np.random.Generator
    ) -> None:
        near = SAME_BLOCK + SAME_CHAPTER if self._related else 0.0
        rows, columns = np.nonzero((how >= near * correlation) & (how < correlation))
        halvings = np.floor(-np.log2(1.0 - rng.random(len(rows)))).astype(np.int64)
        codes[rows, columns] = self._profile[self._principal.block_of(principal[rows]), halvings % COMPANIONS]

    def _repeated(self, principal: Int64Array, codes: Int64Array) -> NDArray[np.bool_]:
        same = codes[:, :, None] == codes[:, None, :]
        earlier = np.tril(np.ones(same.shape[1:], np.bool_), -1)
        repeated: NDArray[np.bool_] = (same & earlier).any(axis=2)
        return repeated | (codes == principal[:, None]) if self._related else repeated


def _narrow(low: Int64Array, high: Int64Array, bounds: tuple[Int64Array, Int64Array], where: NDArray[np.bool_]) -> None:
    for side, bound in zip((low, high), bounds, strict=True):
        np.copyto(side, bound[:, None], where=where)


def _generalised(taxonomy: Taxonomy, positions: Int64Array, depth: int) -> Int64Array:
    """Each position's ancestor at a depth, by first parents; itself where it is no deeper."""
    first_parent = np.concatenate(([0], taxonomy.parents[taxonomy.parent_offsets[1:-1]])).astype(np.int64)
    above = positions.astype(np.int64)
    while (deeper := taxonomy.depth[above] > depth).any():
        above = np.where(deeper, first_parent[above], above)
    return above


def _exchanged(shares: Float64Array) -> Float64Array:
    """Each member's new share: that of the member half the ranks away, so that what was rare is popular."""
    order = np.argsort(-shares, kind="stable")
    moved = np.empty_like(shares)
    moved[order] = shares[np.roll(order, -(len(order) // 2))]
    return moved


def _shares(groups: Int64Array, rng: np.random.Generator) -> Float64Array:
    """Every member's share of its group, by a random rank in it; groups are contiguous."""
    order = np.lexsort((rng.random(len(groups)), groups))
    starts = np.searchsorted(groups, groups)
    ranks = np.empty(len(groups))
    ranks[order] = np.arange(len(groups)) - starts + 1
    weights = (ranks + OFFSET) ** -EXPONENT
    return weights / np.bincount(groups, weights)[groups]


def _accumulated(weights: Float64Array) -> Float64Array:
    return np.concatenate(([0.0], np.cumsum(weights / weights.sum())))
