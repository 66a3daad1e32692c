"""What a replacement is chosen from, and the contract of those who choose.

The rule (2017: algorithms 1 to 3): a value a with noise ε and reference r is replaced by a candidate c ≠ a that is
*admissible*: farther from r than a is where ε > 0, nearer where ε < 0.

* ε = 0 keeps a. Without a reference, or with a = r, every candidate is admissible.
* The admissible distances sd(c, a) are levels. ``ceil`` takes the least level ≥ |ε|, as the papers do.
* ``calibrated`` (ours) takes the least level hi ≥ |ε| with probability p = (ε² − lo²) / (hi² − lo²), else the greatest
  level lo < |ε|, so that E[sd²] = ε². Both are admissible levels. Where no admissible level lies below |ε|, lo = 0 is a
  itself, which meets no sign condition and needs none; not so where a is no candidate: then hi is taken.
* No level ≥ |ε|: the greatest level (counted as *truncated*), under either rounding.
* No admissible candidate at all: the sign condition is dropped (counted as *unsigned*), and the rule starts anew.
* No candidate but a: a stays (counted as truncated, to 0).
* Of the candidates on the level, one uniformly at random (the papers leave it open).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.batch import Tally
from stream_masker.core.dtypes import Float64Array, Int32Array, UInt64Array
from stream_masker.core.kernels.jit import kernel
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.random.draws import uniform
from stream_masker.core.validation import require_one_of

CANDIDATES = ("all", "leaves")
ROUNDINGS = ("calibrated", "ceil")

TRUNCATED = 1
SIGN_DROPPED = 2

NO_REFERENCE = -1


@dataclass(frozen=True, slots=True)
class ReplacementTask:
    """k values to replace.

    codes: (k,) int32 positions, ABSENT ones stay. references: (k,) int32 positions, ``NO_REFERENCE`` for none.
    noise: (k,) float64 ε. rounding, ties: (k,) uint64 random words, for the choice of a level and of one of its ties.
    """

    codes: Int32Array
    references: Int32Array
    noise: Float64Array
    rounding: UInt64Array
    ties: UInt64Array

    @classmethod
    def of(
        cls, codes: Int32Array, references: Int32Array, noise: Float64Array, rounding: UInt64Array, ties: UInt64Array
    ) -> ReplacementTask:
        """A task of copies: contiguous and writable arrays, for which the kernels are compiled once."""
        return cls(codes.copy(), references.copy(), noise.copy(), rounding.copy(), ties.copy())


@dataclass(frozen=True, slots=True)
class Replacement:
    """codes: (k,) int32 a*; distances: (k,) float64 sd(a, a*); flags: (k,) uint8, ``TRUNCATED`` | ``SIGN_DROPPED``."""

    codes: Int32Array
    distances: Float64Array
    flags: NDArray[np.uint8]

    def tally(self, task: ReplacementTask) -> Tally:
        """The sums over the values that are there."""
        there = task.codes >= 0
        return Tally(
            values=int(there.sum()),
            squared_distance=float((self.distances**2).sum()),
            squared_noise=float((task.noise[there] ** 2).sum()),
            truncated=int(np.count_nonzero(self.flags & TRUNCATED)),
            unsigned=int(np.count_nonzero(self.flags & SIGN_DROPPED)),
        )


class Replacer(Protocol):
    """Chooses replacements in one taxonomy by one distance. Each value's replacement depends on nothing but its own
    row of the task."""

    def replace(self, task: ReplacementTask) -> Replacement:
        """Replaces every value of the task."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """The concepts that may replace others. positions: ascending; rank: (m + 1,), candidates before each position."""

    positions: Int32Array
    rank: Int32Array

    @classmethod
    def of(cls, taxonomy: Taxonomy, which: str) -> Candidates:
        """``all`` concepts of the taxonomy or its ``leaves``. Raises ParameterError."""
        eligible = _eligible(taxonomy, which)
        rank = np.concatenate((np.zeros(1, np.int32), np.cumsum(eligible, dtype=np.int32)))
        return cls(np.flatnonzero(eligible).astype(np.int32), rank)


def _eligible(taxonomy: Taxonomy, which: str) -> NDArray[np.bool_]:
    require_one_of("candidates", which, CANDIDATES)
    return taxonomy.leaf if which == "leaves" else np.ones(len(taxonomy), np.bool_)


@kernel
def is_admissible(sign: int, distance: float, own: float) -> bool:
    """The sign condition: of a candidate ``distance`` from the reference, where the value is ``own``; none if 0."""
    if sign == 0:
        return True
    return distance > own if sign > 0 else distance < own


@kernel
def choose_level(
    target: float, below: float, above: float, stays: bool, calibrated: bool, word: np.uint64
) -> tuple[float, int]:
    """The level to take: (distance, flags); distance 0 keeps the value.

    target: |ε| > 0; below: the greatest admissible level < target, -1 for none; above: the least ≥ target, inf for
    none; stays: whether the value itself is a candidate.
    """
    if above == np.inf:
        return max(below, 0.0), TRUNCATED
    if not calibrated or (below < 0.0 and not stays):
        return above, 0
    lo = max(below, 0.0)
    chance = (target * target - lo * lo) / (above * above - lo * lo)
    return (above if uniform(word) < chance else lo), 0
