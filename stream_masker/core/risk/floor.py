"""The least change that masking must make before statistics come into force, and its check in bounded time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import BoolArray, Float64Array, Int32Array, Int64Array
from stream_masker.core.risk.channel import Channel, conditional_entropy, doubts, joint_law
from stream_masker.core.risk.records import value_law
from stream_masker.core.statistics.counts import Counts, SparseCounts
from stream_masker.core.statistics.summary import Statistics
from stream_masker.errors import StatisticsError

MIN_CHANGED = 0.05
"""The share of values that masking must change, in units of the share that independent draws would change."""

MAX_CHECKED_VALUES = 64
"""The most values of an attribute for which the channel is always checked.

With more values, it is checked only if a cheap bound fails.
"""

MAX_CHECKED_CELLS = 1 << 25
"""The most cells, values times concepts of the taxonomy, that are checked, if these values change enough."""

MIN_ENTROPY = 1e-5
"""The share of the uncertainty about originals, in bits, below which masks determine their originals."""

MIN_DOUBT = 1e-6
"""The probability of other originals, averaged over a value's masks, below which they determine the value."""

MAX_DETERMINED = 0.5
"""The largest share of the changed values of an attribute, without its most frequent one, whose masks may determine
them."""


def required_change(prior: Float64Array, least: float = MIN_CHANGED) -> float:
    """Return the share of values that must change: ``least`` · (1 − Σ p²).

    1 − Σ p² is the share that changes if each value is replaced by an independent draw from the window. A window that
    consists mostly of one value can thus be masked, although no mechanism can change it much without distorting it.
    """
    return least * (1.0 - float((prior**2).sum()))


def check_changed(name: str, changed: float, prior: Float64Array) -> None:
    """Raise StatisticsError if masking changes too small a share of an attribute's values."""
    required = required_change(prior)
    if changed < required:
        raise StatisticsError(
            f"{name}: masking would change {changed:.2%} of the values of the window, "
            f"and must change at least {required:.2%}: increase the noise"
        )


def check_variance(statistics: Statistics, least: float) -> None:
    """Raise StatisticsError if the variance sVar of an attribute is below ``least``."""
    for name, variance in statistics.variance.items():
        if variance < least:
            raise StatisticsError(
                f"{name}: the window's variance is below risk.min_variance, {least:g}: its noise would hide nothing"
            )


def check_collapse(statistics: Statistics, baseline: Statistics, least: float) -> None:
    """Raise StatisticsError if the variance sVar of an attribute is below the share ``least`` of the baseline's."""
    for name, variance in statistics.variance.items():
        if variance < least * baseline.variance.get(name, 0.0):
            raise StatisticsError(
                f"{name}: the window's variance is below {least:.0%} of the baseline's, version {baseline.version} "
                "(risk.min_variance_share): the window may be full of one event"
            )


def doubt_problem(channel: Channel, prior: Float64Array) -> str:
    """Return what is wrong if masks determine too many originals, to be put behind a name; an empty text if not.

    ``prior``: the share of each value, not empty.
    """
    joint = joint_law(prior, channel.rows)
    uncertainty = -float((prior[prior > 0.0] * np.log2(prior[prior > 0.0])).sum())
    if conditional_entropy(joint) < MIN_ENTROPY * uncertainty:
        return ": masked values have a single possible original; use other candidates or another mechanism"
    share = determined_share(joint, prior, channel.unchanged)
    if share > MAX_DETERMINED:
        return (
            f", apart from its most frequent value: {share:.0%} of the values that masking changes become masks with a "
            f"single possible original, and at most {MAX_DETERMINED:.0%} may; use other candidates, another matrix or "
            "another mechanism"
        )
    return ""


