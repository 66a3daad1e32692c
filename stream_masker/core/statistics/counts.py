"""Counts of values and of pairs of values: the only input of the statistics.

Every statistic of the papers depends on a window only through how often each value, and each pair of values, occurs.
``Counts`` holds exactly that. Counts are immutable, sparse and exact, and they add up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.batch import Batch, Column
from stream_masker.core.dtypes import BoolArray, Int64Array, UInt64Array
from stream_masker.core.kernels.jit import int64, kernel
from stream_masker.core.numeric import Moments, merge_moments
from stream_masker.core.statistics.units import grouped_bits, run_units, units_of, with_slots
from stream_masker.errors import ParameterError, StatisticsError


@dataclass(frozen=True, slots=True)
class SparseCounts:
    """How many rows hold each key. Immutable.

    A key is a position in the attribute's taxonomy. For a pair of attributes (A, B) it is ``position in A *
    len(taxonomy of B) + position in B``.

    * ``keys``: (m,) int64, ascending and unique.
    * ``counts``: (m,) int64, positive; the rows that hold each key. A *change* of counts may be negative.
    * ``key_bits``: (m,) uint64, the bits of the noise keys of these rows (``statistics.units``); None if no noise key
      is known, and for changes.
    """

    keys: NDArray[np.int64]
    counts: NDArray[np.int64]
    key_bits: UInt64Array | None = None

    @property
    def rows(self) -> int:
        """The number n of rows that have a value."""
        return int(self.counts.sum())

    @property
    def units(self) -> Int64Array:
        """(m,) int64: the number of different noise keys, such as patients, of each key's rows, at least.

        It equals ``counts`` if no noise key is known, and never exceeds them (``statistics.units``).
        """
        return units_of(self.counts, self.key_bits)

    def select(self, some: BoolArray | Int64Array) -> SparseCounts:
        """Return the counts of some keys; ``some``: (m,) bool, or (k,) ascending indices."""
        bits = None if self.key_bits is None else self.key_bits[some]
        return SparseCounts(self.keys[some], self.counts[some], bits)

    def regroup(self, groups: Int64Array, size: int) -> SparseCounts:
        """Return the counts of ``size`` groups of keys, 0 for a group without any. The groups' numbers are the keys.

        ``groups``: (m,), the group of each key, in [0, size).
        """
        counts = np.zeros(size, np.int64)
        np.add.at(counts, groups, self.counts)
        return SparseCounts(np.arange(size), counts, grouped_bits(self.key_bits, groups, size))


@dataclass(frozen=True, slots=True)
class Counts:
    """The counts of ``records`` events. Immutable.

    An event whose array attribute has k elements is k rows, with the scalars repeated. An event without elements is one
    row of its scalars. If there are several array attributes, each has its own rows, in which the other arrays have no
    value. An event thus has as many rows as elements in total, and no row has values of two arrays.

    * ``values[j]``: the counts of attribute j.
    * ``pairs[i, j]``, i < j: the counts of the rows that have both attributes.
    * ``given[j]``: the number of values of attribute j, including those in no row because they were suppressed or
      because they caused their record's rejection.
    * ``unknown[j]``: how many of these values were not known concepts, before the policy for unknown codes was applied.
    * ``numeric``: the moments of the numeric attributes, where an event is one row; None if there are none.
    * ``lengths[j]``, only of array attributes j: the number of events with each number of present elements. Its keys
      are these numbers, 0 included. An event that was counted without lengths, by an older release, is in none of them.
    * ``events[j,]``, ``events[i, j]``, only of scalars of records with arrays: the counts of attribute j, and of pairs,
      where each event is one row.
    * ``contexts[c]``: the counts of the events of context c (``core.context``); empty if there is no context.
    * ``rolled[f]``: the events with each concept of field f, of those that are generalized by the counts of the window.
    """

    records: int
    values: tuple[SparseCounts, ...]
    pairs: Mapping[tuple[int, int], SparseCounts]
    given: tuple[int, ...]
    unknown: tuple[int, ...]
    numeric: Moments | None = None
    lengths: Mapping[int, SparseCounts] = field(default_factory=dict)
    events: Mapping[tuple[int, ...], SparseCounts] = field(default_factory=dict)
    contexts: Mapping[int, Counts] = field(default_factory=dict)
    rolled: Mapping[str, SparseCounts] = field(default_factory=dict)


def count_batch(
    batch: Batch,
    sizes: Sequence[int],
    unknown: Sequence[int] | None = None,
    lost: Sequence[int] | None = None,
) -> Counts:
    """Count a batch, in O(rows log rows).

    Negative codes (``ABSENT``) are not values. Raises ParameterError if an argument does not have one entry per
    attribute.

    * ``sizes[j]``: the number of concepts of attribute j's taxonomy.
    * ``unknown[j]``: see ``Counts.unknown``; default 0.
    * ``lost[j]``: the number of values of attribute j that are not in the batch; default 0.
    """
    p = len(batch.columns)
    _same_length(p, sizes=sizes, unknown=unknown, lost=lost)
    rows, record = batch.rows()
    slots = None if batch.slots is None else batch.slots[record]
    pairs = {(i, j): pair_counts(rows[i], rows[j], sizes[j], slots) for i, j in combinations(range(p), 2)}
    values = tuple(_count_values(codes, slots) for codes in rows)
    present = [np.count_nonzero(column.codes >= 0) for column in batch.columns]
    given = tuple(int(n) + more for n, more in zip(present, lost or (0,) * p, strict=True))
    numeric = None if batch.numeric is None else Moments.of(batch.numeric)
    rolled = {key: _count_values(concepts, batch.slots) for key, concepts in batch.rolled.items()}
    return Counts(
        batch.size,
        values,
        pairs,
        given,
        tuple(unknown or (0,) * p),
        numeric,
        count_lengths(batch),
        count_events(batch, sizes),
        count_contexts(batch, sizes, rows, record),
        rolled,
    )


def count_contexts(
    batch: Batch, sizes: Sequence[int], rows: Sequence[NDArray[np.int32]], record: Int64Array
) -> dict[int, Counts]:
    """Count the records of each context of a batch; see ``Counts.contexts``. rows, record: of ``Batch.rows``."""
    if batch.context is None:
        return {}
    numbers, index = np.unique(batch.context, return_inverse=True)
    slots = None if batch.slots is None else batch.slots[record]
    of_row, p = index[record], len(sizes)

    def counted(
        columns: Sequence[NDArray[np.int32]], of_row: Int64Array, slots: Int64Array | None, js: tuple[int, ...]
    ) -> list[SparseCounts]:
        present, keys, width = np.ones(of_row.size, np.bool_), of_row, 1
        for j in js:
            present, keys, width = present & (columns[j] >= 0), keys * sizes[j] + columns[j], width * sizes[j]
        counts = count_keys(keys[present], None if slots is None else slots[present])
        return split_by_context(counts, width, numbers.size)

    values = [counted(rows, of_row, slots, (j,)) for j in range(p)]
    pairs = {pair: counted(rows, of_row, slots, pair) for pair in combinations(range(p), 2)}
    codes = [column.codes for column in batch.columns]
    events = {js: counted(codes, index, None, js) for js in _of_events(batch)}
    lengths = {
        j: _lengths_by_context(column, index, numbers.size) for j, column in enumerate(batch.columns) if column.is_array
    }
    given = [_present_by_context(column, index, numbers.size) for column in batch.columns]
    records, none = np.bincount(index), np.zeros((numbers.size, p), np.int64)
    return counts_by_context(numbers, (records, np.stack(given, axis=1), none), values, pairs, lengths, events)


def counts_by_context(
    numbers: Int64Array,
    sums: tuple[Int64Array, Int64Array, Int64Array],
    values: Sequence[Sequence[SparseCounts]],
    pairs: Mapping[tuple[int, int], Sequence[SparseCounts]],
    lengths: Mapping[int, Sequence[SparseCounts]],
    events: Mapping[tuple[int, ...], Sequence[SparseCounts]],
) -> dict[int, Counts]:
    """Return ``Counts.contexts`` of c contexts.

    * ``numbers``: (c,) the contexts. ``sums``: (c,) records, (c, p) ``given`` and (c, p) ``unknown``.
    * ``values``, ``pairs``, ``lengths``, ``events``: of each attribute or pair, the counts of all contexts.
    """
    records, given, unknown = (each.tolist() for each in sums)
    return {
        number: Counts(
            records=records[k],
            values=tuple(column[k] for column in values),
            pairs={pair: column[k] for pair, column in pairs.items()},
            given=tuple(given[k]),
            unknown=tuple(unknown[k]),
            lengths={j: column[k] for j, column in lengths.items()},
            events={js: column[k] for js, column in events.items()},
        )
        for k, number in enumerate(numbers.tolist())
    }


def split_by_context(total: SparseCounts, width: int, size: int) -> list[SparseCounts]:
    """Return the counts of each of ``size`` contexts; the keys of ``total`` are context · ``width`` + key."""
    context, keys = np.divmod(total.keys, width)
    whole = SparseCounts(keys, total.counts, total.key_bits)
    bounds = np.searchsorted(context, np.arange(size + 1)).tolist()
    return [whole.select(np.arange(start, end)) for start, end in pairwise(bounds)]


def _lengths_by_context(column: Column, context: Int64Array, size: int) -> list[SparseCounts]:
    elements = column.present_lengths
    width = int(elements.max(initial=0)) + 1
    return split_by_context(count_keys(context * width + elements), width, size)


def _present_by_context(column: Column, context: Int64Array, size: int) -> Int64Array:
    """Return (size,) int64: the number of present values of an attribute in each context."""
    return np.bincount(context[column.owners[column.elements >= 0]], minlength=size)


def count_lengths(batch: Batch) -> dict[int, SparseCounts]:
    """Count the numbers of present elements of the records of a batch; see ``Counts.lengths``."""
    columns = enumerate(batch.columns)
    return {j: count_keys(column.present_lengths) for j, column in columns if column.is_array}


def count_events(batch: Batch, sizes: Sequence[int]) -> dict[tuple[int, ...], SparseCounts]:
    """Count the scalars of a batch with arrays, and their pairs, once for each record; see ``Counts.events``."""
    codes = [column.codes for column in batch.columns]
    return {
        js: _count_values(codes[js[0]], None) if len(js) == 1 else pair_counts(codes[js[0]], codes[js[1]], sizes[js[1]])
        for js in _of_events(batch)
    }


def _of_events(batch: Batch) -> list[tuple[int, ...]]:
    scalars = [j for j, column in enumerate(batch.columns) if not column.is_array]
    if len(scalars) == len(batch.columns):
        return []
    return [*((j,) for j in scalars), *combinations(scalars, 2)]


def count_keys(keys: Int64Array, slots: Int64Array | None = None) -> SparseCounts:
    """Count how often each key occurs; ``keys``: (n,) int64 in any order; ``slots``: (n,), see ``Batch``."""
    if slots is None:
        return SparseCounts(*run_lengths(np.sort(keys)))
    return SparseCounts(*run_units(np.sort(with_slots(keys, slots))))


@kernel
def run_lengths(ordered: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return the distinct keys of a sorted (n,) int64 array, and how often each occurs."""
    keys = np.empty(ordered.size, np.int64)
    counts = np.zeros(ordered.size, np.int64)
    size = 0
    for i in range(ordered.size):
        if i == 0 or ordered[i] != ordered[i - 1]:
            keys[size] = ordered[i]
            size += 1
        counts[size - 1] += 1
    return keys[:size].copy(), counts[:size].copy()


