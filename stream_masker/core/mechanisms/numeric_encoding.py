"""The encoding of numeric attributes of records as columns of numbers, and the decoding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan

import numpy as np

from stream_masker.core.dtypes import Float64Array
from stream_masker.core.mechanisms.base import Record, Value
from stream_masker.core.numeric import Numeric
from stream_masker.core.validation import require_type
from stream_masker.errors import ParameterError


def checked_numeric(numeric: Mapping[str, Numeric] | None, nominal: Mapping[str, object]) -> dict[str, Numeric]:
    """Return the numeric attributes by name, in order.

    Raises ParameterError if a name is also a nominal attribute's.
    """
    given = dict(numeric or {})
    for name, attribute in given.items():
        require_type(f"the numeric attribute {name!r}", attribute, Numeric)
    duplicates = [name for name in given if name in nominal]
    if duplicates:
        raise ParameterError(
            f"{', '.join(duplicates)}: an attribute is either nominal, with a taxonomy, or numeric, not both"
        )
    return given


def encode_numbers(records: Sequence[Record], numeric: Mapping[str, Numeric]) -> Float64Array | None:
    """Encode numbers as (n, q) float64, NaN if absent; return None if there is no numeric attribute.

    Raises ParameterError, which names attribute and record but never the value, for a value that is not a number or
    that the attribute does not allow.
    """
    if not numeric:
        return None
    values = np.empty((len(records), len(numeric)), np.float64)
    for j, (name, attribute) in enumerate(numeric.items()):
        values[:, j] = read_numbers(name, [record.get(name) for record in records], attribute)
    return values


def read_numbers(name: str, values: Sequence[Value], attribute: Numeric) -> Float64Array:
    """Return (n,) float64: the values of one attribute, NaN for None. Raises ParameterError as ``encode_numbers``."""
    types = set(map(type, values))
    if not types <= {int, float, type(None)}:
        index = next(i for i, value in enumerate(values) if type(value) not in (int, float, type(None)))
        raise ParameterError(
            f"attribute {name!r} of record {index} is neither a number nor None: it holds a "
            f"{type(values[index]).__name__}"
        )
    absent = np.zeros(len(values), np.bool_)
    if type(None) in types:
        absent[:] = [value is None for value in values]
    numbers = np.array([0.0 if value is None else _float(value) for value in values], np.float64)
    invalid = ~absent & ~attribute.admits(numbers)
    if invalid.any():
        raise ParameterError(
            f"attribute {name!r} of record {int(invalid.argmax())} holds a number that is not allowed: "
            f"{_allowed_numbers(attribute)}"
        )
    numbers[absent] = np.nan
    return numbers


def decode_numbers(
    rows: Sequence[dict[str, Value]], values: Float64Array | None, numeric: Mapping[str, Numeric]
) -> None:
    """Write masked numbers into records: int for an integer attribute, None for NaN."""
    if values is None:
        return
    for (name, attribute), column in zip(numeric.items(), values.T.tolist(), strict=True):
        for row, value in zip(rows, column, strict=True):
            row[name] = None if isnan(value) else int(value) if attribute.integer else value


def _float(value: object) -> float:
    """Return the value as a float; NaN, which no attribute allows, if an integer is too large for a float."""
    try:
        return float(value)  # type: ignore[arg-type]
    except OverflowError:
        return float("nan")


def _allowed_numbers(attribute: Numeric) -> str:
    what = "whole numbers" if attribute.integer else "numbers"
    return f"use {what} of magnitude up to 2**53 in [{attribute.lower:g}, {attribute.upper:g}]"
