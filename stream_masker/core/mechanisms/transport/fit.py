"""Transports that are fitted to a window, and their form in a model.

A fit is the transport of one attribute, or of a pair of attributes, onto itself. Its model holds the window's tuples
with their counts, the exponents of the kernels, ln ψ as float32, and the factors of its limits. Kernels and φ are
computed again wherever the model is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from stream_masker.core.arrays import located
from stream_masker.core.dtypes import BoolArray, Float32Matrix, Float64Array, Float64Matrix, Int32Array, Int64Array
from stream_masker.core.kernels.elementary import exponentials, logarithms
from stream_masker.core.mechanisms.transition.serialization import pack_array, read_model_field, unpack_array
from stream_masker.core.mechanisms.transport.kernel import Levels
from stream_masker.core.mechanisms.transport.limits import Caps
from stream_masker.core.mechanisms.transport.scaling.binding import Binding
from stream_masker.core.mechanisms.transport.scaling.solver import (
    LEAST,
    Kernels,
    Problem,
    Scaling,
    Start,
    denominators,
)
from stream_masker.core.mechanisms.transport.scaling.table import Table
from stream_masker.errors import StatisticsError

MAX_LOG_SCALE = 200.0
"""The greatest |ln ψ| that a model may hold."""


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """A fitted transport of the tuples of one or two attributes.

    * ``table``: the window's tuples. ``counts``: (m,) int64, its rows of each tuple. ``written``: (m,) whether a tuple
      may be written.
    * ``levels``: those of both kernels. ``exponents``: (2,) of the kernels.
    * ``psi``: (m,) ψ, 0 where a tuple is not written. ``binding``: the factors of both attributes.
    * ``changed``: (2,) the share of values of each attribute that change.
    """

    table: Table
    counts: Int64Array
    written: BoolArray
    levels: tuple[Levels, Levels]
    exponents: Float64Array
    psi: Float64Array
    binding: tuple[Binding, Binding]
    changed: Float64Array

    @classmethod
    def of(cls, problem: Problem, counts: Int64Array, levels: tuple[Levels, Levels], scaling: Scaling) -> Fit:
        """Create the fit of a solution, with the numbers that its model holds, and without what changes."""
        psi = np.zeros(scaling.psi.size)
        psi[problem.written] = _rounded(scaling.psi[problem.written])
        given = (problem.table, counts, problem.written, levels, scaling.exponents)
        return cls(*given, psi, scaling.binding, np.zeros(2))

    @property
    def law(self) -> Float64Array:
        """(m,) float64 P: the share of each tuple."""
        result: Float64Array = self.counts / self.counts.sum()
        return result

    def solution(
        self, squares: tuple[Float64Matrix, Float64Matrix], limits: tuple[Caps, Caps]
    ) -> tuple[Problem, Scaling]:
        """Return the problem that the fit solves, and its solution; ``squares``: (k, k) sd² of both attributes."""
        costs = costs_of(self.levels, squares)
        problem = Problem(self.table, self.law, self.written, costs, limits)
        kernels = Kernels.of(problem, self.exponents)
        totals = denominators(problem, kernels, self.psi, self.binding)
        phi = self.law / np.maximum(totals, LEAST)
        return problem, Scaling(self.exponents, kernels, self.psi, phi, self.binding, 0.0)

    def start_for(
        self, target: Float64Array, keys: Int64Array, own_keys: Int64Array, values: tuple[Int64Array, Int64Array]
    ) -> Start:
        """Return ψ and the factors as a start for another window; tuples are identified by keys.

        * ``target``: (n,) the law of masks of the other window. ``keys``, ``own_keys``: (n,) and (m,) those of its
          tuples, and of the fit's, ascending. ``values``: for both attributes the index that each value has there.
        """
        place, held = located(own_keys, keys)
        known = held & (self.psi[place] > 0.0)
        first, second = (b.carried(place, known, v) for b, v in zip(self.binding, values, strict=True))
        return np.where(known, self.psi[place], target), (first, second)

    def to_model(self) -> dict[str, Any]:
        """Return the JSON-serialisable form."""
        return {
            **pack_tuples(self.table, self.counts),
            "written": pack_array(np.packbits(self.written)),
            "kernels": [each.to_model() for each in self.levels],
            "exponents": self.exponents.tolist(),
            "changed": self.changed.tolist(),
            "scale": pack_array(logarithms(self.psi[self.written]).astype(np.float32)),
            "factors": [each.to_model() for each in self.binding],
        }

    @classmethod
    def from_model(cls, model: object, shape: tuple[int, int]) -> Fit:
        """Restore what ``to_model`` returns, for a table of that shape. Raises StatisticsError."""
        table, counts = read_tuples(model, shape)
        written = read_written(model, counts.size)
        scale = unpack_array(read_model_field(model, "scale"), np.float32, int(written.sum())).astype(np.float64)
        if not (np.abs(scale) <= MAX_LOG_SCALE).all():
            raise StatisticsError("a scale of the model is not allowed")
        psi = np.zeros(counts.size)
        psi[written] = exponentials(scale)
        exponents, changed = (two_numbers(model, name) for name in ("exponents", "changed"))
        factors, kernels = (_two(model, name) for name in ("factors", "kernels"))
        first, second = (Binding.from_model(f, counts.size, size) for f, size in zip(factors, shape, strict=True))
        levels = tuple(Levels.from_model(each, size) for each, size in zip(kernels, shape, strict=True))
        return cls(table, counts, written, (levels[0], levels[1]), exponents, psi, (first, second), changed)


def costs_of(
    levels: tuple[Levels, Levels], squares: tuple[Float64Matrix, Float64Matrix]
) -> tuple[Float32Matrix, Float32Matrix]:
    """Return the exponents of both kernels; ``squares``: (k, k) sd² of both attributes."""
    return levels[0].costs(squares[0]), levels[1].costs(squares[1])


def _two(model: object, name: str) -> list[object]:
    """Return a model's list with an entry for each of two attributes. Raises StatisticsError."""
    entries = read_model_field(model, name)
    if not isinstance(entries, list) or len(entries) != 2:
        raise StatisticsError(f"the model's {name} are not those of two attributes")
    return entries


