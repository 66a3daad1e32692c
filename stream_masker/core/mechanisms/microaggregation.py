"""Microaggregation on marginality (2013): groups of at least k similar records with one common value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from stream_masker.core.arrays import Float64Array, Int32Array, Int64Array, UInt64Array, ratio
from stream_masker.core.batch import Batch, MaskedBatch
from stream_masker.core.mechanisms.grouped import GroupMechanism, GroupParameters, GroupValues
from stream_masker.core.mechanisms.parameters import parameter
from stream_masker.core.random import ROUNDING_WORD, TIES, Keys, draw_words, uniforms
from stream_masker.core.statistics.statistics import Statistics
from stream_masker.errors import AnonymityError


@dataclass(frozen=True, kw_only=True)
class MicroaggregationParameters(GroupParameters):
    """Microaggregation (2013): replaces the values of k or more similar records by one representative."""

    k: int = parameter(5, "The minimum number of records in a group of equal masked records; at least 2.", ge=2)
    hybrid: bool = parameter(
        False, "Whether values are taken from records of the group instead of its mean (2013: Algorithm 1)."
    )
    distance: str = parameter("log_taxonomic", "The semantic distance.")


class Microaggregation(GroupMechanism):
    """Masks groups of k to 2k − 1 similar records by the mean of their group, so that masked records are k-anonymous.

    MDAV (``mdav``) forms the groups among the records that are masked together, by the S-distance (2013: equation 7)
    with the variances of these records. The mean is the least marginal value of the group. The paper leaves ties open;
    here the records' random words break them. The statistics serve the fewer records below, drift and utility.

    k-anonymity holds for scalars, and is verified on the masked records (AnonymityError). It counts the units of a
    batch, such as persons; without units it counts records. Only records with the same attributes form groups, and
    absent values stay absent. Fewer than k units of these get sMean of the window, which reveals nothing except which
    values are absent. Array elements form groups by themselves: an element equals at least k − 1 others, but the
    combination of a record's elements, and their number, are not hidden.

    ``hybrid`` (2013: Algorithm 1) keeps the variance that means lose: each value becomes a random one among the values
    masked together that are no farther from it than its group's farthest value. Instead of k-anonymity, it guarantees
    that every value of the group, for each attribute separately, is a possible result for each of its records.
    """

    name = "microaggregation"
    counts_units = True
    preserves = ("meaning", "mean", "with hybrid: dispersion within groups")

    parameters_type = MicroaggregationParameters
    parameters: MicroaggregationParameters

    @property
    def group_minimum(self) -> int:
        """The smallest number of records, or of their units, that can be masked together: k."""
        return self.parameters.k

    def _mask(self, batch: Batch, keys: Keys, prepared: Statistics) -> MaskedBatch:
        k, hybrid = self.group_minimum, self.parameters.hybrid
        words, codes = draw_words(keys, batch), [column.codes.copy() for column in batch.columns]
        every = np.arange(batch.size) if batch.units is None else batch.units
        for rows, columns in _comparable(batch):
            order, units = words[columns[0]][rows, ROUNDING_WORD], every[batch.columns[columns[0]].owners[rows]]
            if len(np.unique(units)) < k:
                for j in columns:
                    codes[j][rows] = self.distances[j].taxonomy.position(prepared.mean[self.attributes[j]])
                continue
            values = [GroupValues.of(codes[j][rows], self.distances[j]) for j in columns]
            variances = np.array([marginality_variance(each) for each in values])
            groups = mdav(values, ratio(np.ones(len(values)), variances), order, units, k)
            for j, value in zip(columns, values, strict=True):
                near = near_values(value, groups, uniforms(words[j][rows, TIES])) if hybrid else None
                codes[j][rows] = group_means(value, groups, order) if near is None else near
            if not hybrid and least_class([codes[j][rows] for j in columns], units) < k:
                raise AnonymityError(f"masked records are not {k}-anonymous and are withheld")
        return self._masked(batch, codes)


def least_class(columns: Sequence[Int32Array], units: Int64Array) -> int:
    """Return the k of the k-anonymity of n ≥ 1 records: the least number of units that have the same values.

    ``columns``: (n,) positions of each attribute. ``units``: (n,), that of each record.
    """
    which = np.unique(np.column_stack(columns), axis=0, return_inverse=True)[1].reshape(-1)
    return int(np.bincount(np.unique(np.column_stack([which, units]), axis=0)[:, 0]).min())


def _comparable(batch: Batch) -> Iterator[tuple[Int64Array, list[int]]]:
    """Yield what forms groups together: the rows and columns of records with the same scalars, and of each array."""
    scalars = [j for j, column in enumerate(batch.columns) if not column.is_array]
    present = np.array([batch.columns[j].codes >= 0 for j in scalars], np.bool_)
    for pattern in np.unique(present, axis=1).T if present.size else ():
        if pattern.any():
            rows = (present == pattern[:, None]).all(axis=0)
            yield np.flatnonzero(rows), [j for j, is_there in zip(scalars, pattern, strict=True) if is_there]
    for j, column in enumerate(batch.columns):
        if column.is_array:
            yield np.arange(column.codes.size), [j]


def group_means(values: GroupValues, groups: Sequence[Int64Array], order: UInt64Array) -> Int32Array:
    """Return (n,) int32: for each record the least marginal value of its group (2013: equation 3).

    Among equally marginal values it is that of the record with the smallest word in ``order``, (n,) uint64.
    """
    masks = np.empty_like(values.rows)
    for group in groups:
        own = values.rows[group]
        totals = np.round(values.distances[np.ix_(own, own)].mean(axis=1), 9)
        least = np.flatnonzero(totals == totals.min())
        masks[group] = own[least[order[group[least]].argmin()]]
    return values.distinct[masks]


def near_values(values: GroupValues, groups: Sequence[Int64Array], uniform: Float64Array) -> Int32Array:
    """Return (n,) int32: for each record a random value within the radius of its group (2013: Algorithm 1).

    It is one of the values that are no farther from the record's own value than the farthest value of its group, all
    with the same probability. ``uniform``: (n,) in [0, 1).
    """
    masks = np.empty_like(values.rows)
    for group in groups:
        own = values.rows[group]
        far = values.distances[own]
        near = far <= far[:, own].max(axis=1, keepdims=True)
        drawn = np.floor(uniform[group] * near.sum(axis=1))
        masks[group] = (near.cumsum(axis=1) > drawn[:, None]).argmax(axis=1)
    return values.distinct[masks]


def mdav(
    values: Sequence[GroupValues], weights: Float64Array, words: UInt64Array, units: Int64Array, k: int
) -> list[Int64Array]:
    """Return the records of each group of at least k units (2013: section 3.1; Domingo-Ferrer and Torra 2005).

    While at least 3k units are left, two groups are formed: the record farthest from the mean with its nearest records
    until they are of k units, and likewise the record farthest from that one. If 2k to 3k − 1 are left, only the first
    of these is formed. The rest is the last group. Records at equal distances are in the order of their words.

    ``values``: of p attributes in n records. ``weights``: (p,), which multiply distances. ``words``: (n,) uint64.
    ``units``: (n,) int64, that of each record; at least k different.
    """

    def distances(codes: Sequence[int]) -> Float64Array:
        parts = zip(values, weights, codes, strict=True)
        total = np.sum([weight * v.distances[code][v.rows[left]] for v, weight, code in parts], axis=0)
        return np.asarray(np.round(total, 9))

    left, groups = np.lexsort((*(value.rows for value in values), words)), []
    while (count := len(np.unique(units[left]))) >= 2 * k:
        centre = [_mean_of(value, left) for value in values]
        for _ in range(2 if count >= 3 * k else 1):
            farthest = left[distances(centre).argmax()]
            centre = [int(value.rows[farthest]) for value in values]
            ranked = np.argsort(distances(centre), kind="stable")
            first_of_unit = np.unique(units[left][ranked], return_index=True)[1]
            chosen = ranked[: np.partition(first_of_unit, k - 1)[k - 1] + 1]  # until they are of k units
            groups.append(left[chosen])
            left = np.delete(left, chosen)
        if count < 3 * k:
            break
    return [*groups, left]


def _mean_of(values: GroupValues, records: Int64Array) -> int:
    """Return the index of the value of some records with the least total distance to all of them."""
    counts = np.bincount(values.rows[records], minlength=values.distinct.size)
    totals = np.where(counts > 0, values.distances @ counts, np.inf) / records.size
    return int(np.round(totals, 9).argmin())


def marginality_variance(values: GroupValues) -> float:
    """Return the variance Σ m(xⱼ) / n of n values with the marginalities m(xⱼ) = Σ d(xⱼ, xₗ) (2013: equations 2, 5)."""
    counts = np.bincount(values.rows)
    return float(counts @ values.distances @ counts) / values.rows.size
