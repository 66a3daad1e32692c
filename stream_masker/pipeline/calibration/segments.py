"""Segments of a window: the counts of many blocks in a few arrays.

A block of one record is some dozens of objects, which take about 10 kB, and a slow stream writes a block for each
record. A segment stores its blocks in columns. The sums over any of its blocks equal those over the blocks themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from itertools import chain
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.batch import Distortion
from stream_masker.core.dtypes import BoolArray, Float64Array, Int64Array, UInt64Array
from stream_masker.core.numeric import Moments, merge_moments
from stream_masker.core.statistics.counts import Counts, SparseCounts, sum_by_key
from stream_masker.errors import StatisticsError
from stream_masker.pipeline.calibration.context_counts import counts_by_context, split_by_context
from stream_masker.pipeline.records import Block
from stream_masker.pipeline.style import StyleCounts

SEGMENT_BLOCKS: Final = 128
"""The maximum number of blocks of a segment."""

SEGMENT_ENTRIES: Final = 10_000
"""A segment with this number of counted values and pairs is full. A large block has a segment of its own."""

CONTEXT_KEYS: Final = 1 << 50
"""Above every key of a value or of a pair: taxonomies have fewer than 2²⁵ concepts."""

DISTANCE_FIELDS: Final = [1, 2]
"""The fields of ``Distortion`` that are sums of distances."""

NUMBER_FIELDS: Final = [0, 3, 4, 5]
"""The fields of ``Distortion`` that are numbers of values."""

K = TypeVar("K", int, str, tuple[int, ...])

Integers = NDArray[np.integer[Any]]
"""Integers of the smallest unsigned type that holds them."""


@dataclass(frozen=True, slots=True)
class SparseColumn:
    """The counts of one attribute, or of one pair of attributes, in n blocks, one block after another.

    keys, counts, key_bits: those of ``SparseCounts``; if all keys of a block have the same bits, as those of one record
    do, key_bits is (n,) and shared is True; sizes: (n,) the number of keys of each block; has_bits: (n,) whether the
    noise keys of a block are known; present: (n,) whether a block has these counts at all.
    """

    keys: Integers
    counts: Integers
    key_bits: UInt64Array | None
    shared: bool
    sizes: Integers
    has_bits: BoolArray
    present: BoolArray

    @classmethod
    def of(cls, parts: Sequence[SparseCounts | None]) -> SparseColumn:
        """Return the column of n blocks; None for a block without these counts."""
        known = [part for part in parts if part is not None]
        has_bits = np.array([part is not None and part.key_bits is not None for part in parts])
        sizes = np.array([0 if part is None else part.keys.size for part in parts])
        each = [np.zeros(part.keys.size, np.uint64) if part.key_bits is None else part.key_bits for part in known]
        bits, shared = _without_repeats(np.concatenate(each), sizes)
        return cls(
            _smallest(np.concatenate([part.keys for part in known])),
            _smallest(np.concatenate([part.counts for part in known])),
            bits if has_bits.any() else None,
            shared,
            _smallest(sizes),
            has_bits,
            np.array([part is not None for part in parts]),
        )

    def rows(self, blocks: BoolArray) -> tuple[Int64Array, Int64Array, UInt64Array | None]:
        """Return keys, counts and key bits of some blocks; ``blocks``: (n,). The bits are None if none are known."""
        rows = np.repeat(blocks, self.sizes)
        return self.keys[rows].astype(np.int64), self.counts[rows].astype(np.int64), self._bits(blocks, rows)

    def _bits(self, blocks: BoolArray, rows: BoolArray) -> UInt64Array | None:
        if self.key_bits is None or not (self.has_bits & blocks).any():
            return None
        return np.repeat(self.key_bits[blocks], self.sizes[blocks]) if self.shared else self.key_bits[rows]


@dataclass(frozen=True, slots=True)
class CountColumns:
    """The counts of n blocks, as those of ``Counts``; ``moments``: those of all blocks, as arrays of (n, q, q);
    ``contexts``: None if no block has any."""

    records: Integers
    values: tuple[SparseColumn, ...]
    pairs: Mapping[tuple[int, int], SparseColumn]
    given: Integers
    unknown: Integers
    moments: Moments | None
    lengths: Mapping[int, SparseColumn]
    events: Mapping[tuple[int, ...], SparseColumn]
    rolled: Mapping[str, SparseColumn]
    contexts: ContextColumns | None = None

    @classmethod
    def of(cls, counts: Sequence[Counts]) -> CountColumns:
        """Return the columns of n blocks. Raises StatisticsError if they are of different numeric attributes."""
        arrays = sorted({j for block in counts for j in block.lengths})
        scalars = sorted({js for block in counts for js in block.events})
        fields = sorted({f for block in counts for f in block.rolled})
        return cls(
            _smallest(np.array([block.records for block in counts])),
            tuple(SparseColumn.of(column) for column in zip(*(block.values for block in counts), strict=True)),
            {pair: SparseColumn.of([block.pairs[pair] for block in counts]) for pair in counts[0].pairs},
            _smallest(np.array([block.given for block in counts])),
            _smallest(np.array([block.unknown for block in counts])),
            _stacked([block.numeric for block in counts]),
            {j: SparseColumn.of([block.lengths.get(j) for block in counts]) for j in arrays},
            {js: SparseColumn.of([block.events.get(js) for block in counts]) for js in scalars},
            {f: SparseColumn.of([block.rolled.get(f) for block in counts]) for f in fields},
            ContextColumns.of(counts),
        )

    def moments_of(self, index: int) -> Moments | None:
        """Return the moments of one block."""
        if self.moments is None:
            return None
        return Moments(self.moments.count[index], self.moments.mean[index], self.moments.products[index])


@dataclass(frozen=True, slots=True)
class ContextColumns:
    """The counts of the contexts of some blocks, m of them, one block after another.

    blocks: (m,) the index of each one's block; numbers: (m,) the context; counts: (m,) columns.
    """

    blocks: Integers
    numbers: Integers
    counts: CountColumns

    @classmethod
    def of(cls, counts: Sequence[Counts]) -> ContextColumns | None:
        """Return the columns of the contexts of blocks; None if there are none."""
        contexts = [(block, c, part.contexts[c]) for block, part in enumerate(counts) for c in sorted(part.contexts)]
        if not contexts:
            return None
        blocks, numbers, parts = zip(*contexts, strict=True)
        return cls(_smallest(np.array(blocks)), _smallest(np.array(numbers)), CountColumns.of(parts))


@dataclass(frozen=True, slots=True)
class BlockColumns:
    """What a window needs of n blocks.

    distances: (n, attributes, ``DISTANCE_FIELDS``) and numbers: (n, attributes, ``NUMBER_FIELDS``), fields of
    ``Distortion``; styles: (n, attributes, traits), of no meaning where ``has_styles`` is False; unchanged: (n,).
    """

    original: CountColumns
    masked: CountColumns
    distances: Float64Array
    numbers: Integers
    styles: Integers
    has_styles: BoolArray
    unchanged: Integers

    @classmethod
    def of(cls, blocks: Sequence[Block]) -> BlockColumns:
        """Return the columns of n blocks of the same attributes, at least one."""
        none = (StyleCounts(),) * len(blocks[0].distortions)
        distortions = np.array([[astuple(d) for d in block.distortions] for block in blocks], np.float64)
        return cls(
            CountColumns.of([block.original for block in blocks]),
            CountColumns.of([block.masked for block in blocks]),
            distortions[..., DISTANCE_FIELDS],
            _smallest(distortions[..., NUMBER_FIELDS].astype(np.int64)),
            _smallest(np.array([[astuple(style) for style in block.styles or none] for block in blocks], np.int64)),
            np.array([bool(block.styles) for block in blocks]),
            _smallest(np.array([block.unchanged for block in blocks])),
        )

    def distortions(self, blocks: BoolArray) -> Float64Array:
        """Return (m, attributes, fields) distortions of some blocks."""
        distances = self.distances[blocks]
        rows = np.empty((*distances.shape[:2], len(DISTANCE_FIELDS) + len(NUMBER_FIELDS)))
        rows[..., DISTANCE_FIELDS], rows[..., NUMBER_FIELDS] = distances, self.numbers[blocks]
        return rows

    def style_totals(self, blocks: BoolArray) -> tuple[StyleCounts, ...]:
        """Return the sum over some blocks for each attribute; empty if none of them counts styles."""
        counted = blocks & self.has_styles
        return tuple(StyleCounts(*totals) for totals in _sum(self.styles[counted]).tolist()) if counted.any() else ()


class Segment:
    """Up to ``SEGMENT_BLOCKS`` blocks, which are stored in columns when they are complete."""

    def __init__(self) -> None:
        self._blocks: list[Block] = []
        self._columns: BlockColumns | None = None
        self._entries = 0

    @property
    def is_full(self) -> bool:
        return self._columns is not None

    def add(self, block: Block) -> int:
        """Add a block to a segment that is not full; return its index."""
        self._blocks.append(block)
        self._entries += sum(map(_entries, (block.original, block.masked)))
        index = len(self._blocks) - 1
        if len(self._blocks) >= SEGMENT_BLOCKS or self._entries >= SEGMENT_ENTRIES:
            self._columns, self._blocks = BlockColumns.of(self._blocks), []
        return index

    @property
    def columns(self) -> BlockColumns:
        """The columns of its blocks."""
        return self._columns or BlockColumns.of(self._blocks)


def total_counts(parts: Sequence[tuple[CountColumns, BoolArray]]) -> Counts:
    """Return the sum over some blocks of each part, without moments: their sum depends on the order of all blocks.

    Attribute by attribute, so that no more than the rows of one pair of attributes are in memory twice. Raises
    StatisticsError if the parts are of different attributes.
    """
    columns = [part for part, _ in parts]
    if len({(len(part.values), frozenset(part.pairs)) for part in columns}) > 1:
        raise StatisticsError("only counts of the same attributes can be merged")

    return Counts(
        records=sum(int(_sum(part.records[blocks])) for part, blocks in parts),
        values=tuple(
            _total([(part.values[j], blocks) for part, blocks in parts]) for j in range(len(columns[0].values))
        ),
        pairs={pair: _total([(part.pairs[pair], blocks) for part, blocks in parts]) for pair in columns[0].pairs},
        given=tuple(np.sum([_sum(part.given[blocks]) for part, blocks in parts], axis=0).tolist()),
        unknown=tuple(np.sum([_sum(part.unknown[blocks]) for part, blocks in parts], axis=0).tolist()),
        lengths=_totals([(part.lengths, blocks) for part, blocks in parts]),
        events=_totals([(part.events, blocks) for part, blocks in parts]),
        rolled=_totals([(part.rolled, blocks) for part, blocks in parts]),
    )


def _totals(parts: Sequence[tuple[Mapping[K, SparseColumn], BoolArray]]) -> dict[K, SparseCounts]:
    """Return the sums of the columns that any of some blocks has, by their keys."""
    present: dict[K, list[tuple[SparseColumn, BoolArray]]] = {}
    for columns, blocks in parts:
        for key, column in columns.items():
            if (column.present & blocks).any():
                present.setdefault(key, []).append((column, blocks))
    return {key: _total(present[key]) for key in sorted(present)}


def _total(parts: Sequence[tuple[SparseColumn, BoolArray]], groups: Sequence[Int64Array] | None = None) -> SparseCounts:
    """Return the sum over some blocks of each column.

    ``groups``: of each column the number of each chosen block's group, which precedes its keys: group ·
    ``CONTEXT_KEYS`` + key.
    """
    rows = [column.rows(blocks) for column, blocks in parts]
    keys, counts = (np.concatenate([row[i] for row in rows]) for i in (0, 1))
    if groups is not None:
        owners = [np.repeat(g, c.sizes[blocks]) for g, (c, blocks) in zip(groups, parts, strict=True)]
        keys = np.concatenate(owners) * CONTEXT_KEYS + keys
    if all(bits is None for _, _, bits in rows):
        return sum_by_key(keys, counts)
    bits = [np.zeros(key.size, np.uint64) if known is None else known for key, _, known in rows]
    rows.clear()
    return sum_by_key(keys, counts, np.concatenate(bits))


def context_totals(parts: Sequence[tuple[CountColumns, BoolArray]]) -> dict[int, Counts]:
    """Return ``Counts.contexts`` of the sum over some blocks of each part.

    All contexts are added at once: the context is the first part of a key, and the value or pair the second.
    """
    known = [(part.contexts, blocks[part.contexts.blocks]) for part, blocks in parts if part.contexts is not None]
    numbers = np.unique(np.concatenate([np.zeros(0, np.int64), *(part.numbers[blocks] for part, blocks in known)]))
    if not numbers.size:
        return {}
    each = [(part.counts, blocks, np.searchsorted(numbers, part.numbers[blocks])) for part, blocks in known]
    first, size, arrays = each[0][0], numbers.size, sorted({j for counts, *_ in each for j in counts.lengths})
    scalars = sorted({js for counts, *_ in each for js in counts.events})

    def totals(columns: Iterable[SparseColumn | None]) -> list[SparseCounts]:
        parts = zip(columns, each, strict=True)
        present = [(column, blocks, contexts) for column, (_, blocks, contexts) in parts if column is not None]
        return _by_context(present, size)

    values = [totals(counts.values[j] for counts, *_ in each) for j in range(len(first.values))]
    pairs = {pair: totals(counts.pairs[pair] for counts, *_ in each) for pair in first.pairs}
    lengths = {j: totals(counts.lengths.get(j) for counts, *_ in each) for j in arrays}
    events = {js: totals(counts.events.get(js) for counts, *_ in each) for js in scalars}
    records, given, unknown = (
        _sums_by_context([(getattr(counts, name)[blocks], of_context) for counts, blocks, of_context in each], size)
        for name in ("records", "given", "unknown")
    )
    return counts_by_context(numbers, (records, given, unknown), values, pairs, lengths, events)


def _by_context(parts: Sequence[tuple[SparseColumn, BoolArray, Int64Array]], size: int) -> list[SparseCounts]:
    """Return the sum of each of ``size`` contexts; of each part the column, the chosen ones, and their contexts."""
    total = _total([(column, blocks) for column, blocks, _ in parts], [of_context for *_, of_context in parts])
    return split_by_context(total, CONTEXT_KEYS, size)


def _sums_by_context(parts: Sequence[tuple[Integers, Int64Array]], size: int) -> Int64Array:
    """Return the sum of each of ``size`` contexts; of each part the numbers, and their contexts."""
    rows, of_context = np.concatenate([row for row, _ in parts]), np.concatenate([contexts for _, contexts in parts])
    total = np.zeros((size, *rows.shape[1:]), np.int64)
    np.add.at(total, of_context, rows.astype(np.int64))
    return total


def distortion_totals(parts: Sequence[Float64Array], order: Int64Array) -> tuple[Distortion, ...]:
    """Return the sum of distortions for each attribute, added in the order of the blocks.

    ``parts``: (n, attributes, fields), n blocks each. ``order``: the indices of all blocks in their order. One field at
    a time, so that the memory does not depend on the number of fields.
    """
    attributes, fields = parts[0].shape[1:]

    def total(attribute: int, field: int) -> float:
        return float(np.cumsum(np.concatenate([part[:, attribute, field] for part in parts])[order])[-1])

    return tuple(_distortion(*(total(j, field) for field in range(fields))) for j in range(attributes))


def _distortion(
    values: float, distance: float, noise: float, truncated: float, unsigned: float, unchanged: float
) -> Distortion:
    return Distortion(int(values), distance, noise, int(truncated), int(unsigned), int(unchanged))


def _entries(counts: Counts) -> int:
    """Return the number of counted values and pairs, those of contexts and of fields included."""
    size = sum(part.keys.size for part in chain(counts.values, counts.pairs.values(), counts.rolled.values()))
    return size + sum(map(_entries, counts.contexts.values()))


def _stacked(parts: Sequence[Moments | None]) -> Moments | None:
    if merge_moments(parts) is None:
        return None
    known = [part for part in parts if part is not None]
    return Moments(*(np.stack([getattr(part, name) for part in known]) for name in ("count", "mean", "products")))


def _without_repeats(bits: UInt64Array, sizes: Int64Array) -> tuple[UInt64Array, bool]:
    """Return the bits of n blocks once for each block, and True, if they are the same for all keys of each block."""
    firsts = np.zeros(len(sizes), np.uint64)
    firsts[sizes > 0] = bits[(np.cumsum(sizes) - sizes)[sizes > 0]]
    shared = np.array_equal(np.repeat(firsts, sizes), bits)
    return (firsts, True) if shared else (bits, False)


def _smallest(numbers: Int64Array) -> Integers:
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))


def _sum(rows: Integers) -> Int64Array:
    return np.asarray(rows.sum(axis=0, dtype=np.int64))
