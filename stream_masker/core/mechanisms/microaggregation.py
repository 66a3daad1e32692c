"""Microaggregation on marginality (2013): groups of at least k similar records with one common value."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from stream_masker.core.arrays import Float64Array, Float64Matrix, Int32Array, Int64Array, UInt64Array, UInt64Matrix
from stream_masker.core.batch import Batch, Column, MaskedBatch, presence_patterns
from stream_masker.core.distance import ConceptsLike, Distance
from stream_masker.core.linkage import least_class
from stream_masker.core.mechanisms.grouped import GroupMechanism, GroupParameters
from stream_masker.core.mechanisms.parameters import parameter
from stream_masker.core.random import ROUNDING_WORD, TIES, Keys, draw_words, key_words, uniforms
from stream_masker.core.statistics.counts import Counts, SparseCounts
from stream_masker.core.statistics.statistics import Marginal, value_counts
from stream_masker.core.statistics.summary import Statistics
from stream_masker.core.table import least_total
from stream_masker.core.validation import whole_number
from stream_masker.errors import AnonymityError, StatisticsError, UnknownConceptError

MARGINALITY_TIE = 1e-9  # of totals of distances, for each record; rounding errors are far smaller


@dataclass(frozen=True, kw_only=True)
class MicroaggregationParameters(GroupParameters):
    """Microaggregation (2013): replaces the values of k or more similar records by one representative."""

    k: int = parameter(5, "The minimum number of records in a group of equal masked records; at least 2.", ge=2)
    variant: Literal["semantic", "classic"] = parameter(
        "semantic",
        "How similarity is measured: by semantic distance (`semantic`), or as equal or different (`classic`).",
    )
    hybrid: bool = parameter(
        False, "Whether values are taken from records of the group instead of its mean (2013: Algorithm 1)."
    )
    distance: str = parameter("log_taxonomic", "The semantic distance.")

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number("k", self.k, 2, self.window)


class Microaggregation(GroupMechanism):
    """Masks groups of k to 2k − 1 similar records by the mean of their group, so that masked records are k-anonymous.

    MDAV (``mdav``) forms the groups among the records that are masked together, by the S-distance (2013: equation 7)
    with the variances of the calibration window, divided by its number of values. With ``semantic``, marginalities use
    the semantic distance, and the mean is the least marginal value of the group. With ``classic``, the paper's
    baseline, the distance is 0 for equal values and 1 for others, and the mean is the mode. The paper leaves ties open;
    here the records' random words break them.

    k-anonymity holds for scalars, and is verified on the masked records (AnonymityError). It counts the
    units of a batch, such as persons; without units it counts records. Only records with the same attributes form
    groups, and absent values stay absent. Fewer than k units of these get the window's means, which reveal nothing
    except which values are absent (counted as ``truncated``). Array elements form groups by themselves: an element
    equals at least k − 1 others, but the combination of a record's elements, and their number, are not hidden.

    ``hybrid`` (2013: Algorithm 1) keeps the variance that means lose: each value becomes a random one among the values
    masked together that are no farther from it than its group's farthest value. Instead of k-anonymity, it guarantees
    that every value of the group, for each attribute separately, is a possible result for each of its records.
    """

    name = "microaggregation"
    counts_units = True
    source = "2013: sections 2.2 to 3.1"
    preserves = ("meaning", "mean", "with hybrid: dispersion within groups")
    guarantee = (
        "k-anonymity of scalars within a group, verified, but not of the masks of a person in "
        "several groups; none with hybrid"
    )

    parameters_type = MicroaggregationParameters
    parameters: MicroaggregationParameters

    @property
    def group_minimum(self) -> int:
        """The smallest number of records, or of their units, that can be masked together: k."""
        return self.parameters.k

    def _mask(self, batch: Batch, keys: Keys, prepared: tuple[Float64Array, list[int]]) -> MaskedBatch:
        (weights, means), k, hybrid = prepared, self.group_minimum, self.parameters.hybrid
        semantic, words = self.parameters.variant == "semantic", draw_words(keys, batch)
        codes = [column.codes.copy() for column in batch.columns]
        truncated = [0] * len(codes)
        for rows, columns, order, units in _comparable(batch, keys, words):
            if len(np.unique(units)) < k:
                for j in columns:
                    codes[j][rows] = means[j]
                    truncated[j] += rows.size
                continue
            values = [Nominal.of(codes[j][rows], self.distances[j], semantic=semantic) for j in columns]
            groups = mdav(values, weights[columns], order, units, k)
            for j, value in zip(columns, values, strict=True):
                codes[j][rows] = value.masked(groups, order, uniforms(words[j][rows, TIES]) if hybrid else None)
            masked = Batch(rows.size, tuple(Column(codes[j][rows]) for j in columns), units=units)
            if not hybrid and least_class(masked) < k:
                raise AnonymityError(f"masked records are not {k}-anonymous and are withheld")
        return self._masked(batch, codes, truncated)

    def _model(self, counts: Counts, statistics: Statistics) -> Mapping[str, Any]:
        """Return each attribute's mean, and its variance over the number of values (2013: equations 3 and 5)."""
        columns = zip(self.attributes, counts.values, self.distances, strict=True)
        return {"marginality": {name: self._marginality(values, d) for name, values, d in columns}}

    def _marginality(self, counts: SparseCounts, d: Distance) -> dict[str, Any]:
        if self.parameters.variant == "semantic":
            mean, variance = mean_and_variance(counts, d)
        else:
            mean = int(counts.keys[counts.counts.argmax()])
            variance = counts.rows - float(counts.counts @ counts.counts) / counts.rows
        return {"mean": d.taxonomy.ids[mean], "variance": variance / counts.rows}

    def _prepare(self, statistics: Statistics) -> tuple[Float64Array, list[int]]:
        """Return the weight of each attribute in the S-distance, 1 / variance (2013: equation 7), 0 for a constant one;
        and its mean over the window, a position."""
        try:
            found = [statistics.model["marginality"][name] for name in self.attributes]
            means = [d.taxonomy.position(each["mean"]) for d, each in zip(self.distances, found, strict=True)]
            variances = [float(each["variance"]) for each in found]
        except (KeyError, TypeError, ValueError, UnknownConceptError):
            raise StatisticsError("the statistics have no valid marginalities of these attributes") from None
        return np.array([1.0 / v if v > 0.0 and math.isfinite(v) else 0.0 for v in variances]), means


