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
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.arrays import frozen_array
from stream_masker.core.batch import Distortion
from stream_masker.core.dtypes import BoolArray, Float64Array, Int32Array, Int64Array, UInt8Array, UInt64Array
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.replacement_kernels import (
    SIGN_DROPPED,
    STRIDE,
    TRUNCATED,
    ClassMembers,
    Orders,
    replace_values,
)
from stream_masker.core.risk.classes import OutputClasses
from stream_masker.core.table import DistanceTable
from stream_masker.core.validation import require_one_of
from stream_masker.errors import ParameterError

__all__ = ["CANDIDATES", "NO_REFERENCE", "ROUNDINGS", "SIGN_DROPPED", "TRUNCATED", "Candidates", "Replacer"]

ALL, LEAVES, OBSERVED = "all", "leaves", "observed"
CANDIDATES = (ALL, LEAVES, OBSERVED)

CEIL, CALIBRATED = "ceil", "calibrated"
ROUNDINGS = (CALIBRATED, CEIL)

NO_REFERENCE = -1

MAX_FREQUENCY = (1 << 31) - 1
"""The largest sum of weights of candidates; greater frequencies are scaled."""

ORDER_BYTES = 256 << 20
"""The memory for the orders of candidates that a replacer keeps."""

UNSEEN_AT_ONCE = 256
"""Values that are no anchors, and whose rows are gathered at once."""


def check_rule(rounding: str, candidates: str) -> None:
    """Raise ParameterError for an unknown rounding or candidates, and for ``ceil`` with ``observed``."""
    require_one_of("rounding", rounding, ROUNDINGS)
    require_one_of("candidates", candidates, CANDIDATES)
    if rounding == CEIL and candidates == OBSERVED:
        raise ParameterError(
            "rounding='ceil' is not allowed with candidates='observed': few concepts of a window are near a value, and "
            "the next one beyond the noise is about three times as far; use rounding='calibrated', or candidates='all'"
        )


