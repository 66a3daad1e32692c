"""The laws of a window: of each context, and of each pattern of missing attributes.

A missing code tells something about the codes that are there. So the records with the same attributes present have a
law and a map of their own, as have the records of a context. If exactly two attributes are present and neither is an
array, the map is one of pairs. Otherwise the first present attribute that is not an array is the root: it has a map,
and the other ones are masked given it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from stream_masker.core.arrays import located
from stream_masker.core.context import Context
from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import BoolArray, Float64Array
from stream_masker.core.mechanisms.transport.certainty import Limits, certain, redrawn_joint
from stream_masker.core.mechanisms.transport.fit import NOTHING_WRITTEN, Kernel, Law, Map, Values, levelled
from stream_masker.core.mechanisms.transport.given import Given
from stream_masker.core.mechanisms.transport.model import EVERY, Transport, packed_law
from stream_masker.core.statistics.counts import MANY_KEYS, Counts, SparseCounts
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
        split = {key: dict(_split(column, len(self._sizes))) for key, column in counts.lacking.items()}
        every: dict[Attributes, SparseCounts] = {(i, j): pair for (i, j), pair in counts.pairs.items()}
        for j, column in enumerate(counts.values):
            every[j,] = _with_bits(counts.events.get((j,)), column)
        whole = {key: _remainder(column, list(split.get(key, {}).values())) for key, column in every.items()}
        for pattern in sorted({0, *(each for found in split.values() for each in found)}):
            own = whole if pattern == 0 else {key: found[pattern] for key, found in split.items() if pattern in found}
            own = {key: column for key, column in own.items() if column.keys.size}
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
        pair = len(scalars) == len(part.values) == 2
        keys = [scalars] if pair else [(j,) for j in scalars[:1] or part.values]
        laws = [self._law(key, part.pairs[scalars] if pair else part.values[key[0]]) for key in keys]
        if not all(some.any() for law in laws for some in law.frequent):
            return ()
        others = [
            list(self._links(key[0], law, part)) if scalars and not pair else []
            for key, law in zip(keys, laws, strict=True)
        ]
        return tuple(map(self._fitted, keys, laws, others))

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

    def _links(self, root: int, law: Law, part: Part) -> Iterator[Given]:
        """Yield the masking of each other attribute of a root."""
        for j in part.values:
            if j != root:
                pair = part.pairs[min(j, root), max(j, root)]
                pair = pair if root < j else _swapped(pair, self._sizes[root], self._sizes[j])
                yield Given.of(j, self._law((root, j), pair, law.values[0]), float(self._wanted[j]))

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
        found, again = certain(Map.started(law, tuple(kernels)), limits, goals)
        root = redrawn_joint(found, again, 0) if links else np.zeros((0, 0))
        given = [g.fitted(root, self._limits(g.attribute, g.values, root.sum(axis=1) @ g.source)) for g in links]
        return Transport(key, found, again, tuple(goals), tuple(given))

    def _limits(
        self, j: int, values: Values, prior: Float64Array, others: Sequence[tuple[Float64Array, float]] = ()
    ) -> Limits:
        """Return the limits of the values of an attribute with these priors, of its sensitive groups, and of others."""
        groups = self._settings.groups[j].values()
        own = [(inside[values.positions].astype(np.float64), limit) for inside, limit in groups]
        return Limits.of(prior, self._settings.certainty, [*(each for each in own if each[0].any()), *others])


def _split(column: SparseCounts, p: int) -> Iterator[tuple[int, SparseCounts]]:
    """Yield the patterns of ``Counts.lacking``, and the counts of each."""
    patterns = column.keys & ((1 << p) - 1)
    for pattern in np.unique(patterns).tolist():
        own = column.select(patterns == pattern)
        yield pattern, SparseCounts(own.keys >> p, own.counts, own.key_bits)


def _swapped(pair: SparseCounts, first: int, second: int) -> SparseCounts:
    """Return the counts of pairs (b, a) as those of (a, b); ``first``, ``second``: the numbers of concepts of a, b."""
    b, a = np.divmod(pair.keys, first)
    keys = a * second + b
    order = np.argsort(keys)
    return SparseCounts(keys[order], pair.counts[order], None if pair.key_bits is None else pair.key_bits[order])


def _with_bits(events: SparseCounts | None, rows: SparseCounts) -> SparseCounts:
    """Return the counts of events with the noise keys of their rows; those of the rows if there are none of events."""
    if events is None or rows.key_bits is None or not events.keys.size:
        return rows if events is None else events
    place, held = located(rows.keys, events.keys)
    return SparseCounts(events.keys, events.counts, np.where(held, rows.key_bits[place], np.uint64(0)))


def _remainder(column: SparseCounts, parts: Sequence[SparseCounts]) -> SparseCounts:
    """Return the counts of the rows of a column that are in none of its parts.

    A noise key of both counts as one of a part, except for values with so many that all rows count as different.
    """
    for part in parts:
        place, held = located(part.keys, column.keys)
        left, bits = column.counts - np.where(held, part.counts[place], 0), column.key_bits
        if bits is not None and part.key_bits is not None:
            many = np.bitwise_count(bits) >= MANY_KEYS
            bits = np.where(held & ~many, bits & ~part.key_bits[place], bits)
        column = SparseCounts(column.keys, left, bits).select(left > 0)
        if not column.keys.size:
            break
    return column
