"""Publication: counts of few values are not shown, everything else is exact."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stream_masker.core.batch import Batch, Column
from stream_masker.core.distance import WuPalmer
from stream_masker.core.ontology import Ontology
from stream_masker.core.risk.risk import Disclosure, Guess, Membership, Risk
from stream_masker.core.statistics import compute_statistics
from stream_masker.core.statistics.counts import count_batch
from stream_masker.core.statistics.summary import Statistics
from stream_masker.pipeline.publication import LabelledConcept, Publication

CODES = [f"c{i}{j}" for i in range(6) for j in range(5)]
TAU = Ontology.from_edges([*((f"c{i}", "root") for i in range(6)), *((code, code[:2]) for code in CODES)]).taxonomy()
NAMES, DISTANCES, LEAST = ("one", "two"), (WuPalmer(TAU), WuPalmer(TAU)), 20
SHOWN, EXACT = (Publication(dict.fromkeys(NAMES, TAU), least) for least in (LEAST, 1))


def statistics(codes: list[str], version: int = 1, previous: Statistics | None = None) -> Statistics:
    """The statistics of records with the same code twice."""
    columns = (Column(TAU.encode(codes)),) * 2
    counts = count_batch(Batch(len(codes), columns), [len(TAU)] * 2)
    return compute_statistics(counts, NAMES, DISTANCES, version=version, previous=previous)


def window(*rare: str, size: int = 2_000) -> list[str]:
    return [*np.random.default_rng(1).choice(CODES[:20], size - len(rare)).tolist(), *rare]


def test_figures_of_a_whole_window_are_exact_and_concepts_are_not_counted() -> None:
    exact = statistics(window())
    shown = SHOWN.shown(exact).statistics
    assert (shown.mean, shown.variance, shown.records) == (exact.mean, exact.variance, exact.records)
    assert np.array_equal(shown.covariance, exact.covariance)
    assert shown.values == {}


@pytest.mark.parametrize(("count", "is_shown"), [(0, False), (1, False), (19, False), (20, True), (39, True)])
def test_shares_of_few_values_are_not_shown(count: int, is_shown: bool) -> None:
    exact = statistics(window())
    shares = dict.fromkeys(NAMES, count / exact.records + 1e-12)
    shown = SHOWN.shown(replace(exact, unknown=shares, novel=shares)).statistics
    assert (shown.unknown, shown.novel) == ({}, shares if is_shown else dict.fromkeys(NAMES, 0.0))


def test_the_drift_neither_names_nor_tells_rare_codes() -> None:
    """Whatever rare code one person has, the figures of classes are the same, and exact ones are not."""
    before = statistics(window())
    found = {}
    for publication in (SHOWN, EXACT):
        drifts = [
            publication.drift(before, statistics(window(code), 2, before), DISTANCES, None).attributes["one"]
            for code in ("c40", "c52")
        ]
        named = {one.concept for each in drifts for one in each.moved}
        assert bool(named & {"c4", "c40", "c5", "c52"}) is (publication is EXACT)
        found[publication.min_records] = [each.figures["novel"].value for each in drifts]
    assert (found[LEAST], set(found[1])) == ([0.0, 0.0], {1 / 2_000})


@pytest.mark.parametrize(
    ("codes", "mean", "shown"),
    [
        (["c00"] * 19, "c00", None),
        (["c00"] * 20, "c00", "c00"),
        (["c00"] * 20 + ["c01"] * 10, "c0", "c0"),
        (CODES * 4, "root", "root"),
        (CODES[:19], "root", None),
        (CODES * 4, "c40", None),
    ],
)
def test_smean_is_shown_if_enough_values_are_of_it_or_below_it(codes: list[str], mean: str, shown: str | None) -> None:
    exact = replace(statistics(codes), mean=dict.fromkeys(NAMES, mean))
    assert SHOWN.shown(exact).means.get("one") == (shown and LabelledConcept(shown, TAU.label(shown)))


def test_rare_sensitive_groups_are_not_shown() -> None:
    """Of 1,000 records, 19 are of a group and 21 of another one; chapters and blocks are always shown."""
    groups = {"rare": Membership(0.019, 1.0, 1.0), "frequent": Membership(0.021, 1.0, 1.0)}
    learned = {"one": Disclosure(0.9, 0.9, 1.0, 0.9, 0.9, {"chapter": Guess(0.9, 0.9, 1.0, 0.9, 0.9)}, groups, 0.0)}
    shown = SHOWN.risk(Risk(learned, learned, {"one": 0.9}, 0.9, {"one": 0.1}), 1_000)
    assert shown.record is not None
    for each in (shown.value, shown.record):
        assert (set(each["one"].sensitive), set(each["one"].levels)) == ({"frequent"}, {"chapter"})
