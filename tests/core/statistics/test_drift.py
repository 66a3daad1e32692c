"""Drift between two windows: its figures, its null bands and its verdicts."""

from __future__ import annotations

import math

import numpy as np
import orjson
import pytest
from support.documentation import ROOT

from stream_masker import Ontology, SemanticNoise, measure_drift
from stream_masker.core.batch import Batch, Column
from stream_masker.core.distance import WuPalmer
from stream_masker.core.statistics import Statistics, compute_statistics, count_batch
from stream_masker.core.statistics.drift import FALSE_ALARMS, drift_between
from stream_masker.core.statistics.windows import merged
from stream_masker.errors import ParameterError, StatisticsError, UnknownConceptError
from tests.core.statistics.shifts import NAMES, SHIFTS, drift_of, masked_utility, windows

LINKS = [("a", "r"), ("b", "r"), ("a1", "a"), ("a2", "a"), ("b1", "b"), ("b2", "b"), ("a11", "a1"), ("b21", "b2")]
HEAVY = [pytest.mark.exhaustive, pytest.mark.scheduled]
TAU = Ontology.from_edges(LINKS, labels={"b1": "the label of b1"}).taxonomy()
D = WuPalmer(TAU)


def counted(a, b, arrays=False):
    second = Column(TAU.encode(b), np.arange(0, len(b) + 1, 2)) if arrays else Column(TAU.encode(b))
    return count_batch(Batch(len(a), (Column(TAU.encode(a)), second)), [len(TAU)] * 2)


def statistics(a, b, version=1, **given) -> Statistics:
    return compute_statistics(counted(a, b, **given), ["p", "q"], [D, D], version=version)


OLD = statistics(["a1"] * 30 + ["a2"] * 20 + ["b1"] * 50, ["b1"] * 60 + ["a2"] * 40)
SHIFTED = ["a1"] * 10 + ["a2"] * 10 + ["b1"] * 60 + ["b2"] * 20, ["b1"] * 60 + ["a2"] * 40


def test_windows_of_the_same_values_have_no_drift():
    drift = drift_between(OLD, OLD, [D, D], counted(["a1"] * 30 + ["a2"] * 70, ["b1"] * 60 + ["a2"] * 40))
    figures = {figure.value for each in drift.attributes.values() for figure in each.figures.values()}
    assert figures == {0.0}
    assert drift.pairs["p", "q"].value == 0.0
    assert (drift.verdict, drift.attributes["p"].moved) == ("none", ())


def test_every_figure():
    drift = drift_between(OLD, statistics(*SHIFTED, version=2), [D, D], counted(*SHIFTED))
    p = drift.attributes["p"]
    value = {name: figure.value for name, figure in p.figures.items()}
    old, new = np.array([0.3, 0.2, 0.5, 0.005]), np.array([0.1, 0.1, 0.6, 0.2])
    old, new = old / old.sum(), new / new.sum()
    assert value["psi_codes"] == pytest.approx(float((new - old) @ np.log(new / old)))
    before, now = {"a1": 0.3, "a2": 0.2, "b1": 0.5}, {"a1": 0.1, "a2": 0.1, "b1": 0.6, "b2": 0.2}
    assert value["divergence_codes"] == pytest.approx(
        sum(
            0.5 * share * math.log2(2 * share / (before.get(c, 0.0) + now.get(c, 0.0)))
            for side in (before, now)
            for c, share in side.items()
        )
    )
    difference = {c: now.get(c, 0.0) - before.get(c, 0.0) for c in now}
    energy = -sum(x * y * D(c, d) for c, x in difference.items() for d, y in difference.items())
    assert value["energy"] == pytest.approx(energy, rel=1e-5)
    assert value["novel"] == pytest.approx(0.2)
    later = statistics(*SHIFTED)
    assert value["mean"] == D(OLD.mean["p"], later.mean["p"])
    assert value["variance"] == pytest.approx(abs(later.variance["p"] - OLD.variance["p"]))
    assert drift.pairs["p", "q"].value == abs(later.correlation[0, 1] - OLD.correlation[0, 1])
    assert (p.verdict, drift.attributes["q"].verdict, drift.verdict) == ("act", "none", "act")
    assert {(one.concept, one.label, one.before, one.now) for one in p.moved if one.level == "codes"} == {
        ("a1", "", 0.3, 0.1),
        ("b2", "", 0.0, 0.2),
        ("a2", "", 0.2, 0.1),
        ("b1", "the label of b1", 0.5, 0.6),
    }
    report = orjson.loads(orjson.dumps(drift.to_dict()))
    assert report["attributes"]["p"]["figures"]["novel"]["verdict"] == "act"


def test_few_values_are_neither_counted_nor_named_on_their_own():
    few = (["a1"] * 30 + ["a2"] * 3 + ["b1"] * 67, ["b1"] * 60 + ["a2"] * 40)
    drift = drift_between(statistics(*few), OLD, [D, D], shown=10)
    moved = {one.concept: (one.before, one.now) for one in drift.attributes["p"].moved if one.level == "codes"}
    assert moved == {"a2": (0.0, 0.2), "b1": (0.67, 0.5)}


