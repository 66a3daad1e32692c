"""The least change that masking must make before statistics come into force."""

from __future__ import annotations

import numpy as np

from stream_masker.core.dtypes import Float64Array
from stream_masker.core.risk.channel import Channel
from stream_masker.core.risk.measures import conditional_entropy, doubts, joint_law
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
