"""The three sentences about a statistics version, from the figures of it that people may see."""

from __future__ import annotations

from stream_masker.core.mechanisms import MECHANISMS
from stream_masker.pipeline.calibration.versions import Publish
from stream_masker.summary import three_sentences


def unchanged_share(publish: Publish) -> float | None:
    """Return the share of records in which masking changes no value: measured, else expected; None if unknown."""
    if publish.effect is not None:
        return publish.effect.unchanged_records
    risk = None if publish.risk is None else publish.risk.risk
    return None if risk is None else risk.unchanged_of_record


def sentences_of(publish: Publish) -> tuple[str, str, str]:
    """Return what an attacker learns, what stays as it was, and what is kept.

    The last one is what the mechanism preserves in expectation, unless the means of the window may be shown.
    """
    shown = all(set(each) == set(publish.statistics.attributes) for each in publish.means.values())
    return three_sentences(
        None if publish.risk is None else publish.risk.risk,
        unchanged=None if publish.effect is None else publish.effect.unchanged,
        unchanged_records=unchanged_share(publish),
        before=publish.statistics if shown else None,
        after=publish.masked if shown else None,
        preserves=MECHANISMS[publish.message.mechanism].method_card.preserves,
    )
