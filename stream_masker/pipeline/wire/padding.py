"""Padding of calibration blocks: the size of an encrypted block does not tell what it counts.

A block of few records is padded to the largest size that a block of as many records and values can have. These numbers
are public: the masked records show them. Without padding, the size of a block of one record tells whether masking
changed it, and how long its codes are.

Blocks are compressed, so a bound for many records would multiply their size. The bound ends at ``MAX_PADDED_BYTES``: up
to there all blocks have the same size, and above it they are padded to the next of a few sizes
(``sealing.size_class``), which a single record seldom changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Final

import orjson

from stream_masker.core.random.keys import SKETCH_SIZE
from stream_masker.pipeline.records import Block
from stream_masker.pipeline.wire.blocks import SIDES, Taxonomies

MAX_PADDED_BYTES: Final = 65_536
"""The largest size to which blocks are padded, whatever they count."""

_HEAD_BYTES: Final = 672
"""At least the bytes of a block's fields outside of its attributes and pairs, without names and reasons."""

_ATTRIBUTE_BYTES: Final = 768
"""At least the bytes of an attribute without its name and its counts."""

_PAIR_BYTES: Final = 160
"""At least the bytes of a pair without its names and its counts."""

_CONTEXT_BYTES: Final = 80
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
        len(name) + len(SIDES) * n * (tau.id_bytes + len('"",,') + len(str(n))) + _SLOT_BYTES * n
        for (name, tau), n in zip(taxonomies.items(), rows, strict=True)
    )
    pairs = sum(
        len(names[i]) + len(names[j]) + _PAIR_BYTES + _pair_bytes(block, i, j)
        for i, j in combinations(range(len(names)), 2)
    )
    fixed = _HEAD_BYTES + len(block.topic) + len(orjson.dumps(dict(block.rejected))) + _ATTRIBUTE_BYTES * len(names)
    keys = 0 if block.keys is None else _NUMBER_BYTES * min(records, SKETCH_SIZE)
    lengths = sum(_NUMBER_BYTES * column.keys.size for column in block.masked.lengths.values())
    moments = len(SIDES) * 3 * _NUMBER_BYTES * (len(numeric) + 1) ** 2 + sum(
        _NUMBER_BYTES + len(name) for name in numeric
    )
    contexts = _contexts_bytes(block, taxonomies)
    fields = sum(
        _CONTEXT_BYTES + len(key) + records * (tau.id_bytes + len('"",1,') + _SLOT_BYTES)
        for key, tau in block.fields.items()
    )
    return min(MAX_PADDED_BYTES, fixed + attributes + pairs + keys + lengths + moments + contexts + fields)


def _contexts_bytes(block: Block, taxonomies: Taxonomies) -> int:
    """Return the bytes of the counts of contexts, where no entry of one of them repeats."""
    found, numbers = block.original.contexts.values(), list(combinations(range(len(taxonomies)), 2))
    each = _CONTEXT_BYTES + sum(_CONTEXT_BYTES + len(name) for name in taxonomies) + _CONTEXT_BYTES * len(numbers)
    values = sum(
        column.rows * (tau.id_bytes + len('"",1,') + _SLOT_BYTES)
        for column, tau in zip(block.masked.values, taxonomies.values(), strict=True)
    )
    pairs = sum(_pair_bytes(block, i, j) for i, j in numbers)
    lengths = sum(_NUMBER_BYTES * column.keys.size for own in found for column in own.lengths.values())
    return len(found) * each + values + pairs + lengths if found else 0


def _pair_bytes(block: Block, i: int, j: int) -> int:
    """Return the bytes of two indices and a count for each row of a pair."""
    rows = block.masked.pairs[i, j].rows if (i, j) in block.masked.pairs else 0
    width = len(str(max(block.masked.values[k].rows for k in (i, j)))) + len(",")
    return len(SIDES) * rows * 3 * width + _SLOT_BYTES * rows
