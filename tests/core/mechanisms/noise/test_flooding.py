"""Noise of a window that is full of one value: it must still change the other values."""

from __future__ import annotations

import pytest
from flooding import TREE, changed_of_others, flooded

from stream_masker.core.mechanisms import SemanticNoise
from stream_masker.core.statistics.counts import Counts
from stream_masker.errors import StatisticsError


def noise_of(counts: Counts, rounding: str) -> SemanticNoise:
    """Return the noise with the statistics of these counts in force. Raises StatisticsError if they are refused."""
    noise = SemanticNoise({"code": TREE}, alpha=0.3, rounding=rounding, correlated=False, seed=b"seed............")
    return noise.with_statistics(noise.compute(counts, version=1), counts)


MANY = pytest.mark.parametrize("values", [12, 72], ids=["few values", "many values"])


@MANY
@pytest.mark.parametrize(
    ("rounding", "share"),
    [("calibrated", 0.0), ("calibrated", 0.5), ("calibrated", 0.9), ("calibrated", 0.99), ("ceil", 0.99)],
)
def test_statistics_in_force_change_the_values_of_others(share: float, rounding: str, values: int) -> None:
    counts = flooded(share, values)
    changed, required = changed_of_others(noise_of(counts, rounding), counts)
    assert changed >= required > 0.04


def test_a_flood_that_leaves_most_other_values_a_single_mask_is_refused() -> None:
    """Few values are far apart, so that each has a nearest concept of its own."""
    with pytest.raises(StatisticsError, match="code, apart from its most frequent value: 82% of the values"):
        noise_of(flooded(0.999, 12), "ceil")


def test_in_such_a_flood_many_values_share_their_masks() -> None:
    counts = flooded(0.999, 72)
    changed, required = changed_of_others(noise_of(counts, "ceil"), counts)
    assert changed >= required > 0.04


@MANY
def test_statistics_that_would_change_hardly_any_value_of_others_are_refused(values: int) -> None:
    with pytest.raises(
        StatisticsError, match=r"apart from its most frequent value: masking would change|single possible original"
    ):
        noise_of(flooded(0.999, values), "calibrated")
