"""Records of concept ids to columns of positions, and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from stream_masker.core.batch import ABSENT, Batch, Column, MaskedBatch
from stream_masker.core.mechanisms.base import Record, Value
from stream_masker.core.ontology import Taxonomy
from stream_masker.errors import ParameterError, UnknownConceptError


def encode(records: Sequence[Record], taxonomies: Mapping[str, Taxonomy]) -> Batch:
    """The records as a batch. Fields that are no attribute are not read; an attribute that is not there is absent.

    Raises UnknownConceptError, whose ``position`` is the record's index, and ParameterError for a value that is
    neither a concept id, a list of them, nor None, or for an attribute with lists in some records and ids in others.
    """
    columns = tuple(
        encode_column(name, [record.get(name) for record in records], tau) for name, tau in taxonomies.items()
    )
    return Batch(len(records), columns)


def encode_column(name: str, values: Sequence[Value], taxonomy: Taxonomy) -> Column:
    """One attribute's values as a column: of an array if any of them is a list."""
    if not any(isinstance(value, list) for value in values):
        return Column(_positions(name, [[value] for value in values], taxonomy))
    lists = [_elements(name, index, value) for index, value in enumerate(values)]
    lengths = np.array([len(elements) for elements in lists], np.int64)
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
    return Column(_positions(name, lists, taxonomy, absent=False), offsets)


def _elements(name: str, index: int, value: Value) -> Sequence[str]:
    if isinstance(value, str):
        raise ParameterError(f"attribute {name!r} is a list in some records, but a single value in record {index}")
    return value or ()


def _positions(
    name: str, values: Sequence[Sequence[object]], taxonomy: Taxonomy, *, absent: bool = True
) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    """The positions of all records' values, one after another."""
    codes = [
        _position(name, index, value, taxonomy, absent) for index, elements in enumerate(values) for value in elements
    ]
    return np.array(codes, np.int32)


def _position(name: str, index: int, value: object, taxonomy: Taxonomy, absent: bool) -> int:
    if isinstance(value, str):
        return _known(name, index, value, taxonomy)
    if value is None and absent:
        return ABSENT
    raise ParameterError(
        f"attribute {name!r} of record {index} is neither a concept id, a list of them, nor None: "
        f"it holds a {type(value).__name__}"
    )


def _known(name: str, index: int, value: str, taxonomy: Taxonomy) -> int:
    if value not in taxonomy:
        message = f"attribute {name!r} of record {index} holds a value that is no concept of its taxonomy"
        raise UnknownConceptError(message, position=index)
    return taxonomy.position(value)


def decode(batch: Batch, masked: MaskedBatch, taxonomies: Mapping[str, Taxonomy]) -> list[dict[str, Value]]:
    """Masked columns as records of every attribute; None where a scalar is absent."""
    columns = [list(_values(column, tau)) for column, tau in zip(masked.columns, taxonomies.values(), strict=True)]
    return [{name: column[i] for name, column in zip(taxonomies, columns, strict=True)} for i in range(batch.size)]


def _values(column: Column, taxonomy: Taxonomy) -> Iterator[Value]:
    codes = column.codes.tolist()
    if column.offsets is None:
        return (None if code < 0 else taxonomy.ids[code] for code in codes)
    bounds = column.offsets.tolist()
    return (taxonomy.decode(codes[bounds[i] : bounds[i + 1]]) for i in range(len(bounds) - 1))
