"""The laws of a window: of each context, and of each pattern of missing attributes.

A missing code tells something about the codes that are there. So the records with the same attributes present have a
law and a map of their own, as have the records of a context. If exactly two attributes are present and neither is an
array, the map is one of pairs. Otherwise the first present attribute that is not an array is the root: it has a map,
and the other ones are masked given it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from stream_masker.core.arrays import located
from stream_masker.core.context import Context
from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import BoolArray, Float64Array
from stream_masker.core.mechanisms.transport.certainty import Limits, certain
from stream_masker.core.mechanisms.transport.fit import NOTHING_WRITTEN, Kernel, Law, Map, Values, levelled
from stream_masker.core.mechanisms.transport.given import Given
from stream_masker.core.mechanisms.transport.model import EVERY, Transport, packed_law
from stream_masker.core.statistics.counts import MANY_KEYS, Counts, SparseCounts, sum_by_key
from stream_masker.errors import StatisticsError

ENOUGH, ENOUGH_SHARE = 200, 100
"""The number of records that a context, or a pattern of missing attributes, needs for maps of its own; at least one
in ``ENOUGH_SHARE`` of all records, and no more than one in ten."""
FEWEST_CODES = 2
"""The number of codes of enough patients that a context needs for the maps of all contexts to be restricted to them."""
MOST_DISTANCE = 0.99
"""The greatest E[d²] that is asked for, as a share of that of independent masks."""

Attributes: TypeAlias = tuple[int, ...]
Groups: TypeAlias = Mapping[str, tuple[BoolArray, float]]
"""Of each sensitive group, by name: its members among the concepts, and its limit."""


class Settings(NamedTuple):
    """The parameters that maps depend on; ``alpha``, ``groups``: by attribute."""

    attributes: tuple[str, ...]
    distances: tuple[Distance, ...]
    alpha: tuple[float, ...]
    certainty: float
    groups: tuple[Groups, ...]
    least: int
    context: Context


class Part(NamedTuple):
    """The counts of the records of one pattern: of the values of each attribute that is present, and of their pairs.

    Scalars count once for each record, except in pairs with an array.
    """

    values: Mapping[int, SparseCounts]
    pairs: Mapping[Attributes, SparseCounts]

    @property
    def records(self) -> int:
        """The number of records, at least; of arrays alone that of elements."""
        return min(column.rows for column in self.values.values())


class Strata:
    """The maps of the records of a window.

    ``spread``: (p,) sdVar.
    """

    def __init__(self, settings: Settings, counts: Counts, spread: Float64Array) -> None:
        self._settings, self._counts = settings, counts
        self._sizes = [len(d.taxonomy) for d in settings.distances]
        self._wanted = np.array(settings.alpha) * spread
        self._pooled = dict(self._parts(counts))

    def model(self) -> dict[str, Any]:
        """Return the model of the window. Raises StatisticsError if nothing can be masked."""
        constant = [name for name, w in zip(self._settings.attributes, self._wanted, strict=True) if not w > 0.0]
        if constant:
            raise StatisticsError(
                f"{', '.join(constant)}: all values are equal, so nothing could be masked; calibrate on records with "
                "different values"
            )
        contexts = {EVERY: self._counts} | (dict(self._counts.contexts) if self._settings.context else {})
        hidden = [self._law((j,), column) for j, column in enumerate(self._counts.values)]
        if not all(law.frequent[0].any() for law in hidden):
            raise StatisticsError(NOTHING_WRITTEN)
        return {
            "context": self._settings.context.to_list(),
            "hidden": [packed_law(law) for law in hidden],
            "strata": [
                [number, pattern, part.records, [each.packed() for each in self._maps(number, pattern, part)]]
                for number, counts in contexts.items()
                for pattern, part in self._parts(counts)
            ],
        }

    def _parts(self, counts: Counts) -> Iterator[tuple[int, Part]]:
        """Yield each pattern that occurs, the sum of 2^j over the attributes j that are missing, and its counts."""
        p = len(self._sizes)
        every: dict[Attributes, SparseCounts] = {(i, j): pair for (i, j), pair in counts.pairs.items()}
        for j, column in enumerate(counts.values):
            every[j,] = _with_bits(counts.events.get((j,)), column)
        missing = (np.unique(column.keys & ((1 << p) - 1)).tolist() for column in counts.lacking.values())
        for pattern in sorted({0}.union(*missing)):
            found = {key: _of_pattern(pattern, p, column, counts.lacking.get(key)) for key, column in every.items()}
            own = {key: column for key, column in found.items() if column.keys.size}
            if values := {key[0]: column for key, column in own.items() if len(key) == 1}:
                yield pattern, Part(values, {key: column for key, column in own.items() if len(key) == 2})

    def _maps(self, number: int, pattern: int, part: Part) -> tuple[Transport, ...]:
        """Return the maps of the records of a pattern, and a context if that is not all; none for too few of them."""
        if not self._enough(part):
            every = self._pooled.get(pattern)
            if number == EVERY or every is None:
                return ()
            part = self._restricted(every, part)
            if part.records == every.records or not self._enough(part):
                return ()
        scalars = tuple(j for j in part.values if j not in self._counts.lengths)
        laws: dict[Attributes, Law]
        if len(scalars) == len(part.values) == 2:
            laws = {scalars: self._law(scalars, part.pairs[scalars])}
        else:
            laws = {(j,): self._law((j,), part.values[j]) for j in scalars[:1] or part.values}
        if not all(some.any() for law in laws.values() for some in law.frequent):
            return ()
        return tuple(
            self._fitted(key, law, [self._link(key[0], j, law, part) for j in part.values if scalars and j not in key])
            for key, law in laws.items()
        )

    def _enough(self, part: Part) -> bool:
        records = self._counts.records
        return part.records >= max(min(ENOUGH, records / 10), records / ENOUGH_SHARE)

    def _restricted(self, every: Part, own: Part) -> Part:
        """Return the counts of all contexts with the codes that occur in one; those of an attribute of which it has too
        few stay."""
        some = {j: column.keys[column.units >= self._settings.least] for j, column in own.values.items()}

        def select(column: SparseCounts, key: Attributes) -> SparseCounts:
            codes = np.divmod(column.keys, self._sizes[key[1]]) if len(key) == 2 else (column.keys,)
            each = [np.isin(code, some[j]) | (some[j].size < FEWEST_CODES) for j, code in zip(key, codes, strict=True)]
            return column.select(np.logical_and.reduce(each))

        values = {j: select(column, (j,)) for j, column in every.values.items()}
        return Part(values, {key: select(pair, key) for key, pair in every.pairs.items()})

    def _law(self, key: Attributes, column: SparseCounts, first: Values | None = None) -> Law:
        """Return the law of one attribute, or of a pair, from its counts; ``first``: the values of the first one."""
        return Law.of(column, [self._settings.distances[j] for j in key], self._settings.least, first)

    def _link(self, root: int, j: int, law: Law, part: Part) -> Given:
        """Return the masking of attribute j given a root that is not masked yet."""
        pair, size = part.pairs[min(j, root), max(j, root)], self._sizes[root]
        if j < root:
            own, first = np.divmod(pair.keys, size)
            pair = sum_by_key(first * self._sizes[j] + own, pair.counts, pair.key_bits)
        both = self._law((root, j), pair, law.values[0])
        return Given(j, both, float(self._wanted[j]), np.zeros((0, 0)), np.zeros(both.shape, np.float32))

    def _fitted(self, key: Attributes, law: Law, links: Sequence[Given]) -> Transport:
        """Return a map, and what is masked given it."""
        goals, kernels, told = [], [], []
        for j, (values, attribute) in enumerate(zip(law.values, key, strict=True)):
            share = law.marginal(j)
            most = MOST_DISTANCE * float(share @ values.squares @ law.target.sum(axis=1 - j))
            goals.append(min(float(self._wanted[attribute]), most))
            kernels.append(levelled(Kernel.started(values, share, goals[j]), law, j, goals[j]))
        for each in links:
            told += each.groups(self._limits(each.attribute, each.values, law.marginal(0) @ each.source))
        limits = [
            self._limits(a, v, law.marginal(j), told) for j, (a, v) in enumerate(zip(key, law.values, strict=True))
        ]
        found, redraw_chance = certain(Map.started(law, tuple(kernels)), limits, goals)
        root = found.joint(0, redraw_chance) if links else np.zeros((0, 0))
        given = [replace(each, root=root) for each in links]
        given = [each.fitted(self._limits(each.attribute, each.values, each.prior)) for each in given]
        return Transport(key, found, redraw_chance, tuple(goals), tuple(given))

    def _limits(
        self, j: int, values: Values, prior: Float64Array, others: Sequence[tuple[Float64Array, float]] = ()
    ) -> Limits:
        """Return the limits of the values of an attribute with these priors, of its sensitive groups, and of others."""
        groups = self._settings.groups[j].values()
        own = [(inside[values.positions].astype(np.float64), limit) for inside, limit in groups]
        return Limits.of(prior, self._settings.certainty, [*(each for each in own if each[0].any()), *others])


def _with_bits(events: SparseCounts | None, rows: SparseCounts) -> SparseCounts:
    """Return the counts of events with the noise keys of their rows; those of the rows if there are none of events."""
    if events is None or rows.key_bits is None or not events.keys.size:
        return rows if events is None else events
    place, held = located(rows.keys, events.keys)
    return SparseCounts(events.keys, events.counts, np.where(held, rows.key_bits[place], np.uint64(0)))


def _of_pattern(pattern: int, p: int, column: SparseCounts, lacking: SparseCounts | None) -> SparseCounts:
    """Return the counts of the rows of a column whose records lack what a pattern says.

    ``lacking``: see ``Counts``. A noise key of records that lack something and of others counts as one of the former,
    except for values with so many that all rows count as different.
    """
    if lacking is None or not lacking.keys.size:
        return column.select(np.full(column.keys.size, pattern == 0))
    if pattern:
        own = lacking.select(lacking.keys & ((1 << p) - 1) == pattern)
        return SparseCounts(own.keys >> p, own.counts, own.key_bits)
    part = sum_by_key(lacking.keys >> p, lacking.counts, lacking.key_bits)
    place, held = located(part.keys, column.keys)
    left, bits = column.counts - np.where(held, part.counts[place], 0), column.key_bits
    if bits is not None and part.key_bits is not None:
        held &= np.bitwise_count(bits) < MANY_KEYS
        bits = np.where(held, bits & ~part.key_bits[place], bits)
    return SparseCounts(column.keys, left, bits).select(left > 0)
