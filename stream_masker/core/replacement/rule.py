"""The rule of a replacement, and the interface of the engines that apply it.

The rule (2017: algorithms 1 to 3): a value a with noise ε and reference r is replaced by a candidate c ≠ a that is
*admissible*: farther from r than a is if ε > 0, nearer if ε < 0.

* ε = 0 keeps a. Without a reference, or with a = r, every candidate is admissible.
* The admissible distances sd(c, a) are *levels*. ``ceil`` takes the least level ≥ |ε|, as the papers do.
* ``calibrated`` (not in the papers) takes the least level hi ≥ |ε| with probability p = (ε² − lo²) / (hi² − lo²), else
  the greatest level lo < |ε|, so that E[sd²] = ε². If no admissible level is below |ε|, lo = 0 is a itself, which needs
  to meet no sign condition. If, moreover, a is not a candidate, hi is taken.
* If there is no level ≥ |ε|, both roundings take the greatest level; the value counts as *truncated*.
* If no candidate is admissible, the sign condition is dropped, and the value counts as *unsigned*.
* If a is the only candidate, a stays; the value counts as truncated, to 0.
* Of the admissible candidates on the level one is drawn uniformly. The papers leave this open.

``core.replacement.rows``, whose candidates are the concepts of a window, differs in two points:

* A candidate is drawn by its frequency.
* ``calibrated`` also admits the candidates that are as far from r as a is, for both signs of ε. They are drawn where no
  candidate on the level is farther, or nearer. Concepts in use are often siblings of one depth, which are equally far
  from most references. Without them most values would have no admissible candidate nearby and stay.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.batch import Distortion
from stream_masker.core.distance.kernels import WU_PALMER, log_taxonomic, wu_palmer
from stream_masker.core.dtypes import Float64Array, Int32Array, Int64Array, UInt64Array
from stream_masker.core.kernels.draws import uniform
from stream_masker.core.kernels.jit import inlined, int64, kernel
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.validation import require_one_of

CANDIDATES = ("all", "leaves")
ROUNDINGS = ("calibrated", "ceil")

TRUNCATED = 1
SIGN_DROPPED = 2

NO_REFERENCE = -1


class ReplacementTask(NamedTuple):
    """k values to replace.

    codes: (k,) positions; negative ones (absent values) stay. references: (k,) positions, or ``NO_REFERENCE``.
    noise: (k,) ε. rounding, ties: (k,) random words for the choice of the level, and of a candidate on it.

    The arrays are contiguous and writable: kernels are compiled for these types alone, and do not look at them.
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
        """Return a task with copies of the arrays."""
        return cls(codes.copy(), references.copy(), noise.copy(), rounding.copy(), ties.copy())

    @classmethod
    def none(cls) -> ReplacementTask:
        """Return the task of no values."""
        codes, words = np.empty(0, np.int32), np.empty(0, np.uint64)
        return cls(codes, codes, np.empty(0), words, words)

    def part(self, some: slice | Int64Array) -> ReplacementTask:
        """Return the task of some of the values."""
        return ReplacementTask(
            self.codes[some], self.references[some], self.noise[some], self.rounding[some], self.ties[some]
        )


class Replacement(NamedTuple):
    """The replacements of k values.

    codes: (k,) new positions. distances: (k,) from the values. flags: (k,) uint8, ``TRUNCATED`` | ``SIGN_DROPPED``.
    """

    codes: Int32Array
    distances: Float64Array
    flags: NDArray[np.uint8]

    def distortion(self, task: ReplacementTask) -> Distortion:
        """Return the sums over the present values."""
        return Distortion(*_sums(task.codes, task.noise, self.codes, self.distances, self.flags))


@kernel
def _sums(
    codes: Int32Array, noise: Float64Array, masks: Int32Array, distances: Float64Array, flags: NDArray[np.uint8]
) -> tuple[int, float, float, int, int, int]:
    """Return the sums of ``Distortion`` over k values, in its order."""
    values, squared_distance, squared_noise, truncated, unsigned, unchanged = 0, 0.0, 0.0, 0, 0, 0
    for i in range(codes.size):
        if codes[i] >= 0:
            values += 1
            squared_distance += distances[i] ** 2
            squared_noise += noise[i] ** 2
            truncated += int64(flags[i] & TRUNCATED != 0)
            unsigned += int64(flags[i] & SIGN_DROPPED != 0)
            unchanged += int64(masks[i] == codes[i])
    return values, squared_distance, squared_noise, truncated, unsigned, unchanged


