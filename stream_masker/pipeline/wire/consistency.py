"""What a calibration block can have: counts that no records can have are refused, and blocks of some have one size.

A block is authentic, but a defective worker may have written it. A single block must not outweigh all others of its
window, overflow a sum, or have statistics that contradict each other.

A block has the lengths of its arrays once, for both sides: masking replaces each element by one, so that a record has
as many elements after it as before. Values that are suppressed or rejected are on neither side.

A block of few records is padded to the largest size that a block of as many records and values can have. These numbers
are public: the masked records show them. Without padding, the size of a block of one record tells whether masking
changed it, and how long its codes are.

Blocks are compressed, so a bound for many records would multiply their size. The bound ends at ``MAX_PADDED_BYTES``: up
to there all blocks have the same size, and above it they are padded to the next of a few sizes
(``sealing.size_class``), which a single record seldom changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, combinations
from operator import mul
from typing import Final

import numpy as np
import orjson

from stream_masker.core.batch import Distortion
from stream_masker.core.dtypes import Int64Array
from stream_masker.core.statistics.counts import Counts, SparseCounts, merge, same_counts
from stream_masker.core.statistics.units import holds_too_many_bits
from stream_masker.errors import StatisticsError
from stream_masker.pipeline.calibration.blocks import MAX_COUNTED_ELEMENTS
from stream_masker.pipeline.records import Block
from stream_masker.pipeline.wire.fields import SIDES, Taxonomies

MAX_BLOCK_COUNT: Final = 1 << 40
"""The greatest count in a block. The sum over a window of millions of blocks fits into 64 bits."""

MAX_SQUARE: Final = 1e6
"""The greatest mean of squared distances or squared noises."""


def check_block(block: Block, sizes: tuple[int, ...]) -> None:
    """Raise StatisticsError, with the name of the field, unless records can have these counts.

    ``sizes``: the number of concepts of each attribute's taxonomy.
    """
    original = block.original
    for field, allowed in chain(
        _contradictions(block, sizes), _wrong_contexts(original, sizes), _wrong_fields(original)
    ):
        raise StatisticsError(f"block: {field} is missing or not {allowed}")


def _contradictions(block: Block, sizes: tuple[int, ...]) -> Iterator[tuple[str, str]]:
    original, masked = block.original, block.masked
    span = block.last_offset - block.first_offset + 1
    if original.records + sum(block.rejected.values()) > span:
        yield "records", "at most one for each offset, with the rejected ones"
    if block.unchanged > original.records:
        yield "unchanged", "at most one for each record"
    yield from _too_many(original, block.distortions)
    for name, counts in (("original", original), ("masked", masked)):
        yield from _too_many_rows(name, counts)
        if any(holds_too_many_bits(c.counts, c.key_bits) for c in (*counts.values, *counts.pairs.values())):
            yield f"{name} slots", "at most one for each row"
    if [c.rows for c in original.values] != [c.rows for c in masked.values]:
        yield "attributes", "counts of equally many values before and after masking"
    yield from _wrong_lengths(original)
    yield from _wrong_events(original)
    if _rows(original.pairs) != _rows(masked.pairs):
        yield "pairs", "counts of equally many pairs before and after masking"
    for name, counts in (("original", original), ("masked", masked)):
        if not all(_is_part(counts, i, j, sizes[j]) for i, j in counts.pairs):
            yield "pairs", f"counts of pairs of the {name} values"


def _too_many(counts: Counts, distortions: tuple[Distortion, ...]) -> Iterator[tuple[str, str]]:
    most = f"a number of at most {MAX_BLOCK_COUNT}"
    if max([*counts.given, *counts.unknown, *(d.values for d in distortions)], default=0) > MAX_BLOCK_COUNT:
        yield "attributes", most
    for d in distortions:
        if max(d.truncated, d.unsigned, d.unchanged) > d.values:
            yield "attributes", "at most one truncated, unsigned or unchanged value for each value"
        if max(d.squared_distance, d.squared_noise) > d.values * MAX_SQUARE:
            yield "attributes", f"squares of at most {MAX_SQUARE:g} on average"


def _too_many_rows(name: str, counts: Counts) -> Iterator[tuple[str, str]]:
    """The sums are compared as floats, which cannot overflow."""
    rows = MAX_COUNTED_ELEMENTS * max(1, len(counts.values))
    most = min(counts.records * rows, MAX_BLOCK_COUNT)
    for column in (*counts.values, *counts.pairs.values()):
        if float(column.counts.sum(dtype=np.float64)) > most:
            yield f"{name} counts", f"at most {rows} for each record"


def _wrong_lengths(counts: Counts) -> Iterator[tuple[str, str]]:
    """Each record has one number of elements, and each element is a value. The sums are those of Python's integers,
    which cannot overflow."""
    for j, column in counts.lengths.items():
        elements, records = column.keys.tolist(), column.counts.tolist()
        if max(elements, default=0) > MAX_COUNTED_ELEMENTS:
            yield "lengths", f"numbers of at most {MAX_COUNTED_ELEMENTS} elements"
        if sum(records) != counts.records:
            yield "lengths", "one for each record"
        if sum(map(mul, elements, records)) != counts.values[j].rows:
            yield "lengths", "counts of as many elements as the array has values"


def _wrong_events(counts: Counts) -> Iterator[tuple[str, str]]:
    """An event that has an entry is a row of it at least."""
    for js, column in counts.events.items():
        rows = counts.values[js[0]] if len(js) == 1 else counts.pairs[js[0], js[1]]
        if (column.counts > rows.counts).any() or float(column.counts.sum(dtype=np.float64)) > counts.records:
            yield "events", "at most one for each record and each row"


def _wrong_fields(counts: Counts) -> Iterator[tuple[str, str]]:
    """Each record has at most one value of a field that is generalized by the counts of the window."""
    for column in counts.rolled.values():
        if float(column.counts.sum(dtype=np.float64)) > counts.records:
            yield "fields counts", "at most one for each record"
        if holds_too_many_bits(column.counts, column.key_bits):
            yield "fields slots", "at most one for each row"


def _wrong_contexts(counts: Counts, sizes: tuple[int, ...]) -> Iterator[tuple[str, str]]:
    """Each record has one context, so the counts of all contexts add up to those of all records."""
    for of_context in counts.contexts.values():
        yield from _too_many_rows("contexts", of_context)
        yield from _wrong_lengths(of_context)
        yield from _wrong_events(of_context)
        if any(holds_too_many_bits(c.counts, c.key_bits) for c in (*of_context.values, *of_context.pairs.values())):
            yield "contexts slots", "at most one for each row"
        if not all(_is_part(of_context, i, j, sizes[j]) for i, j in of_context.pairs):
            yield "contexts", "counts of pairs of their values"
    if counts.contexts and not _adds_up(merge(counts.contexts.values()), counts):
        yield "contexts", "counts that add up to those of all records"


def _adds_up(total: Counts, counts: Counts) -> bool:
    """Return whether both count the same records."""
    sides = [(*c.values, *c.pairs.values(), *c.lengths.values(), *c.events.values()) for c in (total, counts)]
    same = [len(side) for side in sides] == [len(sides[0])] * 2
    return same and total.records == counts.records and all(map(same_counts, *sides))


def _rows(pairs: Mapping[tuple[int, int], SparseCounts]) -> list[int]:
    return [counts.rows for counts in pairs.values()]


def _is_part(counts: Counts, i: int, j: int, size: int) -> bool:
    """Return whether every value of a pair occurs at least as often by itself."""
    pairs = counts.pairs[i, j]
    both = zip(np.divmod(pairs.keys, size), (counts.values[i], counts.values[j]), strict=True)
    return all(_at_most(keys, pairs.counts, whole) for keys, whole in both)


def _at_most(keys: Int64Array, numbers: Int64Array, whole: SparseCounts) -> bool:
    """Return whether ``whole`` has each of the keys, (n,) int64 in any order, at least as often as their numbers add up
    to."""
    places = np.searchsorted(whole.keys, keys)
    if not whole.keys.size or (whole.keys[np.minimum(places, whole.keys.size - 1)] != keys).any():
        return not keys.size
    return bool((np.bincount(places, numbers, whole.keys.size) <= whole.counts).all())


MAX_PADDED_BYTES: Final = 65_536
"""The largest size to which blocks are padded, whatever they count."""

_HEAD_BYTES: Final = 672
"""At least the bytes of a block's fields outside of its attributes and pairs, without names and reasons."""