@kernel
def add_counts(
    first_keys: Int64Array, first_counts: Int64Array, second_keys: Int64Array, second_counts: Int64Array, factor: int
) -> tuple[Int64Array, Int64Array]:
    """Return keys and counts of the first counts plus ``factor`` times the second, without keys whose sum is 0.

    Keys are (m,) and (n,) int64, ascending, and so are the keys returned.
    """
    max_size = first_keys.size + second_keys.size
    keys = np.empty(max_size, np.int64)
    counts = np.empty(max_size, np.int64)
    i = 0
    j = 0
    size = 0
    while i < first_keys.size or j < second_keys.size:
        first = i < first_keys.size and (j == second_keys.size or first_keys[i] <= second_keys[j])
        second = j < second_keys.size and (i == first_keys.size or second_keys[j] <= first_keys[i])
        keys[size] = first_keys[i] if first else second_keys[j]
        total = int64(0)
        if first:
            total += first_counts[i]
            i += 1
        if second:
            total += factor * second_counts[j]
            j += 1
        counts[size] = total
        size += total != 0
    return keys[:size].copy(), counts[:size].copy()


def pair_counts(
    a: NDArray[np.int32], b: NDArray[np.int32], size_b: int, slots: Int64Array | None = None
) -> SparseCounts:
    """Count the pairs of n rows with two present values.

    ``size_b``: the number of concepts of B's taxonomy. ``slots``: (n,), see ``Batch``.
    """
    both = (a >= 0) & (b >= 0)
    keys = a[both].astype(np.int64) * size_b + b[both]
    return count_keys(keys, None if slots is None else slots[both])


