"""The encoding of records of concept ids as columns, of counts in a model as texts, and the decoding of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.arrays import Int32Array, Int64Array, offsets_from_lengths, pack_array, unpack_array
from stream_masker.core.batch import ABSENT, Batch, Column, MaskedBatch
from stream_masker.core.ontology import Taxonomy
from stream_masker.errors import ParameterError, StatisticsError, UnknownConceptError

Value: TypeAlias = str | list[str] | None
Record: TypeAlias = Mapping[str, Value]


def encode(records: Sequence[Record], taxonomies: Mapping[str, Taxonomy]) -> Batch:
    """Encode records as a batch. Fields that are not attributes are ignored; a missing attribute is absent.

    Raises UnknownConceptError, whose ``position`` is the record's index, for an unknown concept. Raises ParameterError
    for a value that is not a concept id, a list of them, or None, for an attribute with lists in some records and
    single ids in others, and if records have fields, but no attribute.
    """
    for index, record in enumerate(records):
        if type(record) is not dict and not isinstance(record, Mapping):
            raise ParameterError(
                f"record {index} is of type {type(record).__name__}: use a mapping from attributes to concept ids, or, "
                "of a table, `mask_frame`"
            )
    fields = set().union(*records)
    if fields and taxonomies.keys().isdisjoint(fields):
        raise ParameterError(f"no record has {next(iter(taxonomies))!r}: the attributes are {', '.join(taxonomies)}")
    columns = ((name, [record.get(name) for record in records], tau) for name, tau in taxonomies.items())
    return Batch(len(records), tuple(_column(*each) for each in columns))


def _column(name: str, values: Sequence[Any], taxonomy: Taxonomy) -> Column:
    """Encode the values of one attribute; the column is an array if any value is a list."""
    if not any(isinstance(value, list) for value in values):
        codes = [ABSENT if v is None else _position(name, index, v, taxonomy) for index, v in enumerate(values)]
        return Column(np.array(codes, np.int32))
    codes, lengths = [], []
    for index, value in enumerate(values):
        if isinstance(value, str):
            raise ParameterError(f"attribute {name!r} is a list in some records, but a single value in record {index}")
        elements = value if isinstance(value, list) else [] if value is None else [value]
        codes += [_position(name, index, element, taxonomy) for element in elements]
        lengths.append(len(elements))
    return Column(np.array(codes, np.int32), offsets_from_lengths(np.array(lengths)))


def _position(name: str, index: int, value: object, taxonomy: Taxonomy) -> int:
    """Return the position of a value of a record. The message of an error never contains the value."""
    position = taxonomy.find(value)
    if position >= 0:
        return position
    if isinstance(value, str):
        message = f"attribute {name!r} of record {index} holds a value that is not a concept of its taxonomy"
        raise UnknownConceptError(message, position=index)
    raise ParameterError(
        f"attribute {name!r} of record {index} is neither a concept id, a list of them, nor None: "
        f"it is of type {type(value).__name__}"
    )


def decode(masked: MaskedBatch, taxonomies: Mapping[str, Taxonomy]) -> list[dict[str, Value]]:
    """Decode masked columns to records of all attributes; an absent scalar becomes None, an absent list empty."""
    columns = [_values(column, tau) for column, tau in zip(masked.columns, taxonomies.values(), strict=True)]
    return [dict(zip(taxonomies, row, strict=True)) for row in zip(*columns, strict=True)]


def _values(column: Column, taxonomy: Taxonomy) -> Sequence[Value]:
    if column.offsets is None:
        return [None if code < 0 else taxonomy.ids[code] for code in column.codes.tolist()]
    texts = taxonomy.decode(column.codes)
    return [texts[start:end] for start, end in pairwise(column.offsets.tolist())]


def read_model_field(model: object, field: str) -> object:
    """Return a field of a model. Raises StatisticsError if it is missing."""
    if not isinstance(model, Mapping) or field not in model:
        raise StatisticsError(f"the model has no {field}")
    return model[field]


def pack_counts(values: NDArray[np.integer], counts: Int64Array) -> dict[str, Any]:
    """Pack an attribute's values, ascending positions, and the count of each."""
    return {"values": pack_array(values.astype(np.int32)), "counts": pack_array(counts)}


def unpack_counts(model: object) -> tuple[Int32Array, Int64Array]:
    """Return what ``pack_counts`` packed: (v,) int32 positions, ascending, and (v,) int64 counts.

    Raises StatisticsError for anything else. A packed array has a checksum, so that its numbers need no check.
    """
    values = unpack_array(read_model_field(model, "values"), np.int32)
    return values, unpack_array(read_model_field(model, "counts"), np.int64, values.size)
