"""The laws of a window: of each context, and of each pattern of missing attributes.

Of two attributes without arrays, the records with both, with the first and with the second one have maps of their own.
Otherwise the first attribute that is no array is the root: it has a map, and the other attributes are masked given it,
or by a map of the records without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from stream_masker.core.arrays import located
from stream_masker.core.context import Context
from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import (
    BoolArray,
    Float32Array,
    Float32Matrix,
    Float64Array,
    Float64Matrix,
    Int32Array,
    Int64Array,
)
from stream_masker.core.mechanisms.transport.certainty import Limits, certain, redrawn_joint
from stream_masker.core.mechanisms.transport.fit import (
    Kernel,
    Law,
    Map,
    Tuples,
    Values,
    greatest_distance,
    levelled,
)
from stream_masker.core.mechanisms.transport.given import Given, conditional, given_groups
from stream_masker.core.mechanisms.transport.model import Attributes, Maps, Transport, packed
from stream_masker.core.ontology.taxonomy import Taxonomy
from stream_masker.core.risk.records import JointLaw
from stream_masker.core.risk.sensitive import SENSITIVE_LISTS, present_groups, sensitive_groups
from stream_masker.core.statistics.counts import MANY_KEYS, Counts, SparseCounts, marginals
from stream_masker.core.validation import number_between
from stream_masker.errors import ParameterError, StatisticsError

ENOUGH = 200
"""The number of records that a context, or a pattern of missing attributes, needs for a map of its own."""
FEWEST_CODES = 5
"""The number of codes of enough patients that a context needs for the map of all records to be restricted to them."""

COLUMNS, LEAST_COLUMNS = 4_096, 64
"""How many columns of the joint law of a value and its record's masks are computed, in all and of each map."""

Part: TypeAlias = tuple[int, SparseCounts, Transport | Given, int]
"""An attribute, the counts of its values that a map masks, the map, and the place of the attribute in it."""

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


def checked_sensitive(given: Mapping[str, Any], taxonomies: Mapping[str, Taxonomy]) -> tuple[Groups, ...]:
    """Return the sensitive groups of each taxonomy. Raises ParameterError, also for a group that no taxonomy holds."""
    if not isinstance(given, Mapping):
        raise ParameterError(f"sensitive={given!r} is not allowed: give a limit by the name of each group")
    result: tuple[dict[str, tuple[BoolArray, float]], ...] = tuple({} for _ in taxonomies)
    for name, entry in given.items():
        own = isinstance(entry, Mapping) and set(entry) == {"limit", "roots"}
        if not own and name not in SENSITIVE_LISTS:
            raise ParameterError(
                f"sensitive {name!r}: use one of {', '.join(SENSITIVE_LISTS)}, or give its limit and its roots"
            )
        limit = number_between(f"sensitive {name}", entry["limit"] if own else entry, 0.01, 1.0)
        for groups, taxonomy in zip(result, taxonomies.values(), strict=True):
            roots = [root for root in entry["roots"] if root in taxonomy] if own else None
            found = (
                present_groups(taxonomy)
                if roots is None
                else sensitive_groups(taxonomy, {name: roots} if roots else {})
            )
            if name in found:
                groups[name] = (found[name], limit)
        if not any(name in groups for groups in result):
            raise ParameterError(f"sensitive {name!r}: no attribute's ontology holds any of its concepts")
    return result