def marginals(pair: SparseCounts, size_b: int) -> tuple[SparseCounts, SparseCounts]:
    """Return the counts of A's and of B's values over the rows of a pair; ``size_b``: see ``pair_counts``."""
    a, b = np.divmod(pair.keys, size_b)
    return sum_by_key(a, pair.counts, pair.key_bits), sum_by_key(b, pair.counts, pair.key_bits)


def same_counts(first: SparseCounts, second: SparseCounts) -> bool:
    """Return whether both hold the same keys with the same counts."""
    return np.array_equal(first.keys, second.keys) and np.array_equal(first.counts, second.counts)


def combine(parts: Sequence[SparseCounts]) -> SparseCounts:
    """Add counts and changes of one attribute, or of one pair of attributes. Noise keys of changes are not known."""
    bits = _united_bits(parts)
    if len(parts) == 2 and bits is None:
        first, second = parts
        return SparseCounts(*add_counts(first.keys, first.counts, second.keys, second.counts, 1))
    keys, counts = (np.concatenate(each) for each in zip(*((part.keys, part.counts) for part in parts), strict=True))
    return sum_by_key(keys, counts, bits)


def _united_bits(parts: Sequence[SparseCounts]) -> UInt64Array | None:
    """Return the bits of all parts, one after another; None if no part has any."""
    if all(part.key_bits is None for part in parts):
        return None
    return np.concatenate([np.zeros(p.keys.size, np.uint64) if p.key_bits is None else p.key_bits for p in parts])


