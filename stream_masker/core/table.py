"""Tables as records: pyarrow Tables, and pandas and polars DataFrames, read with narwhals."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any, Protocol, Self

import numpy as np

from stream_masker.errors import ParameterError


class DataFrame(Protocol):
    """A table with named columns: a pyarrow Table, a pandas DataFrame or a polars DataFrame."""

    @property
    def columns(self) -> Any:
        """The columns, or their names."""


@dataclass(frozen=True, slots=True)
class WrappedTable:
    """A table that narwhals wraps, with its module."""

    narwhals: Any
    frame: Any

    @classmethod
    def of(cls, frame: object) -> Self:
        """Wrap a table. Raises ParameterError for another object, or if the extra ``frames`` is not installed."""
        try:
            narwhals = importlib.import_module("narwhals.stable.v2")
        except ModuleNotFoundError:
            raise ParameterError("a table needs narwhals: pip install 'stream-masker[frames]'") from None
        try:
            wrapped = narwhals.from_native(frame, eager_only=True)
        except TypeError:
            raise ParameterError(
                f"frame is of type {type(frame).__name__}: use a pyarrow Table, or a pandas or polars DataFrame"
            ) from None
        return cls(narwhals, narwhals.maybe_reset_index(wrapped))

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.frame.columns)

    @property
    def size(self) -> int:
        """The number of rows."""
        return len(self.frame)

    def values(self, name: str) -> list[Any]:
        """Return the values of a column; None where one is missing."""
        column = self.frame[name]
        return [
            None if missing or _is_nan(value) else value
            for value, missing in zip(column.to_list(), column.is_null().to_list(), strict=True)
        ]


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and isnan(value)


def as_records(records: Iterable[Mapping[str, Any]] | DataFrame, names: Sequence[str]) -> Sequence[Mapping[str, Any]]:
    """Return records as a sequence; of a table the columns of these names, where missing cells are None.

    Raises like ``WrappedTable.of``.
    """
    if not hasattr(records, "columns"):
        return records if isinstance(records, Sequence) else list(records)
    table = WrappedTable.of(records)
    columns = {name: [_plain(value) for value in table.values(name)] for name in names if name in table.columns}
    return [{name: values[row] for name, values in columns.items()} for row in range(table.size)]


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple | np.ndarray) else value
