"""The statistics of nominal attributes, exact, from counts (2017: section 4.3), and versions of them.

sMean is read from the table of distances (``core.table``), and so are sVar, sdCov, sdVar and sdCor. Let N be the counts
of the pairs of distinct values, D_A and D_B their distance matrices, ΔA and ΔB the double-centred ones, and n the
number of rows. Then sdCov² = (1/n²) Σ N ∘ (ΔA N ΔB) = S1 + S2 − 2·S3, with

* S1 = (1/n²) Σ N ∘ (D_A N D_B), which needs the non-zeros of N only,
* S2 = the product of the grand means of D_A and D_B,
* S3 = (1/n) Σ N_ab r_a r_b, where r are the row means.

A constant added to all distances cancels out. The distances are therefore shifted by their grand mean, so that S2
vanishes and S1 and S3 are small.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np

from stream_masker.core.arrays import Float64Array, Int32Array, Int64Array, Levels, pack_observed, unpack_observed
from stream_masker.core.batch import Batch, Column
from stream_masker.core.distance import ConceptsLike, Distance
from stream_masker.core.statistics.counts import Counts, SparseCounts, count_batch, marginals
from stream_masker.core.table import DistanceTable, least_total, table_of
from stream_masker.core.validation import require_type
from stream_masker.errors import ParameterError, StatisticsError

HELD_CELLS = 1 << 22
"""The number of distances that are held as floats at once (32 MB)."""


def semantic_mean(values: ConceptsLike, d: Distance) -> str:
    """sMean(A) = argmin over every c in τ of Σ sd(c, a_i) (2017: equation 13), a concept id.

    ``values`` are n concept ids or positions. The paper takes any concept of a tie; here it is the one of smallest
    depth, then of smallest id. Raises StatisticsError if there are no values, and UnknownConceptError for a value
    outside the taxonomy.
    """
    return d.taxonomy.ids[_counted(d=(values, d))[1][0].mean]


def semantic_variance(values: ConceptsLike, d: Distance) -> float:
    """sVar(A) = (1/n) Σ sd(a_i, sMean(A))², in [0, 1] (2017: equation 14). Raises as ``semantic_mean``."""
    return _counted(d=(values, d))[1][0].variance


def distance_covariance(a: ConceptsLike, d_a: Distance, b: ConceptsLike, d_b: Distance) -> float:
    """sdCov(A, B) = (1/n)·√ΣΣ δA_ij·δB_ij, in [0, 1] (2017: equation 18).

    ``a`` and ``b`` are n concept ids or positions each, row by row. Wu–Palmer need not be of negative type, so the sum
    can be slightly negative; it is then clamped to 0. Raises ParameterError if the lengths differ, StatisticsError if
    there are no rows, and UnknownConceptError for a value outside its taxonomy.
    """
    return _pair(a, d_a, b, d_b)[0]


def distance_variance(a: ConceptsLike, d_a: Distance) -> float:
    """sdVar(A) = sdCov(A, A), in [0, 1]; 0 if and only if all values are equal (2017: equation 20).

    Raises StatisticsError if there are no values, and UnknownConceptError for a value outside the taxonomy.
    """
    return _counted(d_a=(a, d_a))[1][0].distance_variance


def distance_correlation(a: ConceptsLike, d_a: Distance, b: ConceptsLike, d_b: Distance) -> float:
    """sdCor(A, B) = sdCov / √(sdVar(A)·sdVar(B)), in [0, 1]; 0 if an attribute is constant (2017: equation 19).

    Raises as ``distance_covariance``.
    """
    return _pair(a, d_a, b, d_b)[1]


def _pair(a: ConceptsLike, d_a: Distance, b: ConceptsLike, d_b: Distance) -> tuple[float, float]:
    counts, both = _counted(d_a=(a, d_a), d_b=(b, d_b))
    return covariance_and_correlation(counts.pairs[0, 1], *both)


def _counted(**columns: tuple[ConceptsLike, Distance]) -> tuple[Counts, list[Marginal]]:
    """Count attributes: of each ids or positions, and the distance, whose name is the key; return their marginals."""
    for name, (_, d) in columns.items():
        require_type(name, d, Distance)
    sizes = [str(len(values)) for values, _ in columns.values()]
    if len(set(sizes)) > 1:
        raise ParameterError(f"both attributes need the same number of rows, not {' and '.join(sizes)}")
    codes = [Column(d.encode(values)) for values, d in columns.values()]
    distances = [d for _, d in columns.values()]
    counts = count_batch(Batch(codes[0].codes.size, tuple(codes)), [len(d.taxonomy) for d in distances])
    return counts, list(map(Marginal.of, counts.values, distances))


class Marginal:
    """k distinct values of an attribute, and how many of n rows have each. Immutable; statistics are cached.

    * ``positions``: (k,) int32, ascending. ``weights``: (k,) float64, their rows.
    * ``table``: a table of distances whose anchors include the values.
    * ``distances``: (k, k), between the values, as indices into ``levels``, (L,) float64.
    """

    def __init__(self, counts: SparseCounts, table: DistanceTable) -> None:
        """Raises StatisticsError for counts without a value."""
        if not counts.keys.size:
            raise StatisticsError("statistics need at least one value")
        self.counts, self.table, self.d, self.levels = counts, table, table.distance, table.levels
        self.positions: Int32Array = counts.keys.astype(np.int32)
        self.weights = counts.counts.astype(np.float64)
        self.rows = float(counts.rows)
        self._anchors = table.index_of(self.positions)

    @classmethod
    def of(cls, counts: SparseCounts, d: Distance) -> Marginal:
        """Return the marginal of some counts, on a table of their values. Raises StatisticsError without a value."""
        return cls(counts, table_of(d, counts.keys))

    @cached_property
    def distances(self) -> Levels:
        """See above."""
        return np.asarray(self.table.rows[np.ix_(self._anchors, self.table.class_of[self.positions])])

    @cached_property
    def _totals(self) -> Float64Array:
        """(c,) float64: the sum of the distances of each class of the table to the values of all rows."""
        weights = np.zeros(self.table.anchors.size)
        weights[self._anchors] = self.weights
        return self.table.totals(weights)

    @cached_property
    def mean(self) -> int:
        """The position of sMean (2017: equation 13)."""
        every = np.arange(len(self.d.taxonomy), dtype=np.int32)
        return least_total(every, self._totals[self.table.class_of], self.d.taxonomy)

    @cached_property
    def variance(self) -> float:
        """sVar (2017: equation 14)."""
        distances = self.levels[self.table.rows[self._anchors, self.table.class_of[self.mean]]]
        return float(self.weights @ distances**2) / self.rows

    @property
    def sums(self) -> Float64Array:
        """(k,) float64: the sum of the distances of each value to those of all rows."""
        return np.asarray(self._totals[self.table.class_of[self.positions]])

    @property
    def grand_mean(self) -> float:
        """The mean of all n × n distances (2017: equation 17)."""
        return float(self.weights @ self.sums) / self.rows**2

    @property
    def offsets(self) -> Float64Array:
        """(k,) float64: the mean distance of each value to those of all rows, minus the grand mean."""
        return np.asarray(self.sums / self.rows - self.grand_mean)

    def centred(self) -> Float64Array:
        """Return (k, k) float64: the double-centred distances between the values (2017: equation 17)."""
        return np.asarray(self.levels.take(self.distances) - self.offsets[:, None] - self.offsets - self.grand_mean)

    @cached_property
    def distance_variance(self) -> float:
        """sdVar (2017: equation 20): sdCov of the attribute and itself."""
        every = np.arange(self.positions.size)
        return _covariance(every, every, self.weights, self, self)


def covariance_and_correlation(pair: SparseCounts, a: Marginal, b: Marginal) -> tuple[float, float]:
    """Return sdCov and sdCor of two attributes (2017: equations 18 and 19), in [0, 1]; 0 if one is constant.

    ``pair``: the counts of their pairs; ``a``, ``b``: the marginals of these.
    """
    keys_a, keys_b = np.divmod(pair.keys, len(b.d.taxonomy))
    first, second = np.searchsorted(a.positions, keys_a), np.searchsorted(b.positions, keys_b)
    covariance = _covariance(first, second, pair.counts.astype(np.float64), a, b)
    spread = math.sqrt(a.distance_variance * b.distance_variance)
    return covariance, min(1.0, covariance / spread) if spread else 0.0


def _covariance(first: Int64Array, second: Int64Array, counts: Float64Array, a: Marginal, b: Marginal) -> float:
    """Return sdCov of two attributes with these marginals.

    first, second, counts: (e,) the entries of N by row (ascending) and column. S1·n² is Σ N ∘ (X_A N X_B) =
    Σ (X_A N) ∘ (N X_B), with X the distances minus their grand mean. Takes O(e·(k_a + k_b)).
    """
    if min(a.positions.size, b.positions.size) == 1:
        return 0.0
    levels_a, levels_b = a.levels - a.grand_mean, b.levels - b.grand_mean
    steps = np.arange(0, first.size, max(1, HELD_CELLS // b.positions.size))
    bounds, products = np.union1d(np.searchsorted(first, np.arange(a.positions.size + 1)), steps), 0.0
    for run in map(slice, bounds[:-1], bounds[1:]):
        near = levels_a.take(a.distances[first[run.start]])
        left = np.bincount(second, counts * near[first], b.positions.size)
        products += float(left @ (counts[run] @ levels_b.take(b.distances[second[run]])))
    mixed = float(counts @ (a.offsets[first] * b.offsets[second])) / a.rows
    return math.sqrt(max(0.0, products / a.rows**2 - 2.0 * mixed))


@dataclass(frozen=True, slots=True, eq=False)
class Statistics:
    """The statistics of one window over p attributes. Immutable.

    * ``version``: 1, 2, …
    * ``records``: the number of events in the window.
    * ``attributes``: (p,) names, the order of rows and columns.
    * ``mean[a]``: sMean, a concept id. ``variance[a]``: sVar, in [0, 1].
    * ``covariance``: (p, p) float64, Σ of 2017's equation 22: sdVar on the diagonal, sdCov off it, projected to the
      nearest positive semidefinite matrix. ``projection``: the Frobenius norm of that change; 0 if none was needed.
    * ``correlation``: (p, p) float64, sdCor over the rows that have both attributes; 1 on the diagonal, or 0 for a
      constant attribute.
    * ``observed[a]``: the concepts of a that occur in this or in an earlier window, packed by ``pack_observed``.
    * ``values[a]``: how often each concept of a occurs; for a scalar, in how many events. Empty for statistics that
      people may see.
    * ``model``: what a mechanism needs of the window in addition, JSON-serialisable; empty for most mechanisms.
    """

    version: int
    records: int
    attributes: tuple[str, ...]
    mean: Mapping[str, str]
    variance: Mapping[str, float]
    covariance: Float64Array
    correlation: Float64Array
    projection: float
    observed: Mapping[str, str] = field(repr=False)
    values: Mapping[str, Mapping[str, int]] = field(default_factory=dict, repr=False)
    model: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def correlation_change(self, other: Statistics) -> Float64Array:
        """Return (p, p) float64: |ΔsdCor| of each pair. Raises StatisticsError for statistics of other attributes."""
        if self.attributes != other.attributes:
            raise StatisticsError("only statistics of the same attributes, in the same order, can be compared")
        return np.abs(self.correlation - other.correlation)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable form. ``from_dict`` restores equal statistics, every float to the last bit.

        ``values`` and ``model`` are left out if they are empty.
        """
        held = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: _plain(value) for name, value in held.items() if name not in ("values", "model") or value}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Statistics:
        """Restore what ``to_dict`` returns. Raises StatisticsError if a field is missing or has another shape."""
        try:
            names = tuple(map(str, data["attributes"]))
            held: dict[str, Any] = {
                name: {a: read(data[name][a]) for a in names}
                for name, read in (("mean", str), ("variance", float), ("observed", str), ("values", _counts))
                if name in data
            }
            for name in ("covariance", "correlation"):
                held[name] = np.array(data[name], np.float64).reshape([len(names)] * 2)
            return cls(
                version=int(data["version"]),
                records=int(data["records"]),
                attributes=names,
                projection=float(data["projection"]),
                model=dict(data.get("model", {})),
                **held,
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise StatisticsError(f"the statistics do not have the expected format ({type(error).__name__})") from None


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(own) for name, own in value.items()}
    return value.tolist() if isinstance(value, np.ndarray) else list(value) if isinstance(value, tuple) else value