class Strata:
    """The records of a window by the attributes that they have, and by context."""

    def __init__(self, settings: Settings, counts: Counts, maps: Maps | None) -> None:
        """``maps``: those in force; None before the first ones."""
        self._settings, self._counts, self._maps = settings, counts, maps
        self._sizes = [len(d.taxonomy) for d in settings.distances]
        scalars = [j for j in range(len(self._sizes)) if j not in counts.lengths]
        pairs = len(self._sizes) == len(scalars) == 2 and self._writable(counts.pairs[0, 1])
        self._root = scalars[0] if len(self._sizes) > 1 and scalars and not pairs else None
        self._keys: list[Attributes] = [*([(0, 1)] if pairs else []), *((j,) for j in range(len(self._sizes)))]

    def _writable(self, pair: SparseCounts) -> bool:
        """Return whether both attributes of pairs have a code of enough patients."""
        sides = marginals(pair, self._sizes[1])
        return all(bool((side.units >= self._settings.least).any()) for side in sides)

    def column(self, counts: Counts, key: Attributes) -> SparseCounts:
        """Return the counts of the records of a map: those that have its attributes, and lack what would mask them
        with another one."""
        if len(key) == 2:
            return counts.pairs[key[0], key[1]]
        (j,) = key
        if j == self._root:
            events = counts.events.get(key)
            return counts.values[j] if events is None else _with_bits(events, counts.values[j])
        if self._root is None and (0, 1) not in self._keys:
            return counts.values[j]
        return _remainder(counts.values[j], self.linked(counts, 1 - j if self._root is None else self._root, j)[1])

    def linked(self, counts: Counts, i: int, j: int) -> tuple[SparseCounts, SparseCounts]:
        """Return the counts of pairs of attribute i, first, and j, and those of j in them."""
        pair = counts.pairs[min(i, j), max(i, j)]
        if i < j:
            return pair, marginals(pair, self._sizes[j])[1]
        first, second = np.divmod(pair.keys, self._sizes[i])
        keys = second * self._sizes[j] + first
        order = np.argsort(keys)
        bits = None if pair.key_bits is None else pair.key_bits[order]
        return SparseCounts(keys[order], pair.counts[order], bits), marginals(pair, self._sizes[i])[0]

    def model(self, spread: Float64Array) -> dict[str, Any]:
        """Return the model of the window; ``spread``: (p,) sdVar. Raises StatisticsError if nothing can be masked."""
        constant = [name for name, s in zip(self._settings.attributes, spread, strict=True) if not s > 0.0]
        if constant:
            raise StatisticsError(
                f"{', '.join(constant)}: all values are equal, so nothing could be masked; calibrate on records with "
                "different values"
            )
        maps: list[Transport] = []
        chosen = [[list(key), self._chosen(key, np.array(self._settings.alpha) * spread, maps)] for key in self._keys]
        return {
            "context": self._settings.context.to_list(),
            "root": self._root,
            "maps": [packed(each) for each in maps],
            "chosen": chosen,
        }

    def _chosen(self, key: Attributes, wanted: Float64Array, maps: list[Transport]) -> list[int]:
        """Fit the maps of some attributes; return the index of that of each context.

        Where too few patients have a pattern of missing attributes, its masks are drawn from those of all records,
        independent of the original.
        """
        column, hidden = self.column(self._counts, key), False
        if len(key) == 1 and not (column.units >= self._settings.least).any():
            column, hidden = self._counts.values[key[0]], column.rows > 0
        maps.append(self._fitted(key, column, self._counts, wanted, None, floor=float(hidden)))
        pooled = len(maps) - 1
        result = [pooled] * max(1, self._settings.context.size)
        for number, counts in self._counts.contexts.items() if self._settings.context else ():
            own, alone = self.column(counts, key), counts
            if own.rows < ENOUGH:
                own, alone = self._restricted(column, counts, key), self._counts
            if own.rows >= ENOUGH:
                maps.append(self._fitted(key, own, alone, wanted, number))
                result[number] = len(maps) - 1
        return result

    def _restricted(self, column: SparseCounts, counts: Counts, key: Attributes) -> SparseCounts:
        """Return the counts of all records whose codes occur in a context; none if it has too few codes."""
        codes = np.divmod(column.keys, self._sizes[key[1]]) if len(key) == 2 else (column.keys,)
        kept = np.ones(column.keys.size, np.bool_)
        for j, each in zip(key, codes, strict=True):
            present = counts.values[j].keys[counts.values[j].units >= self._settings.least]
            kept &= np.isin(each, present) & (present.size >= FEWEST_CODES)
        return column.select(kept)

    def _fitted(
        self,
        key: Attributes,
        column: SparseCounts,
        counts: Counts,
        wanted: Float64Array,
        number: int | None,
        floor: float = 0.0,
    ) -> Transport:
        """Return a map, and what is masked given it.

        ``number``: that of its context, None for all. ``floor``: the least chance of a redraw.
        """
        settings = self._settings
        sides = marginals(column, self._sizes[key[1]]) if len(key) == 2 else (column,)
        values = [Values.most_frequent(settings.distances[j], side) for j, side in zip(key, sides, strict=True)]
        tuples = Tuples.of(column, values, settings.least)
        law, before = tuples.law(values), self._before(key, number)
        kernels, goals = [], []
        for j, (v, attribute) in enumerate(zip(values, key, strict=True)):
            goals.append(min(float(wanted[attribute]), greatest_distance(law, v.squares, j)))
            start = _started(v, law, j, goals[j], before)
            kernels.append(levelled(start, law, j, goals[j] if before is None else None))
        links, prior = self._links(values[0], counts) if key == (self._root,) else [], law.share_of(0)
        others = [
            group
            for a, child, _, source in links
            for group in given_groups(source, settings.limits(a, child, prior @ source))
        ]
        limits = [
            settings.limits(a, v, law.share_of(j), others) for j, (a, v) in enumerate(zip(key, values, strict=True))
        ]
        own = Map.started(law, (kernels[0], kernels[1] if len(kernels) == 2 else Kernel.flat()))
        own = own if before is None else _continued(own, values, before)
        found, again, moved, greatest = certain(own, limits, goals, floor)
        given = []
        for a, child, pairs, _ in links:
            made = Given.of(a, (values[0], child), pairs, redrawn_joint(found, again, 0), float(wanted[a]))
            given.append(made.fitted(settings.limits(a, child, made.prior)))
        return Transport(key, tuple(values), tuples, found, again, tuple(goals), moved, greatest, tuple(given))

    def _links(self, root: Values, counts: Counts) -> list[tuple[int, Values, Tuples, Float32Matrix]]:
        """Return the attributes that are masked given the root, with their values, their pairs with it, and the law of
        these values given the root's."""
        links = []
        for j, distance in enumerate(self._settings.distances):
            if self._root is None or j == self._root:
                continue
            pair, own = self.linked(counts, self._root, j)
            if pair.keys.size:
                values = Values.most_frequent(distance, own)
                tuples = Tuples.of(pair, (root, values), self._settings.least)
                table = np.zeros((len(root), len(values)), np.float32)
                table[tuples.rows, tuples.columns] = tuples.counts
                links.append((j, values, tuples, conditional(table)))
        return links

    def _before(self, key: Attributes, number: int | None) -> Transport | None:
        """Return the map in force of the same attributes and context."""
        if self._maps is None or key not in self._maps.chosen:
            return None
        return self._maps.pooled(key) if number is None else self._maps.maps[self._maps.chosen[key][number]]

    @cached_property
    def parts(self) -> list[Part]:
        """The maps by which each attribute is masked: the attribute, the counts of its values that the map masks, the
        map, and the place of the attribute in it."""
        assert self._maps is not None
        parts: list[Part] = []
        every = self._counts.contexts if self._settings.context else {0: self._counts}
        for number, counts in every.items():
            for key, chosen in self._maps.chosen.items():
                transport, column = self._maps.maps[chosen[number]], self.column(counts, key)
                sides = marginals(column, self._sizes[key[1]]) if len(key) == 2 else (column,)
                parts += [(j, side, transport, which) for which, (j, side) in enumerate(zip(key, sides, strict=True))]
                for given in transport.given:
                    parts.append((given.attribute, self.linked(counts, key[0], given.attribute)[1], given, 0))
        return [part for part in parts if part[1].rows]

    def rows(self, j: int, codes: Int32Array) -> tuple[Int32Array, Float64Matrix]:
        """Return (K,) int32 positions of masks of attribute j, and (n, K) float64 P(a* | a) of n codes.

        A code that the window does not have is masked by each map as often as any.
        """
        parts = [part for part in self.parts if part[0] == j]
        positions = np.unique(np.concatenate([_values_of(made, which).positions for _, _, made, which in parts]))
        weights = [_counts_of(column, codes) for _, column, _, _ in parts]
        unseen, rows = np.sum(weights, axis=0) == 0, np.zeros((codes.size, positions.size))
        for weight, (_, column, made, which) in zip(weights, parts, strict=True):
            values = _values_of(made, which)
            joint = made.channel if isinstance(made, Given) else redrawn_joint(made.map, made.redraw, which)
            given = joint[values.indices(codes)]
            given *= (np.where(unseen, column.rows, weight) / given.sum(axis=1))[:, None]
            rows[:, np.searchsorted(positions, values.positions)] += given
        return positions, rows / rows.sum(axis=1, keepdims=True)

    def joint(self, j: int) -> JointLaw:
        """Return the joint law of attribute j's value and all masks of its record; see
        ``SemanticTransport.record_joint``."""
        parts = [part for part in self.parts if part[0] == j]
        made, total = [(each, which) for _, _, each, which in parts], sum(column.rows for _, column, _, _ in parts)
        counts = [max(LEAST_COLUMNS, round(COLUMNS * column.rows / total)) for _, column, _, _ in parts]
        greatest = max(each.greatest if isinstance(each, Given) else each.greatest[which] for each, which in made)
        sampled = any(each.width > count for (each, _), count in zip(made, counts, strict=True))
        return JointLaw(self._columns(j, parts, counts, total), sampled, greatest)

    def _columns(self, j: int, parts: Sequence[Part], counts: Sequence[int], total: int) -> Iterator[Float64Matrix]:
        """Yield columns of a joint law. Codes that a map masks as one value have its law in proportion to their
        counts."""
        codes = self._counts.values[j].keys.astype(np.int32)
        for (_, column, made, which), count in zip(parts, counts, strict=True):
            values, own = _values_of(made, which), _counts_of(column, codes)
            indices = values.indices(codes)
            own = np.where(np.bincount(indices, own, len(values))[indices] > 0, own, self._counts.values[j].counts)
            shares = own / np.bincount(indices, own, len(values))[indices] * (column.rows / total)
            for block in made.columns(count) if isinstance(made, Given) else made.columns(which, count):
                yield block[indices] * shares[:, None]


