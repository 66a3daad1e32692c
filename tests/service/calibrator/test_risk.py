"""The risk of a statistics version: its metrics, its log, and what happens beyond a limit."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import replace
from html import escape

import pytest
from calibration_session import SessionBench, block, sample

from stream_masker import Ontology, SemanticNoise, SemanticTransport
from stream_masker.core.batch import Batch, Column
from stream_masker.core.risk.risk import Risk
from stream_masker.core.statistics import count_batch
from stream_masker.errors import StatisticsError
from stream_masker.pipeline.calibration.risk import RiskLimits, _crossed, assess_version
from stream_masker.service.calibrator import session
from stream_masker.service.calibrator.components import CalibratorComponents

STRICT = RiskLimits(max_vulnerability=0.01, hold=True)

TAU = Ontology.from_edges([(f"c{k}", f"g{k // 3}") for k in range(9)] + [(f"g{k}", "r") for k in range(3)]).taxonomy()
SEED = b"sixteen bytes or more"
LEAVES = TAU.encode([f"c{k}" for k in range(9)])
COUNTS = count_batch(Batch(9, (Column(LEAVES),)), [len(TAU)])


def small_risk(*, given: float, error: float) -> Risk:
    """The risk of one attribute whose figures of records are estimated."""
    mechanism = SemanticTransport({"one": TAU}, seed=SEED, least=1)
    installed = mechanism.with_statistics(mechanism.compute(COUNTS, version=1), COUNTS)
    risk = installed.risk()
    return replace(risk, record={"one": replace(risk.value["one"], vulnerability=given, error=error)})


LEVEL_FIGURES = ("vulnerability", "certainty")


def bench_with(components: CalibratorComponents, limits: RiskLimits) -> SessionBench:
    return SessionBench(replace(components, risk_limits=limits))


def test_the_risk_of_a_version_is_measured_and_logged(bench: SessionBench, caplog: pytest.LogCaptureFixture) -> None:
    bench.deliver(4, block(0))
    with caplog.at_level(logging.INFO):
        bench.session.publish_next()
        bench.session.assess_risk()
    assert bench.metric("risk_prior", attribute="one") == pytest.approx(0.2)
    for given in ("value", "record"):
        assert 0.2 < (bench.metric("risk_vulnerability", attribute="one", given=given) or 0.0) <= 1.0
    for given in ("value", "record"):
        for name in ("risk_certain_share", "risk_likely_share"):
            assert bench.metric(name, attribute="two", given=given) is not None
    assert bench.metric("risk_unchanged_share", attribute="two") is not None
    for records in ("original", "masked"):
        assert 0.0 <= (bench.metric("risk_unique_share", records=records) or 0.0) <= 1.0
    assert 0.0 < (bench.metric("risk_linked_share") or 0.0) <= 1.0
    assert bench.metric("risk_record_unchanged_share") is not None
    assert bench.metric("risk_limits_crossed") == 0
    assert 0.0 <= (bench.metric("risk_bound") or 0.0) < 0.1
    assert 0.2 < (bench.metric("risk_certainty", attribute="one", given="value") or 0.0) <= 0.5
    assert bench.metric("risk_certainty", attribute="one", given="record") is None, "nothing is promised"
    for given in ("value", "record"):
        told = [bench.metric(f"risk_level_{x}", attribute="one", level="chapter", given=given) for x in LEVEL_FIGURES]
        assert 0.0 < told[0] <= told[1] <= 1.0
    assert "risk of statistics version 1: one: vulnerability" in caplog.text
    assert bench.session.crossed == ()


def test_the_first_version_is_logged_and_shown_in_three_sentences(
    bench: SessionBench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.deliver(4, block(0))
    with caplog.at_level(logging.INFO):
        bench.session.publish_next()
        bench.session.assess_risk()
    (said,) = (text for text in caplog.messages if text.startswith("statistics version 1: "))
    begin, separator, rest = said.removeprefix("statistics version 1: ").partition(" of a code and ")
    assert separator
    assert re.fullmatch(r"Nothing is promised .*: some masks make an attacker \d\d% sure", begin)
    assert rest.count("without masks") == 2
    assert "of the records stay as they were." in rest
    page = bench.components.page.html("")
    assert f"<p>{escape(begin + separator)}" in page
    assert page.count("stay as they were.</p>") == 1


def test_a_mask_that_leaves_most_records_as_they_were_is_a_warning(
    bench: SessionBench, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "unchanged_share", lambda _: 0.81)
    bench.deliver(4, block(0))
    bench.session.publish_next()
    bench.session.assess_risk()
    (warning,) = (one for one in caplog.records if "leaves 81% of the records as they were" in one.getMessage())
    assert warning.levelno == logging.WARNING


def test_a_version_beyond_a_limit_is_published_with_an_alert(
    components: CalibratorComponents, caplog: pytest.LogCaptureFixture
) -> None:
    bench = bench_with(components, RiskLimits(max_vulnerability=0.01))
    bench.deliver(4, block(0))
    bench.session.publish_next()
    bench.session.assess_risk()
    assert len(bench.publisher.published) == 1
    assert bench.metric("risk_limits_crossed") == 2
    assert bench.metric("statistics_withheld_total") == 0
    assert "above risk.max_vulnerability 0.01" in caplog.text


def test_a_version_that_its_risk_cannot_withhold_is_published_before_it(bench: SessionBench) -> None:
    bench.deliver(4, block(0))
    bench.session.publish_next()
    assert bench.publisher.published[0].risk is None
    assert bench.metric("risk_prior", attribute="one") is None
    before = bench.components.page.html("")
    bench.session.assess_risk()
    assert bench.metric("risk_prior", attribute="one") == pytest.approx(0.2)
    assert "Best guess without masks" not in before
    assert "Best guess without masks" in bench.components.page.html("")


def test_the_risk_of_a_version_is_computed_once(bench: SessionBench) -> None:
    bench.deliver(4, block(0))
    bench.session.publish_next()
    bench.session.assess_risk()
    computed = bench.metric("calibration_processor_seconds_total")
    bench.session.assess_risk()
    assert bench.metric("calibration_processor_seconds_total") == computed


def test_a_version_beyond_a_limit_is_withheld(components: CalibratorComponents) -> None:
    bench = bench_with(components, STRICT)
    bench.deliver(4, block(0))
    bench.session.publish_next()
    assert bench.publisher.published == []
    assert bench.session.history.latest is None
    assert bench.metric("statistics_withheld_total") == 1
    assert bench.session.crossed[0].startswith("one: the vulnerability")


def test_a_share_of_changed_values_below_the_limit_is_withheld(components: CalibratorComponents) -> None:
    bench = bench_with(components, RiskLimits(min_changed=1.0, hold=True))
    bench.deliver(4, block(0))
    bench.session.publish_next()
    assert bench.publisher.published == []
    assert "the share of changed values" in bench.session.crossed[0]


def test_a_sample_beyond_a_limit_is_not_published(components: CalibratorComponents) -> None:
    bench = bench_with(components, STRICT)
    with pytest.raises(StatisticsError, match="vulnerability"):
        bench.session.publish_sample(sample([0, 1, 2, 3, 4, 5, 6, 3, 4, 5]))
    assert bench.publisher.published == []


@pytest.mark.parametrize(
    ("limit", "estimated", "crossed"), [(0.48, 0.47, True), (0.6, 0.47, False), (0.48, 0.4, False)]
)
def test_an_estimate_counts_with_its_error(limit: float, estimated: float, crossed: bool) -> None:
    risk = small_risk(given=estimated, error=0.05)
    sentences = list(_crossed(risk, COUNTS, RiskLimits(max_vulnerability=limit, min_changed=0.0), 0.0))
    assert bool(sentences) == crossed
    assert all("is above risk.max_vulnerability" in sentence for sentence in sentences)


@pytest.mark.parametrize(
    ("figures", "limits", "crossed"),
    [
        ({"certain": 0.06}, RiskLimits(), "one: 6% of the values are guessed"),
        ({"certain": 0.05}, RiskLimits(), ""),
        ({"certain": 1.0, "prior": 0.95}, RiskLimits(), ""),
        ({"certain": 0.06}, RiskLimits(max_certain=0.1), ""),
    ],
)
def test_values_that_are_guessed_with_certainty_cross_a_limit_by_default(
    figures: Mapping[str, float], limits: RiskLimits, crossed: str
) -> None:
    risk = small_risk(given=0.2, error=0.0)
    risk = replace(risk, value={"one": replace(risk.value["one"], **figures)})
    sentences = list(_crossed(risk, COUNTS, limits, 0.0))
    assert [sentence.startswith(crossed) for sentence in sentences] == [True] * bool(crossed)


@pytest.mark.parametrize(
    ("greatest", "prior", "limit", "crossed"),
    [(0.5, 0.2, None, False), (0.5, 0.2, 0.4, True), (0.5, 0.5, 0.4, False), (0.6, 0.2, 0.7, False)],
)
def test_a_record_that_tells_more_than_the_limit_crosses_it_unless_the_value_is_as_frequent(
    greatest: float, prior: float, limit: float | None, crossed: bool
) -> None:
    risk = small_risk(given=0.2, error=0.0)
    told = {"one": replace(risk.value["one"], greatest=greatest, prior=prior)}
    sentences = list(_crossed(replace(risk, value=told, record=told), COUNTS, RiskLimits(max_certainty=limit), 0.0))
    assert [sentence.startswith("one: a masked record tells a value") for sentence in sentences] == [True] * crossed


@pytest.mark.parametrize("certainty", [0.5, 0.3])
def test_the_default_mechanism_is_within_the_limits_and_its_promise_is_one(certainty: float) -> None:
    made = SemanticTransport({"one": TAU}, alpha=0.1, certainty=certainty, seed=SEED, least=1)
    statistics = made.compute(COUNTS, version=1)
    assert assess_version(made, statistics, COUNTS, made.distances, RiskLimits(), brief=True).crossed == ()
    limits = RiskLimits(max_certainty=certainty / 2)
    found = assess_version(made, statistics, COUNTS, made.distances, limits, brief=True)
    assert found.crossed[0].endswith(f"above {certainty / 2:g}")


def test_noise_that_tells_most_values_is_beyond_a_limit_by_default() -> None:
    made = SemanticNoise({"one": TAU}, alpha=0.1, candidates="all", rounding="calibrated", seed=SEED)
    statistics = made.compute(COUNTS, version=1)
    found = assess_version(made, statistics, COUNTS, made.distances, RiskLimits(), brief=True)
    assert "guessed with a probability above 0.9" in found.crossed[0]


def test_settings_of_an_unknown_risk_wait_for_the_next_window(components: CalibratorComponents) -> None:
    bench = bench_with(components, RiskLimits(hold=True))
    bench.deliver(4, block(0))
    bench.session.publish_next()
    bench.session._planner._counts = (None, None)
    changed = replace(components.subject, configuration="other", settings={**components.subject.settings, "x": 1})
    bench.session.reconfigure(replace(bench.components, subject=changed))
    assert bench.session.settings_differ
    bench.session.publish_settings()
    assert len(bench.publisher.published) == 1
    assert "not known before the next window" in bench.session.crossed[0]
    assert not bench.session.settings_differ
