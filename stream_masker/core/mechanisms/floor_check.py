"""The check that masking with new statistics changes enough of an attribute's values (``core.risk.floor``)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import BoolArray, Float64Array, Int32Array, Int64Array
from stream_masker.core.risk.channel import Channel
from stream_masker.core.risk.floor import (
    MAX_CHECKED_CELLS,
    MAX_CHECKED_VALUES,
    check_changed,
    check_channel,
    doubt_problem,
    required_change,
)
from stream_masker.core.risk.records import value_law
from stream_masker.core.risk.reduction import reduced_counts, without_mode
from stream_masker.core.statistics.counts import Counts


class CheckedMechanism(Protocol):
    """A mechanism with the statistics in force that are checked."""

    @property
    def attributes(self) -> tuple[str, ...]: ...

    @property
    def distances(self) -> tuple[Distance, ...]: ...

    def attribute_channel(self, j: int, values: Int32Array, counts: Counts | None) -> Channel:
        """Return the transition probabilities of some values of attribute j; ``counts``: of the window."""

    def changed_at_least(self, j: int, counts: Counts) -> float:
        """Return a cheap lower bound, for every value, of the probability that masking changes it."""

    def surely_hides(self, j: int) -> bool:
        """Return whether it is known, without transition probabilities, that each value has a mask with several
        possible originals."""


@dataclass(frozen=True, eq=False)
class FloorCheck:
    """The check of attribute ``j`` in the window with these counts.

    An attribute with a single value is not checked: an attacker knows it without masks. With many values, the most
    frequent ones are checked, whose transition probabilities are computed once.
    """

    mechanism: CheckedMechanism
    j: int
    counts: Counts

    def check(self) -> None:
        """Raise StatisticsError if masking changes too little, or determines originals."""
        values, prior = value_law(self.counts.values[self.j])
        if values.size > 1 and not (self._surely_changes(self.counts, prior) and self._surely_hides()):
            channel = self.mechanism.attribute_channel(self.j, values, self.counts)
            check_channel(self._name, channel, prior)

    def check_others(self) -> None:
        """Raise StatisticsError if masking changes too few of the values other than the most frequent one."""
        others = without_mode(self.counts, self.j)
        values, prior = value_law(others.values[self.j])
        if values.size > 1 and not self._surely_changes(others, prior):
            channel = self.mechanism.attribute_channel(self.j, values, self.counts)
            changed = float(prior @ (1.0 - channel.unchanged))
            check_changed(f"{self._name}, apart from its most frequent value", changed, prior)

    @property
    def _name(self) -> str:
        return self.mechanism.attributes[self.j]

    def _surely_changes(self, counts: Counts, prior: Float64Array) -> bool:
        """Return whether masking changes enough of many values, by a cheap bound or by the most frequent values."""
        column, required = counts.values[self.j], required_change(prior)
        if column.keys.size <= MAX_CHECKED_VALUES:
            return False
        if self.mechanism.changed_at_least(self.j, self.counts) >= required:
            return True
        keys, rows, changed = self._frequent
        chosen: BoolArray = np.isin(keys, column.keys)
        return bool(rows[chosen] @ changed[chosen] >= required * column.rows)

    def _surely_hides(self) -> bool:
        """Return whether masks have several possible originals, as the mechanism knows or for the most frequent
        values.

        Fewer values have fewer possible originals, so the most frequent ones look more determined than they are.
        """
        if self.mechanism.surely_hides(self.j):
            return True
        sizes = [len(d.taxonomy) for d in self.mechanism.distances]
        frequent, _ = reduced_counts(self.counts, sizes, [MAX_CHECKED_VALUES] * len(sizes))
        values, prior = value_law(frequent.values[self.j])
        return not doubt_problem(self.mechanism.attribute_channel(self.j, values, frequent), prior)

    @cached_property
    def _frequent(self) -> tuple[Int64Array, Int64Array, Float64Array]:
        """The most frequent values, their rows, and the probability that masking changes each; none if all are."""
        sizes = [len(d.taxonomy) for d in self.mechanism.distances]
        limits = [max(MAX_CHECKED_VALUES, MAX_CHECKED_CELLS // size) for size in sizes]
        frequent, left_out = reduced_counts(self.counts, sizes, limits)
        column = frequent.values[self.j]
        if not left_out or not column.keys.size:
            nothing = np.zeros(0, np.int64)
            return nothing, nothing, np.zeros(0)
        values, _ = value_law(column)
        return column.keys, column.counts, 1.0 - self.mechanism.attribute_channel(self.j, values, frequent).unchanged
