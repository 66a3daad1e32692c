"""The risk of a statistics version: its metrics, its log, and what happens beyond a limit."""

from __future__ import annotations

import logging
from dataclasses import replace
from html import escape

import pytest
from calibration_session import SessionBench, block, sample

from stream_masker.errors import StatisticsError
from stream_masker.pipeline.calibration.risk import RiskLimits
from stream_masker.service.calibrator import session
from stream_masker.service.calibrator.components import CalibratorComponents

STRICT = RiskLimits(max_vulnerability=0.01, hold=True)


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
    for name in ("risk_certain_share", "risk_likely_share", "risk_unchanged_share", "risk_epsilon"):
        assert bench.metric(name, attribute="two") is not None
    assert (bench.metric("risk_expected_rank", attribute="two") or 0.0) >= 1.0
    assert (bench.metric("risk_entropy", attribute="two") or 0.0) > 0.0
    for records in ("original", "masked"):
        assert 0.0 <= (bench.metric("risk_unique_share", records=records) or 0.0) <= 1.0
    for given in ("value", "record"):
        once = bench.metric("risk_vulnerability", attribute="one", given=given) or 0.0
        assert once - 0.1 <= (bench.metric("risk_repeated_vulnerability", attribute="one", given=given) or 0.0) <= 1.0
    assert 0.0 < (bench.metric("risk_linked_share") or 0.0) <= 1.0
    assert bench.metric("risk_record_vulnerability") is not None
    assert bench.metric("risk_record_unchanged_share") is not None
    assert bench.metric("risk_limits_crossed") == 0
    assert 0.0 < (bench.metric("risk_bound") or 0.0) < 0.2
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
    begin, rest = said.removeprefix("statistics version 1: ").split(" and ", 1)
    assert begin == "An attacker who knows everything but the secret can be at most 38% sure of a code"
    assert rest.count("without masks") == 2
    assert "of the records stay as they were." in rest
    page = bench.components.page.html("")
    assert f"<p>{escape(begin)} and " in page
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


def test_settings_of_an_unknown_risk_wait_for_the_next_window(components: CalibratorComponents) -> None:
    bench = bench_with(components, RiskLimits(hold=True))
    bench.deliver(4, block(0))
    bench.session.publish_next()
    bench.session._planner._counts = None
    changed = replace(components.subject, configuration="other", settings={**components.subject.settings, "x": 1})
    bench.session.reconfigure(replace(bench.components, subject=changed))
    assert bench.session.settings_differ
    bench.session.publish_settings()
    assert len(bench.publisher.published) == 1
    assert "not known before the next window" in bench.session.crossed[0]
    assert not bench.session.settings_differ
