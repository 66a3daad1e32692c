"""The disclosure risk of a transport.

Maxima over tuples s of φ(s)·K(s, t)·r(s, t) separate into one over b and one over a, so that they take O(tuples ·
values).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stream_masker.core.dtypes import Float64Array, Int32Array
from stream_masker.core.kernels.jit import int64, kernel, part
from stream_masker.core.mechanisms.transport.scaling.columns import Side
from stream_masker.core.mechanisms.transport.scaling.solver import Scaling, seen_from
from stream_masker.core.mechanisms.transport.scaling.table import Binding, factor_of
from stream_masker.core.mechanisms.transport.values import Values
from stream_masker.core.risk.records import Tuples


@dataclass(frozen=True, slots=True)
class Disclosure:
    """What masked records tell an attacker who knows everything but the secret, without draws. Keys are attributes.

    The figures are exact for one attribute and for a pair. In a star they are those of a law in which the others are
    independent given the root, and those of children are upper bounds.

    * ``given_record``: the chance that the best guess of a value is right, given all masks of the record.
    * ``least``: a lower bound of ``given_record`` of all methods that keep the law of the attribute's values and move
      them by ``rmse`` (``transport.kernel.least_vulnerability``).
    * ``certainty``: the greatest posterior of a value given all masks, over all records that can be written.
    * ``rmse``: √E[sd²].
    * ``epsilon_of_record``: max of ln M(t | s) − ln M(t | s′) over tuples of the window; in a star an upper bound for
      records with one value of each attribute. ``epsilon_of_value``: what each value adds to it at most, and each
      further element of an array.
    """

    given_record: Mapping[str, float]
    least: Mapping[str, float]
    certainty: Mapping[str, float]
    rmse: Mapping[str, float]
    epsilon_of_record: float
    epsilon_of_value: Mapping[str, float]

    @classmethod
    def averaged(cls, parts: Sequence[Disclosure], weights: Float64Array) -> Disclosure:
        """Return the figures of several laws, whose shares of records are ``weights``, (l,): averages of chances, and
        the greatest certainty and ε."""
        names = parts[0].rmse
        return cls(
            {name: float(np.dot(weights, [part.given_record[name] for part in parts])) for name in names},
            {name: float(np.dot(weights, [part.least[name] for part in parts])) for name in names},
            {name: max(part.certainty[name] for part in parts) for name in names},
            {name: float(np.dot(weights, [part.rmse[name] ** 2 for part in parts]) ** 0.5) for name in names},
            max(part.epsilon_of_record for part in parts),
            {name: max(part.epsilon_of_value[name] for part in parts) for name in names},
        )


@part
def fill_maxima(side: Side, others: Binding, t: int, maxima: Float64Array) -> None:
    """Set ``maxima``, (k,), to max φ·K·r over their values, for each value of mine."""
    maxima[:] = 0.0
    kernel_row = side.their_kernel[side.theirs[t]]
    for other in range(kernel_row.size):
        weight = np.float64(kernel_row[other]) * factor_of(others, t, int64(other))
        for e in range(side.lines[other], side.lines[other + 1]):
            s = side.entries[e]
            maxima[side.mine[s]] = max(maxima[side.mine[s]], side.phi[s] * weight)


@kernel
def record_maxima(side: Side, mine: Binding, others: Binding) -> Float64Array:
    """Return (m,) float64: max over the tuples s of φ(s)·K·r of each tuple t."""
    result = np.empty(side.mine.size)
    size = side.kernel.shape[1]
    common, cut, column = np.empty(size), np.empty(size), np.empty(size)
    for other in range(side.lines.size - 1):
        known = False
        for e in range(side.lines[other], side.lines[other + 1]):
            t = int64(side.entries[e])
            maxima = common
            if others.offsets[t] < others.offsets[t + 1]:
                fill_maxima(side, others, t, cut)
                maxima = cut
            elif not known:
                fill_maxima(side, others, t, common)
                known = True
            own = side.kernel[side.mine[t]]
            for x in range(size):
                column[x] = np.float64(own[x]) * maxima[x]
            for f in range(mine.offsets[t], mine.offsets[t + 1]):
                column[mine.values[f]] *= np.float64(mine.factors[f])
            result[t] = column.max()
    return result


def vulnerability_of_record(solved: Scaling) -> float:
    """V(A, B | A*, B*): the chance that the most probable original record, given the masked one, is the true one."""
    side = seen_from(solved.kernels, solved.phi, first=True, sums=False)
    return min(float(np.dot(solved.psi, record_maxima(side, *solved.binding))), 1.0)


def stays_of_record(solved: Scaling) -> float:
    """P(A = A*, B = B*): the share of records in which masking changes no value."""
    table, kernels = solved.problem.table, solved.kernels
    stays = solved.phi * solved.psi * np.diag(kernels.first)[table.rows] * np.diag(kernels.second)[table.columns]
    for binding, own in zip(solved.binding, (table.rows, table.columns), strict=True):
        tuples = np.repeat(np.arange(own.size), np.diff(binding.offsets))
        cut = np.flatnonzero(binding.values == own[tuples])
        stays[tuples[cut]] *= binding.factors[cut]
    return float(stays.sum())


def epsilon_of_record(solved: Scaling) -> float:
    """max over t, s, s′ of ln M(t | s) − ln M(t | s′), over the window's tuples s, s′ and the written tuples t."""
    given = solved.phi / solved.problem.law
    side = seen_from(solved.kernels, given, first=True, sums=False)
    inverse = side._replace(kernel=1.0 / side.kernel, their_kernel=1.0 / side.their_kernel, phi=1.0 / given)
    tiny = np.finfo(np.float32).tiny
    first, second = (b._replace(factors=(1.0 / np.maximum(b.factors, tiny)).astype(np.float32)) for b in solved.binding)
    ratios = record_maxima(side, *solved.binding) * record_maxima(inverse, first, second)
    return float(np.log(ratios[solved.psi > 0.0]).max())