class Replacer(Protocol):
    """Replaces values in one taxonomy with one distance. The replacement of a value depends on its row of the task
    alone."""

    def replace(self, task: ReplacementTask) -> Replacement:
        """Replace every value of the task."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """The concepts that may replace values.

    positions: ascending. rank: (m + 1,) the number of candidates before each position.
    """

    positions: Int32Array
    rank: Int32Array

    @classmethod
    def of(cls, taxonomy: Taxonomy, which: str) -> Candidates:
        """``which``: ``all`` concepts of the taxonomy, or its ``leaves``. Raises ParameterError.

        A root that is not a value is never a candidate.
        """
        eligible = _eligible(taxonomy, which)
        rank = np.concatenate((np.zeros(1, np.int32), np.cumsum(eligible, dtype=np.int32)))
        return cls(np.flatnonzero(eligible).astype(np.int32), rank)


def _eligible(taxonomy: Taxonomy, which: str) -> NDArray[np.bool_]:
    require_one_of("candidates", which, CANDIDATES)
    if which == "leaves":
        return taxonomy.leaf
    eligible = np.ones(len(taxonomy), np.bool_)
    eligible[0] = taxonomy.root_is_value
    return eligible


@kernel
def choose_level(
    target: float, below: float, above: float, stays: bool, calibrated: bool, word: np.uint64
) -> tuple[float, int]:
    """Return (distance, flags) of the level to take; distance 0 keeps the value.

    target: |ε| > 0. below: the greatest admissible level < target, or -1. above: the least one ≥ target, or inf. stays:
    whether the value itself is a candidate. word: the random word of the rounding.
    """
    if above == np.inf:
        return max(below, 0.0), TRUNCATED
    if not calibrated or (below < 0.0 and not stays):
        return above, 0
    lo = max(below, 0.0)
    chance = (target * target - lo * lo) / (above * above - lo * lo)
    return (above if uniform(word) < chance else lo), 0


NONE_ADMISSIBLE = -1
"""Flags of a choice where there is no admissible candidate."""


class LevelRule(NamedTuple):
    """How the level of one value is chosen.

    target: |ε| > 0. calibrated: True for the rounding ``calibrated``, False for ``ceil`` (``rule``); the engines' own
    parameter of this name means the same. It does not say whether a mechanism has statistics. keeps_value: whether the
    value is itself a candidate.
    """

    target: float
    calibrated: bool
    keeps_value: bool


class RandomWords(NamedTuple):
    """The random words of one value: for the rounding of its level, and for the draw from the level."""

    rounding: np.uint64
    tie: np.uint64


class Choice(NamedTuple):
    """A replacement.

    candidate: in a graph its position, in a tree its rank among the candidates; -1 to keep the value. distance: from
    the value. flags: of ``rule``, or ``NONE_ADMISSIBLE``.
    """

    candidate: int
    distance: float
    flags: int


class Separation(NamedTuple):
    """The depth of the least common subsumer of two concepts, and the links from both up to it, in sum.

    In a tree, and with the Wu-Palmer distance in a directed acyclic graph, it determines the distance. At one depth,
    more links are always farther.
    """

    depth: int
    links: int


@inlined
def wu_palmer_level(depth: int, links: int) -> float:
    """Return the Wu-Palmer distance of two concepts (2017: equations 11, 12), by their ``Separation``."""
    return wu_palmer(int64(depth), int64(links))


@inlined
def level_of(kind: int, depth: int, links: int) -> float:
    """Return the distance of two concepts of a tree, by their ``Separation``. kind: of ``core.distance.kernels``."""
    return wu_palmer(depth, links) if kind == WU_PALMER else log_taxonomic(links + depth, depth)


@inlined
def is_beyond(sign: int, distance: float, own_distance: float) -> bool:
    """Return whether a candidate at a distance from the reference meets the sign condition; sign is not 0.

    own_distance: the distance of the value from the reference.
    """
    return distance > own_distance if sign > 0 else distance < own_distance


@inlined
def meets_sign(sign: int, separation: Separation, own_distance: Separation) -> bool:
    """Return ``is_beyond`` for the Wu-Palmer distance, in integers: distances are compared by links / depth."""
    candidate, value = separation.links * own_distance.depth, own_distance.links * separation.depth
    return candidate > value if sign > 0 else candidate < value


@inlined
def takes_upper(chance: float, lo: float, hi: float, target: float) -> bool:
    """Return whether the calibrated rounding takes the upper of the levels lo < target ≤ hi.

    chance: uniform in [0, 1). The result is true with probability p of ``core.replacement.rule``; false if hi is inf.
    """
    return chance * (hi * hi - lo * lo) < target * target - lo * lo
