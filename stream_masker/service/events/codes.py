"""Random codes distributed as in hospitals: a few are very frequent, most are rare, related ones occur together."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from stream_masker.core.arrays import BoolArray, Float64Array, Int64Array
from stream_masker.core.ontology import Taxonomy

CHAPTER_DEPTH, BLOCK_DEPTH = 2, 3

ZIPF_EXPONENT, ZIPF_OFFSET = 2.0, 1.0
"""The share of rank r, from 1, is proportional to (r + OFFSET) ** -EXPONENT (Zipf–Mandelbrot).

Blocks share the events of their chapter by this law, and codes share those of their block; ranks are random. On
ICD-10-CM, sdCor is about 0.29 and sdVar 0.09; on real discharges with ICD-9-CM they are 0.26 and 0.14.
"""

ICD10CM_CHAPTERS: Final = dict(
    zip(
        map(str, range(1, 23)),
        (70, 60, 10, 50, 60, 25, 2, 2, 170, 100, 100, 20, 60, 60, 120, 30, 5, 40, 90, 1, 15, 3),
        strict=True,
    )
)
"""Weights of the chapters of ICD-10-CM, roughly as in hospital stays: circulation, pregnancy, respiration, ..."""

INFLUENZA: Final = "J10"
"""The category of ICD-10-CM whose codes an outbreak makes frequent."""

CORRELATION = 0.6
"""The probability that another code depends on the principal one."""

SAME_BLOCK, SAME_CHAPTER = 0.35, 0.25
"""The shares of dependent codes from the principal's block and chapter; the rest are from its block's profile."""

PROFILE_CODES = 8
"""The number of codes in a block's profile of comorbidities; each has half the probability of the one before."""