_ATTRIBUTE_BYTES: Final = 784
"""At least the bytes of an attribute without its name and its counts."""

_PAIR_BYTES: Final = 176
"""At least the bytes of a pair without its names and its counts."""

_CONTEXT_BYTES: Final = 96
"""At least the bytes of a context, of an attribute in it without its name, and of a pair in it, without counts."""

_NUMBER_BYTES: Final = 26
"""At least the bytes of a number and a comma."""

_SLOT_BYTES: Final = 4
"""At least the bytes of a slot of a noise key and a comma. The originals have at most one for each row."""


def padded_size(block: Block, taxonomies: Taxonomies, numeric: Sequence[str] = ()) -> int:
    """Return the size in bytes to pad a block to: that of the longest block of as many records and values.

    ``taxonomies``, ``numeric``: as for ``encode_block``.
    """
    names, records = tuple(taxonomies), block.masked.records
    rows = [column.rows for column in block.masked.values]
    attributes = sum(
        len(name) + n * (len(SIDES) * (tau.id_bytes + len('"",')) + 3 * (len(str(n)) + len(","))) + _SLOT_BYTES * n
        for (name, tau), n in zip(taxonomies.items(), rows, strict=True)
    )
    pairs = sum(
        len(names[i]) + len(names[j]) + _PAIR_BYTES + _pair_bytes(block, i, j)
        for i, j in combinations(range(len(names)), 2)
    )
    fixed = _HEAD_BYTES + len(block.topic) + len(orjson.dumps(dict(block.rejected))) + _ATTRIBUTE_BYTES * len(names)
    lengths = sum(_NUMBER_BYTES * column.keys.size for column in block.masked.lengths.values())
    moments = len(SIDES) * 3 * _NUMBER_BYTES * (len(numeric) + 1) ** 2 + sum(
        _NUMBER_BYTES + len(name) for name in numeric
    )
    contexts = _contexts_bytes(block, taxonomies)
    fields = sum(
        _CONTEXT_BYTES + len(key) + records * (tau.id_bytes + len('"",1,') + _SLOT_BYTES)
        for key, tau in block.fields.items()
    )
    return min(MAX_PADDED_BYTES, fixed + attributes + pairs + lengths + moments + contexts + fields)


