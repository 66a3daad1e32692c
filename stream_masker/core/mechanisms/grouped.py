"""Mechanisms that mask records in groups, and whose risk is estimated from random groups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from stream_masker.core.batch import Batch
from stream_masker.core.dtypes import Int32Array
from stream_masker.core.mechanisms.base import Mechanism, known_counts
from stream_masker.core.mechanisms.parameters import Parameters, parameter
from stream_masker.core.random import Keys
from stream_masker.core.risk.law import Channel, MaskedGroup, sampled_groups, tabulated_channel, value_law
from stream_masker.core.risk.risk import required_change
from stream_masker.core.statistics.counts import Counts
from stream_masker.core.statistics.summary import Statistics
from stream_masker.errors import ParameterError, StatisticsError

CHECKED_GROUPS = 100
"""The number of random groups from which the share of changed values is estimated."""


@dataclass(frozen=True, kw_only=True)
class GroupParameters(Parameters):
    """The parameters of mechanisms that mask groups. Masking takes groups of any size; the risk is that of one size."""

    group_records: int = parameter(50, "The number of records that will be masked together.", ge=2, le=1_000_000)


class GroupMechanism(Mechanism):
    """A mechanism that masks records in groups. Its transition probabilities are estimated from random groups."""

    needs_group = True
    parameters: GroupParameters
    _groups: list[MaskedGroup] | None = None

    def group_size(self, counts: Counts) -> int:
        """Return the number of records of the groups that the risk is about; ``counts``: those of the window.

        It is at least ``group_minimum``. A smaller window makes the groups smaller.
        """
        return max(self.group_minimum, min(self.parameters.group_records, counts.records))

    def attribute_channel(self, j: int, values: Int32Array, counts: Counts | None) -> Channel:
        """Return the transition probabilities in random groups of the window's records (``core.risk.law``).

        They are a Monte Carlo estimate, whose bound is ``Channel.bound``. Raises StatisticsError without counts.
        """
        known, groups = known_counts(counts), self._groups
        if groups is None or counts is not self._counts:
            groups = list(self._sampled(known))
            self._groups = groups if counts is self._counts else None
        return tabulated_channel(groups, j, values, self._sizes[j])

    def _sampled(self, counts: Counts) -> Iterator[MaskedGroup]:
        return sampled_groups(self, counts, self._sizes, self.group_size(counts))

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
            shares = [float((group.before[:, j] != group.after[:, j]).mean()) for group in groups]
            changed = float(np.mean(shares) + 2.0 * np.std(shares) / len(shares) ** 0.5)
            required = required_change(prior)
            if prior.size > 1 and changed < required:
                raise StatisticsError(
                    f"{name}: in groups of {self.group_size(counts)} records, masking would change {changed:.2%} of "
                    f"the values of the window, and must change at least {required:.2%}: use smaller groups, a larger "
                    "k or p, or another mechanism"
                )
