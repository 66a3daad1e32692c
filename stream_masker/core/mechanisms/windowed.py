"""The risk of a mechanism, and the type of what it derives from statistics."""

from __future__ import annotations

from abc import abstractmethod
from typing import Generic, TypeVar

import numpy as np

from stream_masker.core.dtypes import Int32Array
from stream_masker.core.mechanisms.base import Mechanism
from stream_masker.core.risk.law import Channel, IndependentMasks, MaskLaw, Tuples, value_law
from stream_masker.core.risk.risk import Risk, assess, check_masking
from stream_masker.core.statistics.counts import Counts
from stream_masker.core.statistics.summary import Statistics
from stream_masker.core.validation import whole_number
from stream_masker.errors import ParameterError, StatisticsError

UNKNOWN_COUNTS = (
    "the counts of the window are not known: a snapshot does not hold them; calibrate, or give them with the statistics"
)

MAX_DRAWS = 1_000_000

CHECKED_VALUES = 64
"""The number of values of an attribute whose masks are checked before statistics come into force."""

Prepared = TypeVar("Prepared")
"""What a mechanism derives from statistics once, when they come into force, for use by every mask."""


class WindowedMechanism(Mechanism, Generic[Prepared]):
    """A mechanism that gives the transition probabilities of its masks, from which its risk follows."""

    def channel(self, attribute: str, value: str) -> dict[str, float]:
        if attribute not in self._attributes:
            raise ParameterError(f"{attribute!r} is not an attribute: use one of {self._attributes}")
        self._prepared_statistics()
        j, tau = self._attributes.index(attribute), self._taxonomies[attribute]
        position = tau.position(value)
        channel = self.attribute_channel(j, np.array([position], np.int32), self._counts)
        row = {position: 0.0, **channel.classes.spread(channel.rows[0])}
        return dict(zip(tau.decode(np.array(list(row))), row.values(), strict=True))

    def risk(self, *, draws: int = 1000) -> Risk:
        counts = self._known_counts()
        return assess(self, counts, draws=whole_number("draws", draws, 1, MAX_DRAWS))

    @abstractmethod
    def attribute_channel(self, j: int, values: Int32Array, counts: Counts | None) -> Channel:
        """Return the transition probabilities of some values of attribute j.

        * ``values``: (n,) int32, ascending positions.
        * ``counts``: those of the window, or None if they are not known. Raises StatisticsError if they are needed.
        """

    def mask_law(self, tuples: Tuples, channels: tuple[Channel, ...], counts: Counts) -> MaskLaw | None:
        """Return the law of the masks of some attributes, given their values; None for mechanisms that mask groups.

        The default holds if the masks of a record are independent, and each depends on its own value alone.

        ``tuples``: the attributes and their combinations of values. ``channels``: of all values of each attribute.
        """
        return None if self.needs_group else IndependentMasks.of(tuples, channels)

    @abstractmethod
    def _prepare(self, statistics: Statistics) -> Prepared: ...

    def _prepared_statistics(self) -> Prepared:
        prepared: Prepared = super()._prepared_statistics()
        return prepared

    def _known_counts(self) -> Counts:
        self._prepared_statistics()
        if self._counts is None:
            raise StatisticsError(UNKNOWN_COUNTS)
        return self._counts

    def _check_masking(self, counts: Counts) -> None:
        """Check the most frequent values first, and all of them only if these fail."""
        for j, name in enumerate(self._attributes):
            values, prior = value_law(counts.values[j])
            frequent = np.sort(np.argsort(-prior, kind="stable")[:CHECKED_VALUES])
            share = prior[frequent] / prior[frequent].sum()
            try:
                check_masking(name, self.attribute_channel(j, values[frequent], counts), share)
            except StatisticsError:
                check_masking(name, self.attribute_channel(j, values, counts), prior)
