"""The maps of a window: of each context, and of each pattern of missing attributes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from stream_masker.core.arrays import located, offsets_from_lengths
from stream_masker.core.batch import Batch, Column, MaskedBatch
from stream_masker.core.context import Context
from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import BoolArray, Float64Array, Float64Matrix, Int32Array, Int64Array, UInt64Array
from stream_masker.core.mechanisms.base import distortion_of
from stream_masker.core.mechanisms.transition.serialization import read_model_field
from stream_masker.core.mechanisms.transport.certainty import Limits
from stream_masker.core.mechanisms.transport.given import (
    Given,
    conditional_law,
    fit_given,
    given_groups,
    pack_given,
    read_given,
)
from stream_masker.core.mechanisms.transport.model import (
    Transport,
    Tuples,
    Values,
    fit_transport,
    pack_transport,
    read_transport,
)
from stream_masker.core.ontology.taxonomy import Taxonomy
from stream_masker.core.risk.meaning import Told
from stream_masker.core.risk.records import Tuples as RecordTuples
from stream_masker.core.risk.sensitive import SENSITIVE_LISTS, present_groups, sensitive_groups
from stream_masker.core.statistics.counts import Counts, SparseCounts, marginals
from stream_masker.core.statistics.summary import Statistics
from stream_masker.core.statistics.units import MANY_KEYS
from stream_masker.core.validation import number_between
from stream_masker.errors import ParameterError, StatisticsError

ENOUGH = 200
"""The number of records that a context, or a pattern of missing attributes, needs for a map of its own."""
FEWEST_CODES = 20
"""The number of codes of enough patients that a context needs for the map of all records to be restricted to them."""
BLOCK = 4096
"""The number of masks in a block of a joint law."""

Groups: TypeAlias = Mapping[str, tuple[BoolArray, float]]
"""Of each sensitive group, by name: its members among the concepts, and its limit."""
Attributes: TypeAlias = tuple[int, ...]


class Settings(NamedTuple):
    """The parameters that maps depend on; ``alpha``, ``groups``: by attribute."""

    attributes: tuple[str, ...]
    distances: tuple[Distance, ...]
    alpha: tuple[float, ...]
    certainty: float
    groups: tuple[Groups, ...]
    least: int
    context: Context

    def limits(self, j: int, values: Values, prior: Float64Array) -> Limits:
        """Return the limits of the values of an attribute with these priors, and of its sensitive groups."""
        groups = [(inside[values.positions].astype(np.float32), limit) for inside, limit in self.groups[j].values()]
        return Limits.of(prior, self.certainty, [each for each in groups if each[0].any()])


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
            roots = [root for root in entry["roots"] if root in taxonomy] if own else []
            found = sensitive_groups(taxonomy, {name: roots}) if roots else {} if own else present_groups(taxonomy)
            if name in found:
                groups[name] = (found[name], limit)
        if not any(name in groups for groups in result):
            raise ParameterError(f"sensitive {name!r}: no attribute's ontology holds any of its concepts")
    return result


def remainder(column: SparseCounts, part: SparseCounts) -> SparseCounts:
    """Return the counts of the rows of a column that are not in a part of it.

    A noise key of both counts as one of the part, except for keys with so many that all rows count as different.
    """
    if not part.keys.size:
        return column
    place, held = located(part.keys, column.keys)
    left = column.counts - np.where(held, part.counts[place], 0)
    bits = column.key_bits
    if bits is not None and part.key_bits is not None:
        many = np.bitwise_count(bits) >= MANY_KEYS
        bits = np.where(held & ~many, bits & ~part.key_bits[place], bits)
    return SparseCounts(column.keys, left, bits).select(left > 0)


class Plan(NamedTuple):
    """Which records have maps: ``keys``, the attributes of each map. ``root``: the attribute that others are masked
    given; None without such ones."""

    keys: tuple[Attributes, ...]
    root: int | None

    @classmethod
    def of(cls, counts: Counts) -> Plan:
        """Return the plan for the attributes of these counts."""
        every = tuple((j,) for j in range(len(counts.values)))
        scalars = [j for j in range(len(every)) if j not in counts.lengths]
        if len(every) == 2 and len(scalars) == 2 and counts.pairs[0, 1].keys.size:
            return cls(((0, 1), *every), None)
        return cls(every, scalars[0] if len(every) > 1 and scalars else None)

    def column(self, counts: Counts, key: Attributes, sizes: Sequence[int]) -> SparseCounts:
        """Return the counts of the records of a map: those that have these attributes, and lack what would mask them
        with another one."""
        if len(key) == 2:
            return counts.pairs[key[0], key[1]]
        (j,) = key
        if j == self.root:
            return self._events(counts)
        if self.root is None and (0, 1) not in self.keys:
            return counts.values[j]
        other = 1 - j if self.root is None else self.root
        first, second = min(j, other), max(j, other)
        return remainder(counts.values[j], marginals(counts.pairs[first, second], sizes[second])[int(j > other)])

    def _events(self, counts: Counts) -> SparseCounts:
        """Return the counts of the root's values, once for each record."""
        assert self.root is not None
        rows = counts.values[self.root]
        events = counts.events.get((self.root,))
        if events is None or not events.keys.size:
            return rows
        place, held = located(rows.keys, events.keys)
        bits = None if rows.key_bits is None else np.where(held, rows.key_bits[place], np.uint64(0))
        return SparseCounts(events.keys, events.counts, bits)

    def linked(self, counts: Counts, j: int, sizes: Sequence[int]) -> SparseCounts:
        """Return the counts of pairs of the root, first, and another attribute."""
        assert self.root is not None
        if self.root < j:
            return counts.pairs[self.root, j]
        pair = counts.pairs[j, self.root]
        first, second = np.divmod(pair.keys, sizes[self.root])
        keys = second * sizes[j] + first
        order = np.argsort(keys)
        return SparseCounts(keys[order], pair.counts[order], None if pair.key_bits is None else pair.key_bits[order])