def _values_of(made: Transport | Given, which: int) -> Values:
    return made.values if isinstance(made, Given) else made.values[which]


def _counts_of(column: SparseCounts, codes: Int32Array) -> Int64Array:
    """Return (n,) int64: how often a column has each code."""
    place, held = located(column.keys, codes.astype(np.int64))
    return np.where(held, column.counts[place], 0)


def _started(values: Values, law: Law, which: int, wanted: float, before: Transport | None) -> Kernel:
    """Return a kernel to start from: that of the last version, as far as it has the values."""
    weights = np.log(np.sqrt(law.share_of(which))).astype(np.float32)
    levels = np.full(len(values), weights.min(), np.float32)
    if before is None:
        return Kernel(values.squares, 0.5 / wanted, weights, levels)
    old = before.map.kernels[which]
    place, known = located(before.values[which].positions, values.positions)
    weights, levels = np.where(known, old.weights[place], weights), np.where(known, old.levels[place], levels)
    return Kernel(values.squares, old.sharpness, weights, levels)


def _continued(start: Map, values: Sequence[Values], before: Transport) -> Map:
    """Return a map to start from with what the last version learnt of its tuples."""
    law, old = start.law, before.map.law
    width, keys = old.target.shape[1], np.zeros(law.rows.size, np.int64)
    known = np.ones(keys.size, np.bool_)
    for v, was, each in zip(values, before.values, (law.rows, law.columns), strict=False):
        place, held = located(was.positions, v.positions)
        keys, known = keys * width + place[each], known & held[each]
    place, held = located(old.rows.astype(np.int64) * width + old.columns, keys)
    learnt = before.map.phi / Map.started(old, before.map.kernels).phi
    return replace(start, phi=start.phi * np.where(known & held, learnt[place], np.float32(1.0)))


def _with_bits(events: SparseCounts, rows: SparseCounts) -> SparseCounts:
    """Return the counts of events with the noise keys of their rows."""
    if rows.key_bits is None or not events.keys.size:
        return events
    place, held = located(rows.keys, events.keys)
    return SparseCounts(events.keys, events.counts, np.where(held, rows.key_bits[place], np.uint64(0)))


def _remainder(column: SparseCounts, part: SparseCounts) -> SparseCounts:
    """Return the counts of the rows of a column that are not in a part of it.

    A noise key of both counts as one of the part, except for values with so many that all rows count as different.
    """
    if not part.keys.size:
        return column
    place, held = located(part.keys, column.keys)
    left, bits = column.counts - np.where(held, part.counts[place], 0), column.key_bits
    if bits is not None and part.key_bits is not None:
        many = np.bitwise_count(bits) >= MANY_KEYS
        bits = np.where(held & ~many, bits & ~part.key_bits[place], bits)
    return SparseCounts(column.keys, left, bits).select(left > 0)
