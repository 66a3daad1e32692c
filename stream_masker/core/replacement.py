"""Replacement of values by concepts at a semantic distance (2017: algorithms 1 to 3).

The rule: a value a with noise ε and reference r is replaced by a candidate c ≠ a that is *admissible*: farther from r
than a is if ε > 0, nearer if ε < 0.

* ε = 0 keeps a. Without a reference, or with a = r, every candidate is admissible.
* The admissible distances sd(c, a) are *levels*. ``ceil`` takes the least level ≥ |ε|, as the papers do.
* ``calibrated`` (not in the papers) takes the least level hi ≥ |ε| with probability p = (ε² − lo²) / (hi² − lo²), else
  the greatest level lo < |ε|, so that E[sd²] = ε². If no admissible level is below |ε|, lo = 0 is a itself, which needs
  to meet no sign condition. If, moreover, a is not a candidate, hi is taken.
* If there is no level ≥ |ε|, both roundings take the greatest level; the value counts as *truncated*.
* If no candidate is admissible, the sign condition is dropped, and the value counts as *unsigned*.
* If a is the only candidate, a stays; the value counts as truncated, to 0.
* Of the admissible candidates on the level one is drawn uniformly. The papers leave this open.

Candidates are ``all`` concepts of the taxonomy, its ``leaves``, or ``observed``: the concepts of a window, which are
drawn by their frequency. With ``observed``, a candidate as far from r as a is admissible, too, for both signs of ε. It
is drawn where no candidate on the level is farther, or nearer: concepts in use are often siblings of one depth, which
are equally far from most references, and without them most values would have no admissible candidate nearby and stay.

Draws are made on a ``DistanceTable``. They are exact for its anchors. A value that is no anchor has the distances of
its row of the table, and is not replaced by concepts of its own class.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stream_masker.core.arrays import frozen_array
from stream_masker.core.batch import Distortion
from stream_masker.core.dtypes import BoolArray, Float64Array, Int32Array, Int64Array, Levels, UInt8Array, UInt64Array
from stream_masker.core.kernels.replacement import (
    SIGN_DROPPED,
    STRIDE,
    TRUNCATED,
    ClassMembers,
    Orders,
    replace_values,
)
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.table import DistanceTable

__all__ = ["NO_REFERENCE", "SIGN_DROPPED", "TRUNCATED", "Candidates", "Replacer"]

NO_REFERENCE = -1

MAX_FREQUENCY = (1 << 31) - 1
"""The largest sum of weights of candidates; greater frequencies are scaled."""

ORDER_BYTES = 256 << 20
"""The memory for the orders of candidates that a replacer keeps."""

MOST_UNSEEN, UNSEEN_BYTES = 2048, 64 << 20
"""The most concepts that are no anchors and whose rows and orders a replacer keeps, and the memory of these rows."""


def eligible_concepts(taxonomy: Taxonomy, which: str) -> BoolArray:
    """Return (m,) bool: the candidates ``all`` or ``leaves``. A root that is not a value is never a candidate."""
    if which == "leaves":
        return taxonomy.leaf
    eligible = np.ones(len(taxonomy), np.bool_)
    eligible[0] = taxonomy.root_is_value
    return eligible


def scaled_frequencies(counts: Int64Array) -> Int64Array:
    """Return (k,) int64, positive: frequencies, scaled to a sum of at most ``MAX_FREQUENCY``."""
    total = int(counts.sum())
    if total <= MAX_FREQUENCY:
        return counts.astype(np.int64)
    return np.asarray(np.maximum(counts * ((MAX_FREQUENCY - counts.size) / total), 1).astype(np.int64))


ABSENT, UNSEEN = -1, -2
"""Indices of positions that are not among the orders: of absent values and references, and of concepts that are no
anchors."""

NO_LEVELS = np.empty(0, np.int32)


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """The concepts that may replace values, and the weights by which they are drawn. Immutable.

    * ``weights``: (m,) int64, the weight of each concept of the taxonomy; 0 if it is no candidate.
    * ``observed``: whether they are the concepts of a window.
    """

    weights: Int64Array
    observed: bool

    @classmethod
    def of(cls, taxonomy: Taxonomy, which: str) -> Candidates:
        """Return ``all`` concepts of the taxonomy, or its ``leaves``."""
        return cls(eligible_concepts(taxonomy, which).astype(np.int64), observed=False)

    @classmethod
    def of_window(cls, size: int, positions: Int32Array, counts: Int64Array) -> Candidates:
        """Return the concepts of a window.

        * ``size``: the number of concepts of the taxonomy.
        * ``positions``: (k,) int32, distinct, anchors of the table. ``counts``: (k,) int64, their frequencies.
        """
        weights = np.zeros(size, np.int64)
        weights[positions] = scaled_frequencies(counts)
        return cls(weights, observed=True)

    def by_class(self, table: DistanceTable) -> ClassMembers:
        """Return the candidates of each class of a table."""
        kept = table.members[self.weights[table.members] > 0]
        classes = table.class_of[kept]
        count = len(table.starts) - 1
        weights = np.zeros(count, np.int64)
        np.add.at(weights, classes, self.weights[kept])
        starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(np.bincount(classes, minlength=count))))
        return ClassMembers(weights, weights > 0, starts, kept.astype(np.int32))


class Replacement(NamedTuple):
    """The replacements of k values.

    * ``codes``: (k,) int32, new positions. ``distances``: (k,) float64, from the values.
    * ``flags``: (k,) uint8, ``TRUNCATED`` | ``SIGN_DROPPED``. ``distortion``: the sums over the present values.
    """

    codes: Int32Array
    distances: Float64Array
    flags: UInt8Array
    distortion: Distortion


class Replacer:
    """Replaces values by the rule. A replacement depends on the value, its reference, ε and its words alone.

    The candidates around a concept are put in order when it is first masked. All orders are dropped when those of
    others would exceed ``order_bytes``, and those of concepts that are no anchors when there is no room for them.
    """

    def __init__(
        self, table: DistanceTable, candidates: Candidates, *, calibrated: bool, order_bytes: int = ORDER_BYTES
    ) -> None:
        """``calibrated``: the rounding. ``order_bytes``: the memory of the orders."""
        self.table, self.candidates, self.calibrated = table, candidates, calibrated
        self.classes = candidates.by_class(table)
        self._is_candidate = candidates.weights > 0
        self._index = np.append(np.full(self._is_candidate.size, UNSEEN, np.int32), np.int32(ABSENT))
        self._index[table.anchors] = np.arange(table.anchors.size)
        some = np.flatnonzero(self.classes.used)
        self._some = some[np.argsort(self.classes.members[self.classes.starts[some]])]
        self._index_type = np.min_scalar_type(self.classes.used.size)
        self._room = max(64, min(MOST_UNSEEN, UNSEEN_BYTES // self.classes.used.size))
        self._unknown = self.table.levels.size if self.weak else -1
        self._most = order_bytes // max(1, self._index_type.itemsize * some.size)
        self._make_room()

    @property
    def weak(self) -> bool:
        """Whether candidates as far from the reference as the value are admissible."""
        return self.calibrated and self.candidates.observed

    def replace(
        self,
        codes: Int32Array,
        references: Int32Array,
        noise: Float64Array,
        rounding: UInt64Array,
        ties: UInt64Array,
    ) -> Replacement:
        """Replace k values.

        * ``codes``: (k,) int32 positions; negative ones (absent values) stay.
        * ``references``: (k,) int32 positions, or ``NO_REFERENCE``. ``noise``: (k,) float64 ε.
        * ``rounding``, ``ties``: (k,) uint64 random words, for the choice of the level and of a candidate on it.
        """
        indices = self._indices(codes, references)
        if indices is None:
            middle = codes.size // 2
            first, second = (
                self.replace(codes[some], references[some], noise[some], rounding[some], ties[some])
                for some in (slice(middle), slice(middle, None))
            )
            return Replacement(
                np.concatenate((first.codes, second.codes)),
                np.concatenate((first.distances, second.distances)),
                np.concatenate((first.flags, second.flags)),
                first.distortion + second.distortion,
            )
        self._make_orders(indices[0])
        self._measure(indices[1])
        masks, distances, flags, sums = replace_values(
            self._orders,
            self.classes,
            self.table.levels,
            self._farthest,
            self.table.class_of,
            self._is_candidate,
            self.calibrated,
            self.weak,
            indices[0],
            indices[1],
            self._own_levels(codes, references, *indices),
            codes.copy(),
            noise.copy(),
            rounding.copy(),
            ties.copy(),
        )
        return Replacement(masks, distances, flags, Distortion(*sums))

    def _indices(self, codes: Int32Array, references: Int32Array) -> tuple[Int32Array, Int32Array] | None:
        """Return the index in the orders of each value and reference, -1 for absent ones; None if too many are no
        anchors."""
        both = self._index[np.concatenate((codes, references))]
        if both.min(initial=ABSENT) == UNSEEN and not self._find_unseen(np.concatenate((codes, references)), both):
            return None
        return both[: codes.size], both[codes.size :]

    def _find_unseen(self, positions: Int32Array, indices: Int32Array) -> bool:
        """Replace ``UNSEEN`` by the index of the concept's own row; return whether there is room for all of them."""
        unseen = np.flatnonzero(indices == UNSEEN)
        distinct = set(positions[unseen].tolist())
        if len(distinct) > self._room:
            return False
        k = len(self.table.rows)
        if len(distinct | self._others.keys()) > self._room:
            self._others.clear()
            self._made[k:-1], self._farthest[k:-1] = False, self._unknown
        for position in sorted(distinct - self._others.keys()):
            self._rows[len(self._others)] = self.table.row(position)
            self._others[position] = k + len(self._others)
        indices[unseen] = [self._others[position] for position in positions[unseen].tolist()]
        return True

    def _own_levels(self, codes: Int32Array, references: Int32Array, rows: Int32Array, of: Int32Array) -> Int32Array:
        """Return (k,) int32: the level of each value from its reference if both are no anchors, else -1: the row has
        it. Empty if there is no such value."""
        if rows.max(initial=0) < len(self.table.rows):
            return NO_LEVELS
        own = np.full(codes.size, -1, np.int32)
        both = (rows >= len(self.table.rows)) & (of >= len(self.table.rows))
        distances = self.table.distance.pairs(codes[both], references[both])
        own[both] = np.searchsorted(self.table.levels, distances)
        return own

    def _make_room(self) -> None:
        """Start without orders, and without concepts that are no anchors."""
        k, n, c = len(self.table.rows), self._some.size, self.classes.used.size
        self._others: dict[int, int] = {}
        self._rows = np.empty((self._room, c), self.table.rows.dtype)
        self._made = np.arange(k + self._room + 1) == k + self._room  # the last one is that of absent values
        self._farthest = np.append(np.full(k + self._room, self._unknown), 0)
        self._orders = Orders(
            self.table.rows,
            frozen_array(self._rows),
            np.empty((k + self._room, n), self._index_type),
            np.empty((k + self._room, self.table.levels.size + 1), np.int32),
            np.empty((k + self._room, n // STRIDE + 1), np.int64),
        )

    def _make_orders(self, indices: Int32Array) -> None:
        """Put the candidates around some concepts in order; equally near ones by their first member."""
        if self._made[indices].all():
            return
        missing = np.unique(indices[~self._made[indices]])
        if np.count_nonzero(self._made) + missing.size > self._most:
            kept, self._made[:-1] = self._orders, False
            self._orders = kept._replace(
                order=np.empty_like(kept.order), starts=np.empty_like(kept.starts), sums=np.empty_like(kept.sums)
            )
            missing = np.unique(indices[indices >= 0])
        for i in missing.tolist():
            levels = self._row(i)[self._some]
            order = self._some[np.argsort(levels, kind="stable")]
            self._orders.order[i], self._orders.starts[i, 0] = order, 0
            np.cumsum(np.bincount(levels, minlength=self.table.levels.size), out=self._orders.starts[i, 1:])
            sums = np.cumsum(self.classes.weights[order])
            self._orders.sums[i, 0], self._orders.sums[i, 1:] = 0, sums[STRIDE - 1 :: STRIDE]
        self._made[missing] = True

    def _measure(self, references: Int32Array) -> None:
        """Find the farthest candidates from some references."""
        if self._farthest[references].min(initial=0) >= 0:
            return
        for i in np.unique(references[self._farthest[references] < 0]).tolist():
            self._farthest[i] = self._row(i)[self._some].max(initial=0)

    def _row(self, i: int) -> Levels:
        """Return (c,): the levels of the classes from a concept of the orders."""
        k = len(self.table.rows)
        return np.asarray(self.table.rows[i] if i < k else self._rows[i - k])