def _counts(given: Mapping[str, Any]) -> dict[str, int]:
    counts = {str(concept): int(count) for concept, count in given.items()}
    if min(counts.values(), default=1) < 1:
        raise ValueError("a count is not positive")
    return counts


def compute_statistics(
    counts: Counts,
    attributes: Sequence[str],
    distances: Sequence[Distance],
    *,
    version: int,
    previous: Statistics | None = None,
) -> Statistics:
    """Compute the statistics of the counted events.

    The result depends on the arguments alone. Variances (the diagonal of Σ, 2017: equation 22) cover all rows of an
    attribute. Covariances and correlations cover the rows that have both attributes; they are 0 if there are none.

    * ``attributes``, ``distances``: (p,) in the order of the counts.
    * ``previous``: the statistics before, whose observed concepts remain observed.

    Raises StatisticsError if an attribute has no value (such statistics cannot mask anything) or if ``previous`` has
    other attributes or taxonomies.
    """
    names = tuple(attributes)
    if previous is not None and previous.attributes != names:
        raise StatisticsError(f"the previous statistics have the attributes {previous.attributes}, not {names}")
    if without := [name for name, column in zip(names, counts.values, strict=True) if not column.keys.size]:
        raise StatisticsError(f"no record of the window has a value of {', '.join(without)}")
    keys = {d: [own.keys for own, other in zip(counts.values, distances, strict=True) if other == d] for d in distances}
    tables = {d: table_of(d, np.concatenate(own)) for d, own in keys.items()}  # one for all attributes of a distance
    marginals_of = (Marginal(own, tables[d]) for own, d in zip(counts.values, distances, strict=True))
    columns = dict(zip(names, marginals_of, strict=True))
    covariance, correlation = _matrices(counts, list(columns.values()))
    covariance, projection = nearest_psd(covariance)
    observed = {}
    for name, m in columns.items():
        concepts = np.zeros(len(m.d.taxonomy), np.bool_)
        if previous is not None:
            concepts = unpack_observed(previous.observed[name], concepts.size)
        concepts[m.positions] = True
        observed[name] = pack_observed(concepts)
    shown = {name: counts.events.get((j,), counts.values[j]) for j, name in enumerate(names)}
    return Statistics(
        version=version,
        records=counts.records,
        attributes=names,
        mean={name: m.d.taxonomy.ids[m.mean] for name, m in columns.items()},
        variance={name: m.variance for name, m in columns.items()},
        covariance=covariance,
        correlation=correlation,
        projection=projection,
        observed=observed,
        values={
            name: dict(zip(columns[name].d.taxonomy.decode(own.keys), own.counts.tolist(), strict=True))
            for name, own in shown.items()
        },
    )


