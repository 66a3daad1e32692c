"""The law of the masks of a pair, given its values: what the assessment of whole records needs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stream_masker.core.dtypes import Float32Matrix, Float64Array, Int32Array
from stream_masker.core.mechanisms.transport.prepared import PreparedTransport
from stream_masker.core.mechanisms.transport.scaling.binding import Binding
from stream_masker.core.mechanisms.transport.scaling.solver import Problem
from stream_masker.core.risk.records import Tuples


@dataclass(frozen=True, slots=True, eq=False)
class TransportedPairs:
    """M(a*, b* | a, b) of the window's pairs, up to the factor ψ(a*, b*).

    * ``problem``, ``binding``: the transport of pairs, and its factors. ``first``, ``second``: K_A and K_B.
    * ``a``, ``b``: (t,) indices of the values of each pair. ``scales``: (t,) 1 / D of each pair.
    * ``index_a``, ``index_b``: the index of each position's value.
    """

    problem: Problem
    binding: tuple[Binding, Binding]
    first: Float32Matrix
    second: Float32Matrix
    a: Int32Array
    b: Int32Array
    scales: Float64Array
    index_a: Int32Array
    index_b: Int32Array

    @classmethod
    def of(cls, prepared: PreparedTransport, tuples: Tuples) -> TransportedPairs:
        """Create the law of a transport of pairs."""
        problem, scaling = prepared.solution()
        values = prepared.values
        a, b = (v.indices(codes) for v, codes in zip(values, tuples.codes, strict=True))
        place = np.searchsorted(problem.table.keys, a.astype(np.int64) * problem.table.shape[1] + b)
        kernels = scaling.kernels
        scales = (scaling.phi / problem.law)[place]
        indices = (values[0].index_of, values[1].index_of)
        return cls(problem, scaling.binding, kernels.first, kernels.second, a, b, scales, *indices)

    def likelihood(self, masked: tuple[int, ...]) -> Float64Array:
        """Return (t,) float64: the probability of the masked pair given each pair, up to a common factor."""
        new_a, new_b = int(self.index_a[masked[0]]), int(self.index_b[masked[1]])
        table = self.problem.table
        t = int(np.searchsorted(table.keys, new_a * table.shape[1] + new_b))
        sides = zip(self.binding, (self.first[:, new_a], self.second[:, new_b]), strict=True)
        first, second = (_cut(binding, t, column) for binding, column in sides)
        return np.asarray(first[self.a] * second[self.b] * self.scales)


def _cut(binding: Binding, t: int, column: np.ndarray[tuple[int], np.dtype[np.float32]]) -> Float64Array:
    """Return (k,) K·r of a tuple's mask."""
    own = slice(int(binding.offsets[t]), int(binding.offsets[t + 1]))
    result: Float64Array = column.astype(np.float64)
    result[binding.values[own]] *= binding.factors[own]
    return result
