"""Counts of values and of pairs of values, and the window of records that they are of: all that statistics depend on.

Every statistic of the papers depends on a window only through how often each value, and each pair of values, occurs.
``Counts`` holds exactly that. Counts are immutable, sparse and exact, and they add up.

They also give a lower bound of the number of different noise keys (such as patients) of a value. A keyed hash gives
each noise key one of ``KEY_SLOTS`` slots, and an entry of counts has a bit for the slot of each of its rows. Bits are
united by OR, in any order and any number of times. Two noise keys of one slot count as one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import combinations, pairwise
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.arrays import BoolArray, Int32Array, Int64Array, UInt64Array, offsets_from_lengths, run_edges
from stream_masker.core.batch import ABSENT, Batch, Column
from stream_masker.core.random import Keys
from stream_masker.errors import ParameterError, StatisticsError

Key = TypeVar("Key", int, str, tuple[int, int], tuple[int, ...])

KEY_SLOTS: Final = 64
"""The number of slots: one for each bit of a word."""

NO_SLOT: Final = KEY_SLOTS
"""The slot of a row whose noise key is not known. It has no bit."""

MANY_KEYS: Final = 32
"""Entries with this number of bits have about 44 noise keys or more. All their rows count as different."""

SLOT_WORDS: Final = np.append(np.uint64(1) << np.arange(KEY_SLOTS, dtype=np.uint64), np.uint64(0))
"""(65,) uint64: the bits of a row of each slot."""

SLOT_BITS: Final = 7
"""The bits of a slot in numbers that hold both a key and a slot."""

MAX_KEY: Final = 2 ** (63 - SLOT_BITS) - 1
"""The greatest number that a key may have together with its table, batch and group."""

CELLS_AT_ONCE: Final = 1 << 18
"""The cells of a batch, rows times tables, that are counted at once (2 MB, which a processor's cache holds)."""

MAX_PATTERN_ATTRIBUTES: Final = 12
"""The greatest number of attributes of which it is counted which records lack which."""


def key_slots(keys: Keys) -> Int64Array:
    """Return (n,) int64: the slots of n noise keys, which nobody can test against a guess without the secret."""
    return (keys.secret.words(b"masker-slot", keys.digests)[:, 0] % np.uint64(KEY_SLOTS)).astype(np.int64)


@dataclass(frozen=True, slots=True)
class SparseCounts:
    """How many rows hold each key. Immutable.

    A key is a position in the attribute's taxonomy. For a pair of attributes (A, B) it is ``position in A *
    len(taxonomy of B) + position in B``.

    * ``keys``: (m,) int64, ascending and unique.
    * ``counts``: (m,) int64, positive; the rows that hold each key.
    * ``key_bits``: (m,) uint64, the bits of the noise keys of these rows; None if no noise key is known.
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
        """(m,) int64: the number of different noise keys of each key's rows, at least; at most the number of rows.

        It is the number of rows if no noise keys are known, or ``MANY_KEYS`` or more. Rows without a noise key count as
        one together, and as none beside others.
        """
        if self.key_bits is None:
            return self.counts
        bits = np.bitwise_count(self.key_bits).astype(np.int64)
        return np.where(bits < MANY_KEYS, np.minimum(np.maximum(bits, 1), self.counts), self.counts)

    def select(self, some: BoolArray | Int64Array | slice) -> SparseCounts:
        """Return the counts of some keys; ``some``: (m,) bool, (k,) ascending indices, or consecutive ones."""
        bits = None if self.key_bits is None else self.key_bits[some]
        return SparseCounts(self.keys[some], self.counts[some], bits)


@dataclass(frozen=True, slots=True)
class Counts:
    """The counts of ``records`` events. Immutable.

    An event whose array attribute has k elements is k rows, with the scalars repeated. An event without elements is one
    row of its scalars. If there are several array attributes, each has its own rows, in which the other arrays have no
    value. An event thus has as many rows as elements in total, and no row has values of two arrays.

    * ``values[j]``: the counts of attribute j.
    * ``pairs[i, j]``, i < j: the counts of the rows that have both attributes.
    * ``lengths[j]``, only of array attributes j: the number of events with each number of present elements. Its keys
      are these numbers, 0 included.
    * ``events[j,]``, only of scalars of records with arrays: the counts of attribute j, where each event is one row.
    * ``lacking[j,]``, ``lacking[i, j]``: the counts of the events that lack a value of some attribute, by what they
      lack: a key is that of the value or pair · 2^p + the sum of 2^l over the attributes l without a value. Scalars of
      records with arrays are counted once for each event. Empty if nothing is lacking, or if there are more than
      ``MAX_PATTERN_ATTRIBUTES`` attributes.
    * ``contexts[c]``: the counts of the events of context c (``core.context``); empty if there is no context.
    """

    records: int
    values: tuple[SparseCounts, ...]
    pairs: Mapping[tuple[int, int], SparseCounts]
    lengths: Mapping[int, SparseCounts] = field(default_factory=dict)
    events: Mapping[tuple[int, ...], SparseCounts] = field(default_factory=dict)
    lacking: Mapping[tuple[int, ...], SparseCounts] = field(default_factory=dict)
    contexts: Mapping[int, Counts] = field(default_factory=dict)


def count_batch(batch: Batch, sizes: Sequence[int]) -> Counts:
    """Count a batch; see ``count_groups``."""
    return count_groups([batch], sizes, np.zeros(batch.size, np.int64), 1)[0][0]


def count_groups(batches: Sequence[Batch], sizes: Sequence[int], groups: Int64Array, number: int) -> list[list[Counts]]:
    """Count the records of each group, in O(rows log rows); return the counts by batch and group.

    * ``batches``: of the same records and with the same values present, such as one before and after masking. They
      differ in codes, slots and contexts. Negative codes (``ABSENT``) are not values.
    * ``sizes[j]``: the number of concepts of attribute j's taxonomy.
    * ``groups``: (n,), the group of each record, below ``number``.
    """
    rows, record = _rows(batches)
    slots = np.array([np.full(groups.size, NO_SLOT) if one.slots is None else one.slots for one in batches])
    own, bounds = groups[record], np.array([*sizes, 1, 1, 1 << min(len(sizes), MAX_PATTERN_ATTRIBUTES)])
    lacking = set(own[rows[PATTERN, 0] >= 0].tolist())
    names, parts = _tables(tuple(column.is_array for column in batches[0].columns), bool(lacking))
    step, found = max(1, CELLS_AT_ONCE // max(1, rows[0].size)), list[tuple[Int64Array, Int64Array, UInt64Array]]()
    for start in range(0, len(names), step):
        found += _count_tables(rows, parts[:, start : start + step], bounds, slots[:, record], own, number)
    records, result = np.bincount(groups, minlength=number).tolist(), []
    for k, batch in enumerate(batches):
        contexts, counts = _count_contexts(batch, sizes, groups, number), list[Counts]()
        for g in range(number):
            fields = defaultdict[str, dict[Any, SparseCounts]](dict)
            columns = found[k * number + g :: len(batches) * number]
            for (name, key), (keys, each, bits) in zip(names, columns, strict=True):
                if name != "lacking" or g in lacking:
                    is_keyed = batch.slots is not None and name not in ("lengths", "events")
                    fields[name][key] = SparseCounts(keys, each, bits if is_keyed else None)
            values, pairs = tuple(fields.pop("values").values()), fields.pop("pairs", {})
            counts.append(Counts(records[g], values, pairs, contexts=contexts[g], **fields))
        result.append(counts)
    return result


EVERY, ONCE, PATTERN = range(-3, 0)
"""The last rows of ``_rows``."""


def _rows(batches: Sequence[Batch]) -> tuple[Int32Array, Int64Array]:
    """Return what is counted (``Counts``) in r rows, and (r,) int64, the record of each row.

    The first is (2 p + 3, batches, r) int32, and negative where a row has no value: the codes of p attributes; their
    numbers of present elements; 0 in every row; 0 in the first row of each record; what the record lacks.
    """
    columns, record = batches[0].columns, np.arange(batches[0].size)
    p, arrays = len(columns), [column for column in columns if column.is_array]
    if arrays:
        is_empty = np.add.reduce([column.lengths for column in arrays]) == 0
        record = np.concatenate([*(column.owners for column in arrays), record[is_empty]])
    rows = np.full((2 * p + 3, len(batches), record.size), ABSENT, np.int32)
    start = 0
    for row, column, *parts in zip(rows, columns, *(batch.columns for batch in batches), strict=False):
        codes = np.array([part.codes for part in parts])
        if column.is_array:
            row[:, start : start + column.codes.size] = codes
            start += column.codes.size
        else:
            row[:] = codes[:, record]
    lengths = np.array([column.present_lengths for column in columns])
    rows[p : 2 * p] = lengths[:, np.newaxis, record]
    first = np.empty(batches[0].size, np.int64)
    first[record[::-1]] = np.arange(record.size)[::-1]  # the last one counts
    rows[EVERY] = rows[ONCE, :, first] = 0
    if p <= MAX_PATTERN_ATTRIBUTES and not lengths.all():
        patterns = (1 << np.arange(p)) @ (lengths == 0)
        rows[PATTERN] = np.where(patterns > 0, patterns, ABSENT)[record]
    return rows, record


@lru_cache(maxsize=64)
def _tables(are_arrays: tuple[bool, ...], is_lacking: bool) -> tuple[list[tuple[str, Any]], Int64Array]:
    """Return the tables that ``Counts`` has of p attributes: the field of each and its key there; and (3, t) int64, the
    rows of ``_rows`` whose values its keys are made of. Rows that lack one of these do not count.

    ``is_lacking``: whether records lack values.
    """
    p, arrays = len(are_arrays), [j for j, is_array in enumerate(are_arrays) if is_array]
    pairs = list(combinations(range(p), 2))
    parts: dict[tuple[str, Any], tuple[int, int, int]] = {
        **{("values", j): (j, EVERY, EVERY) for j in range(p)},
        **{("pairs", pair): (*pair, EVERY) for pair in pairs},
        **{("lengths", j): (p + j, ONCE, EVERY) for j in arrays},
        **{("events", (j,)): (j, ONCE, EVERY) for j in range(p) if arrays and j not in arrays},
    }
    if is_lacking:
        parts |= {("lacking", (j,)): (j, EVERY if j in arrays else ONCE, PATTERN) for j in range(p)}
        parts |= {("lacking", pair): (*pair, PATTERN) for pair in pairs}
    return [*parts], np.array([*parts.values()]).T


def _count_contexts(batch: Batch, sizes: Sequence[int], groups: Int64Array, number: int) -> list[dict[int, Counts]]:
    """Return the counts of each context of a batch by group; see ``Counts.contexts``."""
    result: list[dict[int, Counts]] = [{} for _ in range(number)]
    if batch.context is not None:
        size = int(batch.context.max(initial=0)) + 1
        parts, index = np.unique(groups * size + batch.context, return_inverse=True)
        [counted] = count_groups([replace(batch, context=None)], sizes, index, parts.size)
        for part, counts in zip(parts.tolist(), counted, strict=True):
            result[part // size][part % size] = counts
    return result


def _count_tables(
    rows: Int32Array, parts: Int64Array, bounds: Int64Array, slots: Int64Array, groups: Int64Array, number: int
) -> list[tuple[Int64Array, Int64Array, UInt64Array]]:
    """Return the keys, counts and bits (``SparseCounts``) of each table, batch and group, in this order.

    * ``rows``: (m, b, r), see ``_rows``. ``parts``: (3, t), see ``_tables``. ``bounds``: (p + 3,), above the values of
      attributes and of the last rows.
    * ``slots``: (b, r), see ``Batch``. ``groups``: (r,), below ``number``.
    """
    first, second, third = rows[parts]
    keys = (first * bounds[parts[1], None, None] + second) * bounds[parts[2], None, None] + third
    are_there = (first | second | third) >= 0
    columns, span, distinct = np.arange(parts.shape[1] * len(slots)), int(keys.max(initial=0)) + 1, None
    if span * columns.size * number > MAX_KEY:
        distinct, keys = np.unique(keys, return_inverse=True)
        span = distinct.size
    keys += (columns.reshape(-1, len(slots), 1) * number + groups) * span
    cells = (keys << SLOT_BITS | slots)[are_there]
    cells.sort()
    edges = run_edges(cells)
    cells = cells[edges[:-1]]
    keys, bits = cells >> SLOT_BITS, SLOT_WORDS[cells & (1 << SLOT_BITS) - 1]
    starts = run_edges(keys)
    ends, starts = edges[starts], starts[:-1]
    keys, counts, bits = keys[starts], ends[1:] - ends[:-1], np.bitwise_or.reduceat(bits, starts)
    limits = keys.searchsorted(span * np.arange(columns.size * number + 1)).tolist()
    keys = keys % span if distinct is None else distinct[keys % span]
    return [(keys[start:end], counts[start:end], bits[start:end]) for start, end in pairwise(limits)]


def marginals(pair: SparseCounts, size_b: int) -> tuple[SparseCounts, SparseCounts]:
    """Return the counts of A's and of B's values over the rows of a pair; ``size_b``: of B's taxonomy."""
    a, b = np.divmod(pair.keys, size_b)
    return sum_by_key(a, pair.counts, pair.key_bits), sum_by_key(b, pair.counts, pair.key_bits)


def combine(parts: Sequence[SparseCounts]) -> SparseCounts:
    """Add counts of one attribute, or of one pair of attributes."""
    bits = None
    if any(part.key_bits is not None for part in parts):
        bits = np.concatenate([np.zeros(p.keys.size, np.uint64) if p.key_bits is None else p.key_bits for p in parts])
    keys, counts = (np.concatenate(each) for each in zip(*((part.keys, part.counts) for part in parts), strict=True))
    return sum_by_key(keys, counts, bits)


def merge(counts: Iterable[Counts]) -> Counts:
    """Add the counts of several sets of events.

    Raises StatisticsError if there are no counts, or if they are of different attributes.
    """
    blocks = list(counts)
    if not blocks:
        raise StatisticsError("there are no counts to merge")
    if len({(len(block.values), frozenset(block.pairs)) for block in blocks}) > 1:
        raise StatisticsError("only counts of the same attributes can be merged")
    contexts = sorted({c for block in blocks for c in block.contexts})
    return Counts(
        records=sum(block.records for block in blocks),
        values=tuple(combine(column) for column in zip(*(block.values for block in blocks), strict=True)),
        pairs=_combined([block.pairs for block in blocks]),
        lengths=_combined([block.lengths for block in blocks]),
        events=_combined([block.events for block in blocks]),
        lacking=_combined([block.lacking for block in blocks]),
        contexts={c: merge(block.contexts[c] for block in blocks if c in block.contexts) for c in contexts},
    )


def _combined(parts: Sequence[Mapping[Key, SparseCounts]]) -> dict[Key, SparseCounts]:
    keys: list[Key] = sorted({key for part in parts for key in part})
    return {key: combine([part[key] for part in parts if key in part]) for key in keys}


def sum_by_key(keys: Int64Array, counts: Int64Array, bits: UInt64Array | None = None) -> SparseCounts:
    """Add the counts of equal keys, unite their bits, and drop the keys whose sum is 0."""
    order = keys.argsort()
    keys = keys[order]
    starts = run_edges(keys)[:-1]
    united = None if bits is None else np.bitwise_or.reduceat(bits[order], starts)
    summed = SparseCounts(keys[starts], np.add.reduceat(counts[order], starts), united)
    return summed.select(summed.counts != 0)


PENDING_RECORDS = 16_384
"""Records that left the window are removed once this number was added, so that adding single records is cheap."""


class SlidingWindow:
    """The last ``records`` added records."""

    def __init__(self, sizes: Sequence[int], *, records: int) -> None:
        """``sizes``: the number of concepts in the taxonomy of each attribute. ``records``: at least 1."""
        self._sizes, self._records = tuple(sizes), records
        self._batches = [Batch(0, tuple(Column(np.zeros(0, np.int32)) for _ in sizes))]
        self._pending = 0

    def add(self, batch: Batch) -> None:
        """Add records in order."""
        self._batches.append(batch)
        self._pending += batch.size
        if self._pending >= PENDING_RECORDS:
            self._kept()

    def counts(self) -> Counts:
        """Return the counts of the records in the window.

        Raises ParameterError if an attribute has lists in some batches, and single values in others.
        """
        return count_batch(self._kept(), self._sizes)

    def _kept(self) -> Batch:
        """Remove the records that have left the window, and return the others."""
        batch = joined(self._batches)
        batch = batch.take(np.arange(max(0, batch.size - self._records), batch.size))
        self._batches, self._pending = [batch], 0
        return batch


def joined(batches: Sequence[Batch]) -> Batch:
    """Return the records of several batches as one, without their units; a single batch as it is.

    Records without slots among others get ``NO_SLOT``. Raises ParameterError for an attribute that is an array in some
    batches, and has scalars in others.
    """
    if len(batches) == 1:
        return batches[0]
    slots, contexts = None, [batch.context for batch in batches if batch.context is not None]
    if any(batch.slots is not None for batch in batches):
        slots = np.concatenate([np.full(b.size, NO_SLOT) if b.slots is None else b.slots for b in batches])
    return Batch(
        sum(batch.size for batch in batches),
        tuple(_joined_column(parts) for parts in zip(*(batch.columns for batch in batches), strict=True)),
        slots=slots,
        context=np.concatenate(contexts) if contexts else None,
    )


def _joined_column(parts: Sequence[Column]) -> Column:
    """Return the values of several columns; beside arrays, a scalar column of absent values has no elements."""
    if not any(part.is_array for part in parts):
        return Column(np.concatenate([part.codes for part in parts]))
    if any((part.codes >= 0).any() for part in parts if not part.is_array):
        raise ParameterError("an attribute is an array in some batches and not in others")
    lengths = np.concatenate([part.lengths if part.is_array else 0 * part.lengths for part in parts])
    codes = np.concatenate([part.codes if part.is_array else part.codes[:0] for part in parts])
    return Column(codes, offsets_from_lengths(lengths))
