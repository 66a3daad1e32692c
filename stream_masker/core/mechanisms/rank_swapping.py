"""Semantic rank swapping (2019): exchange of values that are near in meaning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from stream_masker.core.arrays import (
    BoolArray,
    Float64Array,
    Int32Array,
    Int64Array,
    Int64Matrix,
    UInt64Array,
    UInt64Matrix,
)
from stream_masker.core.batch import Batch, MaskedBatch
from stream_masker.core.kernels import mixed_word
from stream_masker.core.mechanisms.grouped import GroupMechanism, GroupParameters, GroupValues
from stream_masker.core.mechanisms.parameters import parameter
from stream_masker.core.random import Keys, draw_words, uniforms
from stream_masker.errors import ParameterError

PARTNER, TIE, FIRST, NEXT = range(4)
"""The random words of a value: for its partner, its place among ties, the first reference, and the next one."""

CLOSE = 1e-9
"""Distances that differ by no more are equal: rounding errors are far smaller, other differences far greater."""


@dataclass(frozen=True, kw_only=True)
class RankSwappingParameters(GroupParameters):
    """Semantic rank swapping (2019): swaps a value with one of the k semantically nearest values."""

    k: int = parameter(10, "The swapping interval in records; at least 2.", ge=2)
    algorithm: Literal["fixed", "dynamic", "multivariate"] = parameter(
        "dynamic",
        "What is swapped: values that are ranked once (`fixed`, 2019: Algorithm 1) or again around each value "
        "(`dynamic`, Algorithm 2), or values of records that are near as a whole (`multivariate`, Algorithm 3).",
    )


class RankSwapping(GroupMechanism):
    """Swaps each value with one of the k values that are nearest in meaning (2019: Algorithms 1, 2 and 3).

    * ``fixed`` (Algorithm 1): values are ranked once, by their distance from the most distant value (equation 5). Each
      swaps with one of the next k.
    * ``dynamic`` (Algorithm 2): each value swaps with one of the k nearest (equation 6). The first reference is the
      most distant value; the next one is the unswapped value farthest from the last (equation 7).
    * ``multivariate`` (Algorithm 3): each value of the reference swaps with one of the k nearest *records* by mean
      distance (equations 8 to 11), which also preserves correlations.

    Both values of a swap count as swapped, so every attribute of a group keeps its values exactly. A value without an
    unswapped partner stays. The statistics serve drift and utility alone.

    Where the paper leaves a choice, or cannot be followed literally:

    * The k nearest are taken among all values, including swapped ones (Definition 5); then an unswapped one is drawn.
      Among values as far away as the last of the k, unswapped ones come first. Other ties are drawn.
    * A swap is *forced* if all values that a value could be swapped with are equal, and differ from it. Who sees the
      masks of the group could undo it, so it takes place with probability 1/2 only.
    * Elements of an array swap by Algorithm 2 also with ``multivariate``, and not within their record.
    * Ranks of swapped values differ by at most k by Algorithm 1 only: a partner can have values nearer than the
      reference. Nor does Algorithm 3 bound re-identification by 1/k (section 3.5): record linkage finds 0.11 to 0.15 of
      1,012 to 1,172 real discharges for k = 10, and 0.05 to 0.09 for k = 50.
    """

    name = "rank_swapping"
    preserves = ("meaning", "mean", "dispersion", "marginals", "granularity", "correlation (multivariate)")

    parameters_type = RankSwappingParameters
    parameters: RankSwappingParameters

    def _set_up(self) -> None:
        if self.parameters.algorithm == "multivariate" and len(self.attributes) < 2:
            raise ParameterError("algorithm='multivariate' needs at least two attributes")

    @property
    def group_minimum(self) -> int:
        """The smallest number of records that can be masked as a group: more than k."""
        return self.parameters.k + 1

    def _mask(self, batch: Batch, keys: Keys, prepared: object) -> MaskedBatch:
        words, codes = draw_words(keys, batch, distinct=True), [column.codes.copy() for column in batch.columns]
        k, fixed = self.parameters.k, self.parameters.algorithm == "fixed"
        for together in self._swapped_together(batch):
            units = np.flatnonzero(np.any([codes[j] >= 0 for j in together], axis=0))
            if not units.size:
                continue
            values = [GroupValues.of(codes[j][units], self.distances[j]) for j in together]
            random, owners = np.stack([words[j][units] for j in together]), batch.columns[together[0]].owners[units]
            for j, partner in zip(together, swap_partners(values, random, owners, k, fixed=fixed)[0], strict=True):
                codes[j][units] = codes[j][units][partner]
        return self._masked(batch, codes)

    def _swapped_together(self, batch: Batch) -> list[list[int]]:
        """Return which attributes swap together: the scalars of Algorithm 3, others alone. Raises ParameterError if one
        has too few values."""
        k, is_multivariate = self.parameters.k, self.parameters.algorithm == "multivariate"
        for name, column in zip(self.attributes, batch.columns, strict=True):
            owners = column.owners[column.codes >= 0]
            if 0 < owners.size <= k or len(np.unique(owners)) == 1:
                raise ParameterError(
                    f"the group has {owners.size} values of {name!r}: a swapping interval of {k} needs more than "
                    f"{k} values, of several records"
                )
        scalars = [j for j, column in enumerate(batch.columns) if is_multivariate and not column.is_array]
        return [*filter(None, [scalars]), *([j] for j in range(len(batch.columns)) if j not in scalars)]


def swap_partners(
    values: Sequence[GroupValues], words: UInt64Array, owners: Int64Array, k: int, *, fixed: bool = False
) -> tuple[Int64Matrix, list[int]]:
    """Swap units by Algorithm 3 of 2019, of one column by Algorithm 2, or with ``fixed`` by Algorithm 1.

    Return (c, n) int64, the unit with which each unit exchanges its value of each column, itself if it has no partner;
    and the references in their order.

    * ``values``: c columns of n units, records or single values. A unit has a value in at least one of them.
    * ``words``: (c, n, 4) uint64, random. ``owners``: (n,) int64; units of one owner never swap with each other.
    * ``k``: the length of the interval, less than n.
    """
    codes, n, shares = np.stack([column.distinct[column.rows] for column in values]), owners.size, uniforms(words)
    unswapped, partners, references = codes >= 0, np.tile(np.arange(n), (len(values), 1)), []
    between = np.asarray(np.sum([(v.distances @ np.bincount(v.rows))[v.rows] for v in values], axis=0)) / n
    draw, ranks = float(shares[0, 0, FIRST]), np.arange(n)
    if fixed:
        from_first = _distances(values, _farthest(between, unswapped[0], draw))
        ranks[np.lexsort((shares[0, :, FIRST], from_first))] = np.arange(n)
    while (left := np.asarray(unswapped.any(axis=0))).any():
        reference = int(np.where(left, ranks, n).argmin()) if fixed else _farthest(between, left, draw)
        references.append(reference)
        draw = float(shares[0, reference, NEXT])
        ahead = np.where(ranks < ranks[reference], n, ranks).astype(np.float64)
        between = ahead if fixed else _distances(values, reference)
        between[reference] = -1.0
        for j in np.flatnonzero(unswapped[:, reference]).tolist():
            unswapped[j, reference] = False
            free = unswapped[j] & (owners != owners[reference])
            partner = _partner(codes[j], words[j], reference, between, free, k)
            unswapped[j, partner] = False
            partners[j, reference], partners[j, partner] = partner, reference
    return partners, references


def _distances(values: Sequence[GroupValues], reference: int) -> Float64Array:
    """Return (n,): the sums of the distances of all units from one (2019: equation 9, without its mean)."""
    return np.asarray(np.sum([column.distances[column.rows[reference]][column.rows] for column in values], axis=0))


def _farthest(distances: Float64Array, among: BoolArray, draw: float) -> int:
    """Return the index of the greatest distance among some, or one of several (2019: equations 5, 7, 10, 12)."""
    greatest = np.flatnonzero(among & (distances > distances[among].max() - CLOSE))
    return int(greatest[int(draw * greatest.size)])


def _partner(
    codes: Int32Array, words: UInt64Matrix, reference: int, between: Float64Array, free: BoolArray, k: int
) -> int:
    """Return one of the k nearest units, drawn uniformly from the free ones (2019: section 3.3).

    It is the reference if there is none, and with probability 1/2 if the swap is forced.

    ``between``: (n,) the distances from the reference, −1 for itself. ``free``: (n,) whether units can be swapped.
    """
    possible = codes[free & (between < np.partition(between, k)[k] + CLOSE)]
    coin, draw = uniforms(words[reference, [TIE, PARTNER]]).tolist()
    is_forced = (possible == possible[:1]).all() and (possible != codes[reference]).all()
    if not possible.size or (is_forced and coin < 0.5):
        return reference
    ties = uniforms(mixed_word(words[:, TIE] ^ words[reference, TIE]))
    nearness = between + CLOSE * (ties + ~free)  # of equally near ones, those that are free come first
    interval = np.flatnonzero(free & (nearness <= np.partition(nearness, k)[k]))
    return int(interval[int(draw * interval.size)])
