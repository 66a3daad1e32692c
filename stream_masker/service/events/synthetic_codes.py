"""Random codes distributed as in hospitals: a few are very frequent, most are rare, related ones occur together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.dtypes import Float64Array, Int64Array
from stream_masker.core.ontology import Taxonomy

CHAPTER_DEPTH, BLOCK_DEPTH = 2, 3

ZIPF_EXPONENT, ZIPF_OFFSET = 2.0, 1.0
"""The share of rank r, from 1, is proportional to (r + OFFSET) ** -EXPONENT (Zipf–Mandelbrot).

Blocks share the events of their chapter by this law, and codes share those of their block; ranks are random. With
correlation 0.6 on ICD-10-CM, sdCor is about 0.29 and sdVar 0.09; on real discharges with ICD-9-CM they are 0.26 and
0.14.
"""

ICD10CM_CHAPTERS = dict(
    zip(
        map(str, range(1, 23)),
        (70, 60, 10, 50, 60, 25, 2, 2, 170, 100, 100, 20, 60, 60, 120, 30, 5, 40, 90, 1, 15, 3),
        strict=True,
    )
)
"""Weights of the chapters of ICD-10-CM, roughly as in hospital stays: circulation, pregnancy, respiration, ..."""

RESPIRATORY_CHAPTER, EPIDEMIC_SHARE = "10", 0.45
"""The chapter of ICD-10-CM that becomes frequent in a drift, and its share then."""

PROFILE_CODES = 8
"""The number of codes in a block's profile of comorbidities; each has half the probability of the one before."""

SAME_BLOCK_SHARE, SAME_CHAPTER_SHARE = 0.35, 0.25
"""The shares of correlated secondary codes from the principal's block and chapter; the rest are from its profile."""

BEFORE_DRIFT, AFTER_DRIFT = 0, 1


