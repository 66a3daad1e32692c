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
is drawn only if no candidate on the level is farther (nearer). Without these candidates most values would stay:
concepts in use are often siblings of one depth, which are equally far from most references.

Draws are made on a ``DistanceTable``. They are exact for its anchors. A value that is no anchor has the distances of
its row of the table, and is not replaced by concepts of its own class.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from stream_masker.core.arrays import Float64Array, Int32Array, Int64Array, UInt8Array, UInt64Array
from stream_masker.core.batch import Distortion
from stream_masker.core.kernels import STRIDE, ClassMembers, Orders, Rule, fill_orders, replace_values
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.table import DistanceTable

NO_REFERENCE = -1


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
        some = taxonomy.leaf if which == "leaves" else np.ones(len(taxonomy))
        return cls(some.astype(np.int64), observed=False)

    @classmethod
    def of_window(cls, size: int, positions: Int32Array, counts: Int64Array) -> Candidates:
        """Return the concepts of a window.

        * ``size``: the number of concepts of the taxonomy.
        * ``positions``: (k,) int32, distinct, anchors of the table. ``counts``: (k,) int64, their frequencies.
        """
        weights = np.zeros(size, np.int64)
        weights[positions] = counts
        return cls(weights, observed=True)

    def by_class(self, table: DistanceTable) -> ClassMembers:
        """Return the candidates of each class of a table."""
        kept = table.members[self.weights[table.members] > 0]
        classes = table.class_of[kept]
        count = len(table.starts) - 1
        weights = np.zeros(count, np.int64)
        np.add.at(weights, classes, self.weights[kept])
        starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(np.bincount(classes, minlength=count))))
        last = int(classes.max(initial=-1)) + 1
        return ClassMembers(weights, weights[:last] > 0, starts, kept.astype(np.int32))


class Replacement(NamedTuple):
    """The replacements of k values.

    * ``codes``: (k,) int32, new positions. ``distances``: (k,) float64, from the values.
    * ``flags``: (k,) uint8, ``TRUNCATED`` | ``SIGN_DROPPED``. ``distortion``: that of the present values.
    """

    codes: Int32Array
    distances: Float64Array
    flags: UInt8Array
    distortion: Distortion


class Replacer:
    """Replaces values by the rule. A replacement depends on the value, its reference, ε and its words alone.

    The candidates around a concept are put in order when it is first a value or a reference. Orders take at most four
    times the memory of the table's rows, and are kept as long as these.
    """

    def __init__(self, table: DistanceTable, candidates: Candidates, *, calibrated: bool) -> None:
        """``calibrated``: the rounding."""
        self.table, self.candidates, self.calibrated = table, candidates, calibrated
        self.weak = calibrated and candidates.observed  # whether candidates as far from the reference are admissible
        self.classes = classes = candidates.by_class(table)
        some = np.flatnonzero(classes.used)
        self._some = some[np.argsort(classes.members[classes.starts[some]])]
        count, n = len(table.all_rows), some.size
        orders = Orders(
            table.all_rows,
            np.empty((count, n), np.min_scalar_type(classes.used.size)),
            np.empty((count, table.levels.size + 1), np.int32),
            np.empty((count, n // STRIDE + 1), np.int64),
        )
        self._made = np.arange(count + 1) == count  # the last one: of absent values
        self._generation = table.generation
        fixed = table.levels, table.class_of, candidates.weights > 0, calibrated, self.weak
        self._rule = Rule(orders, classes, *fixed)

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
        table, step = self.table, self.table.room // 2
        given: tuple[Any, ...] = codes, references, noise, rounding, ties
        if codes.size > step:
            some = [slice(start, start + step) for start in range(0, codes.size, step)]
            parts = [self.replace(*(each[part] for each in given)) for part in some]
            masks, distances, flags = (np.concatenate(each) for each in zip(*(p[:3] for p in parts), strict=True))
            return Replacement(masks, distances, flags, sum((part.distortion for part in parts), Distortion()))
        both = table.slots(np.concatenate((codes, references)), whole=not self.candidates.observed)
        if self._generation != table.generation:
            self._made[table.anchors.size : -1], self._generation = False, table.generation
        indices, of = both[: codes.size], both[codes.size :]
        self._make_orders(both)
        own = np.full(codes.size, -1, np.int32)
        unseen = np.minimum(indices, of) >= table.anchors.size
        if unseen.any():
            own[unseen] = np.searchsorted(table.levels, table.distance.pairs(codes[unseen], references[unseen]))
        drawn = codes.copy(), noise.copy(), rounding.copy(), ties.copy()  # contiguous and writable, as compiled for
        masks, distances, flags, sums = replace_values(self._rule, indices, of, own, *drawn)
        return Replacement(masks, distances, flags, Distortion(*sums))

    def _make_orders(self, indices: Int32Array) -> None:
        """Put the candidates around some concepts in order; equally near ones by their first candidate."""
        if (wanted := np.unique(indices[~self._made[indices]])).size:
            fill_orders(self._rule.orders, self.classes.weights, self._some, wanted)
            self._made[wanted] = True
