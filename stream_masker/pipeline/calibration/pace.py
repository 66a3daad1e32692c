"""The pace of the calibrator: when statistics may be computed. Pure decisions, without a clock."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from stream_masker.core.drift import jensen_shannon
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.statistics.counts import SparseCounts
from stream_masker.core.statistics.observed import roll_up
from stream_masker.core.statistics.summary import Statistics
from stream_masker.errors import ParameterError
from stream_masker.pipeline.calibration.window import Window


class Pace:
    """Limits computing to a share of a core: after t seconds of it, there is none for t · (1/share - 1) seconds.

    Times are seconds of one monotonic clock; t is processor time. Computing that may not wait is charged all the same:
    the pauses add up.
    """

    def __init__(self, share: float) -> None:
        """``share``: above 0, at most 1, which never pauses. Raises ParameterError."""
        if not 0 < share <= 1:
            raise ParameterError(f"the share of a core is {share}; it must be above 0 and at most 1")
        self._pause_per_second = 1 / share - 1
        self._open_at = 0.0

    def charge(self, seconds: float, now: float) -> None:
        """Record ``seconds`` of computing that ended at ``now``."""
        self._open_at = max(self._open_at, now) + seconds * self._pause_per_second

    def hold(self, until: float) -> None:
        """Allow no computing before the time ``until``, unless it never pauses."""
        if self._pause_per_second:
            self._open_at = max(self._open_at, until)

    def is_open(self, now: float) -> bool:
        """Whether statistics may be computed."""
        return now >= self._open_at


def divergence(window: Window, statistics: Statistics, taxonomies: Mapping[str, Taxonomy], depth: int) -> float:
    """Return the drift of a window's original values from published statistics, in [0, 1].

    The greatest Jensen-Shannon divergence (base 2) of an attribute's values, rolled up to ``depth``. It takes far less
    time than the statistics: the pairs of values are not merged. An attribute without a value, or without published
    shares, does not count.
    """
    divergences = [
        jensen_shannon(rolled, statistics.rollup[name])
        for j, (name, taxonomy) in enumerate(taxonomies.items())
        if (rolled := roll_up(_values(window, j, len(taxonomy)), taxonomy, depth)) and statistics.rollup.get(name)
    ]
    return max(divergences, default=0.0)


def _values(window: Window, attribute: int, size: int) -> SparseCounts:
    """Return the counts of an attribute's original values in the window; ``size``: of its taxonomy."""
    totals = np.zeros(size, np.int64)
    for part in window.parts:
        codes, counts, _ = part.columns.original.values[attribute].rows(part.counted)
        np.add.at(totals, codes, counts)
    keys = np.flatnonzero(totals)
    return SparseCounts(keys, totals[keys])
