"""The law of the masks of a pair, given its values: what the assessment of whole records needs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stream_masker.core.dtypes import Float64Array, Float64Matrix, Int32Array
from stream_masker.core.mechanisms.transport.prepared import PreparedTransport
from stream_masker.core.risk.records import Tuples


@dataclass(frozen=True, slots=True, eq=False)
class TransportedPairs:
    """M(a*, b* | a, b) of the window's pairs, up to the factor ψ(a*, b*).

    * ``first``, ``second``: K_A and K_B. ``a``, ``b``: (t,) indices of the values of each pair. ``totals``: (t,) Kψ.
    * ``index_a``, ``index_b``: the index of each position's value.
    """

    first: Float64Matrix
    second: Float64Matrix
    a: Int32Array
    b: Int32Array
    totals: Float64Array
    index_a: Int32Array
    index_b: Int32Array

    @classmethod
    def of(cls, prepared: PreparedTransport, tuples: Tuples) -> TransportedPairs:
        """Create the law of a transport of pairs."""
        problem, scaling = prepared.solution()
        values = prepared.values
        a, b = (v.indices(codes) for v, codes in zip(values, tuples.codes, strict=True))
        columns = problem.table.shape[1]
        place = np.searchsorted(problem.table.keys, a.astype(np.int64) * columns + b)
        return cls(
            *problem.kernels(scaling.sharpness),
            a,
            b,
            scaling.totals[place],
            values[0].index_of,
            values[1].index_of,
        )

    def likelihood(self, masked: tuple[int, ...]) -> Float64Array:
        """Return (t,) float64: the probability of the masked pair given each pair, up to a common factor."""
        new_a, new_b = self.index_a[masked[0]], self.index_b[masked[1]]
        return np.asarray(self.first[self.a, new_a] * self.second[self.b, new_b] / self.totals)