def _are_equal(first: SparseCounts, second: SparseCounts) -> bool:
    return np.array_equal(first.keys, second.keys) and np.array_equal(first.counts, second.counts)


def _matrices(counts: Counts, columns: Sequence[Marginal]) -> tuple[Float64Array, Float64Array]:
    """Return Σ (2017: equation 22) before projection, and the correlations: (p, p) each."""
    variances = np.array([column.distance_variance for column in columns])
    covariance, correlation = np.diag(variances), np.diag((variances > 0.0).astype(np.float64))
    for (i, j), pair in counts.pairs.items():
        if pair.keys.size:
            sides = zip(marginals(pair, len(columns[j].d.taxonomy)), (columns[i], columns[j]), strict=True)
            both = [m if _are_equal(m.counts, own) else Marginal(own, m.table) for own, m in sides]
            covariance[i, j], correlation[i, j] = covariance_and_correlation(pair, *both)
            covariance[j, i], correlation[j, i] = covariance[i, j], correlation[i, j]
    return covariance, correlation


EIGENVALUE_ROUNDING = 1e-12
"""Negative eigenvalues down to this, relative to the largest one, are rounding errors and need no projection."""


def nearest_psd(matrix: Float64Array) -> tuple[Float64Array, float]:
    """Return the nearest positive semidefinite matrix to a symmetric (p, p) one, and the Frobenius norm of the change.

    Setting negative eigenvalues to 0 minimizes the Frobenius norm of the change (Higham 1988: theorem 2.1). Σ (2017:
    equation 22) can need it for three attributes or more, because the elementwise root of a positive semidefinite
    matrix need not be positive semidefinite; and for two, if their variances and covariance cover different rows. A
    matrix that needs no change is returned as it is, with norm 0.
    """
    if not matrix.size:
        return matrix, 0.0
    values, vectors = np.linalg.eigh(matrix)
    if values[0] >= -EIGENVALUE_ROUNDING * max(values[-1], 0.0):
        return matrix, 0.0
    product = (vectors * np.maximum(values, 0.0)) @ vectors.T
    nearest = (product + product.T) / 2.0
    return nearest, float(np.linalg.norm(nearest - matrix))
