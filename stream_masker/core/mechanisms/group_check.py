"""The check that masking in groups changes enough of an attribute's values (``core.risk.floor``).

The transition probabilities of a mechanism that masks groups are estimates. So statistics are refused only if random
groups show, with confidence 0.95, that masking changes less than is required. Each random group gives one share in
[0, 1], and the groups are independent, so that the bound of Chernoff and Hoeffding holds for the mean of the shares
(``sampling.upper_bound``).
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from stream_masker.core.dtypes import Float64Array
from stream_masker.core.risk.assessment import ChannelSource
from stream_masker.core.risk.floor import required_change
from stream_masker.core.risk.groups import MaskedGroup, sampled_groups
from stream_masker.core.risk.records import value_law
from stream_masker.core.risk.sampling import upper_bound
from stream_masker.core.statistics.counts import Counts
from stream_masker.errors import StatisticsError

COMPARED_GROUPS = (4, 16, 64)
"""The numbers of groups after which their mean share is compared with the required one.

If it is reached, no more groups are drawn. Otherwise the upper bound of the mean of all groups decides.
"""


class GroupSource(ChannelSource, Protocol):
    """A mechanism that masks groups, with statistics in force."""

    def group_size(self, counts: Counts) -> int:
        """Return the number of records of a group; ``counts``: those of the window."""


def check_changed_in_groups(source: GroupSource, counts: Counts) -> None:
    """Raise StatisticsError if masking groups of the window's records surely changes too few values of an attribute.

    An attribute with a single value is not checked: an attacker knows it without masks.
    """
    size = source.group_size(counts)
    required = np.array([required_change(value_law(c)[1]) if c.keys.size > 1 else 0.0 for c in counts.values])
    shares = np.empty((0, required.size))
    for number, group in enumerate(sampled_groups(source, counts, size), start=1):
        shares = np.vstack((shares, _changed_shares(group)))
        if number in COMPARED_GROUPS and all(map(_reaches, shares.T, required)):
            return
    for name, column, least in zip(source.attributes, shares.T, required, strict=True):
        found = column[~np.isnan(column)]
        if found.size and upper_bound(float(found.mean()), found.size) < least:
            raise StatisticsError(
                f"{name}: in groups of {size} records, masking would change {found.mean():.2%} of the "
                f"values of the window, and must change at least {least:.2%}: use smaller groups, a larger k or p, or "
                "another mechanism"
            )


def _changed_shares(group: MaskedGroup) -> Float64Array:
    """Return (p,): the share of each attribute's values that changed; NaN without values."""
    present = group.before >= 0
    changed = ((group.before != group.after) & present).sum(axis=0)
    values = present.sum(axis=0)
    shares: Float64Array = np.divide(changed, values, out=np.full(values.size, np.nan), where=values > 0)
    return shares


def _reaches(shares: Float64Array, least: float) -> bool:
    """Return whether the mean share reaches the required one; True if no group has values."""
    found = shares[~np.isnan(shares)]
    return not found.size or float(found.mean()) >= least