def test_a_scalar_counts_once_in_each_event_with_an_array():
    made = statistics(["a1", "b1"], ["b1", "b1", "a2", "a2"], arrays=True)
    assert made.values == {"p": {"a1": 1, "b1": 1}, "q": {"a2": 2, "b1": 2}}
    assert Statistics.from_dict(made.to_dict()).values == made.values


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([[50, 50, 1, 1], [50, 50, 0, 2]], [0, 1, 0, 0]),
        ([[50, 50, 3, 3], [50, 50, 3, 3]], [0, 1, 2, 2]),
        ([[2, 1], [1, 1]], [0, 0]),
        ([[50, 60], [60, 50]], [0, 1]),
    ],
)
def test_classes_have_five_expected_values(counts, expected):
    """Rare classes are one class, or part of the rarest of the others."""
    assert merged(np.arange(len(expected), dtype=np.int32), np.array(counts), 5).tolist() == expected


def test_what_cannot_be_compared_is_refused():
    other = compute_statistics(counted(*SHIFTED), ["p", "x"], [D, D], version=1)
    with pytest.raises(StatisticsError, match="of the same attributes"):
        drift_between(OLD, other, [D, D])
    with pytest.raises(UnknownConceptError):
        drift_between(OLD, OLD, [WuPalmer(TAU), WuPalmer(Ontology.from_edges(LINKS[:2]).taxonomy())])


def test_calibrations_of_a_mechanism_are_compared():
    noise = SemanticNoise({"p": TAU, "q": TAU}, window=100, seed=b"sixteen bytes or more")
    outcomes = []
    for a, b in ((["a1"] * 60 + ["b1"] * 40, ["a2"] * 40 + ["b1"] * 60), SHIFTED):
        noise.learn_many([{"p": x, "q": y} for x, y in zip(a, b, strict=True)])
        outcomes.append(noise.calibrate())
    drift = measure_drift(outcomes[0], noise)
    assert (drift.verdict, drift.since, drift.version) == ("act", 1, 2)
    assert [*drift.pairs] == [("p", "q")]
    restored = SemanticNoise({"p": TAU, "q": TAU}, seed=b"sixteen bytes or more")
    restored.restore(noise.snapshot())
    assert measure_drift(restored, noise).verdict == "none"
    assert measure_drift(outcomes[0], restored).pairs == {}
    for before, now in ((outcomes[0], outcomes[1]), ("statistics", noise)):
        with pytest.raises(ParameterError, match=r"use .*a calibrated mechanism"):
            measure_drift(before, now)


@pytest.mark.parametrize(
    ("size", "versions"), [(1_000, 10), *(pytest.param(size, 200, marks=HEAVY) for size in (1_000, 5_000, 20_000))]
)
@pytest.mark.parametrize("what", [drift_of, masked_utility])
def test_versions_without_drift_are_rarely_reported(what, size, versions):
    """Both windows are random discharges of one law. The bound is three standard errors above the promised share."""
    reported = sum(what(*windows(size, seed)).verdict != "none" for seed in range(versions))
    print(f"{what.__name__}: {reported} of {versions} windows of {size} without drift were reported")
    assert reported <= FALSE_ALARMS * versions + 3 * math.sqrt(FALSE_ALARMS * (1 - FALSE_ALARMS) * versions)


def test_masks_of_more_noise_or_of_stale_statistics_are_worse_than_expected():
    before, now = windows(5_000, 0)
    recoded = SHIFTS["all codes recoded to a child"](now, np.random.default_rng(0))
    assert masked_utility(before, now, alpha=10.0).verdict == "act"
    assert (masked_utility(before, recoded).verdict, masked_utility(recoded, recoded).verdict) == ("act", "none")


SHOWN = ("psi_blocks", "psi_codes", "energy", "variance", "novel")
"""The figures of an attribute in the table of the documentation."""


@pytest.mark.exhaustive
@pytest.mark.parametrize("number", range(len(SHIFTS)))
def test_shifts_of_real_discharges_have_the_verdicts_of_the_documentation(number):
    name, shift = list(SHIFTS.items())[number]
    few, many = (shifted(shift, size, number) for size in (1_000, 20_000))
    cells = [[many.attributes[each].figures[kind] for each in NAMES] for kind in SHOWN]
    cells.append([many.pairs[NAMES]])
    row = " | ".join((name, f"`{few.verdict}`", f"`{many.verdict}`", *map(cell, cells)))
    assert f"| {row} |\n" in (ROOT / "docs" / "operations.md").read_text()


def shifted(shift, size, number):
    before, now = windows(size, number)
    return drift_of(before, shift(now, np.random.default_rng(number)), number)


def cell(figures):
    """Return the greatest figure that is beyond its band."""
    beyond = [figure.value for figure in figures if figure.verdict != "none"]
    return f"{max(beyond):.2f}" if beyond else "–"
