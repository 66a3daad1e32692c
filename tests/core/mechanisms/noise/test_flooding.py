"""Noise of a window that is full of one value: it must still change the other values."""

from __future__ import annotations

import numpy as np
import pytest

from stream_masker.core.batch import Batch, Column
from stream_masker.core.mechanisms import SemanticNoise
from stream_masker.core.ontology import Ontology
from stream_masker.core.risk.floor import required_change
from stream_masker.core.risk.records import value_law
from stream_masker.core.risk.reduction import without_mode
from stream_masker.core.statistics.counts import Counts, count_batch
from stream_masker.errors import StatisticsError

LEAVES = [f"{chapter}{group}{leaf}" for chapter in "abcd" for group in "1234" for leaf in "123456789"]
TREE = Ontology.from_edges(
    [(chapter, "root") for chapter in "abcd"]
    + [(f"{chapter}{group}", chapter) for chapter in "abcd" for group in "1234"]
    + [(leaf, leaf[:2]) for leaf in LEAVES]
).taxonomy()


def flooded(share: float, values: int) -> Counts:
    """Return the counts of ``values`` different values, to which one value is added up to ``share`` of all records."""
    codes = TREE.encode(LEAVES[:: len(LEAVES) // values][:values])
    more = round(10 * len(codes) * share / (1.0 - share))
    column = np.concatenate([np.repeat(codes, 10), np.full(more, codes[0], np.int32)])
    return count_batch(Batch(column.size, (Column(column),)), (len(TREE),))


def changed_of_others(noise: SemanticNoise, counts: Counts) -> tuple[float, float]:
    """Return the share that masking changes of the values other than the most frequent, and the required one."""
    values, prior = value_law(without_mode(counts, 0).values[0])
    return float(prior @ (1.0 - noise.attribute_channel(0, values, counts).unchanged)), required_change(prior)


def noise_of(counts: Counts, rounding: str) -> SemanticNoise:
    """Return the noise with the statistics of these counts in force. Raises StatisticsError if they are refused."""
    noise = SemanticNoise({"code": TREE}, alpha=0.3, rounding=rounding, correlated=False, seed=b"seed")
    return noise.with_statistics(noise.compute(counts, version=1), counts)


MANY = pytest.mark.parametrize("values", [12, 72], ids=["few values", "many values"])


@MANY
@pytest.mark.parametrize(
    ("rounding", "share"),
    [("calibrated", 0.0), ("calibrated", 0.5), ("calibrated", 0.9), ("calibrated", 0.99), ("ceil", 0.999)],
)
def test_statistics_in_force_change_the_values_of_others(share: float, rounding: str, values: int) -> None:
    counts = flooded(share, values)
    changed, required = changed_of_others(noise_of(counts, rounding), counts)
    assert changed >= required > 0.04


@MANY
def test_statistics_that_would_change_hardly_any_value_of_others_are_refused(values: int) -> None:
    with pytest.raises(
        StatisticsError, match=r"apart from its most frequent value: masking would change|single possible original"
    ):
        noise_of(flooded(0.999, values), "calibrated")