def _comparable(
    batch: Batch, keys: Keys, words: Sequence[UInt64Matrix]
) -> Iterator[tuple[Int64Array, list[int], UInt64Array, Int64Array]]:
    """Yield records with the same scalars, and the elements of each array: the rows of some columns, the random words
    that break ties between them, and their units."""
    units = np.arange(batch.size) if batch.units is None else batch.units
    order, every = key_words(keys), np.arange(batch.size)
    scalars = [j for j, column in enumerate(batch.columns) if not column.is_array]
    present = np.array([batch.columns[j].codes >= 0 for j in scalars], np.bool_)
    for rows, pattern in presence_patterns(present) if present.size else ():
        if pattern:
            own = every[rows]
            yield own, [scalars[i] for i in pattern], order[own], units[own]
    for j, column in enumerate(batch.columns):
        if column.is_array:
            yield np.arange(column.codes.size), [j], words[j][:, ROUNDING_WORD], units[column.owners]


@dataclass(frozen=True, slots=True, eq=False)
class Nominal:
    """The values of one nominal attribute in n records. Immutable.

    ``distinct``: (v,) int32, the distinct positions, ascending. ``indices``: (n,) int64, of each record's value.
    ``table``: (v, v) float64, the distances between the distinct values.
    """

    distinct: Int32Array
    indices: Int64Array
    table: Float64Matrix

    @classmethod
    def of(cls, codes: Int32Array, d: Distance, *, semantic: bool) -> Nominal:
        """``semantic``: whether to use the distance ``d``; otherwise it is 0 for equal values and 1 for others."""
        distinct, indices = np.unique(codes, return_inverse=True)
        table = d.matrix(distinct) if semantic else 1.0 - np.eye(distinct.size)
        return cls(distinct, indices.reshape(-1), table)

    def mean_of(self, records: Int64Array) -> int:
        """Return the index of the value of some records with the least total distance to all of them."""
        counts = np.bincount(self.indices[records], minlength=self.distinct.size)
        totals = np.where(counts > 0, self.table @ counts, np.inf) / records.size
        return int(np.round(totals, 9).argmin())

    def masked(
        self, groups: Sequence[Int64Array], order: UInt64Array, uniform: Float64Array | None = None
    ) -> Int32Array:
        """Return (n,) int32: for each record the least marginal value of its group (2013: equation 3).

        Among equally marginal values it is that of the record with the smallest word in ``order``, (n,) uint64. With
        ``uniform``, (n,) in [0, 1), it is a random value within the radius of its group (2013: Algorithm 1): one of the
        v values that are no farther from the record's own value than the farthest value of its group.
        """
        masks = np.empty_like(self.indices)
        for group in groups:
            own = self.indices[group]
            if uniform is None:
                totals = self.table[np.ix_(own, own)].sum(axis=1)
                least = np.flatnonzero(totals <= totals.min() + MARGINALITY_TIE * own.size)
                masks[group] = own[least[order[group[least]].argmin()]]
                continue
            distances = self.table[own]
            near = distances <= distances[:, own].max(axis=1, keepdims=True)
            drawn = np.floor(uniform[group] * near.sum(axis=1))
            masks[group] = (near.cumsum(axis=1) > drawn[:, None]).argmax(axis=1)
        return self.distinct[masks]