def determined_share(joint: Float64Array, prior: Float64Array, unchanged: Float64Array) -> float:
    """Return the share of the changed values, in [0, 1], that all of their masks determine; 0 if none changes.

    Values that always stay do not count: ``unchanged`` tells them. Nor does the most frequent value, which is easily
    guessed without masks if it fills the window.

    * ``joint``: (n, m) P(a, a*). ``prior``: (n,) the share of each value, not empty.
    * ``unchanged``: (n,) the probability that each value stays.
    """
    changed = prior * (1.0 - unchanged)
    changed[prior.argmax()] = 0.0
    total = float(changed.sum())
    return float(changed[doubts(joint) < MIN_DOUBT].sum()) / total if total > 0.0 else 0.0


def check_channel(name: str, channel: Channel, prior: Float64Array) -> None:
    """Raise StatisticsError if masks change too few values of an attribute, or determine the originals of all, or
    of more than ``MAX_DETERMINED`` of the changed values."""
    check_changed(name, float(prior @ (1.0 - channel.unchanged)), prior)
    problem = doubt_problem(channel, prior) if np.count_nonzero(prior) > 1 else ""
    if problem:
        raise StatisticsError(f"{name}{problem}")


def reduced_counts(counts: Counts, sizes: Sequence[int], limits: Sequence[int]) -> tuple[Counts, float]:
    """Return the counts of the rows that have only the most frequent values, and the share of the rows left out.

    A probability that is an average over all rows differs by at most this share from the average over the remaining
    rows. With more than two attributes, the counts of each attribute and of each pair are reduced separately, and the
    share is the largest of them. The lengths of arrays stay those of all events. Contexts are reduced separately.

    * ``sizes``: the number of concepts of each taxonomy. ``limits``: the number of values of each attribute to keep.
    """
    kept = [_kept(column, limit) for column, limit in zip(counts.values, limits, strict=True)]
    if all(rows.all() for rows in kept):
        return counts, 0.0
    pairs, values = {}, [column.select(rows) for column, rows in zip(counts.values, kept, strict=True)]
    shares = [1.0 - part.rows / whole.rows for part, whole in zip(values, counts.values, strict=True)]
    for (i, j), pair in counts.pairs.items():
        codes = np.divmod(pair.keys, sizes[j])
        both = np.isin(codes[0], values[i].keys) & np.isin(codes[1], values[j].keys)
        pairs[i, j] = pair.select(both)
        shares.append(1.0 - pairs[i, j].rows / max(pair.rows, 1))
        if len(values) == 2:
            values = [_without(column, k[~both], pair.counts[~both]) for column, k in zip(values, codes, strict=True)]
    reduced = {c: reduced_counts(part, sizes, limits) for c, part in counts.contexts.items()}
    if reduced:
        shares.append(sum(share * counts.contexts[c].records for c, (_, share) in reduced.items()) / counts.records)
    contexts = {c: part for c, (part, _) in reduced.items()}
    return replace(counts, values=tuple(values), pairs=pairs, contexts=contexts), max(shares)


def _kept(column: SparseCounts, limit: int) -> BoolArray:
    kept = np.zeros(column.keys.size, np.bool_)
    kept[np.argsort(-column.counts, kind="stable")[:limit]] = True
    return kept


def _without(column: SparseCounts, keys: Int64Array, counts: Int64Array) -> SparseCounts:
    """Return the counts of a column without the rows that are left out because of their other value."""
    present = np.isin(keys, column.keys)
    left = column.counts.copy()
    np.subtract.at(left, np.searchsorted(column.keys, keys[present]), counts[present])
    return replace(column, counts=left).select(left > 0)


def without_mode(counts: Counts, j: int) -> Counts:
    """Return the counts without the most frequent value of attribute j; its pairs stay as they are."""
    column = counts.values[j]
    kept = np.arange(column.keys.size) != (column.counts.argmax() if column.keys.size else -1)
    return replace(counts, values=(*counts.values[:j], column.select(kept), *counts.values[j + 1 :]))


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
        present: BoolArray = np.isin(keys, column.keys)
        return bool(rows[present] @ changed[present] >= required * column.rows)

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
