"""Transports that are fitted to a window, and their form in a model.

A fit is the transport of one attribute, or of a pair of attributes, onto itself. Its model holds the window's tuples
with their counts, λ, and φ as float32 logarithms. Kernels are computed again wherever the model is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from stream_masker.core.dtypes import BoolArray, Float64Array, Float64Matrix, Int64Array
from stream_masker.core.mechanisms.transition.serialization import pack_array, read_model_field, unpack_array
from stream_masker.core.mechanisms.transport.solver import Problem, Scaling, changed_shares
from stream_masker.core.mechanisms.transport.table import Table
from stream_masker.errors import StatisticsError

MAX_LOG_SCALE = 200.0
"""The greatest |ln φ| that a model may hold."""


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """A fitted transport of the tuples of one or two attributes.

    * ``table``: the window's tuples. ``counts``: (m,) int64, its rows of each tuple.
    * ``sharpness``: (2,) λ. ``phi``: (m,) φ. ``changed``: (2,) the share of values of
      each attribute that change.
    """

    table: Table
    counts: Int64Array
    sharpness: Float64Array
    phi: Float64Array
    changed: Float64Array

    @classmethod
    def of(cls, problem: Problem, counts: Int64Array, scaling: Scaling) -> Fit:
        """Create the fit of a solution, with the numbers that its model holds."""
        rounded = np.exp(np.log(scaling.phi).astype(np.float32).astype(np.float64))
        return cls(problem.table, counts, scaling.sharpness, rounded, changed_shares(problem, scaling))

    @property
    def law(self) -> Float64Array:
        """(m,) float64 P: the share of each tuple."""
        result: Float64Array = self.counts / self.counts.sum()
        return result

    def written(self, least: int) -> BoolArray:
        """Return (m,) whether each tuple has at least ``least`` rows."""
        result: BoolArray = self.counts >= least
        return result

    def solution(
        self,
        squares: tuple[Float64Matrix, Float64Matrix],
        least: int,
        power: float,
        extra: Float64Matrix | None = None,
    ) -> tuple[Problem, Scaling]:
        """Return the problem that the fit solves, and its solution; for the arguments see ``Problem``."""
        written = self.written(least)
        problem = Problem(self.table, self.law, written, squares, power, extra)
        psi = np.where(written, self.phi, 0.0)
        first, second = problem.kernels(self.sharpness)
        totals = self.table.by_row.product(psi, first, second)
        return problem, Scaling(self.sharpness, self.phi, psi, totals, 0.0)

    def start_for(self, law: Float64Array, keys: Int64Array, own_keys: Int64Array, ratios: Float64Array) -> Scaling:
        """Return λ and φ as a start for another window; tuples are identified by keys, ascending.

        * ``law``: P of the other window. ``keys``, ``own_keys``: those of its tuples, and of the fit's.
        * ``ratios``: (2,) of the mean squared distances of this fit and the other one: λ is about proportional to them.
        """
        place = np.minimum(np.searchsorted(own_keys, keys), own_keys.size - 1)
        known = own_keys[place] == keys
        phi = np.where(known, self.phi[place], np.sqrt(law))
        return Scaling(self.sharpness * ratios, phi, phi, phi, np.inf)

    def as_start(self) -> Scaling:
        """Return λ and φ as a start for another problem of the same tuples."""
        return Scaling(self.sharpness, self.phi, self.phi, self.phi, np.inf)

    def to_model(self) -> dict[str, Any]:
        """Return the JSON-serialisable form."""
        return {
            **pack_tuples(self.table, self.counts),
            "sharpness": self.sharpness.tolist(),
            "changed": self.changed.tolist(),
            "scale": pack_array(np.log(self.phi).astype(np.float32)),
        }

    @classmethod
    def from_model(cls, model: object, shape: tuple[int, int]) -> Fit:
        """Restore what ``to_model`` returns, for a table of that shape. Raises StatisticsError."""
        table, counts = read_tuples(model, shape)
        scale = unpack_array(read_model_field(model, "scale"), np.float32, counts.size).astype(np.float64)
        if not (np.abs(scale) <= MAX_LOG_SCALE).all():
            raise StatisticsError("a scale of the model is not allowed")
        sharpness, changed = (two_numbers(model, name) for name in ("sharpness", "changed"))
        return cls(table, counts, sharpness, np.exp(scale), changed)


def pack_tuples(table: Table, counts: Int64Array) -> dict[str, Any]:
    """Return what ``read_tuples`` reads."""
    return {"tuples": pack_array(np.diff(table.keys, prepend=0)), "counts": pack_array(counts)}


def read_tuples(model: object, shape: tuple[int, int]) -> tuple[Table, Int64Array]:
    """Return the tuples of a model, for a table of that shape, and their counts. Raises StatisticsError."""
    keys = np.cumsum(unpack_array(read_model_field(model, "tuples"), np.int64))
    counts = unpack_array(read_model_field(model, "counts"), np.int64, keys.size)
    ascending = _ascending(keys, shape[0] * shape[1])
    if not ascending or counts.min() < 1:
        raise StatisticsError("the model's tuples are not distinct, or a count of them is not positive")
    return Table.of(*np.divmod(keys, shape[1]), shape), counts


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


def read_values(model: object, size: int) -> tuple[np.ndarray[Any, np.dtype[np.int32]], Int64Array]:
    """Return the positions and counts of an attribute's values, for a taxonomy of ``size`` concepts.

    Raises StatisticsError.
    """
    positions = np.cumsum(unpack_array(read_model_field(model, "positions"), np.int32)).astype(np.int32)
    counts = unpack_array(read_model_field(model, "counts"), np.int64, positions.size)
    ascending = _ascending(positions, size)
    if not ascending or counts.min() < 1:
        raise StatisticsError("the model's values are not distinct concepts of their taxonomy with positive counts")
    return positions, counts


def pack_values(positions: np.ndarray[Any, np.dtype[np.int32]], counts: Int64Array) -> dict[str, Any]:
    """Return what ``read_values`` reads."""
    return {"positions": pack_array(np.diff(positions, prepend=np.int32(0))), "counts": pack_array(counts)}