@dataclass(frozen=True, slots=True, eq=False)
class TransportedPairs:
    """M(a*, b* | a, b) of the window's pairs, up to the factor ψ(a*, b*).

    * ``solved``: the transport of pairs. ``values``: of both attributes.
    * ``a``, ``b``: (t,) indices of the values of each pair. ``scales``: (t,) 1 / D of each pair.
    """

    solved: Scaling
    values: tuple[Values, ...]
    a: Int32Array
    b: Int32Array
    scales: Float64Array

    @classmethod
    def of(cls, solved: Scaling, values: tuple[Values, ...], tuples: Tuples) -> TransportedPairs:
        """Create the law of a transport of pairs."""
        a, b = (v.indices(codes) for v, codes in zip(values, tuples.codes, strict=True))
        table = solved.problem.table
        place = np.searchsorted(table.keys, a.astype(np.int64) * table.shape[1] + b)
        return cls(solved, values, a, b, (solved.phi / solved.problem.law)[place])

    def likelihood(self, masked: tuple[int, ...]) -> Float64Array:
        """Return (t,) float64: the probability of the masked pair given each pair, up to a common factor."""
        new_a, new_b = (v.index(code) for v, code in zip(self.values, masked, strict=True))
        table, kernels = self.solved.problem.table, self.solved.kernels
        t = int(np.searchsorted(table.keys, new_a * table.shape[1] + new_b))
        first, second = kernels.first[:, new_a].astype(np.float64), kernels.second[:, new_b].astype(np.float64)
        for binding, column in zip(self.solved.binding, (first, second), strict=True):
            own = slice(int(binding.offsets[t]), int(binding.offsets[t + 1]))
            column[binding.values[own]] *= binding.factors[own]
        return np.asarray(first[self.a] * second[self.b] * self.scales)
