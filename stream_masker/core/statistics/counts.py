"""Counts of values and of pairs of values, and the window of records that they are of: all that statistics depend on.

Every statistic of the papers depends on a window only through how often each value, and each pair of values, occurs.
``Counts`` holds exactly that. Counts are immutable, sparse and exact, and they add up.

They also give a lower bound of the number of different noise keys (such as patients) of a value. A keyed hash gives
each noise key one of ``KEY_SLOTS`` slots, and an entry of counts has a bit for the slot of each of its rows. Bits are
united by OR, in any order and any number of times. Two noise keys of one slot count as one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise
from typing import Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.arrays import BoolArray, Int32Array, Int64Array, UInt64Array, offsets_from_lengths
from stream_masker.core.batch import Batch, Column
from stream_masker.core.random import Keys
from stream_masker.errors import ParameterError, StatisticsError

Key = TypeVar("Key", int, str, tuple[int, int], tuple[int, ...])

KEY_SLOTS: Final = 64
"""The number of slots: one for each bit of a word."""

NO_SLOT: Final = KEY_SLOTS
"""The slot of a row whose noise key is not known. It has no bit."""

MANY_KEYS: Final = 32
"""Entries with this number of bits have about 44 noise keys or more. All their rows count as different."""

MAX_KEY: Final = 2**63 - 1
"""The greatest number that a key and its group together may have."""

MAX_PATTERN_ATTRIBUTES: Final = 12
"""The greatest number of attributes of which it is counted which records lack which."""


def key_slots(keys: Keys) -> Int64Array:
    """Return (n,) int64: the slots of n noise keys, which nobody can test against a guess without the secret."""
    words = keys.secret.words(b"masker-slot", keys.digests)
    return (words[:, 0] % np.uint64(KEY_SLOTS)).astype(np.int64)


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


class Groups(NamedTuple):
    """Groups that are counted apart: ``of``, (n,) int64, the group of each record or row, below ``number``."""

    of: Int64Array
    number: int


def count_batch(batch: Batch, sizes: Sequence[int]) -> Counts:
    """Count a batch; see ``count_groups``."""
    return count_groups(batch, sizes, Groups(np.zeros(batch.size, np.int64), 1))[0]


def count_groups(batch: Batch, sizes: Sequence[int], groups: Groups) -> list[Counts]:
    """Count the records of each group of a batch, in O(rows log rows). Negative codes (``ABSENT``) are not values.

    ``sizes[j]``: the number of concepts of attribute j's taxonomy.
    """
    p, number = len(batch.columns), groups.number
    which = [*((j,) for j in range(p)), *combinations(range(p), 2)]
    rows, record = batch.rows()
    inside, slots = Groups(groups.of[record], number), None if batch.slots is None else batch.slots[record]
    counted = {some: _count_rows([rows[j] for j in some], sizes[some[-1]], inside, slots) for some in which}
    arrays = [j for j, column in enumerate(batch.columns) if column.is_array]
    scalars = [j for j in range(p) if arrays and j not in arrays]
    events = {j: _count_rows([batch.columns[j].codes], sizes[j], groups) for j in scalars}
    lengths = {j: _count_keys(batch.columns[j].present_lengths, groups) for j in arrays}
    records, lacking = np.bincount(groups.of, minlength=number).tolist(), _count_lacking(batch, sizes, groups)
    contexts = _count_contexts(batch, sizes, groups)
    return [
        Counts(
            records=records[g],
            values=tuple(counted[j,][g] for j in range(p)),
            pairs={(i, j): counted[i, j][g] for i, j in combinations(range(p), 2)},
            lengths={j: parts[g] for j, parts in lengths.items()},
            events={(j,): parts[g] for j, parts in events.items()},
            lacking=lacking[g],
            contexts=contexts[g],
        )
        for g in range(number)
    ]


def _count_lacking(batch: Batch, sizes: Sequence[int], groups: Groups) -> list[dict[tuple[int, ...], SparseCounts]]:
    """Count the values and pairs of the records that lack a value, by what they lack; see ``Counts.lacking``."""
    p = len(batch.columns)
    lacks = np.stack([column.present_lengths == 0 for column in batch.columns])
    some = np.flatnonzero(lacks.any(axis=0))
    result: list[dict[tuple[int, ...], SparseCounts]] = [{} for _ in range(groups.number)]
    if not some.size or p > MAX_PATTERN_ATTRIBUTES:
        return result
    part, patterns, own = batch.take(some), (1 << np.arange(p)) @ lacks[:, some], groups.of[some]
    rows, record = part.rows()
    for which in [*((j,) for j in range(p)), *combinations(range(p), 2)]:
        column = part.columns[which[0]]
        once = len(which) == 1 and not column.is_array
        codes, of = ([column.codes], np.arange(some.size)) if once else ([rows[j] for j in which], record)
        slots = None if part.slots is None else part.slots[of]
        counted = _count_rows(codes, sizes[which[-1]], Groups(own[of], groups.number), slots, (patterns[of], 1 << p))
        for g in np.unique(own).tolist():
            result[g][which] = counted[g]
    return result


def _count_contexts(batch: Batch, sizes: Sequence[int], groups: Groups) -> list[dict[int, Counts]]:
    """Count the records of each context of a batch; see ``Counts.contexts``."""
    if batch.context is None:
        return [{} for _ in range(groups.number)]
    numbers, index = np.unique(batch.context, return_inverse=True)
    size, whole = numbers.size, replace(batch, context=None)
    counted = count_groups(whole, sizes, Groups(groups.of * size + index, groups.number * size))
    parts = (counted[g * size : (g + 1) * size] for g in range(groups.number))
    return [{c: one for c, one in zip(numbers.tolist(), part, strict=True) if one.records} for part in parts]


def _count_rows(
    codes: Sequence[Int32Array],
    size: int,
    groups: Groups,
    slots: Int64Array | None = None,
    patterns: tuple[Int64Array, int] | None = None,
) -> list[SparseCounts]:
    """Count the values of one attribute in n rows, or the pairs of values of two; rows that lack one do not count.

    * ``codes``: (n,) positions of each attribute. ``size``: the number of concepts of the last one's taxonomy.
    * ``slots``: (n,), see ``Batch``. ``patterns``: (n,) numbers below some bound, which the keys end with.
    """
    there = np.logical_and.reduce([own >= 0 for own in codes])
    first, *second = (own[there].astype(np.int64) for own in codes)
    keys = first * size + second[0] if second else first
    if patterns is not None:
        keys = keys * patterns[1] + patterns[0][there]
    return _count_keys(keys, Groups(groups.of[there], groups.number), None if slots is None else slots[there])


def _count_keys(keys: Int64Array, groups: Groups, slots: Int64Array | None = None) -> list[SparseCounts]:
    """Count how often each key occurs in each group; ``keys``: (n,) int64, at least 0; ``slots``: see ``Batch``."""
    span, distinct = int(keys.max(initial=0)) + 1, None
    if span * groups.number > MAX_KEY:
        distinct, keys = np.unique(keys, return_inverse=True)
        span = distinct.size
    keys = groups.of * span + keys
    if slots is None:
        whole = SparseCounts(*np.unique(keys, return_counts=True))
    else:
        bits = np.where(slots < KEY_SLOTS, np.uint64(1) << (slots % KEY_SLOTS).astype(np.uint64), np.uint64(0))
        whole = sum_by_key(keys, np.ones(keys.size, np.int64), bits)
    ends = np.searchsorted(whole.keys, span * np.arange(groups.number + 1)).tolist()
    own = whole.keys % span
    whole = replace(whole, keys=own if distinct is None else distinct[own])
    return [whole.select(slice(*each)) for each in pairwise(ends)]


def marginals(pair: SparseCounts, size_b: int) -> tuple[SparseCounts, SparseCounts]:
    """Return the counts of A's and of B's values over the rows of a pair; ``size_b``: of B's taxonomy."""
    a, b = np.divmod(pair.keys, size_b)
    return sum_by_key(a, pair.counts, pair.key_bits), sum_by_key(b, pair.counts, pair.key_bits)


def same_counts(first: SparseCounts, second: SparseCounts) -> bool:
    """Return whether both hold the same keys with the same counts."""
    return np.array_equal(first.keys, second.keys) and np.array_equal(first.counts, second.counts)


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
    order = np.argsort(keys)
    keys = keys[order]
    starts = np.flatnonzero(np.diff(keys, prepend=keys[:1] - 1))
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
    """Return the records of several batches as one, without their units, and without fields.

    Records without slots among others get ``NO_SLOT``. Raises ParameterError for an attribute that is an array in some
    batches, and has scalars in others.
    """
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
