"""The replacement engine for any taxonomy and any distance: it sorts all candidates by their distance from the value.

The other candidates, ordered by sd(c, a), form *levels* of equal distance. The levels of a value, and the distances
from a reference, are computed once and cached while there is room. The search for an admissible candidate goes outwards
from |ε| in both directions and tests the sign condition only on the levels that it visits.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import Float64Array, Int32Array, Int64Array, UInt8Array, UInt64Array
from stream_masker.core.kernels.jit import int64, kernel
from stream_masker.core.random.draws import index_below
from stream_masker.core.replacement.choice import Choice
from stream_masker.core.replacement.rule import (
    NO_REFERENCE,
    SIGN_DROPPED,
    Candidates,
    Replacement,
    ReplacementTask,
    choose_level,
    is_admissible,
)
from stream_masker.errors import ParameterError

CACHE_BYTES = 256 << 20
"""The default size of the cache."""

CachedArrays = TypeVar("CachedArrays", bound=tuple[NDArray[Any], ...])


class DistanceLevels(NamedTuple):
    """The candidates around one value, without itself, nearest first.

    order: (k,) positions. distances: (l,) of the levels, ascending. Level j is ``order[starts[j] : starts[j + 1]]``.
    """

    order: Int32Array
    starts: Int64Array
    distances: Float64Array


class LevelGroup(NamedTuple):
    """The rows of a task with the same value a and reference r; r is ``NO_REFERENCE`` if there is no sign condition."""

    a: int
    r: int
    rows: Int64Array


class GroupRule(NamedTuple):
    """The properties that all rows of a group share.

    signed: whether there is a sign condition. own_distance: of the value from the reference. keeps_value: whether the
    value is itself a candidate. calibrated: the rounding.
    """

    signed: bool
    own_distance: float
    keeps_value: bool
    calibrated: bool


class GenericReplacer:
    """The ``Replacer`` for distances that may depend on more than depths, and for the logarithmic distance in directed
    acyclic graphs. A value that is not cached costs a pass over all concepts."""

    def __init__(
        self, distance: Distance, *, candidates: str, calibrated: bool, cache_bytes: int = CACHE_BYTES
    ) -> None:
        """``candidates``: all or leaves; ``calibrated``: the rounding; ``cache_bytes``: for levels and distances.

        Raises ParameterError.
        """
        if cache_bytes < 0:
            raise ParameterError(f"cache_bytes={cache_bytes} is not allowed: use 0 or more")
        self._distance = distance
        self._candidates = Candidates.of(distance.taxonomy, candidates)
        self._calibrated = calibrated
        self._levels = ArrayCache(self._make_levels, cache_bytes // 2)
        self._distances = ArrayCache(lambda r: (distance.to_all(r),), cache_bytes // 2)

    def replace(self, task: ReplacementTask) -> Replacement:
        """Replace every value of the task."""
        size = task.codes.size
        result = Replacement(task.codes.copy(), np.zeros(size), np.zeros(size, np.uint8))
        for a, same_code in groupby(groups(task), key=lambda group: group.a):
            levels = self._levels(a)
            for group in same_code:
                self._replace_group(task, group, levels, result)
        return result

    def _replace_group(
        self, task: ReplacementTask, group: LevelGroup, levels: DistanceLevels, result: Replacement
    ) -> None:
        signed = group.r != NO_REFERENCE
        to_reference = self._distances(group.r)[0] if signed else np.empty(0)
        own = float(to_reference[group.a]) if signed else 0.0
        rank = self._candidates.rank
        rule = GroupRule(signed, own, bool(rank[group.a + 1] > rank[group.a]), self._calibrated)
        words = (task.noise, task.rounding, task.ties)
        replace_rows(levels, to_reference, rule, group.rows, *words, result.codes, result.distances, result.flags)

    def _make_levels(self, a: int) -> DistanceLevels:
        positions = self._candidates.positions
        others = positions[positions != a]
        distances = self._distance.to_all(a)[others]
        order = np.argsort(distances, kind="stable")
        found, starts = np.unique(distances[order], return_index=True)
        return DistanceLevels(others[order], np.append(starts, others.size).astype(np.int64), found)


class ArrayCache(Generic[CachedArrays]):
    """A cache of tuples of arrays by position, at most ``limit`` bytes. It evicts the least recently used ones."""

    def __init__(self, make: Callable[[int], CachedArrays], limit: int) -> None:
        """``make``: computes the arrays of a position that is not cached."""
        self._make = make
        self._limit = limit
        self._kept: OrderedDict[int, CachedArrays] = OrderedDict()
        self.bytes = 0

    def __call__(self, position: int) -> CachedArrays:
        if position in self._kept:
            self._kept.move_to_end(position)
            return self._kept[position]
        return self._keep(position, self._make(position))

    def _keep(self, position: int, arrays: CachedArrays) -> CachedArrays:
        self._kept[position] = arrays
        self.bytes += _bytes(arrays)
        while self.bytes > self._limit:
            self.bytes -= _bytes(self._kept.popitem(last=False)[1])
        return arrays


def _bytes(arrays: tuple[NDArray[Any], ...]) -> int:
    return sum(array.nbytes for array in arrays)


def groups(task: ReplacementTask) -> Iterator[LevelGroup]:
    """Yield the groups of a task, sorted by value and reference.

    Rows without a value or without noise are left out.
    """
    references = np.where(task.references == task.codes, NO_REFERENCE, task.references)
    rows = np.flatnonzero((task.codes >= 0) & (task.noise != 0.0))
    rows = rows[np.lexsort((references[rows], task.codes[rows]))]
    change = (np.diff(task.codes[rows]) != 0) | (np.diff(references[rows]) != 0)
    for part in np.split(rows, np.flatnonzero(change) + 1):
        if part.size:
            yield LevelGroup(int(task.codes[part[0]]), int(references[part[0]]), part)


@kernel
def find_admissible(
    levels: DistanceLevels, to_reference: Float64Array, own: float, sign: int, j: int, k: int
) -> tuple[int, int]:
    """Return the number of admissible candidates on level j, counted up to k + 1, and the position of the one with
    index k.

    The position is -1 if there is none.
    """
    found = 0
    for i in range(levels.starts[j], levels.starts[j + 1]):
        c = levels.order[i]
        if sign == 0 or is_admissible(sign, to_reference[c], own):
            if found == k:
                return found + 1, int64(c)
            found += 1
    return found, int64(-1)


@kernel
def seek_level(levels: DistanceLevels, to_reference: Float64Array, own: float, sign: int, start: int, step: int) -> int:
    """Return the first of the levels start, start + step, … with an admissible candidate; -1 if there is none."""
    j = start
    while 0 <= j < levels.distances.size:
        if find_admissible(levels, to_reference, own, sign, j, 0)[0] > 0:
            return j
        j += step
    return -1


@kernel
def replace_row(
    levels: DistanceLevels,
    to_reference: Float64Array,
    rule: GroupRule,
    noise: float,
    rounding: np.uint64,
    tie: np.uint64,
) -> Choice:
    """Return the replacement of one value; the candidate is a position."""
    own = rule.own_distance
    target = abs(noise)
    sign = (1 if noise > 0.0 else -1) if rule.signed else 0
    first = int64(np.searchsorted(levels.distances, target))
    dropped = 0
    below = seek_level(levels, to_reference, own, sign, first - 1, -1)
    above = seek_level(levels, to_reference, own, sign, first, 1)
    if below < 0 and above < 0 and levels.order.size > 0:
        sign = 0
        dropped = SIGN_DROPPED
        below = first - 1
        above = first if first < levels.distances.size else -1
    lo = levels.distances[below] if below >= 0 else -1.0
    hi = levels.distances[above] if above >= 0 else np.inf
    level, flags = choose_level(target, lo, hi, rule.keeps_value, rule.calibrated, rounding)
    if level == 0.0:
        return Choice(int64(-1), 0.0, flags | dropped)
    j = above if level == hi else below
    size = find_admissible(levels, to_reference, own, sign, j, levels.order.size)[0]
    found = find_admissible(levels, to_reference, own, sign, j, index_below(tie, size))[1]
    return Choice(found, level, flags | dropped)


@kernel
def replace_rows(
    levels: DistanceLevels,
    to_reference: Float64Array,
    rule: GroupRule,
    rows: Int64Array,
    noise: Float64Array,
    rounding: UInt64Array,
    ties: UInt64Array,
    codes: Int32Array,
    distances: Float64Array,
    flags: UInt8Array,
) -> None:
    """Replace the values of one group, given by the rows of the task, in place."""
    for i in rows:
        choice = replace_row(levels, to_reference, rule, noise[i], rounding[i], ties[i])
        distances[i], flags[i] = choice.distance, choice.flags
        if choice.candidate >= 0:
            codes[i] = choice.candidate
