"""The joint law of two attributes as a sparse table, its products with kernels, and the factors of its limits.

Products are computed at the entries of the table only, in O(entries · values): no matrix over pairs of entries is ever
built. The coupling of tuples s = (a, b) and t = (a*, b*) is φ(s)·K_A(a, a*)·r_A(a, t)·K_B(b, b*)·r_B(b, t)·ψ(t), with
factors r ≤ 1 where a value or a sensitive group would exceed its limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from stream_masker.core.arrays import offsets_from_lengths, ranges
from stream_masker.core.dtypes import BoolArray, Float32Array, Float32Matrix, Float64Array, Int32Array, Int64Array
from stream_masker.core.kernels.jit import kernel, part
from stream_masker.core.kernels.sums import sum_of_products
from stream_masker.core.mechanisms.transition.serialization import pack_array, read_array

LINE = 16
"""Rows are computed so many at a time, and written as columns: a line of the cache holds 16 numbers."""


Lines: TypeAlias = tuple[Int64Array, Int64Array]
"""Compressed rows: where each begins, and what is in them."""


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """The entries of a table in compressed rows.

    * ``offsets``: (rows + 1,) int64. ``columns``: (m,) int64, ascending within a row.
    """

    offsets: Int64Array
    columns: Int64Array

    def sums(self, weights: Float64Array, right: Float32Matrix) -> Float32Matrix:
        """Return (v, rows) float32: Φ·R transposed, where Φ holds the weights, (m,), at the entries, for (columns, v)
        R."""
        result = np.empty((right.shape[1], self.offsets.size - 1), np.float32)
        fill_sums(self.offsets, self.columns, weights, right, result)
        return result

    def product(self, left: Float32Matrix, sums: Float32Matrix) -> Float64Array:
        """Return (m,) the entries of L·Φ·R, in single precision, of ``sums(weights, R)``.

        Weights that are too large for it become infinite.
        """
        return entry_products(self.offsets, self.columns, left, sums)


@kernel
def fill_sums(
    offsets: Int64Array, columns: Int64Array, weights: Float64Array, right: Float32Matrix, result: Float32Matrix
) -> None:
    """Set ``result``, (v, rows), to Φ·R transposed."""
    block = np.empty((LINE, right.shape[1]), np.float32)
    for start in range(0, offsets.size - 1, LINE):
        stop = min(start + LINE, offsets.size - 1)
        block[:] = 0.0
        for a in range(start, stop):
            row = block[a - start]
            for k in range(offsets[a], offsets[a + 1]):
                weight = np.float32(weights[k])
                if weight > 0.0:
                    other = right[columns[k]]
                    for j in range(row.size):
                        row[j] += weight * other[j]
        for j in range(right.shape[1]):
            for i in range(stop - start):
                result[j, start + i] = block[i, j]


@kernel
def entry_products(offsets: Int64Array, columns: Int64Array, left: Float32Matrix, sums: Float32Matrix) -> Float64Array:
    """Return (m,) float64: for each entry (a, b) the product of row a of ``left`` and row b of ``sums``."""
    result = np.empty(columns.size)
    for a in range(offsets.size - 1):
        for k in range(offsets[a], offsets[a + 1]):
            result[k] = sum_of_products(left[a], sums[columns[k]])
    return result


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


class Binding(NamedTuple):
    """The factors below 1 of one attribute, by tuple t.

    * ``offsets``: (m + 1,) int64, the first factor of each tuple. ``values``: (n,) int32 indices of values.
      ``factors``: (n,) float32 r.
    """

    offsets: Int64Array
    values: Int32Array
    factors: Float32Array

    @classmethod
    def none(cls, size: int) -> Binding:
        """Return no factors of ``size`` tuples."""
        return cls(np.zeros(size + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32))

    def ordered(self, order: Int64Array) -> Binding:
        """Return the same with the tuples in another order; ``order``: (m,) the tuple at each place."""
        lengths = np.diff(self.offsets)[order]
        offsets = offsets_from_lengths(lengths)
        places = ranges(self.offsets[:-1][order], lengths)
        return Binding(offsets, self.values[places], self.factors[places])

    def carried(self, places: Int64Array, known: BoolArray, values: Int64Array) -> Binding:
        """Return the factors of the tuples of another window.

        * ``places``: (n,) the tuple of each. ``known``: (n,) whether it is the same. ``values``: (k,) the index that
          each value has there, −1 for none.
        """
        own = self.ordered(places)
        lengths = np.diff(own.offsets)
        indices = values[own.values]
        kept = np.repeat(known, lengths) & (indices >= 0)
        left = np.bincount(np.repeat(np.arange(known.size), lengths)[kept], minlength=known.size)
        return Binding(offsets_from_lengths(left), indices[kept].astype(np.int32), own.factors[kept])

    def by_value(self, values: int) -> Lines:
        """Return the tuples that have a factor of each of ``values`` values."""
        tuples = np.repeat(np.arange(self.offsets.size - 1), np.diff(self.offsets))
        lengths = np.bincount(self.values, minlength=values)
        return offsets_from_lengths(lengths), tuples[np.argsort(self.values, kind="stable")]

    def to_model(self) -> dict[str, Any]:
        """Return the JSON-serialisable form."""
        return {
            "lengths": pack_array(np.diff(self.offsets).astype(np.int32)),
            "values": pack_array(self.values),
            "factors": pack_array(self.factors),
        }

    @classmethod
    def from_model(cls, model: object, tuples: int, values: int) -> Binding:
        """Restore what ``to_model`` returns, for a number of tuples and of values. Raises StatisticsError."""
        offsets = offsets_from_lengths(read_array(model, "lengths", np.int32, tuples, low=0, high=values))
        indices = read_array(model, "values", np.int32, int(offsets[-1]), low=0, high=values - 1)
        return cls(offsets, indices, read_array(model, "factors", np.float32, indices.size, low=0.0, high=1.0))


@part
def factor_of(binding: Binding, t: int, value: int) -> float:
    """Return r of a value and a tuple."""
    for f in range(binding.offsets[t], binding.offsets[t + 1]):
        if binding.values[f] == value:
            return np.float64(binding.factors[f])
    return 1.0
