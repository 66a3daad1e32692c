"""The least that masking must change and hide before statistics come into force."""

from __future__ import annotations

import numpy as np

from stream_masker.core.dtypes import Float64Array
from stream_masker.core.risk.channel import Channel
from stream_masker.errors import StatisticsError

MIN_CHANGED = 0.05
"""The share of values that masking must change, in units of the share that independent draws would change."""

MIN_DOUBT = 1e-5
"""The probability of other originals, averaged over a value's masks, below which they determine the value."""

MAX_DETERMINED = 0.5
"""The largest share of the changed values of an attribute, without its most frequent one, that masks may determine."""


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


def check_masking(name: str, channel: Channel, prior: Float64Array) -> None:
    """Raise StatisticsError if masking changes too few values of an attribute, or masks determine too many.

    The values other than the most frequent one are checked on their own: a window that is full of one value, by
    accident or on purpose, has little variance, so that noise would leave the other records as they are. An attribute
    with a single value is not checked: an attacker knows it without masks.

    ``prior``: (n,) the share of each of the channel's values.
    """
    if prior.size < 2:
        return
    changed, mode = prior * (1.0 - channel.unchanged), prior.argmax()
    check_changed(name, float(changed.sum()), prior)
    others, rest = np.delete(prior, mode), 1.0 - prior[mode]
    check_changed(f"{name}, apart from its most frequent value", np.delete(changed, mode).sum() / rest, others / rest)
    share = _determined(prior, channel)
    if share > MAX_DETERMINED:
        raise StatisticsError(
            f"{name}, apart from its most frequent value: {share:.0%} of the values that masking changes become masks "
            f"with a single possible original, and at most {MAX_DETERMINED:.0%} may; use other candidates, another "
            "matrix or another mechanism"
        )


def _determined(prior: Float64Array, channel: Channel) -> float:
    """Return the share of the changed values, without the most frequent one, that all of their masks determine."""
    joint = prior[:, None] * channel.rows
    right = (joint**2 / np.maximum(joint.sum(axis=0), np.finfo(np.float64).tiny)).sum(axis=1) / prior
    changed = np.where(np.arange(prior.size) == prior.argmax(), 0.0, prior * (1.0 - channel.unchanged))
    return float(changed[right > 1.0 - MIN_DOUBT].sum() / max(changed.sum(), np.finfo(np.float64).tiny))