def merge(counts: Iterable[Counts]) -> Counts:
    """Add the counts of several sets of events.

    Raises StatisticsError if there are no counts, or if they are of different attributes.
    """
    blocks = list(counts)
    if not blocks:
        raise StatisticsError("there are no counts to merge")
    if len({(len(block.values), frozenset(block.pairs)) for block in blocks}) > 1:
        raise StatisticsError("only counts of the same attributes can be merged")
    first = blocks[0]
    arrays = sorted({j for block in blocks for j in block.lengths})
    scalars = sorted({js for block in blocks for js in block.events})
    contexts = sorted({c for block in blocks for c in block.contexts})
    fields = sorted({f for block in blocks for f in block.rolled})
    return Counts(
        records=sum(block.records for block in blocks),
        values=tuple(combine(column) for column in zip(*(block.values for block in blocks), strict=True)),
        pairs={key: combine([block.pairs[key] for block in blocks]) for key in first.pairs},
        given=tuple(map(sum, zip(*(block.given for block in blocks), strict=True))),
        unknown=tuple(map(sum, zip(*(block.unknown for block in blocks), strict=True))),
        numeric=merge_moments([block.numeric for block in blocks]),
        lengths={j: combine([block.lengths[j] for block in blocks if j in block.lengths]) for j in arrays},
        events={js: combine([block.events[js] for block in blocks if js in block.events]) for js in scalars},
        contexts={c: merge(block.contexts[c] for block in blocks if c in block.contexts) for c in contexts},
        rolled={f: combine([block.rolled[f] for block in blocks if f in block.rolled]) for f in fields},
    )


def _count_values(codes: NDArray[np.integer], slots: Int64Array | None) -> SparseCounts:
    present = codes >= 0
    return count_keys(codes[present].astype(np.int64), None if slots is None else slots[present])


def sum_by_key(keys: Int64Array, counts: Int64Array, bits: UInt64Array | None = None) -> SparseCounts:
    """Add the counts of equal keys, unite their bits, and drop the keys whose sum is 0."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1]))[: len(ordered)])
    if not len(starts):
        return SparseCounts(ordered, counts, bits)
    sums = np.add.reduceat(counts[order], starts)
    united = None if bits is None else np.bitwise_or.reduceat(bits[order], starts)
    return SparseCounts(ordered[starts], sums, united).select(sums != 0)


def _same_length(p: int, **given: Sequence[int] | None) -> None:
    for name, values in given.items():
        if values is not None and len(values) != p:
            raise ParameterError(f"{name} has {len(values)} entries; the batch has {p} attributes")