class Builder:
    """Computes the model of one window."""

    def __init__(self, settings: Settings, counts: Counts, statistics: Statistics, before: Prepared | None) -> None:
        """``before``: the maps in force, from which the search starts. Raises StatisticsError for a constant
        attribute."""
        spread = np.diag(statistics.covariance)
        constant = [name for name, s in zip(settings.attributes, spread, strict=True) if not s > 0.0]
        if constant:
            raise StatisticsError(
                f"{', '.join(constant)}: all values are equal, so nothing could be masked; calibrate on records with "
                "different values"
            )
        self._settings, self._counts, self._before = settings, counts, before
        self._wanted = np.array(settings.alpha) * spread
        self._plan = Plan.of(counts)
        self._sizes = [len(d.taxonomy) for d in settings.distances]
        self._maps: list[Transport] = []
        self._given: list[tuple[int, Given]] = []

    def build(self) -> dict[str, Any]:
        """Return the model. Raises StatisticsError if nothing can be written."""
        chosen = {",".join(map(str, key)): self._chosen(key) for key in self._plan.keys}
        return {
            "context": self._settings.context.to_list(),
            "root": self._plan.root,
            "maps": [pack_transport(each) for each in self._maps],
            "chosen": chosen,
            "given": [{"root": root, **pack_given(each)} for root, each in self._given],
        }

    def _chosen(self, key: Attributes) -> list[int]:
        """Fit the maps of some attributes; return the index of that of each context."""
        column = self._plan.column(self._counts, key, self._sizes)
        if column.rows < ENOUGH and len(key) == 1:
            column = self._counts.values[key[0]]
        self._fit(key, column, self._counts, None)
        pooled = len(self._maps) - 1
        result = [pooled] * max(1, self._settings.context.size)
        for number, counts in self._counts.contexts.items():
            own = self._plan.column(counts, key, self._sizes)
            alone = own.rows >= ENOUGH
            own = own if alone else self._restricted(column, counts, key)
            if own.rows >= ENOUGH:
                try:
                    self._fit(key, own, counts if alone else self._counts, number)
                    result[number] = len(self._maps) - 1
                except StatisticsError:
                    continue
        return result

    def _restricted(self, column: SparseCounts, counts: Counts, key: Attributes) -> SparseCounts:
        """Return the counts of all records whose codes occur in a context; none if it has too few codes."""
        codes = np.divmod(column.keys, self._sizes[key[1]]) if len(key) == 2 else (column.keys,)
        kept = np.ones(column.keys.size, np.bool_)
        for j, each in zip(key, codes, strict=True):
            present = counts.values[j].keys[counts.values[j].units >= self._settings.least]
            kept &= np.isin(each, present) & (present.size >= FEWEST_CODES)
        return column.select(kept)

    def _fit(self, key: Attributes, column: SparseCounts, counts: Counts, number: int | None) -> None:
        """Fit a map, and what is masked given it; ``number``: that of its context, None for all."""
        settings, before = self._settings, self._start(key, number)
        sides = marginals(column, self._sizes[key[1]]) if len(key) == 2 else (column,)
        values = tuple(Values.most_frequent(settings.distances[j], side) for j, side in zip(key, sides, strict=True))
        links = self._links(values[0], counts) if key == (self._plan.root,) else []

        def limits(priors: tuple[Float64Array, ...]) -> list[Limits]:
            own = [settings.limits(j, v, prior) for j, v, prior in zip(key, values, priors, strict=True)]
            for j, child, tuples in links:
                source = conditional_law(tuples, (values[0], child))
                told = settings.limits(j, child, priors[0] @ source)
                own[0] = own[0].with_groups(given_groups(source, priors[0], told))
            return own

        tuples = Tuples.of(column, values, settings.least)
        made = fit_transport(key, values, tuples, limits, [self._wanted[j] for j in key], before)
        self._maps.append(made)
        for j, child, pairs in links:
            source = conditional_law(pairs, (values[0], child))
            told = settings.limits(j, child, np.asarray(made.prior(0) @ source))
            self._given.append((len(self._maps) - 1, fit_given(j, made, child, pairs, told, float(self._wanted[j]))))

    def _links(self, root: Values, counts: Counts) -> list[tuple[int, Values, Tuples]]:
        """Return the attributes that are masked given the root, with their values and their pairs with it."""
        links = []
        for j, distance in enumerate(self._settings.distances):
            pair = self._plan.linked(counts, j, self._sizes) if j != self._plan.root else None
            if pair is not None and pair.keys.size:
                values = Values.most_frequent(distance, marginals(pair, self._sizes[j])[1])
                links.append((j, values, Tuples.of(pair, (root, values), self._settings.least)))
        return links

    def _start(self, key: Attributes, number: int | None) -> Transport | None:
        """Return the map in force of the same attributes and context."""
        if self._before is None or key not in self._before.chosen:
            return None
        chosen = self._before.chosen[key]
        return self._before.maps[self._before.pooled(key) if number is None else int(chosen[number])]


