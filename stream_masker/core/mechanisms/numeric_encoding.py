"""Numeric attributes of records to columns of numbers, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.dtypes import Float64Array
from stream_masker.core.mechanisms.base import Record, Value
from stream_masker.core.numeric import Numeric
from stream_masker.core.validation import require_type
from stream_masker.errors import ParameterError


def checked_numeric(numeric: Mapping[str, Numeric] | None, nominal: Mapping[str, object]) -> dict[str, Numeric]:
    """Numeric attributes by name, in order. Raises ParameterError for a name that is a nominal attribute's too."""
    given = dict(numeric or {})
    for name, kind in given.items():
        require_type(f"the numeric attribute {name!r}", kind, Numeric)
    both = [name for name in given if name in nominal]
    if both:
        raise ParameterError(f"{', '.join(both)}: an attribute has either a taxonomy or is numeric, not both")
    return given


def encode_numbers(records: Sequence[Record], numeric: Mapping[str, Numeric]) -> Float64Array | None:
    """(n, q) float64, NaN for None and for an attribute that is not there; None when there is no numeric attribute.

    Raises ParameterError, which names attribute and record but never the value, for what is no number or none that
    the attribute takes.
    """
    if not numeric:
        return None
    values = np.empty((len(records), len(numeric)), np.float64)
    for j, (name, kind) in enumerate(numeric.items()):
        values[:, j] = read_numbers(name, [record.get(name) for record in records], kind)
    return values


def read_numbers(name: str, values: Sequence[Value], kind: Numeric) -> Float64Array:
    """(n,) float64: the values of one attribute, NaN for None. Raises ParameterError like ``encode_numbers``."""
    types = set(map(type, values))
    if not types <= {int, float, type(None)}:
        index = next(i for i, value in enumerate(values) if type(value) not in (int, float, type(None)))
        raise ParameterError(
            f"attribute {name!r} of record {index} is neither a number nor None: it holds a "
            f"{type(values[index]).__name__}"
        )
    absent = np.array([value is None for value in values], np.bool_) if type(None) in types else _none_of(len(values))
    numbers = np.array([0.0 if value is None else _float(value) for value in values], np.float64)
    wrong = ~absent & ~kind.admits(numbers)
    if wrong.any():
        raise ParameterError(
            f"attribute {name!r} of record {int(wrong.argmax())} holds a number that it does not take: {_allowed(kind)}"
        )
    numbers[absent] = np.nan
    return numbers


def decode_numbers(
    rows: Sequence[dict[str, Value]], values: Float64Array | None, numeric: Mapping[str, Numeric]
) -> None:
    """Writes masked numbers into records: ints for an integer attribute, None where there is none."""
    if values is None:
        return
    for (name, kind), column in zip(numeric.items(), values.T.tolist(), strict=True):
        for row, value in zip(rows, column, strict=True):
            row[name] = None if isnan(value) else int(value) if kind.integer else value


def _none_of(size: int) -> NDArray[np.bool_]:
    return np.zeros(size, np.bool_)


def _float(value: object) -> float:
    """NaN for an integer that is too great for a float: no attribute takes it."""
    try:
        return float(value)  # type: ignore[arg-type]
    except OverflowError:
        return float("nan")


def _allowed(kind: Numeric) -> str:
    what = "whole numbers" if kind.integer else "numbers"
    return f"use {what} of magnitude up to 2**53 in [{kind.lower:g}, {kind.upper:g}]"