def _contexts_bytes(block: Block, taxonomies: Taxonomies) -> int:
    """Return the bytes of the counts of contexts, where no entry of one of them repeats."""
    contexts, numbers = block.original.contexts.values(), list(combinations(range(len(taxonomies)), 2))
    each = _CONTEXT_BYTES + sum(_CONTEXT_BYTES + len(name) for name in taxonomies) + _CONTEXT_BYTES * len(numbers)
    values = sum(
        column.rows * (tau.id_bytes + len('"",1,1,') + _SLOT_BYTES)
        for column, tau in zip(block.masked.values, taxonomies.values(), strict=True)
    )
    pairs = sum(_pair_bytes(block, i, j) for i, j in numbers)
    lengths = sum(_NUMBER_BYTES * column.keys.size for of_context in contexts for column in of_context.lengths.values())
    return len(contexts) * each + values + pairs + lengths if contexts else 0


def _pair_bytes(block: Block, i: int, j: int) -> int:
    """Return the bytes of two indices and a count for each row of a pair, and of the number of its events."""
    rows = block.masked.pairs[i, j].rows if (i, j) in block.masked.pairs else 0
    width = len(str(max(block.masked.values[k].rows for k in (i, j)))) + len(",")
    return (len(SIDES) * 3 + 1) * rows * width + _SLOT_BYTES * rows
