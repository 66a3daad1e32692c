"""The least that masking must change and hide before statistics come into force."""

from __future__ import annotations

import numpy as np

from stream_masker.core.dtypes import Float64Array
from stream_masker.core.risk.channel import Channel
from stream_masker.errors import StatisticsError

MIN_CHANGED = 0.05
"""The share of values that masking must change, in units of the share that independent draws would change."""

MIN_DOUBT = 1e-6
"""The chance that the best guess is wrong, in units of that without masks, below which masks tell every original."""


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
    """Raise StatisticsError if masking changes too few values of an attribute, or masks tell every original.

    The values other than the most frequent one are checked on their own, too: a window that is full of one value, by
    accident or on purpose, has little variance, so that noise would leave the other records as they are. An attribute
    with a single value is not checked: an attacker knows it without masks.

    ``prior``: (n,) the share of each of the channel's values.
    """
    if prior.size < 2:
        return
    changed = 1.0 - channel.unchanged
    check_changed(name, float(prior @ changed), prior)
    others = np.delete(prior, prior.argmax()) / (1.0 - prior.max())
    others_changed = float(others @ np.delete(changed, prior.argmax()))
    check_changed(f"{name}, apart from its most frequent value", others_changed, others)
    right = float((prior[:, None] * channel.rows).max(axis=0).sum())
    if 1.0 - right < MIN_DOUBT * (1.0 - prior.max()):
        raise StatisticsError(
            f"{name}: masked values have a single possible original; use other candidates or another mechanism"
        )
