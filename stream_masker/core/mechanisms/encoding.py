"""The encoding of records of concept ids as columns, and the decoding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, islice, pairwise, repeat
from typing import TypeAlias

import numpy as np

from stream_masker.core.arrays import offsets_from_lengths
from stream_masker.core.batch import Batch, Column, MaskedBatch
from stream_masker.core.dataframes import check_fields
from stream_masker.core.dtypes import Int32Array
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.validation import require_mapping
from stream_masker.errors import ParameterError, UnknownConceptError

Value: TypeAlias = str | list[str] | None
Record: TypeAlias = Mapping[str, Value]

NO_CONCEPT = ""
"""The id that replaces an absent value in a lookup. No concept has an empty id, so the lookup yields ``ABSENT``."""

NAMED_RECORDS = 100
"""The number of records whose names are compared first: nearly always they have all attributes."""


def encode(records: Sequence[Record], taxonomies: Mapping[str, Taxonomy]) -> Batch:
    """Encode records as a batch. Fields that are not attributes are ignored; a missing attribute is absent.

    Raises UnknownConceptError, whose ``position`` is the record's index, for an unknown concept. Raises ParameterError
    for a value that is not a concept id, a list of them, or None, for an attribute with lists in some records and
    single ids in others, and for names of attributes that seem to be misspelt (``core.dataframes.check_fields``).
    """
    for index, record in enumerate(records):
        if type(record) is not dict and not isinstance(record, Mapping):
            raise ParameterError(
                f"record {index} is of type {type(record).__name__}: use a mapping from attributes to concept ids"
            )
    if records and taxonomies.keys() - set().union(*islice(records, NAMED_RECORDS)):
        whose = "no record" if len(records) > 1 else "the record"
        check_fields(whose, set().union(*records), list(taxonomies))
    return Batch(len(records), tuple(_column(name, _values_of(name, records), tau) for name, tau in taxonomies.items()))


def _values_of(name: str, records: Sequence[Record]) -> list[Value]:
    try:
        return list(map(dict.get, records, repeat(name)))  # type: ignore[arg-type]
    except TypeError:
        return [record.get(name) for record in records]


def _column(name: str, values: Sequence[Value], taxonomy: Taxonomy) -> Column:
    """Encode the values of one attribute; the column is an array if any value is a list."""
    kinds = set(map(type, values))
    if any(issubclass(kind, list) for kind in kinds):
        return _array(name, values, taxonomy)
    return Column(_scalars(name, values, taxonomy, kinds))


def _scalars(name: str, values: Sequence[Value], taxonomy: Taxonomy, kinds: set[type]) -> Int32Array:
    texts = [NO_CONCEPT if value is None else value for value in values] if type(None) in kinds else values
    codes = taxonomy.find(texts)
    for index in np.flatnonzero(codes < 0).tolist():
        if values[index] is not None:
            raise _encoding_error(name, index, values[index])
    return codes


def _array(name: str, values: Sequence[Value], taxonomy: Taxonomy) -> Column:
    lists = [_elements(name, index, value) for index, value in enumerate(values)]
    offsets = offsets_from_lengths(np.array([len(elements) for elements in lists]))
    texts = list(chain.from_iterable(lists))
    codes = taxonomy.find(texts)
    if codes.size and codes.min() < 0:
        first = int(np.argmax(codes < 0))
        raise _encoding_error(name, int(np.searchsorted(offsets, first, side="right")) - 1, texts[first])
    return Column(codes, offsets)


def _elements(name: str, index: int, value: object) -> Sequence[str]:
    if isinstance(value, str):
        raise ParameterError(f"attribute {name!r} is a list in some records, but a single value in record {index}")
    if not isinstance(value, list | None):
        raise _encoding_error(name, index, value)
    return value or ()


def _encoding_error(name: str, index: int, value: object) -> ParameterError | UnknownConceptError:
    """Return the error for a value of a record that has no position. The message never contains the value."""
    if isinstance(value, str):
        message = f"attribute {name!r} of record {index} holds a value that is not a concept of its taxonomy"
        return UnknownConceptError(message, position=index)
    return ParameterError(
        f"attribute {name!r} of record {index} is neither a concept id, a list of them, nor None: "
        f"it is of type {type(value).__name__}"
    )


def decode(masked: MaskedBatch, taxonomies: Mapping[str, Taxonomy]) -> list[dict[str, Value]]:
    """Decode masked columns to records of all attributes; an absent scalar becomes None."""
    columns = [_values(column, tau) for column, tau in zip(masked.columns, taxonomies.values(), strict=True)]
    return [dict(zip(taxonomies, row, strict=True)) for row in zip(*columns, strict=True)]


def _values(column: Column, taxonomy: Taxonomy) -> Sequence[Value]:
    texts = taxonomy.decode(column.codes)
    if column.offsets is not None:
        return [texts[start:end] for start, end in pairwise(column.offsets.tolist())]
    if column.codes.min(initial=0) >= 0:
        return texts
    return [None if code < 0 else text for code, text in zip(column.codes.tolist(), texts, strict=True)]


def leave_absent(name: str, records: Sequence[Record], masked: Sequence[dict[str, Value]]) -> None:
    """Restore None for records without a list, for which decoding returned an empty list."""
    for record, row in zip(records, masked, strict=True):
        if record.get(name) is None:
            row[name] = None


EXAMPLE_TAXONOMIES = "{'principal': ontology.taxonomy()}"


def checked_attributes(taxonomies: Mapping[str, Taxonomy]) -> tuple[str, ...]:
    """Return the names of the attributes, in order.

    Raises ParameterError if there is no attribute at all, or an attribute without a taxonomy.
    """
    require_mapping("taxonomies", taxonomies, EXAMPLE_TAXONOMIES)
    if not taxonomies:
        raise ParameterError("there is no attribute to mask: give at least one taxonomy")
    for name, tau in taxonomies.items():
        if not isinstance(tau, Taxonomy):
            raise ParameterError(
                f"the taxonomy of {name!r} is of type {type(tau).__name__}: use a Taxonomy, as in {EXAMPLE_TAXONOMIES}"
            )
    return tuple(taxonomies)
