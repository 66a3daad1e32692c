"""Tables as records: pyarrow Tables, and pandas and polars DataFrames, read with narwhals."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any, Protocol, Self

import numpy as np

from stream_masker.errors import ParameterError, installation_of


class DataFrame(Protocol):
    """A table with named columns: a pyarrow Table, a pandas DataFrame or a polars DataFrame."""

    @property
    def columns(self) -> Any:
        """The columns, or their names."""


@dataclass(frozen=True, slots=True)
class WrappedTable:
    """A table that narwhals wraps, with its module. ``index``: row labels to keep, those of a pandas DataFrame if they
    are numbers and have no name; otherwise None."""

    narwhals: Any
    frame: Any
    index: Any

    @classmethod
    def of(cls, frame: object) -> Self:
        """Wrap a table. Raises ParameterError for another object, or if the extra ``frames`` is not installed."""
        try:
            narwhals = importlib.import_module("narwhals.stable.v2")
        except ModuleNotFoundError:
            raise ParameterError(f"a table needs narwhals: {installation_of('frames')}") from None
        try:
            wrapped = narwhals.from_native(frame, eager_only=True)
        except TypeError:
            raise ParameterError(
                f"frame is of type {type(frame).__name__}: use a pyarrow Table, or a pandas or polars DataFrame"
            ) from None
        index = narwhals.maybe_get_index(wrapped)
        is_kept = index is not None and list(index.names) == [None] and index.dtype.kind in "iu"
        return cls(narwhals, narwhals.maybe_reset_index(wrapped), index if is_kept else None)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.frame.columns)

    @property
    def size(self) -> int:
        """The number of rows."""
        return len(self.frame)

    def values(self, name: str) -> list[Any]:
        """Return the values of a column, arrays as lists; None where one is missing."""
        column = self.frame[name]
        return [
            None if missing else _plain(value)
            for value, missing in zip(column.to_list(), column.is_null().to_list(), strict=True)
        ]

    def replaced(self, keep: Sequence[str], masked: Mapping[str, Sequence[Any]]) -> Any:
        """Return a native table of the kept and the masked columns, in the order of this one.

        The categories of a masked column are those of the masks.
        """
        series = {
            name: (self._series(name, masked[name]) if name in masked else self.frame[name]).to_native()
            for name in self.columns
            if name in masked or name in keep
        }
        module = self.frame.implementation.to_native_namespace()
        native = module.table(series) if self.frame.implementation.is_pyarrow() else module.DataFrame(series)
        if self.index is not None:
            native.index = self.index
        return native

    def _series(self, name: str, values: Sequence[Any]) -> Any:
        """Return a masked column: of categories if the original one is, otherwise of texts or of lists of them."""
        narwhals, kind = self.narwhals, self.frame.implementation
        text = narwhals.String
        if any(isinstance(value, list) for value in values):
            text = None if kind.is_pandas_like() else narwhals.List(text)
        series = narwhals.new_series(name, values, text, backend=kind)
        is_category = self.frame[name].dtype in (narwhals.Categorical, narwhals.Enum)
        return series.cast(narwhals.Categorical) if is_category else series


def _plain(value: Any) -> Any:
    if isinstance(value, float) and isnan(value):
        return None
    return list(value) if isinstance(value, tuple | np.ndarray) else value


def as_records(records: Iterable[Mapping[str, Any]] | DataFrame, names: Sequence[str]) -> Sequence[Mapping[str, Any]]:
    """Return records as a sequence; of a table the columns of these names, where missing cells are None.

    Raises like ``WrappedTable.of``, and ParameterError for a table with none of these columns.
    """
    if not hasattr(records, "columns"):
        return records if isinstance(records, Sequence) else list(records)
    table = WrappedTable.of(records)
    columns = {name: table.values(name) for name in names if name in table.columns}
    if not columns:
        raise ParameterError(f"the table has no column {names[0]!r}: the attributes are {', '.join(names)}")
    return [{name: values[row] for name, values in columns.items()} for row in range(table.size)]