class Popularity:
    """The frequency of each leaf of a taxonomy, before and after a drift.

    With ICD-10-CM, the drift is an epidemic of respiratory diseases; otherwise chapters exchange their frequencies.

    Leaves have numbers 0 … k-1, ordered by chapter, block and position, so that each chapter and block is a contiguous
    range of numbers. ``positions``: (k,) their positions in the taxonomy.
    """

    def __init__(self, taxonomy: Taxonomy, *, rng: np.random.Generator) -> None:
        leaves = np.flatnonzero(taxonomy.leaf)
        chapter, block = (_ancestors_at_depth(taxonomy, leaves, depth) for depth in (CHAPTER_DEPTH, BLOCK_DEPTH))
        order = np.lexsort((leaves, block, chapter))
        self.positions = leaves[order]
        self._chapters, self._blocks = _Ranges.of(chapter[order]), _Ranges.of(block[order])
        self._chapter_ids = taxonomy.decode(chapter[order][self._chapters.starts[:-1]])
        self._cumulative = self._popularities(rng)

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def blocks(self) -> int:
        return self._blocks.count

    def block_of(self, numbers: Int64Array) -> Int64Array:
        """Return the blocks, numbered from 0, of leaves."""
        return self._blocks.owner[numbers]

    def block_range(self, numbers: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return the half-open ranges of leaves in the blocks of the given leaves."""
        return self._blocks.around(numbers)

    def chapter_range(self, numbers: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return the half-open ranges of leaves in the chapters of the given leaves."""
        return self._chapters.around(numbers)

    def draw(
        self, uniform: Float64Array, period: int, within: tuple[Int64Array, Int64Array] | None = None
    ) -> Int64Array:
        """Draw a leaf by frequency for each uniform number, from all leaves or from the half-open ranges ``within``."""
        low, high = within or (np.int64(0), np.int64(len(self)))
        cumulative = self._cumulative[period]
        target = cumulative[low] + uniform * (cumulative[high] - cumulative[low])
        return np.clip(np.searchsorted(cumulative, target, side="right") - 1, low, high - 1)

    def _popularities(self, rng: np.random.Generator) -> tuple[Float64Array, Float64Array]:
        block_chapters = self._chapters.owner[self._blocks.starts[:-1]]
        within = _shares(self._blocks.owner, rng) * _shares(block_chapters, rng)[self._blocks.owner]
        before = self._chapter_shares(rng)
        after = _epidemic(before, self._chapter_ids) if self._has_icd10cm_chapters else _exchanged(before)
        return _accumulated(within * before[self._chapters.owner]), _accumulated(within * after[self._chapters.owner])

    @property
    def _has_icd10cm_chapters(self) -> bool:
        return set(self._chapter_ids) <= ICD10CM_CHAPTERS.keys()

    def _chapter_shares(self, rng: np.random.Generator) -> Float64Array:
        """Return the shares of hospital stays if the chapters are those of ICD-10-CM, otherwise of random ranks."""
        if self._has_icd10cm_chapters:
            return np.array([ICD10CM_CHAPTERS[chapter] for chapter in self._chapter_ids], np.float64)
        return _shares(np.zeros(self._chapters.count, np.int64), rng)


@dataclass(frozen=True, slots=True)
class _Ranges:
    """Contiguous groups. ``owner`` (k,): group of each leaf. Group g: leaves ``starts[g]`` to ``starts[g + 1]``."""

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


class CompanionCodes:
    """Codes that accompany a principal code; with probability ``correlation`` they depend on it.

    A dependent code comes from the principal code's block, its chapter, or its block's profile of comorbidities; if the
    two attributes have different taxonomies, always from the profile.
    """

    def __init__(self, principal: Popularity, popularity: Popularity, *, rng: np.random.Generator) -> None:
        self._principal, self._popularity = principal, popularity
        self._profile = popularity.draw(rng.random((principal.blocks, PROFILE_CODES)), BEFORE_DRIFT)

    @cached_property
    def _related(self) -> bool:
        return self._principal is self._popularity

    def draw(
        self, principal: Int64Array, per_event: int, *, correlation: float, period: int, rng: np.random.Generator
    ) -> Int64Array:
        """Return (n, per_event) leaves for n principal ones, without repetitions in an event as far as possible."""
        shape = (len(principal), per_event)
        uniform = rng.random(shape)
        codes = self._popularity.draw(rng.random(shape), period, self._ranges(principal, uniform, correlation))
        self._set_profile(codes, principal, uniform, correlation, rng)
        for _ in range(3):
            repeated_codes = self._repeated(principal, codes)
            codes[repeated_codes] = self._popularity.draw(rng.random(int(repeated_codes.sum())), period)
        return codes

    def _ranges(
        self, principal: Int64Array, uniform: Float64Array, correlation: float
    ) -> tuple[Int64Array, Int64Array]:
        """Return the range to draw each code from: the principal's block, its chapter, or all leaves."""
        low, high = np.zeros(uniform.shape, np.int64), np.full(uniform.shape, len(self._popularity))
        if self._related:
            _narrow(
                low,
                high,
                self._popularity.chapter_range(principal),
                uniform < correlation * (SAME_BLOCK_SHARE + SAME_CHAPTER_SHARE),
            )
            _narrow(low, high, self._popularity.block_range(principal), uniform < correlation * SAME_BLOCK_SHARE)
        return low, high

    def _set_profile(
        self,
        codes: Int64Array,
        principal: Int64Array,
        uniform: Float64Array,
        correlation: float,
        rng: np.random.Generator,
    ) -> None:
        near = SAME_BLOCK_SHARE + SAME_CHAPTER_SHARE if self._related else 0.0
        rows, columns = np.nonzero((uniform >= near * correlation) & (uniform < correlation))
        halvings = np.floor(-np.log2(1.0 - rng.random(len(rows)))).astype(np.int64)
        codes[rows, columns] = self._profile[self._principal.block_of(principal[rows]), halvings % PROFILE_CODES]

    def _repeated(self, principal: Int64Array, codes: Int64Array) -> NDArray[np.bool_]:
        same = codes[:, :, None] == codes[:, None, :]
        earlier = np.tril(np.ones(same.shape[1:], np.bool_), -1)
        repeated: NDArray[np.bool_] = (same & earlier).any(axis=2)
        return repeated | (codes == principal[:, None]) if self._related else repeated


def _narrow(low: Int64Array, high: Int64Array, bounds: tuple[Int64Array, Int64Array], where: NDArray[np.bool_]) -> None:
    for side, bound in zip((low, high), bounds, strict=True):
        np.copyto(side, bound[:, None], where=where)


def _ancestors_at_depth(taxonomy: Taxonomy, positions: Int64Array, depth: int) -> Int64Array:
    """Return each position's ancestor at a depth, along first parents; the position itself if it is not deeper."""
    first_parent = np.concatenate(([0], taxonomy.parents[taxonomy.parent_offsets[1:-1]])).astype(np.int64)
    above = positions.astype(np.int64)
    while (deeper := taxonomy.depth[above] > depth).any():
        above = np.where(deeper, first_parent[above], above)
    return above


def _epidemic(shares: Float64Array, chapters: Sequence[str]) -> Float64Array:
    """Return new shares: respiratory diseases are ``EPIDEMIC_SHARE`` of all, the others keep their proportions."""
    ill = np.array([chapter == RESPIRATORY_CHAPTER for chapter in chapters])
    if not ill.any() or ill.all():
        return _exchanged(shares)
    others = np.where(ill, 0.0, shares)
    return np.where(ill, EPIDEMIC_SHARE, (1.0 - EPIDEMIC_SHARE) * others / others.sum())


def _exchanged(shares: Float64Array) -> Float64Array:
    """Return new shares: each member gets that of the member half the ranks away, so rare ones become frequent."""
    order = np.argsort(-shares, kind="stable")
    moved = np.empty_like(shares)
    moved[order] = shares[np.roll(order, -(len(order) // 2))]
    return moved


def _shares(groups: Int64Array, rng: np.random.Generator) -> Float64Array:
    """Return each member's share of its group, by a random rank in the group; groups are contiguous."""
    order = np.lexsort((rng.random(len(groups)), groups))
    starts = np.searchsorted(groups, groups)
    ranks = np.empty(len(groups))
    ranks[order] = np.arange(len(groups)) - starts + 1
    weights = (ranks + ZIPF_OFFSET) ** -ZIPF_EXPONENT
    return weights / np.bincount(groups, weights)[groups]


def _accumulated(weights: Float64Array) -> Float64Array:
    return np.concatenate(([0.0], np.cumsum(weights / weights.sum())))