@dataclass(frozen=True, eq=False)
class Prepared:
    """The maps in use.

    * ``chosen``: by the attributes of maps, for each context the index of its map. ``given``: by the index of the
      root's map and the attribute, what is masked given it. ``root``: the attribute that others are masked given.
    * ``noise``: (p,) α·sdVar of each attribute. ``records``: for each context the number of its records.
    """

    settings: Settings
    maps: tuple[Transport, ...]
    chosen: Mapping[Attributes, Int64Array]
    given: Mapping[tuple[int, int], Given]
    root: int | None
    noise: tuple[float, ...]

    @property
    def of_pairs(self) -> bool:
        """Whether two attributes are masked together."""
        return (0, 1) in self.chosen

    def pooled(self, key: Attributes) -> int:
        """Return the index of the map of all records that have these attributes."""
        return next(index for index, each in enumerate(self.maps) if each.attributes == key)

    def mask(self, batch: Batch, words: Sequence[UInt64Array]) -> MaskedBatch:
        """Mask encoded records; ``words``: one random word for each value of each column."""
        codes = [column.codes for column in batch.columns]
        masks = [np.full(each.size, -1, np.int32) for each in codes]
        context = np.zeros(batch.size, np.int64) if batch.context is None else batch.context
        if self.of_pairs:
            both = np.flatnonzero((codes[0] >= 0) & (codes[1] >= 0))
            self._draw((0, 1), both, context[both], codes, words, masks)
        for j in sorted(range(len(codes)), key=lambda j: j != self.root):
            column = batch.columns[j]
            if self.root is not None and j != self.root and not batch.columns[self.root].is_array:
                self._draw_given(j, column, context, (codes[self.root], masks[self.root]), words[j], masks[j])
            left = np.flatnonzero((codes[j] >= 0) & (masks[j] < 0))
            self._draw((j,), left, context[column.owners[left]], codes, words, masks)
        columns = tuple(Column(each, column.offsets) for each, column in zip(masks, batch.columns, strict=True))
        distortions = []
        for j, (before, after) in enumerate(zip(codes, masks, strict=True)):
            one = distortion_of(before, after, self.settings.distances[j])
            beyond = self.maps[self.pooled((j,))].wanted[0] < self.noise[j] * (1.0 - 1e-9)
            truncated = one.values if beyond else 0
            distortions.append(replace(one, squared_noise=one.values * self.noise[j], truncated=truncated))
        return MaskedBatch(columns, tuple(distortions))

    def _draw(
        self,
        key: Attributes,
        rows: Int64Array,
        context: Int64Array,
        codes: Sequence[Int32Array],
        words: Sequence[UInt64Array],
        masks: Sequence[Int32Array],
    ) -> None:
        """Draw the masks of rows, all of which have these attributes, by the maps of their contexts."""
        own = self.chosen[key][context]
        for index in np.unique(own).tolist():
            some = rows[own == index]
            drawn = self.maps[index].draw([codes[j][some] for j in key], [words[j][some] for j in key])
            for j, each in zip(key, drawn, strict=True):
                masks[j][some] = each

    def _draw_given(
        self,
        j: int,
        column: Column,
        context: Int64Array,
        root: tuple[Int32Array, Int32Array],
        words: UInt64Array,
        masks: Int32Array,
    ) -> None:
        """Draw the masks of an attribute given the root's values and masks."""
        assert self.root is not None
        owners = column.owners
        own = self.chosen[self.root,][context]
        for index in np.unique(own).tolist():
            made = self.given.get((index, j))
            records = np.flatnonzero((own == index) & (root[0] >= 0))
            if made is None or not records.size:
                continue
            inside = np.zeros(context.size, np.bool_)
            inside[records] = True
            some = np.flatnonzero(inside[owners] & (column.codes >= 0))
            offsets = offsets_from_lengths(np.bincount(owners[some], minlength=context.size)[records])
            masks[some] = made.draw(root[0][records], root[1][records], column.codes[some], words[some], offsets)

    def parts(self, j: int, counts: Counts) -> Iterator[tuple[float, Transport | Given, int]]:
        """Yield the maps by which attribute j is masked: the number of its values in the window that each of them
        masks, the map, and the place of j in it."""
        plan, sizes = Plan(tuple(self.chosen), self.root), [len(d.taxonomy) for d in self.settings.distances]
        numbered = counts.contexts.items() if self.settings.context else [(0, counts)]
        for number, own in numbered:
            for key, chosen in self.chosen.items():
                if j in key:
                    yield plan.column(own, key, sizes).rows, self.maps[chosen[number]], key.index(j)
            made = None if self.root is None else self.given.get((int(self.chosen[self.root,][number]), j))
            if made is not None:
                yield plan.linked(own, j, sizes).rows, made, 0

    def rows(self, j: int, codes: Int32Array, counts: Counts) -> tuple[Int32Array, Float64Matrix]:
        """Return (K,) int32 positions of masks of attribute j, and (n, K) float64 P(a* | a) of n codes."""
        parts = [part for part in self.parts(j, counts) if part[0]]
        positions = np.unique(np.concatenate([_values_of(made, which).positions for _, made, which in parts]))
        rows = np.zeros((codes.size, positions.size))
        for weight, made, which in parts:
            values = _values_of(made, which)
            joint = made.joint(which)[values.indices(codes)]
            rows[:, np.searchsorted(positions, values.positions)] += weight * joint
        return positions, rows / rows.sum(axis=1, keepdims=True)

    def blocks(self, j: int, counts: Counts) -> Iterator[Float64Matrix]:
        """Yield the joint law of attribute j's value and all masks of its record, see
        ``SemanticTransport.record_joint``."""
        column = counts.values[j]
        codes, parts = column.keys.astype(np.int32), [part for part in self.parts(j, counts) if part[0]]
        total = sum(weight for weight, _, _ in parts)
        for weight, made, which in parts:
            values = _values_of(made, which)
            indices = values.indices(codes)
            shares = column.counts / np.bincount(indices, column.counts, len(values))[indices]
            for block in made.blocks(which, BLOCK):
                yield block[indices] * (shares * (weight / total))[:, None]

    def told(self, counts: Counts) -> tuple[Told, ...]:
        """Return what all masks of a record tell of each attribute's value."""
        result = []
        for j in range(len(self.settings.attributes)):
            parts = [part for part in self.parts(j, counts) if part[0]]
            surest = max(made.surest[which] for _, made, which in parts)
            result.append(Told(surest, max(float(made.prior(which).max()) for _, made, which in parts), None))
        return tuple(result)

    def pair_law(self, tuples: RecordTuples) -> PairLaw | None:
        """Return the law of masks of pairs; None unless two attributes are masked together."""
        return PairLaw.of(self.maps[self.pooled((0, 1))], tuples) if self.of_pairs else None