def mdav(
    values: Sequence[Nominal], weights: Float64Array, words: UInt64Array, units: Int64Array, k: int
) -> list[Int64Array]:
    """Return the records of each group of at least k units (2013: section 3.1; Domingo-Ferrer and Torra 2005).

    While at least 3k units are left, two groups are formed: the record farthest from the mean with its nearest records
    until they are of k units, and likewise the record farthest from that one. If 2k to 3k − 1 are left, only the first
    of these is formed. The rest is the last group. Records at equal distances are in the order of their words.

    ``values``: of p attributes in n records. ``weights``: (p,), which multiply distances. ``words``: (n,) uint64.
    ``units``: (n,) int64, that of each record; at least k different.
    """

    def distances(codes: Sequence[int]) -> Float64Array:
        total = np.zeros(left.size)
        for value, weight, code in zip(values, weights, codes, strict=True):
            total += weight * value.table[code][value.indices[left]]
        return np.round(total, 9)

    left, groups = np.lexsort((*(value.indices for value in values), words)), []
    while (count := len(np.unique(units[left]))) >= 2 * k:
        centre = [value.mean_of(left) for value in values]
        for _ in range(2 if count >= 3 * k else 1):
            farthest = left[distances(centre).argmax()]
            centre = [int(value.indices[farthest]) for value in values]
            ranked = np.argsort(distances(centre), kind="stable")
            first_of_unit = np.unique(units[left][ranked], return_index=True)[1]
            chosen = ranked[: np.partition(first_of_unit, k - 1)[k - 1] + 1]  # until they are of k units
            groups.append(left[chosen])
            left = np.delete(left, chosen)
        if count < 3 * k:
            break
    return [*groups, left]


def marginality(values: ConceptsLike, d: Distance) -> Float64Array:
    """Return (n,) float64: m(xⱼ) = Σ d(xⱼ, xₗ) over the sample without xⱼ itself (2013: equation 2).

    Other occurrences of the same value have distance 0, so frequent values are less marginal. The paper's distance is
    ``LogTaxonomic``. Raises StatisticsError for an empty sample, and UnknownConceptError.
    """
    positions = d.encode(values)
    sample = Marginal.of(value_counts(positions, d), d)
    return sample.sums[np.searchsorted(sample.positions, positions)]


def marginality_mean(values: ConceptsLike, d: Distance) -> str:
    """Return the id of the least marginal value of the sample (2013: equation 3).

    Ties, which the paper does not resolve: the smallest depth, then the smallest id. Raises as ``marginality``.
    """
    return d.taxonomy.ids[mean_and_variance(value_counts(values, d), d)[0]]


def marginality_variance(values: ConceptsLike, d: Distance) -> float:
    """Return Σ m(xⱼ) / n over n values (2013: equation 5); it grows with n like marginalities.

    Raises as ``marginality``.
    """
    return mean_and_variance(value_counts(values, d), d)[1]


def mean_and_variance(counts: SparseCounts, d: Distance) -> tuple[int, float]:
    """Return the position of the least marginal value, and the variance, from the counts of the values."""
    sample = Marginal.of(counts, d)
    mean = least_total(sample.positions, sample.sums, d.taxonomy)
    return mean, float(counts.counts @ sample.sums) / counts.rows
