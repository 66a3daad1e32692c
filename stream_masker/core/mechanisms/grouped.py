"""The common implementation of mechanisms that mask records in groups.

The transition probabilities of a mechanism that masks groups are estimates. So statistics are refused only if random
groups show, with confidence 0.95, that masking changes less than is required. Each random group gives one share in
[0, 1], and the groups are independent, so that the bound of Chernoff and Hoeffding holds for the mean of the shares
(``sampling.upper_bound``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from stream_masker.core.dtypes import Float64Array, Int32Array
from stream_masker.core.mechanisms.windowed import UNKNOWN_COUNTS, Prepared, WindowedMechanism
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.risk.channel import Channel
from stream_masker.core.risk.floor import required_change
from stream_masker.core.risk.groups import (
    GROUP_RECORDS,
    SAMPLED_RECORDS,
    MaskedGroup,
    channel_of_value,
    sampled_groups,
    tabulated_channel,
    trial_rows,
)
from stream_masker.core.risk.records import value_law
from stream_masker.core.risk.repeats import TrialRows
from stream_masker.core.risk.sampling import upper_bound
from stream_masker.core.statistics.counts import Counts
from stream_masker.core.statistics.summary import Statistics
from stream_masker.core.validation import whole_number
from stream_masker.errors import StatisticsError

COMPARED_GROUPS = (4, 16, 64)
"""The numbers of groups after which their mean share is compared with the required one.

If it is reached, no more groups are drawn. Otherwise the upper bound of the mean of all groups decides.
"""


def _changed_shares(group: MaskedGroup) -> Float64Array:
    """Return (p,): the share of each attribute's values that changed; NaN without values."""
    present = group.before >= 0
    changed = ((group.before != group.after) & present).sum(axis=0)
    values = present.sum(axis=0)
    shares: Float64Array = np.divide(changed, values, out=np.full(values.size, np.nan), where=values > 0)
    return shares


def _reaches(shares: Float64Array, least: float) -> bool:
    """Return whether the mean share reaches the required one; True if no group has values."""
    known = shares[~np.isnan(shares)]
    return not known.size or float(known.mean()) >= least


MAX_GROUP_RECORDS = 1_000_000


class GroupMechanism(WindowedMechanism[Prepared]):
    """A mechanism that masks records in groups. Its transition probabilities are estimated from random groups."""

    needs_group: ClassVar[bool] = True
    sampled_records: int = SAMPLED_RECORDS
    """The number of records of all random groups together from which the risk is estimated."""

    def __init__(
        self, taxonomies: Mapping[str, Taxonomy], *, group_records: int = GROUP_RECORDS, **options: Any
    ) -> None:
        """Create a mechanism without statistics. Raises ParameterError.

        * ``group_records``: the number of records that will be masked together, from 2 to 1,000,000. Masking takes
          groups of any size; the risk is that of groups of this size.
        * ``options``: see ``WindowedMechanism``.
        """
        super().__init__(taxonomies, **options)
        self._group_records = whole_number("group_records", group_records, 2, MAX_GROUP_RECORDS)
        self._groups: list[MaskedGroup] | None = None

    def group_size(self, counts: Counts) -> int:
        """Return the number of records of the groups that the risk is about; ``counts``: those of the window.

        It is at least ``group_minimum``. A smaller window makes the groups smaller.
        """
        return max(self.group_minimum, min(self._group_records, counts.records))

    def attribute_channel(self, j: int, values: Int32Array, counts: Counts | None) -> Channel:
        """Return the transition probabilities in random groups of the window's records (``core.risk.groups``).

        They are a Monte Carlo estimate, whose bound is ``Channel.bound``. Raises StatisticsError without counts.
        """
        if counts is None:
            raise StatisticsError(UNKNOWN_COUNTS)
        size = len(self._distances[j].taxonomy)
        if values.size == 1:
            groups = list(sampled_groups(self, counts, self.group_size(counts), j=j, only=int(values[0])))
            return channel_of_value(groups, j, values, size)
        return tabulated_channel(self._random_groups(counts), j, values, size)

    def trial_rows(self, j: int, channel: Channel, counts: Counts) -> TrialRows:
        """Return the masks of random groups, and what an attacker learns of other ones; the exact rows if they are."""
        if channel.bound == 0.0:
            return TrialRows(channel.rows)
        return trial_rows(self._random_groups(counts), j, channel.values)

    def _random_groups(self, counts: Counts) -> list[MaskedGroup]:
        """Return random groups of records; those of the window's own counts are kept for the other attributes."""
        if counts is not self._counts:
            return list(sampled_groups(self, counts, self.group_size(counts)))
        if self._groups is None:
            size = self.group_size(counts)
            self._groups = list(sampled_groups(self, counts, size, records=self.sampled_records))
        return self._groups

    def _use(self, statistics: Statistics, counts: Counts | None = None) -> None:
        super()._use(statistics, counts)
        self._groups = None

    def _check_masking(self, counts: Counts) -> None:
        """Raise StatisticsError if random groups show that masking changes too little.

        With numeric attributes nothing is checked: the counts do not hold the numbers, on which groups depend.
        """
        if self._attributes and not self._numeric:
            self._check_changed(counts)

    def _check_changed(self, counts: Counts) -> None:
        """Raise StatisticsError if masking groups of the window's records surely changes too few values of an
        attribute.

        An attribute with a single value is not checked: an attacker knows it without masks.
        """
        size = self.group_size(counts)
        required = np.array([required_change(value_law(c)[1]) if c.keys.size > 1 else 0.0 for c in counts.values])
        shares = np.empty((0, required.size))
        for number, group in enumerate(sampled_groups(self, counts, size), start=1):
            shares = np.vstack((shares, _changed_shares(group)))
            if number in COMPARED_GROUPS and all(map(_reaches, shares.T, required)):
                return
        for name, column, least in zip(self.attributes, shares.T, required, strict=True):
            known = column[~np.isnan(column)]
            if known.size and upper_bound(float(known.mean()), known.size) < least:
                raise StatisticsError(
                    f"{name}: in groups of {size} records, masking would change {known.mean():.2%} of the "
                    f"values of the window, and must change at least {least:.2%}: use smaller groups, a larger k or p, "
                    "or another mechanism"
                )