def _rounded(psi: Float64Array) -> Float64Array:
    return exponentials(logarithms(psi).astype(np.float32).astype(np.float64))


def pack_tuples(table: Table, counts: Int64Array) -> dict[str, Any]:
    """Return what ``read_tuples`` reads."""
    return {"tuples": pack_array(np.diff(table.keys, prepend=0)), "counts": pack_array(counts)}


def read_tuples(model: object, shape: tuple[int, int]) -> tuple[Table, Int64Array]:
    """Return the tuples of a model, for a table of that shape, and their counts. Raises StatisticsError."""
    keys = np.cumsum(unpack_array(read_model_field(model, "tuples"), np.int64))
    counts = unpack_array(read_model_field(model, "counts"), np.int64, keys.size)
    if not _ascending(keys, shape[0] * shape[1]) or counts.min() < 1:
        raise StatisticsError("the model's tuples are not distinct, or a count of them is not positive")
    return Table.of(*np.divmod(keys, shape[1]), shape), counts


def read_written(model: object, tuples: int) -> BoolArray:
    """Return (m,) bool: which tuples of a model may be written. Raises StatisticsError if none may."""
    packed = unpack_array(read_model_field(model, "written"), np.uint8, (tuples + 7) // 8)
    written = np.unpackbits(packed, count=tuples).astype(np.bool_)
    if not written.any():
        raise StatisticsError("no tuple of the model may be written")
    return np.asarray(written)


def two_numbers(model: object, name: str) -> Float64Array:
    """Return (2,) float64 from 0 of a model's field. Raises StatisticsError."""
    try:
        numbers = np.array(read_model_field(model, name), np.float64)
    except (TypeError, ValueError):
        numbers = np.empty(0)
    if numbers.shape != (2,) or not np.isfinite(numbers).all() or numbers.min() < 0.0:
        raise StatisticsError(f"the model's {name} is not two numbers from 0")
    return numbers


def _ascending(numbers: np.ndarray[Any, Any], size: int) -> bool:
    """Return whether there are numbers, all are from 0 to below ``size``, and each is greater than the one before."""
    return bool(numbers.size and numbers.min() >= 0 and numbers.max() < size and (np.diff(numbers) > 0).all())


def read_values(model: object, size: int) -> tuple[Int32Array, Int64Array]:
    """Return the positions and counts of an attribute's values, for a taxonomy of ``size`` concepts.

    Raises StatisticsError.
    """
    positions = np.cumsum(unpack_array(read_model_field(model, "positions"), np.int32)).astype(np.int32)
    counts = unpack_array(read_model_field(model, "counts"), np.int64, positions.size)
    if not _ascending(positions, size) or counts.min() < 1:
        raise StatisticsError("the model's values are not distinct concepts of their taxonomy with positive counts")
    return positions, counts


def pack_values(positions: Int32Array, counts: Int64Array) -> dict[str, Any]:
    """Return what ``read_values`` reads."""
    return {"positions": pack_array(np.diff(positions, prepend=np.int32(0))), "counts": pack_array(counts)}
