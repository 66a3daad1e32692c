"""Consistency of a calibration block: counts that no records can have are refused.

A block is authentic, but a defective worker may have written it. A single block must not outweigh all others of its
window, overflow a sum, or have statistics that contradict each other.

A block has the lengths of its arrays once, for both sides: masking replaces each element by one, so that a record has
as many elements after it as before. Values that are suppressed or rejected are on neither side.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from operator import mul
from typing import Final

import numpy as np

from stream_masker.core.batch import Distortion
from stream_masker.core.dtypes import Int64Array
from stream_masker.core.statistics.counts import Counts, SparseCounts, merge, same_counts
from stream_masker.core.statistics.units import holds_too_many_bits
from stream_masker.errors import StatisticsError
from stream_masker.pipeline.calibration.blocks import MAX_COUNTED_ELEMENTS
from stream_masker.pipeline.records import Block

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
    if len(block.keys or ()) > original.records:
        yield "keys", "at most one for each record"
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
    if _rows(original.pairs) != _rows(masked.pairs):
        yield "pairs", "counts of equally many pairs before and after masking"
    for name, counts in (("original", original), ("masked", masked)):
        if not all(_is_part(counts, i, j, sizes[j]) for i, j in counts.pairs):
            yield "pairs", f"counts of pairs of the {name} values"


def _too_many(counts: Counts, distortions: tuple[Distortion, ...]) -> Iterator[tuple[str, str]]:
    most = f"a number of at most {MAX_BLOCK_COUNT}"
    if max([*counts.given, *counts.unknown, *(one.values for one in distortions)], default=0) > MAX_BLOCK_COUNT:
        yield "attributes", most
    for one in distortions:
        if max(one.truncated, one.unsigned, one.unchanged) > one.values:
            yield "attributes", "at most one truncated, unsigned or unchanged value for each value"
        if max(one.squared_distance, one.squared_noise) > one.values * MAX_SQUARE:
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


def _wrong_fields(counts: Counts) -> Iterator[tuple[str, str]]:
    """Each record has at most one value of a field that is generalized by the counts of the window."""
    for column in counts.rolled.values():
        if float(column.counts.sum(dtype=np.float64)) > counts.records:
            yield "fields counts", "at most one for each record"
        if holds_too_many_bits(column.counts, column.key_bits):
            yield "fields slots", "at most one for each row"


def _wrong_contexts(counts: Counts, sizes: tuple[int, ...]) -> Iterator[tuple[str, str]]:
    """Each record has one context, so the counts of all contexts add up to those of all records."""
    for own in counts.contexts.values():
        yield from _too_many_rows("contexts", own)
        yield from _wrong_lengths(own)
        if any(holds_too_many_bits(c.counts, c.key_bits) for c in (*own.values, *own.pairs.values())):
            yield "contexts slots", "at most one for each row"
        if not all(_is_part(own, i, j, sizes[j]) for i, j in own.pairs):
            yield "contexts", "counts of pairs of their values"
    if counts.contexts and not _adds_up(merge(counts.contexts.values()), counts):
        yield "contexts", "counts that add up to those of all records"


def _adds_up(total: Counts, counts: Counts) -> bool:
    """Return whether both count the same records."""
    sides = [(*one.values, *one.pairs.values(), *one.lengths.values()) for one in (total, counts)]
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
