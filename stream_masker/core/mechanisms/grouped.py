"""Mechanisms that mask records in groups, and whose risk is estimated from random groups.

What a value becomes in a group depends on the other records of the group. So groups are drawn from the law of the
window, and masked. With G groups, V and the share of an outcome differ from their expectation by more than
``hoeffding_bound(G)`` with a probability of at most 0.05 (McDiarmid 1989: one group changes them by at most 1/G). The
expectation of the estimated V is at least the true one. An attacker who uses all masks of a group can learn more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple, TypeAlias

import numpy as np

from stream_masker.core.arrays import Float64Matrix, Int32Array, Int32Matrix, Int64Array
from stream_masker.core.batch import Batch, Column
from stream_masker.core.distance import Distance
from stream_masker.core.mechanisms.base import Mechanism, known_counts
from stream_masker.core.mechanisms.expected import required_change
from stream_masker.core.mechanisms.parameters import Parameters, parameter
from stream_masker.core.random import Keys
from stream_masker.core.risk.law import Channel, Tuples, class_of_each, hoeffding_bound, masked_columns, value_law
from stream_masker.core.statistics.counts import Counts
from stream_masker.core.statistics.statistics import Statistics
from stream_masker.errors import ParameterError, StatisticsError

SAMPLED_RECORDS, MIN_GROUPS, MAX_GROUPS = 200_000, 20, 2_000
"""The number of records of all random groups together, and the least and the greatest number of groups."""

CHECKED_GROUPS = 100
"""The number of random groups from which the share of changed values is estimated."""

MaskedGroup: TypeAlias = tuple[Int32Matrix, Int32Matrix]
"""The (p, n) positions of the values of n records, and of their masks."""


@dataclass(frozen=True, kw_only=True)
class GroupParameters(Parameters):
    """The parameters of mechanisms that mask groups. Masking takes groups of any size; the risk is that of one size."""

    group_records: int = parameter(50, "The number of records that will be masked together.", ge=2, le=1_000_000)


class GroupMechanism(Mechanism):
    """A mechanism that masks records in groups. Its transition probabilities are estimated from random groups."""

    needs_group = True
    parameters: GroupParameters
    _groups: list[MaskedGroup] | None = None

    @property
    def group_size(self) -> int:
        """The number of records of the groups that the risk is about."""
        return max(self.group_minimum, self.parameters.group_records)

    def attribute_channel(self, j: int, values: Int32Array, counts: Counts | None) -> Channel:
        """Return the transition probabilities in random groups of the window's records (``core.risk.law``).

        They are a Monte Carlo estimate, whose bound is ``Channel.bound``. Raises StatisticsError without counts.
        """
        if self._groups is None:
            self._groups = list(self._sampled(known_counts(counts)))
        return tabulated_channel(self._groups, j, values, self._sizes[j])

    def _sampled(self, counts: Counts) -> Iterator[MaskedGroup]:
        """Yield random groups of the window's records; the same ones each time.

        The values of two attributes are drawn jointly, those of more attributes independently. An array has one
        element. Raises ParameterError if there are too few values.
        """
        size, generator = self.group_size, np.random.default_rng(0)
        laws = [(values[None], prior) for values, prior in map(value_law, counts.values)]
        if len(self._sizes) == 2 and counts.pairs[0, 1].keys.size:
            tuples = Tuples.of(counts, (0, 1), self._sizes)
            laws = [(np.stack(tuples.codes)[np.argsort(tuples.attributes)], tuples.prior)]
        for number in range(min(MAX_GROUPS, max(MIN_GROUPS, SAMPLED_RECORDS // size))):
            before = np.concatenate([codes[:, generator.choice(len(p), size, p=p)] for codes, p in laws])
            after = masked_columns(self, dict(enumerate(map(Column, before))), number)
            yield before, np.stack([column.codes for column in after])

    def _use(self, statistics: Statistics, counts: Counts | None = None) -> None:
        super()._use(statistics, counts)
        self._groups = None

    def _check(self, batch: Batch, keys: Keys) -> None:
        """Raise ParameterError, too, for a group that is too small."""
        super()._check(batch, keys)
        count = batch.unit_count if self.counts_units else batch.size
        if 0 < count < self.group_minimum:
            what = "records" if not self.counts_units or batch.units is None else "different units"
            raise ParameterError(f"{self.name} masks groups of at least {self.group_minimum} {what}, not {count}")

    def _check_masking(self, counts: Counts) -> None:
        """Raise StatisticsError if random groups change too few values of an attribute, by two standard errors.

        An attribute with a single value is not checked: an attacker knows it without masks.
        """
        groups = list(islice(self._sampled(counts), CHECKED_GROUPS))
        for j, name in enumerate(self.attributes):
            prior = value_law(counts.values[j])[1]
            shares = [float((before[j] != after[j]).mean()) for before, after in groups]
            changed = float(np.mean(shares) + 2.0 * np.std(shares) / len(shares) ** 0.5)
            required = required_change(prior)
            if prior.size > 1 and changed < required:
                raise StatisticsError(
                    f"{name}: in groups of {self.group_size} records, masking would change {changed:.2%} of "
                    f"the values of the window, and must change at least {required:.2%}: use smaller groups, a larger "
                    "k or p, or another mechanism"
                )


class GroupValues(NamedTuple):
    """The values of one attribute that are masked together, of n records or elements.

    * ``distinct``: (v,) int32, the different positions, ascending; −1 for no value.
    * ``rows``: (n,) int64, the index of each value. ``distances``: (v, v) float64, 1 between no value and others.
    """

    distinct: Int32Array
    rows: Int64Array
    distances: Float64Matrix

    @classmethod
    def of(cls, codes: Int32Array, d: Distance) -> GroupValues:
        """``codes``: (n,) int32 positions; −1 for no value."""
        distinct, rows = np.unique(codes, return_inverse=True)
        known, distances = distinct >= 0, 1.0 - np.eye(distinct.size)
        distances[np.ix_(known, known)] = d.matrix(distinct[known])
        return cls(distinct, rows.reshape(-1), distances)


def tabulated_channel(groups: Sequence[MaskedGroup], j: int, values: Int32Array, size: int) -> Channel:
    """Return the channel of some values of attribute j, ascending, estimated from all records of at least one group.

    A value that occurs in no group counts as unchanged. ``size``: the number of concepts of the taxonomy.
    """
    before, after = (np.concatenate([side[j] for side in sides]) for sides in zip(*groups, strict=True))
    asked = np.isin(before, values)
    outcomes = np.union1d(values, after[asked]).astype(np.int32)
    counts = np.zeros((values.size, outcomes.size))
    np.add.at(counts, (np.searchsorted(values, before[asked]), np.searchsorted(outcomes, after[asked])), 1.0)
    missing = np.flatnonzero(counts.sum(axis=1) == 0.0)
    counts[missing, np.searchsorted(outcomes, values[missing])] = 1.0
    rows = counts / counts.sum(axis=1, keepdims=True)
    return Channel(values, rows, class_of_each(outcomes, size), hoeffding_bound(len(groups)))