def _values_of(made: Transport | Given, which: int) -> Values:
    return made.values[which]


@dataclass(frozen=True, slots=True, eq=False)
class PairLaw:
    """P(a*, b* | a, b) of the window's pairs (``risk.records.MaskLaw``); ``rows``, ``columns``: (t,) their indices."""

    transport: Transport
    rows: Int32Array
    columns: Int32Array

    @classmethod
    def of(cls, transport: Transport, tuples: RecordTuples) -> PairLaw:
        """Return the law of these pairs."""
        return cls(transport, *(v.indices(codes) for v, codes in zip(transport.values, tuples.codes, strict=True)))

    def likelihood(self, masked: tuple[int, ...]) -> Float64Array:
        """Return (t,) float64: the probability of the masked pair, as positions, given each pair."""
        first, second = (
            int(v.indices(np.array([code], np.int32))[0]) for v, code in zip(self.transport.values, masked, strict=True)
        )
        return self.transport.likelihood((first, second), self.rows, self.columns)


def read_prepared(settings: Settings, model: object, spread: Float64Array) -> Prepared:
    """Return the maps of a model in use; ``spread``: (p,) sdVar. Raises StatisticsError if the model is not valid."""
    context, root, packed = (read_model_field(model, name) for name in ("context", "root", "maps"))
    if context != settings.context.to_list():
        raise StatisticsError("the model's contexts are not those of this mechanism")
    try:
        maps = tuple(read_transport(each, settings.distances) for each in packed)
        chosen = {
            tuple(map(int, key.split(","))): np.array(each, np.int64)
            for key, each in read_model_field(model, "chosen").items()
        }
        given = {}
        for each in read_model_field(model, "given"):
            made = read_given(each, maps[each["root"]], settings.distances)
            given[each["root"], made.attribute] = made
    except (TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
        raise StatisticsError(f"the model does not have the expected format ({type(error).__name__})") from None
    size = max(1, settings.context.size)
    attributes = {j for key in chosen for j in key}
    if attributes != set(range(spread.size)) or any(each.shape != (size,) for each in chosen.values()):
        raise StatisticsError("the model is not that of the mechanism's attributes")
    return Prepared(settings, maps, chosen, given, root, tuple((np.array(settings.alpha) * spread).tolist()))
