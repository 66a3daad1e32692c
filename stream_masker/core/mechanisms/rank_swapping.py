"""Semantic rank swapping (2019): exchange of values that are near in meaning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from stream_masker.core.batch import ABSENT, Batch, Column, MaskedBatch
from stream_masker.core.distance import Distance, DistanceChoice
from stream_masker.core.dtypes import BoolArray, Int32Array, Int64Array, Int64Matrix, UInt64Matrix
from stream_masker.core.mechanisms.base import MethodCard, distortion_of
from stream_masker.core.mechanisms.grouped import GroupMechanism
from stream_masker.core.mechanisms.options import per_attribute
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.random.keys import Keys
from stream_masker.core.random.layout import draw_words
from stream_masker.core.risk.groups import GROUP_RECORDS
from stream_masker.core.statistics.summary import Statistics
from stream_masker.core.validation import require_one_of, require_type
from stream_masker.errors import ParameterError

MIN_K = 2
"""The shortest swapping interval. With one value in it, the values of a group, which swaps keep, decide every swap."""

MAX_UNITS = 8192
"""The largest number of values or records that swap together: time is quadratic in it."""

SCALE = 10**9
"""Distances are compared as whole multiples of 1/``SCALE``, so that their sums are exact."""

FIRST, NEXT = 2, 3
"""The random words of a value that break ties in ranks or draw the first reference, and that draw the next one."""


class RankSwapping(GroupMechanism[Statistics]):
    """Swaps each value with one of the k values that are nearest in meaning (2019: Algorithms 1, 2 and 3).

    * ``intervals="fixed"`` (Algorithm 1): the values of an attribute are ranked once, by their distance from the most
      distant value (equation 5). Each value swaps with one of the next k.
    * ``intervals="dynamic"`` (Algorithm 2): each value swaps with one of the k values nearest to it (equation 6). The
      first reference is the most distant value; the next one is the unswapped value farthest from the last (equation
      7).
    * ``multivariate=True`` (Algorithm 3): the k nearest *records* by mean distance (equations 8 to 11) form the
      interval. Each value of the reference swaps with one of the same attribute in these records, which also preserves
      correlations.

    A value is swapped at most once: both values of a swap are labelled as swapped. So every attribute of a group keeps
    its values exactly. A value without an unswapped partner stays, and is counted as ``truncated`` in the distortion.
    The statistics only serve drift and utility: masking depends on the group alone, but waits for the first statistics.

    Where the paper leaves a choice, or cannot be followed literally:

    * The k nearest are taken among all values, including swapped ones (Definition 5), by original values; then one of
      the unswapped ones is drawn. Among values as far away as the last of the k, unswapped ones come first; the paper
      orders tied values arbitrarily. If several values are most distant, one is drawn.
    * A swap is *forced* if all values that a value could be swapped with are equal, and differ from it. Everyone who
      sees the masks of the group could undo it, so it takes place with probability 1/2 only, always in the paper.
    * k counts equal values, too: values more frequent than k stay as they are (Table 5 shows the same for k = 2).
    * Absent values take no part. Elements of an array are values of their attribute; elements of one record do not
      swap. In Algorithm 3, the first elements take part in the swaps of records, unless too few records have more than
      one; other elements swap by Algorithm 2.
    * A group with more than 8,192 values of an attribute, or records, is split: values by their order in the taxonomy,
      records by their order in the group.

    The paper states that the ranks of two swapped values differ by at most k. This holds for Algorithm 1, which has a
    single ranking. By algorithms 2 and 3 the partner is among the k nearest of the reference, but can have nearer
    values itself. Section 3.5 states that Algorithm 3 bounds the re-identification probability by 1/k. This holds for
    an intruder who guesses among the k candidates of a value. Record linkage finds more: on samples of 1,012 to 1,172
    real discharges 0.11 to 0.15 of the records for k = 10, 0.08 to 0.12 for k = 20 and 0.05 to 0.09 for k = 50
    (``core.linkage``). Measure it on your own data.
    """

    name: ClassVar[str] = "rank_swapping"
    method_card: ClassVar[MethodCard] = MethodCard(
        source="2019: algorithms 1 to 3",
        attributes="any number of nominal ones; at least two with multivariate",
        taxonomies="any",
        preserves=("meaning", "mean", "dispersion", "marginals", "granularity", "correlation (multivariate)"),
        guarantee="of two swapped values, one is among the k nearest of the other; record linkage finds 0.11 to 0.15 "
        "of real records for k = 10 and 0.08 to 0.12 for k = 20, more than the 1/k that 2019 states for multivariate",
        latency="that of its group of more than k records",
        cost="O(n) in a group of n",
    )

    def __init__(
        self,
        taxonomies: Mapping[str, Taxonomy],
        *,
        k: int | Mapping[str, int] = 10,
        multivariate: bool = False,
        intervals: str = "dynamic",
        group_records: int = GROUP_RECORDS,
        distance: DistanceChoice = "wu_palmer",
        window: int = 10_000,
        window_age: float | None = None,
        rollup_depth: int = 2,
        seed: bytes,
    ) -> None:
        """Create a mechanism without statistics.

        Raises ParameterError, which names the value given and the values allowed.

        * ``taxonomies``: τ by attribute, in the order of all columns.
        * ``k``: the length of the swapping interval in records, from 2 to less than ``window``, for all attributes or
          (not with ``multivariate``) for each.
        * ``multivariate``: Algorithm 3, for at least two attributes.
        * ``intervals``: ``dynamic``, or ``fixed`` (Algorithm 1, not with ``multivariate``).
        * ``group_records``: see ``GroupMechanism``.
        * ``distance``, ``window``, ``window_age``, ``rollup_depth``, ``seed``: see ``WindowedMechanism``.
        """
        require_one_of("intervals", intervals, ("dynamic", "fixed"))
        require_type("multivariate", multivariate, bool)
        super().__init__(
            taxonomies,
            group_records=group_records,
            distance=distance,
            window=window,
            window_age=window_age,
            rollup_depth=rollup_depth,
            seed=seed,
        )
        self._k = tuple(_checked_k(name, n, window) for name, n in per_attribute("k", k, self._attributes).items())
        self._fixed, self._multivariate = intervals == "fixed", multivariate
        if multivariate and (isinstance(k, Mapping) or len(self._attributes) < 2 or self._fixed):
            raise ParameterError("multivariate=True needs at least two attributes, a single k and dynamic intervals")

    @property
    def multivariate(self) -> bool:
        """Whether records swap as wholes (Algorithm 3)."""
        return self._multivariate

    @property
    def group_minimum(self) -> int:
        """The smallest number of records that can be masked as a group: more than k."""
        return max(self._k) + 1

    def mask_batch(self, batch: Batch, keys: Keys) -> MaskedBatch:
        """Mask one group of encoded records; their order is kept.

        Raises StatisticsError before the first statistics. Raises ParameterError if the batch has other attributes,
        another size than the keys, or too few records, or if too few of them have values of an attribute.
        """
        self._prepared_statistics()
        self._check(batch, keys)
        if 0 < batch.size < self.group_minimum:
            raise ParameterError(f"{self.name} masks groups of at least {self.group_minimum} records, not {batch.size}")
        words, masked, distortions = draw_words(keys, batch, distinct=True), [], []
        partners = [np.arange(column.codes.size) for column in batch.columns]
        alone = [self._checked_values(j, column) for j, column in enumerate(batch.columns)]
        if self._multivariate and batch.size:
            alone = self._swap_records(batch, words, alone, partners)
        for j, (column, d) in enumerate(zip(batch.columns, self._distances, strict=True)):
            for part in _parts(alone[j][np.argsort(column.codes[alone[j]], kind="stable")], self._k[j]):
                units = Units(column.codes[part], words[j][part], d)
                swap = swap_in_ranks if self._fixed else swap_nearest
                found, _ = swap([units], column.owners[part], min(self._k[j], part.size - 1))
                partners[j][part] = part[found[0]]
            masked.append(Column(column.codes[partners[j]], column.offsets))
            stay = np.count_nonzero((partners[j] == np.arange(partners[j].size)) & (column.codes >= 0))
            distortions.append(distortion_of(column.codes, masked[j].codes, d, truncated=int(stay)))
        return MaskedBatch(tuple(masked), tuple(distortions))

    def _checked_values(self, j: int, column: Column) -> Int64Array:
        """Return the indices of the values that are present. Raises ParameterError if they are too few to swap."""
        present = np.flatnonzero(column.codes >= 0)
        if present.size and (present.size <= self._k[j] or np.ptp(column.owners[present]) == 0):
            raise ParameterError(
                f"the group has {present.size} values of {self._attributes[j]!r}: a swapping interval of {self._k[j]} "
                f"needs more than {self._k[j]} values, of several records"
            )
        return present

    def _swap_records(
        self, batch: Batch, words: Sequence[UInt64Matrix], present: Sequence[Int64Array], partners: Sequence[Int64Array]
    ) -> list[Int64Array]:
        """Set the partners by Algorithm 3, and return the values of each attribute that take no part in it.

        ``present``: the indices of the values of each attribute. ``partners``: of each value, changed in place.
        """
        first, rest = np.full((len(present), batch.size), -1), []
        for j, (column, values) in enumerate(zip(batch.columns, present, strict=True)):
            owners = column.owners[values]
            is_first = np.diff(owners, prepend=-1) > 0
            if not is_first.all() and ((~is_first).sum() <= self._k[j] or np.ptp(owners[~is_first]) == 0):
                is_first[:] = False
            first[j, owners[is_first]] = values[is_first]
            rest.append(values[~is_first])
        taking = np.flatnonzero((first >= 0).any(axis=1)).tolist()
        for part in _parts(np.flatnonzero((first >= 0).any(axis=0)), self._k[0]):
            columns = [
                Units(np.where(own >= 0, batch.columns[j].codes[own], ABSENT), words[j][own], self._distances[j])
                for j, own in zip(taking, first[taking][:, part], strict=True)
            ]
            found, _ = swap_nearest(columns, part, min(self._k[0], part.size - 1))
            for j, own, other in zip(taking, first[taking][:, part], found, strict=True):
                partners[j][own[own >= 0]] = own[other[own >= 0]]
        return rest

    def _prepare(self, statistics: Statistics) -> Statistics:
        return statistics


def _checked_k(name: str, k: object, window: int) -> int:
    if isinstance(k, bool) or not isinstance(k, int) or not MIN_K <= k < window:
        raise ParameterError(
            f"k={k!r} of {name!r} is not allowed: use a whole number of records from {MIN_K} to {window - 1}, "
            f"fewer than the window of {window}"
        )
    return k


def _parts(order: Int64Array, k: int) -> Iterator[Int64Array]:
    """Yield parts of about equal size, of at most ``MAX_UNITS`` if these are more than k, each in ascending order."""
    count = max(1, min(-(-order.size // MAX_UNITS), order.size // (k + 1)))
    return (np.sort(part) for part in np.array_split(order, count) if part.size > 1)


class Units(NamedTuple):
    """The values of n units, which are records or single values, in one column.

    * ``codes``: (n,) int32 positions; −1 if a unit has no value.
    * ``words``: (n, 4) uint64, the random words of each value: two draw its partner, one breaks ties in ranks or draws
      the first reference, and one draws the next reference.
    """

    codes: Int32Array
    words: UInt64Matrix
    distance: Distance

    def table(self) -> tuple[Int64Matrix, Int64Array]:
        """Return the distances between the values in units of 1/``SCALE``, and the row of each unit in them.

        A missing value is at distance 1 from others, and at distance 0 from a missing one.
        """
        distinct, rows = np.unique(self.codes, return_inverse=True)
        known = distinct >= 0
        table = np.full((distinct.size,) * 2, SCALE)
        table[np.ix_(known, known)] = np.rint(self.distance.matrix(distinct[known]) * SCALE)
        table[~known, ~known] = 0
        return table, rows.reshape(-1)


def swap_nearest(columns: Sequence[Units], owners: Int64Array, k: int) -> tuple[Int64Matrix, list[int]]:
    """Swap units by Algorithm 3 of 2019, lines 5 to 12; for one column, this is Algorithm 2, lines 3 to 8.

    Return (c, n) int64: the unit with which each unit exchanges its value of each column, itself if it has no partner;
    and the references in their order.

    * ``columns``: every unit has a value in at least one of them.
    * ``owners``: (n,) int64; units of one owner never swap with each other.
    * ``k``: the length of the interval, less than the number of units.
    """
    codes, tables = np.stack([column.codes for column in columns]), [column.table() for column in columns]
    words = [column.words.tolist() for column in columns]
    partners, unswapped = np.tile(np.arange(owners.size), (len(columns), 1)), codes >= 0
    own = [words[j][unit] for unit, j in enumerate(unswapped.argmax(axis=0).tolist())]
    sums = np.sum([(table @ np.bincount(rows))[rows] for table, rows in tables], axis=0)
    reference, references = _farthest(sums, np.ones(owners.size, np.bool_), own[0][FIRST]), []
    while True:
        references.append(reference)
        distances = np.sum([table[rows[reference]][rows] for table, rows in tables], axis=0)
        distances[reference] = -1
        last = np.partition(distances, k)[k]
        apart = owners != owners[reference]
        nearer, at_end = (distances < last) & apart, (distances == last) & apart
        places = k + 1 - int(np.count_nonzero(distances < last))
        for j in np.flatnonzero(unswapped[:, reference]).tolist():
            unswapped[j, reference] = False
            nearest, tied = np.flatnonzero(nearer & unswapped[j]), np.flatnonzero(at_end & unswapped[j])
            partner = _drawn_partner(reference, codes[j], nearest, tied, places, words[j][reference])
            unswapped[j, partner] = False
            partners[j, reference], partners[j, partner] = partner, reference
        left = np.asarray(unswapped.any(axis=0))
        if not left.any():
            return partners, references
        reference = _farthest(distances, left, own[reference][NEXT])


def swap_in_ranks(columns: Sequence[Units], owners: Int64Array, k: int) -> tuple[Int64Matrix, list[int]]:
    """Swap the units of one column by Algorithm 1 of 2019, lines 2 to 12; otherwise as ``swap_nearest``.

    Random words order equal ranks.
    """
    (column,) = columns
    codes, words, (table, rows) = column.codes, column.words.tolist(), column.table()
    partners, unswapped = np.arange(owners.size), np.ones(owners.size, np.bool_)
    most_distant = _farthest((table @ np.bincount(rows))[rows], unswapped, words[0][NEXT])
    order = np.lexsort((column.words[:, FIRST], table[rows[most_distant]][rows]))
    for rank, reference in enumerate(order.tolist()):
        if unswapped[reference]:
            unswapped[reference] = False
            interval = order[rank + 1 : rank + 1 + k]
            interval = interval[unswapped[interval] & (owners[interval] != owners[reference])]
            partner = _drawn_partner(reference, codes, interval, interval[:0], 0, words[reference])
            unswapped[partner] = False
            partners[reference], partners[partner] = partner, reference
    return partners[None, :], order.tolist()


def _drawn_partner(
    reference: int, codes: Int32Array, nearest: Int64Array, tied: Int64Array, places: int, words: Sequence[int]
) -> int:
    """Return one of the values of the swapping interval of the reference, drawn uniformly (2019: section 3.3).

    Return the reference itself if there is none, and with probability 1/2 if the swap is forced.

    * ``nearest``: the unswapped values inside the interval. ``tied``: those at its end, of which ``places`` at most
      belong to it.
    """
    candidates = np.concatenate((nearest, tied))
    values = codes[candidates]
    is_forced = values.size > 0 and values[0] != codes[reference] and (values == values[0]).all()
    if not values.size or (is_forced and words[0] & 1):
        return reference
    drawn = _below(words[0], nearest.size + min(places, tied.size))
    if drawn >= nearest.size:
        drawn = nearest.size + _below(words[1], tied.size)
    return int(candidates[drawn])


def _farthest(distances: Int64Array, among: BoolArray, word: int) -> int:
    """Return the index of the greatest distance among some, or one of several (2019: equations 5, 7, 10, 12)."""
    greatest = np.flatnonzero(among & (distances == distances[among].max()))
    return int(greatest[_below(word, greatest.size)])


def _below(word: int, size: int) -> int:
    """Return a uniform integer in 0 … size − 1, from the 53 high bits of a random word."""
    return (word >> 11) * size >> 53