class Groups(NamedTuple):
    """Contiguous groups. ``owner`` (k,): group of each leaf. Group g: leaves ``starts[g]`` to ``starts[g + 1]``."""

    owner: Int64Array
    starts: Int64Array

    @classmethod
    def of(cls, groups: Int64Array) -> Groups:
        """Return the runs of equal numbers."""
        changes = np.flatnonzero(np.diff(groups, prepend=-1))
        owner = np.searchsorted(changes, np.arange(len(groups)), side="right") - 1
        return cls(owner, np.append(changes, len(groups)))

    def around(self, leaves: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return the half-open ranges of the groups of leaves."""
        group = self.owner[leaves]
        return self.starts[group], self.starts[group + 1]


class Popularity:
    """The frequency of each leaf of a taxonomy.

    Leaves have numbers 0 … k-1, ordered by chapter, block and position, so that each chapter and block is a contiguous
    range of numbers. ``positions``: (k,) their positions in the taxonomy. ``outbreak``: those of influenza, or in
    another ontology than ICD-10-CM those of the rarest block.
    """

    def __init__(self, taxonomy: Taxonomy, *, rng: np.random.Generator) -> None:
        leaves = np.flatnonzero(taxonomy.leaf)
        chapter, block = (_ancestors_at_depth(taxonomy, leaves, depth) for depth in (CHAPTER_DEPTH, BLOCK_DEPTH))
        order = np.lexsort((leaves, block, chapter))
        self.positions = leaves[order]
        self.chapters, self.blocks = Groups.of(chapter[order]), Groups.of(block[order])
        block_chapters = self.chapters.owner[self.blocks.starts[:-1]]
        within = _shares(self.blocks.owner, rng) * _shares(block_chapters, rng)[self.blocks.owner]
        names = taxonomy.decode(chapter[order][self.chapters.starts[:-1]])
        if set(names) <= ICD10CM_CHAPTERS.keys():
            shares = np.array([ICD10CM_CHAPTERS[name] for name in names], np.float64)
        else:
            shares = _shares(np.zeros(len(names), np.int64), rng)
        weights = within * shares[self.chapters.owner]
        self._cumulative = np.concatenate(([0.0], np.cumsum(weights / weights.sum())))
        if INFLUENZA in taxonomy:
            self.outbreak = np.flatnonzero(taxonomy.below(taxonomy.encode([INFLUENZA]))[self.positions])
        else:
            self.outbreak = np.flatnonzero(self.blocks.owner == np.bincount(self.blocks.owner, weights).argmin())

    def draw(self, uniform: Float64Array, within: tuple[Int64Array, Int64Array] | None = None) -> Int64Array:
        """Draw a leaf by frequency for each uniform number, from all leaves or from the half-open ranges ``within``."""
        low, high = within or (np.int64(0), np.int64(len(self.positions)))
        target = self._cumulative[low] + uniform * (self._cumulative[high] - self._cumulative[low])
        leaves: Int64Array = np.clip(np.searchsorted(self._cumulative, target, side="right") - 1, low, high - 1)
        return leaves


class CompanionCodes:
    """Codes that accompany a principal code; with probability ``CORRELATION`` they depend on it.

    A dependent code comes from the principal code's block, its chapter, or its block's profile of comorbidities; if the
    two attributes have different taxonomies, always from the profile.
    """

    def __init__(self, principal: Popularity, popularity: Popularity, *, rng: np.random.Generator) -> None:
        self._principal, self._popularity = principal, popularity
        self._profile = popularity.draw(rng.random((len(principal.blocks.starts) - 1, PROFILE_CODES)))
        self._related = principal is popularity

    def draw(self, principal: Int64Array, per_event: int, *, rng: np.random.Generator) -> Int64Array:
        """Return (n, per_event) leaves for n principal ones, without repetitions in an event as far as possible."""
        shape = (len(principal), per_event)
        uniform = rng.random(shape)
        codes = self._popularity.draw(rng.random(shape), self._ranges(principal, uniform))
        near = SAME_BLOCK + SAME_CHAPTER if self._related else 0.0
        rows, columns = np.nonzero((uniform >= near * CORRELATION) & (uniform < CORRELATION))
        halvings = np.floor(-np.log2(1.0 - rng.random(len(rows)))).astype(np.int64)
        codes[rows, columns] = self._profile[self._principal.blocks.owner[principal[rows]], halvings % PROFILE_CODES]
        for _ in range(3):
            repeated = self._repeated(principal, codes)
            codes[repeated] = self._popularity.draw(rng.random(int(repeated.sum())))
        return codes

    def _ranges(self, principal: Int64Array, uniform: Float64Array) -> tuple[Int64Array, Int64Array]:
        """Return the range to draw each code from: the principal's block, its chapter, or all leaves."""
        low, high = np.zeros(uniform.shape, np.int64), np.full(uniform.shape, len(self._popularity.positions))
        if self._related:
            blocks, chapters = self._popularity.blocks, self._popularity.chapters
            for groups, share in ((chapters, SAME_BLOCK + SAME_CHAPTER), (blocks, SAME_BLOCK)):
                for side, bound in zip((low, high), groups.around(principal), strict=True):
                    np.copyto(side, bound[:, None], where=uniform < CORRELATION * share)
        return low, high

    def _repeated(self, principal: Int64Array, codes: Int64Array) -> BoolArray:
        """Return (n, per_event) whether a code is the principal one or an earlier one of its event."""
        same = codes[:, :, None] == codes[:, None, :]
        repeated: BoolArray = (same & np.tril(np.ones(same.shape[1:], np.bool_), -1)).any(axis=2)
        return repeated | (codes == principal[:, None]) if self._related else repeated


def _ancestors_at_depth(taxonomy: Taxonomy, positions: Int64Array, depth: int) -> Int64Array:
    """Return each position's ancestor at a depth, in a graph the first one; the position itself if it is not deeper."""
    owner, ancestors = taxonomy.ancestors_at(positions, depth)
    return ancestors[np.unique(owner, return_index=True)[1]].astype(np.int64)


def _shares(groups: Int64Array, rng: np.random.Generator) -> Float64Array:
    """Return each member's share of its group, by a random rank in the group; groups are contiguous."""
    order = np.lexsort((rng.random(len(groups)), groups))
    ranks = np.empty(len(groups))
    ranks[order] = np.arange(len(groups)) - np.searchsorted(groups, groups) + 1
    weights = (ranks + ZIPF_OFFSET) ** -ZIPF_EXPONENT
    return weights / np.bincount(groups, weights)[groups]
