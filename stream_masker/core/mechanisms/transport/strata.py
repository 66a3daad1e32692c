"""The laws of a window: of each context, and of each pattern of missing attributes.

What is missing tells of the codes that are there. So the records with the same attributes are a law of their own, with
a map of their own, as are those of a context. Two attributes that are no arrays have a map of pairs. Otherwise the
first present one that is no array is the root: it has a map, and the other ones are masked given it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from stream_masker.core.arrays import located
from stream_masker.core.context import Context
from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import BoolArray, Float32Array, Float64Array
from stream_masker.core.mechanisms.transport.certainty import Limits, certain, redrawn_joint
from stream_masker.core.mechanisms.transport.fit import Kernel, Map, Tuples, Values, greatest_distance, levelled
from stream_masker.core.mechanisms.transport.given import Given, given_groups
from stream_masker.core.mechanisms.transport.model import EVERY, Attributes, Maps, Transport
from stream_masker.core.mechanisms.transport.published import packed, packed_tuples
from stream_masker.core.statistics.counts import MANY_KEYS, Counts, SparseCounts, marginals
from stream_masker.core.statistics.packing import pack_array
from stream_masker.errors import StatisticsError

ENOUGH = 200
"""The number of records that a context, or a pattern of missing attributes, needs for maps of its own; at least one
in ``ENOUGH_SHARE`` of all records, and no more than one in ten."""
ENOUGH_SHARE = 100
FEWEST_CODES = 2
"""The number of codes of enough patients that a context needs for the maps of all contexts to be restricted to them."""

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

    def limits(
        self, j: int, values: Values, prior: Float64Array, others: Sequence[tuple[Float32Array, float]] = ()
    ) -> Limits:
        """Return the limits of the values of an attribute with these priors, of its sensitive groups, and of others."""
        own = [(inside[values.positions].astype(np.float32), limit) for inside, limit in self.groups[j].values()]
        return Limits.of(prior, self.certainty, [*(each for each in own if each[0].any()), *others])


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


def parts_of(counts: Counts, sizes: Sequence[int]) -> Iterator[tuple[int, Part]]:
    """Yield each pattern that occurs, the sum of 2^j over the attributes j that are missing, and its counts."""
    split = {key: dict(_split(column, len(sizes))) for key, column in counts.lacking.items()}
    every: dict[Attributes, SparseCounts] = {(i, j): pair for (i, j), pair in counts.pairs.items()}
    for j, column in enumerate(counts.values):
        every[j,] = _with_bits(counts.events.get((j,)), column)
    whole = {key: _remainder(column, list(split.get(key, {}).values())) for key, column in every.items()}
    for pattern in sorted({0, *(each for found in split.values() for each in found)}):
        own = whole if pattern == 0 else {key: found[pattern] for key, found in split.items() if pattern in found}
        own = {key: column for key, column in own.items() if column.keys.size}
        values = {key[0]: column for key, column in own.items() if len(key) == 1}
        if values:
            yield pattern, Part(values, {key: column for key, column in own.items() if len(key) == 2})


class Strata:
    """The maps of the records of a window."""

    def __init__(self, settings: Settings, counts: Counts, spread: Float64Array, before: Maps | None) -> None:
        """``spread``: (p,) sdVar. ``before``: the maps in force; None before the first ones."""
        self._settings, self._counts, self._before = settings, counts, before
        self._sizes = [len(d.taxonomy) for d in settings.distances]
        self._wanted = np.array(settings.alpha) * spread

    def model(self) -> dict[str, Any]:
        """Return the model of the window. Raises StatisticsError if nothing can be masked."""
        constant = [name for name, w in zip(self._settings.attributes, self._wanted, strict=True) if not w > 0.0]
        if constant:
            raise StatisticsError(
                f"{', '.join(constant)}: all values are equal, so nothing could be masked; calibrate on records with "
                "different values"
            )
        contexts = {EVERY: self._counts, **self._counts.contexts} if self._settings.context else {EVERY: self._counts}
        strata = [
            {"context": number, "pattern": pattern, "records": part.records, "maps": self._maps(number, pattern, part)}
            for number, counts in contexts.items()
            for pattern, part in parts_of(counts, self._sizes)
        ]
        return {
            "context": self._settings.context.to_list(),
            "hidden": [self._hidden(j, column) for j, column in enumerate(self._counts.values)],
            "strata": strata,
        }

    def _hidden(self, j: int, column: SparseCounts) -> dict[str, Any]:
        """Return the law of masks of records of which there are too few for maps."""
        values = Values.most_frequent(self._settings.distances[j], column)
        tuples = Tuples.of(column, (values,), self._settings.least)
        tuples.law((values,))
        return {"values": pack_array(values.positions), "tuples": packed_tuples(tuples)}

    def _maps(self, number: int, pattern: int, part: Part) -> list[dict[str, Any]] | None:
        """Return the maps of the records of a pattern, and a context if that is not all; None for too few of them."""
        least = self._settings.least
        if not self._enough(part):
            every = self._pooled.get(pattern)
            if number == EVERY or every is None:
                return None
            part = self._restricted(every, part)
            if part.records == every.records or not self._enough(part):
                return None
        lines = self._lines(part)
        sides = [side for key in lines for side in self._sides(key, part)]
        if not all((side.units >= least).any() for side in sides):
            return None
        before = self._before.own(number, pattern) if self._before else ()
        maps = {each.attributes: each for each in before or ()}
        return [packed(self._fitted(key, part, maps.get(key))) for key in lines]

    def _enough(self, part: Part) -> bool:
        records = self._counts.records
        return part.records >= max(min(ENOUGH, records / 10), records / ENOUGH_SHARE)

    @cached_property
    def _pooled(self) -> dict[int, Part]:
        """The counts of the records of all contexts, by pattern."""
        return dict(parts_of(self._counts, self._sizes))

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

    def _lines(self, part: Part) -> list[Attributes]:
        """Return the attributes of the maps of records: a pair, the root, or each array."""
        scalars = tuple(j for j in part.values if j not in self._counts.lengths)
        if len(scalars) == len(part.values) == 2:
            return [scalars]
        return [scalars[:1]] if scalars else [(j,) for j in part.values]

    def _sides(self, key: Attributes, part: Part) -> tuple[SparseCounts, ...]:
        return marginals(part.pairs[key], self._sizes[key[1]]) if len(key) == 2 else (part.values[key[0]],)

    def _fitted(self, key: Attributes, part: Part, before: Transport | None) -> Transport:
        """Return a map, and what is masked given it; ``before``: the map in force."""
        settings, column = self._settings, part.pairs[key] if len(key) == 2 else part.values[key[0]]
        sides = zip(key, self._sides(key, part), strict=True)
        values = [Values.most_frequent(settings.distances[j], side) for j, side in sides]
        tuples = Tuples.of(column, values, settings.least)
        law = tuples.law(values)
        goals, kernels = [], []
        for j, (v, attribute) in enumerate(zip(values, key, strict=True)):
            goals.append(min(float(self._wanted[attribute]), greatest_distance(law, v.squares, j)))
            start = before.started(v, law, j) if before else Kernel.started(v.squares, law.share_of(j), goals[j])
            kernels.append(levelled(start, law, j, None if before else goals[j]))
        own = Map.started(law, (kernels[0], kernels[1] if len(kernels) == 2 else Kernel.flat()))
        own = before.continued(own, values) if before else own
        links = list(self._links(key, values[0], part))
        others = [
            group for each in links for group in given_groups(each.source, self._limits_of(each, law.share_of(0)))
        ]
        limits = [
            settings.limits(a, v, law.share_of(j), others) for j, (a, v) in enumerate(zip(key, values, strict=True))
        ]
        found, again, moved = certain(own, limits, goals)
        joint = redrawn_joint(found, again, 0)
        given = (each.of_root(joint).fitted(self._limits_of(each, joint.sum(axis=1))) for each in links)
        return Transport(key, tuple(values), tuples, found, again, tuple(goals), moved, tuple(given))

    def _limits_of(self, given: Given, root: Float64Array) -> Limits:
        return self._settings.limits(given.attribute, given.values[1], root @ given.source)

    def _links(self, key: Attributes, root: Values, part: Part) -> Iterator[Given]:
        """Yield the masking of each other attribute of a root."""
        for j in part.values if len(key) == 1 and key[0] not in self._counts.lengths else ():
            if j == key[0]:
                continue
            pair = part.pairs[min(j, key[0]), max(j, key[0])]
            pair = pair if key[0] < j else _swapped(pair, self._sizes[key[0]], self._sizes[j])
            values = Values.most_frequent(self._settings.distances[j], marginals(pair, self._sizes[j])[1])
            tuples = Tuples.of(pair, (root, values), self._settings.least)
            yield Given.of(j, (root, values), tuples, float(self._wanted[j]))


def _split(column: SparseCounts, p: int) -> Iterator[tuple[int, SparseCounts]]:
    """Yield the patterns of ``Counts.lacking``, and the counts of each."""
    patterns = column.keys & ((1 << p) - 1)
    for pattern in np.unique(patterns).tolist():
        own = column.select(patterns == pattern)
        yield pattern, SparseCounts(own.keys >> p, own.counts, own.key_bits)


def _swapped(pair: SparseCounts, first: int, second: int) -> SparseCounts:
    """Return the counts of pairs (b, a) as those of (a, b); ``first``, ``second``: the numbers of concepts of a, b."""
    b, a = np.divmod(pair.keys, first)
    order = np.argsort(a * second + b)
    return SparseCounts(
        (a * second + b)[order], pair.counts[order], None if pair.key_bits is None else pair.key_bits[order]
    )


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
