"""The joint law of two attributes as a sparse table, in rows and in columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stream_masker.core.arrays import offsets_from_lengths
from stream_masker.core.dtypes import Float64Array, Float64Matrix, Int64Array
from stream_masker.core.mechanisms.transport.scaling import products
from stream_masker.core.mechanisms.transport.scaling.products import STRIP, TRANSPOSED_ROWS, FloatMatrix, entry_products


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """The entries of a table in compressed rows.

    * ``offsets``: (rows + 1,) int64. ``columns``: (m,) int64, ascending within a row.
    """

    offsets: Int64Array
    columns: Int64Array

    def product(self, weights: Float64Array, left: FloatMatrix, right: FloatMatrix) -> Float64Array:
        """Return (m,) the entries of L·Φ·R, where Φ holds the weights, (m,), at the entries.

        It is computed in the precision of the matrices; with a single column, in double precision.
        """
        width, precision = right.shape[1], left.dtype
        if width == 1:
            filled = np.flatnonzero(np.diff(self.offsets))
            column = np.zeros(left.shape[1])
            column[filled] = weights * right[0, 0]
            return np.asarray(products.row_products(left, filled, column))
        rows, strip = np.empty((TRANSPOSED_ROWS, width), precision), np.empty((width, STRIP), precision)
        result = np.zeros(weights.size, precision)
        with np.errstate(over="ignore"):  # a weight that is too large becomes infinite, which ends the balancing
            given = weights.astype(precision)
        entry_products(self.offsets, self.columns, given, left, right, rows, strip, result)
        return result.astype(np.float64)

    def maxima(self, terms: Float64Array, left: Float64Matrix, right: Float64Matrix) -> Float64Array:
        """Return (m,) the entries of max over all entries (a, b) of L[a′, a] + terms[a, b] + R[b, b′]."""
        half = products.transposed(products.row_maxima(self.offsets, self.columns, terms, right))
        return products.entry_maxima(self.offsets, self.columns, left, half)


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A table of k_A × k_B values with m entries, in rows and in columns.

    * ``rows``, ``columns``: (m,) int64 indices of the values of each entry, ordered by row, then by column.
    * ``by_row``, ``by_column``: the entries as compressed rows, and as compressed columns.
    * ``order``: (m,) int64, the entry at each place of the compressed columns.
    """

    shape: tuple[int, int]
    rows: Int64Array
    columns: Int64Array
    by_row: Entries
    by_column: Entries
    order: Int64Array

    @property
    def keys(self) -> Int64Array:
        """(m,) int64: row · k_B + column of each entry, ascending."""
        return np.asarray(self.rows * self.shape[1] + self.columns)

    @classmethod
    def of(cls, rows: Int64Array, columns: Int64Array, shape: tuple[int, int]) -> Table:
        """Create the table of distinct entries, ordered by row, then by column."""
        order = np.argsort(columns, kind="stable")
        return cls(
            shape,
            rows,
            columns,
            Entries(offsets_from_lengths(np.bincount(rows, minlength=shape[0])), columns),
            Entries(offsets_from_lengths(np.bincount(columns, minlength=shape[1])), rows[order]),
            order,
        )


class CountedPairs(NamedTuple):
    """The rows of each entry of a table. ``counts``: (m,) int64, positive."""

    table: Table
    counts: Int64Array
