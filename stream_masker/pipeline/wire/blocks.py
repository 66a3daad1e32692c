"""The JSON of calibration blocks.

Messages name concepts by their ids, so that readers with another build of the same ontology understand them. In memory,
counts are of positions in the attribute's taxonomy. The attributes are those of ``taxonomies``, in that order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np
import orjson

from stream_masker.core.batch import Distortion
from stream_masker.core.context import NO_CONTEXT, Context
from stream_masker.core.dtypes import Int64Array
from stream_masker.core.numeric import Moments
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.statistics.counts import Counts, SparseCounts
from stream_masker.core.statistics.units import slot_list
from stream_masker.pipeline.records import Block
from stream_masker.pipeline.style import COUNTED_TRAITS, StyleCounts
from stream_masker.pipeline.wire.consistency import check_block
from stream_masker.pipeline.wire.counts import (
    read_contexts,
    read_lengths,
    read_positions,
    read_side,
    sorted_counts,
)
from stream_masker.pipeline.wire.fields import (
    MESSAGE_FORMAT,
    NO_FIELDS,
    SIDES,
    MessageReader,
    Taxonomies,
    read_stratum,
    stratum_section,
)

JsonObject: TypeAlias = dict[str, Any]


def block_key(block: Block) -> bytes:
    """Return the key of a block's message, the same for all blocks of the same records.

    ``topic:partition:first_offset``, and ``:level`` of its stratum if it counts a sample.
    """
    key = f"{block.topic}:{block.partition}:{block.first_offset}"
    return (key if block.stratum is None else f"{key}:{block.stratum.level}").encode()


def encode_block(
    block: Block,
    taxonomies: Taxonomies,
    *,
    configuration: str,
    numeric: Sequence[str] = (),
    context: str = "",
) -> bytes:
    """Return a calibration block as JSON.

    configuration: the hash of the configuration under which the records were masked; numeric: the names of the numeric
    attributes, if there are any; context: the fingerprint of the context, empty if there is none. In the message,
    ``records`` is the number of records of both sides, ``lengths`` of an array are those of both sides, because masking
    replaces each element by one, ``events`` of a scalar, or of a pair, are the records with each of its entries, where
    records have arrays, and ``first`` and ``second`` of a pair are indices into the concepts of its two
    attributes on the same side. ``slots`` are those of the noise keys of each entry (``statistics.units.slot_list``); a
    version is computed from the original side, so the masked one has none. ``contexts`` are those of the original side,
    each with its own concepts, to which the indices of its pairs refer.
    """
    attributes = {name: _attribute(block, j, taxonomies[name]) for j, name in enumerate(taxonomies)}
    message = {
        "format": MESSAGE_FORMAT,
        "topic": block.topic,
        "partition": block.partition,
        "first_offset": block.first_offset,
        "last_offset": block.last_offset,
        "timestamp": block.timestamp,
        "records": block.original.records,
        "statistics_version": block.statistics_version,
        "configuration": configuration,
        "rejected": dict(block.rejected),
        "unchanged": block.unchanged,
        "attributes": attributes,
        "pairs": [_pair(block, i, j, taxonomies) for i, j in combinations(range(len(taxonomies)), 2)],
        **_numeric(block, numeric),
        **_contexts(block.original, taxonomies, context),
        **_fields(block),
        **stratum_section(block.stratum),
        **({} if block.secret_id is None else {"secret_id": block.secret_id}),
    }
    return orjson.dumps(message, option=orjson.OPT_SERIALIZE_NUMPY)


def _numeric(block: Block, names: Sequence[str]) -> JsonObject:
    if block.original.numeric is None or block.masked.numeric is None:
        return {}
    sides = {"original": block.original.numeric.to_dict(), "masked": block.masked.numeric.to_dict()}
    return {"numeric": {"attributes": list(names), **sides}}


def _contexts(counts: Counts, taxonomies: Taxonomies, fingerprint: str) -> JsonObject:
    if not fingerprint:
        return {}
    each = [_context(number, of_context, taxonomies) for number, of_context in counts.contexts.items()]
    return {"contexts": {"of": fingerprint, "counts": each}}


def _fields(block: Block) -> JsonObject:
    each = {key: _concepts(block.original.rolled[key], taxonomy) for key, taxonomy in block.fields.items()}
    return {"fields": each} if each else {}


def _context(number: int, counts: Counts, taxonomies: Taxonomies) -> JsonObject:
    names = tuple(taxonomies)
    return {
        "context": number,
        "records": counts.records,
        "attributes": {
            name: {**_concepts(counts.values[j], taxonomies[name]), **_events(counts, (j,)), **_lengths(counts, j)}
            for j, name in enumerate(names)
        },
        "pairs": [
            {**_indexed(counts, i, j, len(taxonomies[names[j]])), **_events(counts, (i, j))}
            for i, j in combinations(range(len(names)), 2)
        ],
    }


def _attribute(block: Block, j: int, taxonomy: Taxonomy) -> JsonObject:
    distortion = block.distortions[j]
    return {
        "given": block.original.given[j],
        "unknown": block.original.unknown[j],
        "values": distortion.values,
        "squared_distance": distortion.squared_distance,
        "squared_noise": distortion.squared_noise,
        "truncated": distortion.truncated,
        "unsigned": distortion.unsigned,
        "unchanged": distortion.unchanged,
        **({"styles": block.styles[j]} if block.styles else {}),
        **_lengths(block.original, j),
        "original": {**_concepts(block.original.values[j], taxonomy), **_events(block.original, (j,))},
        "masked": _concepts(block.masked.values[j], taxonomy),
    }


def _lengths(counts: Counts, j: int) -> JsonObject:
    if j not in counts.lengths:
        return {}
    return {"lengths": {"elements": counts.lengths[j].keys, "counts": counts.lengths[j].counts}}


def _events(counts: Counts, js: tuple[int, ...]) -> JsonObject:
    return {"events": counts.events[js].counts} if js in counts.events else {}


def _concepts(counts: SparseCounts, taxonomy: Taxonomy) -> JsonObject:
    return {"concepts": taxonomy.decode(counts.keys), "counts": counts.counts, **_slots(counts)}


def _slots(counts: SparseCounts) -> JsonObject:
    return {} if counts.key_bits is None else {"slots": slot_list(counts.key_bits)}


def _pair(block: Block, i: int, j: int, taxonomies: Taxonomies) -> JsonObject:
    names = tuple(taxonomies)
    width = len(taxonomies[names[j]])
    original, masked = (_indexed(getattr(block, side), i, j, width) for side in SIDES)
    sides = {"original": {**original, **_events(block.original, (i, j))}, "masked": masked}
    return {"attributes": [names[i], names[j]], **sides}


def _indexed(counts: Counts, i: int, j: int, width: int) -> JsonObject:
    pairs = counts.pairs.get((i, j), NO_COUNTS)
    first, second = np.divmod(pairs.keys, width)
    return {
        "first": _indices(counts.values[i], first),
        "second": _indices(counts.values[j], second),
        "counts": pairs.counts,
        **_slots(pairs),
    }


def _indices(counts: SparseCounts, keys: Int64Array) -> Int64Array:
    """Return (n,) int64: the indices of n of the counted keys. It uses a table of all keys up to the greatest."""
    indices = np.empty(int(counts.keys.max(initial=-1)) + 1, np.int64)
    indices[counts.keys] = np.arange(counts.keys.size)
    return indices[keys]


NO_COUNTS = SparseCounts(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
"""Counts without any key."""


def decode_block(
    raw: bytes,
    taxonomies: Taxonomies,
    numeric: Sequence[str] = (),
    context: Context = NO_CONTEXT,
    fields: Taxonomies = NO_FIELDS,
) -> Block:
    """Decode what ``encode_block`` returns; ``context``: that of the records. Without one, contexts are not read.

    ``fields``: those of ``Block``. Counts of other fields are not read, and a block may lack those of a field.

    Raises StatisticsError, with the name of the field, unless the message is a block of this format over these
    attributes, all its concepts are in their taxonomies, and records can have its counts (``wire.consistency``).
    """
    block = _read_block(raw, taxonomies, numeric, context, fields)
    check_block(block, tuple(map(len, taxonomies.values())))
    return block


def _read_block(
    raw: bytes, taxonomies: Taxonomies, numeric: Sequence[str], context: Context, fields: Taxonomies
) -> Block:
    reader = MessageReader.of(raw, "block")
    attributes = reader.members("attributes", tuple(taxonomies))
    lengths = read_lengths(attributes)
    original, masked = (
        replace(
            read_side(reader, attributes, side, taxonomies), numeric=_moments(reader, side, numeric), lengths=lengths
        )
        for side in SIDES
    )
    original = replace(
        original, contexts=read_contexts(reader, taxonomies, context), rolled=_read_fields(reader, fields)
    )
    return Block(
        topic=reader.text("topic"),
        partition=reader.integer("partition"),
        first_offset=reader.integer("first_offset"),
        last_offset=reader.integer("last_offset", least=reader.integer("first_offset")),
        timestamp=reader.integer("timestamp", least=-1),
        statistics_version=reader.integer("statistics_version"),
        original=original,
        masked=masked,
        distortions=tuple(_distortion(attribute) for attribute in attributes),
        rejected=reader.integers_by_name("rejected"),
        unchanged=reader.integer("unchanged", missing=0),
        styles=_style_counts(attributes),
        stratum=read_stratum(reader),
        secret_id=reader.optional_text("secret_id"),
        fields={key: fields[key] for key in original.rolled},
    )


def _style_counts(attributes: Sequence[MessageReader]) -> tuple[StyleCounts, ...]:
    """Return the style counts of all attributes; empty if a block does not have all of them."""
    readers = [attribute.optional("styles") for attribute in attributes]
    return tuple(_counts_of_styles(r) for r in readers if r is not None) if all(readers) else ()


def _counts_of_styles(reader: MessageReader) -> StyleCounts:
    return StyleCounts(**{trait: reader.integer(trait) for trait in COUNTED_TRAITS})


def _moments(reader: MessageReader, side: str, names: Sequence[str]) -> Moments | None:
    section = reader.optional("numeric")
    if (section.texts("attributes") if section else []) != list(names):
        reader.fail("numeric", "of the configured numeric attributes")
    if section is None:
        return None
    moments = Moments.from_dict(section.child(side).data)
    if moments.attributes != len(names):
        section.fail(side, "moments of all numeric attributes")
    return moments


def _read_fields(reader: MessageReader, fields: Taxonomies) -> dict[str, SparseCounts]:
    section = reader.optional("fields")
    sides = {} if section is None else {key: section.child(key) for key in fields if key in section.data}
    return {
        key: sorted_counts(side, read_positions(side, fields[key]), side.integers("counts", least=1))
        for key, side in sides.items()
    }


def _distortion(attribute: MessageReader) -> Distortion:
    return Distortion(
        values=attribute.integer("values"),
        squared_distance=attribute.number("squared_distance"),
        squared_noise=attribute.number("squared_noise"),
        truncated=attribute.integer("truncated"),
        unsigned=attribute.integer("unsigned"),
        unchanged=attribute.integer("unchanged", missing=0),
    )