def eligible_concepts(taxonomy: Taxonomy, which: str) -> BoolArray:
    """Return (m,) bool: the candidates ``all`` or ``leaves``. A root that is not a value is never a candidate."""
    if which == LEAVES:
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
    * ``flags``: (k,) uint8, ``TRUNCATED`` | ``SIGN_DROPPED``.
    """

    codes: Int32Array
    distances: Float64Array
    flags: UInt8Array

    def distortion(self, values: Int32Array, noise: Float64Array) -> Distortion:
        """Return the sums over the present values; ``values``: (k,) int32; ``noise``: (k,) ε."""
        present = values >= 0
        return Distortion(
            values=int(np.count_nonzero(present)),
            squared_distance=float((self.distances**2).sum()),
            squared_noise=float((noise[present] ** 2).sum()),
            truncated=int(np.count_nonzero(self.flags & TRUNCATED)),
            unsigned=int(np.count_nonzero(self.flags & SIGN_DROPPED)),
            unchanged=int(np.count_nonzero(present & (self.codes == values))),
        )


class Replacer:
    """Replaces values by the rule. A replacement depends on the value, its reference, ε and its words alone.

    The candidates around an anchor are put in order when the anchor is first masked. All orders are dropped when those
    of other anchors would exceed ``order_bytes``.
    """

    def __init__(
        self, table: DistanceTable, candidates: Candidates, *, calibrated: bool, order_bytes: int = ORDER_BYTES
    ) -> None:
        """``calibrated``: the rounding. ``order_bytes``: the memory of the orders."""
        self.table, self.candidates, self.calibrated = table, candidates, calibrated
        self.classes = candidates.by_class(table)
        self._is_candidate = candidates.weights > 0
        some = np.flatnonzero(self.classes.weights)
        self._some = some[np.argsort(self.classes.members[self.classes.starts[some]])]
        self._most = max(1, order_bytes // max(1, np.min_scalar_type(len(self.classes.weights)).itemsize * some.size))
        self._kept = self._no_orders()

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
        values = [np.array(each) for each in (codes, noise, rounding, ties)]
        rows, of = self._indices(codes), self._indices(references)
        unseen = ((rows < 0) & (codes >= 0)) | ((of < 0) & (references >= 0))
        if not unseen.any():
            return self._replace(self._orders_of(rows), rows, of, *values)
        result = Replacement(codes.copy(), np.zeros(codes.size), np.zeros(codes.size, np.uint8))
        known, others = np.flatnonzero(~unseen), np.flatnonzero(unseen)
        others = others[np.argsort(codes[others], kind="stable")]
        for part in (known, *np.array_split(others, -(-others.size // UNSEEN_AT_ONCE))):
            some = [each[part] for each in values]
            if part is known:
                replaced = self._replace(self._orders_of(rows[part]), rows[part], of[part], *some)
            else:
                replaced = self._replace(*self._rows_of(codes[part], references[part]), *some)
            result.codes[part], result.distances[part], result.flags[part] = replaced
        return result

    def mask_classes(self, values: Int32Array) -> tuple[Int64Array, OutputClasses]:
        """Return the classes of candidates and of some values, ascending, and the same as classes of masks.

        Of the members of a value's class, only the value is a mask. ``values``: (n,) int32 positions.
        """
        table, weights = self.table, self.candidates.weights.astype(np.float64)
        some = np.unique(np.append(np.flatnonzero(self.classes.used), table.class_of[values]))
        others = np.isin(table.class_of, table.class_of[values])
        others[values] = False
        weights[others] = 0.0
        place = np.full(self.classes.used.size, -1, np.int32)
        place[some] = np.arange(some.size)
        class_of = np.where(weights > 0.0, place[table.class_of], np.int32(-1))
        class_of[values] = place[table.class_of[values]]
        representatives = table.members[table.starts[some]]
        representatives[class_of[values]] = values
        return some, OutputClasses(class_of, weights, self.classes.weights[some].astype(np.float64), representatives)

    def _indices(self, positions: Int32Array) -> Int32Array:
        """Return (k,) int32: the anchors at positions, -1 for other concepts and for negative positions."""
        return np.where(positions < 0, np.int32(-1), self.table.index_of(positions))

    def _replace(self, orders: Orders, rows: Int32Array, references: Int32Array, *values: NDArray[Any]) -> Replacement:
        """Replace values whose rows and references are given by their indices in ``orders``."""
        rule = self._is_candidate, self.calibrated, self.weak
        table = self.classes, self.table.levels, self.table.class_of
        return Replacement(*replace_values(orders, *table, *rule, rows, references, *values))

    def _orders_of(self, rows: Int32Array) -> Orders:
        """Return orders that have those of the anchors ``rows``; -1 stands for none."""
        orders, made = self._kept
        needed = rows[rows >= 0]
        if made[needed].all():
            return orders
        needed = np.unique(needed)
        if np.count_nonzero(made) + needed.size > self._most:
            orders, made = self._kept = self._no_orders()
        missing = needed[~made[needed]]
        self._fill(orders, missing)
        made[missing] = True
        return orders

    def _rows_of(self, codes: Int32Array, references: Int32Array) -> tuple[Orders, Int32Array, Int32Array]:
        """Return the orders of some values, and the indices in them of the values and of their references."""
        positions = list(dict.fromkeys([*codes.tolist(), *references[references >= 0].tolist()]))
        rows = frozen_array(np.stack([self.table.row(position) for position in positions]))
        index = {NO_REFERENCE: NO_REFERENCE, **{position: i for i, position in enumerate(positions)}}
        of = [np.array([index[position] for position in each.tolist()], np.int32) for each in (codes, references)]
        orders = self._empty_orders(rows)
        self._fill(orders, np.unique(of[0]))
        return orders, of[0], of[1]

    def _no_orders(self) -> tuple[Orders, BoolArray]:
        """Return room for the orders of all anchors, of which none is made."""
        return self._empty_orders(self.table.rows), np.zeros(len(self.table.rows), np.bool_)

    def _empty_orders(self, rows: NDArray[Any]) -> Orders:
        k, n = len(rows), self._some.size
        order = np.empty((k, n), np.min_scalar_type(len(self.classes.weights)))
        starts = np.empty((k, self.table.levels.size + 1), np.int32)
        return Orders(rows, order, starts, np.empty((k, n // STRIDE + 1), np.int64))

    def _fill(self, orders: Orders, some: NDArray[np.integer]) -> None:
        """Put the candidates around some concepts in order; equally near ones by their first member."""
        for i in some.tolist():
            levels = orders.rows[i, self._some]
            orders.order[i] = self._some[np.argsort(levels, kind="stable")]
            orders.starts[i, 0] = 0
            np.cumsum(np.bincount(levels, minlength=self.table.levels.size), out=orders.starts[i, 1:])
            weights = np.concatenate((np.zeros(1, np.int64), np.cumsum(self.classes.weights[orders.order[i]])))
            orders.sums[i] = weights[::STRIDE]
