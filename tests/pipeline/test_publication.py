"""Publication: counts of few values are not shown, everything else is exact."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stream_masker.core.batch import Batch, Column
from stream_masker.core.distance import WuPalmer
from stream_masker.core.ontology import Ontology
from stream_masker.core.statistics import compute_statistics
from stream_masker.core.statistics.counts import count_batch
from stream_masker.core.statistics.drift import drift_between
from stream_masker.core.statistics.statistics import Statistics
from stream_masker.pipeline.versions import shown

CODES = [f"c{i}{j}" for i in range(6) for j in range(5)]
TAU = Ontology.from_edges([*((f"c{i}", "root") for i in range(6)), *((code, code[:2]) for code in CODES)]).taxonomy()
NAMES, DISTANCES, LEAST = ("one", "two"), (WuPalmer(TAU), WuPalmer(TAU)), 20


def published(exact: Statistics) -> Statistics:
    return shown(exact, dict.fromkeys(NAMES, TAU), LEAST)


def statistics(codes: list[str], version: int = 1, previous: Statistics | None = None) -> Statistics:
    """The statistics of records with the same code twice."""
    columns = (Column(TAU.encode(codes)),) * 2
    counts = count_batch(Batch(len(codes), columns), [len(TAU)] * 2)
    return compute_statistics(counts, NAMES, DISTANCES, version=version, previous=previous)


def window(*rare: str, size: int = 2_000) -> list[str]:
    return [*np.random.default_rng(1).choice(CODES[:20], size - len(rare)).tolist(), *rare]


def test_figures_of_a_whole_window_are_exact_and_concepts_are_not_counted() -> None:
    exact = statistics(window())
    found = published(exact)
    assert (found.mean, found.variance, found.records) == (exact.mean, exact.variance, exact.records)
    assert np.array_equal(found.covariance, exact.covariance)
    assert found.values == {}


def test_the_drift_neither_names_nor_tells_rare_codes() -> None:
    """Whatever rare code one person has, the figures of classes are the same, and exact ones are not."""
    before = statistics(window())
    found = {}
    for least in (LEAST, 1):
        windows = [statistics(window(code), 2, before) for code in ("c40", "c52")]
        drifts = [drift_between(before, now, DISTANCES, shown=least).attributes["one"] for now in windows]
        named = {one.concept for each in drifts for one in each.moved}
        assert bool(named & {"c4", "c40", "c5", "c52"}) is (least == 1)
        found[least] = [each.figures["novel"].value for each in drifts]
    assert (found[LEAST], set(found[1])) == ([0.0, 0.0], {1 / 2_000})


@pytest.mark.parametrize(
    ("codes", "mean", "is_shown"),
    [
        (["c00"] * 19, "c00", False),
        (["c00"] * 20, "c00", True),
        (["c00"] * 20 + ["c01"] * 10, "c0", True),
        (CODES * 4, "root", True),
        (CODES[:19], "root", False),
        (CODES * 4, "c40", False),
    ],
)
def test_smean_is_shown_if_enough_values_are_of_it_or_below_it(codes: list[str], mean: str, is_shown: bool) -> None:
    exact = replace(statistics(codes), mean=dict.fromkeys(NAMES, mean))
    assert published(exact).mean["one"] == (mean if is_shown else "")
