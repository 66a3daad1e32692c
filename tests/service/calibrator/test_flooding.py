"""A window that is full of one event: the calibrator keeps the earlier statistics."""

from __future__ import annotations

from dataclasses import replace

import pytest
from calibration_session import SessionBench, block, sample

from stream_masker.errors import StatisticsError
from stream_masker.pipeline.calibration.risk import RiskLimits
from stream_masker.service.calibrator.components import CalibratorComponents

LIMITS = RiskLimits(min_variance=0.01, min_variance_share=0.5)


def flood(first: int) -> list[int]:
    """Return the codes of ten records, nine of which are equal."""
    return [3] * 9 + [first // 10 % 7]


@pytest.fixture
def bench(components: CalibratorComponents) -> SessionBench:
    return SessionBench(replace(components, risk_limits=LIMITS))


def deliver(bench: SessionBench, offsets: range, *, flooded: bool) -> None:
    """Deliver a block of ten records at each offset, and publish what is due."""
    for offset in offsets:
        bench.deliver(offset, block(10 * offset, flood(10 * offset) if flooded else None))
        while bench.session.pending_windows:
            bench.session.publish_next()
            bench.session.assess_risk()


def test_a_flood_does_not_replace_the_statistics(bench: SessionBench, caplog: pytest.LogCaptureFixture) -> None:
    deliver(bench, range(10), flooded=False)
    before = len(bench.publisher.published)
    deliver(bench, range(10, 30), flooded=True)
    shown = [publish.message.statistics.variance for publish in bench.publisher.published]
    assert before
    assert min(shown[-1].values()) >= LIMITS.min_variance_share * min(shown[0].values())
    withheld = bench.metric("statistics_withheld_total")
    assert withheld
    assert "is below 50% of the baseline's, version 1" in caplog.text
    assert "below 50% of the baseline's" in bench.session.crossed[0]
    deliver(bench, range(30, 42), flooded=False)
    assert bench.session.crossed == ()
    assert bench.publisher.published[-1].message.version > len(shown)


def test_a_flood_is_no_first_version(bench: SessionBench) -> None:
    with pytest.raises(StatisticsError, match=r"below risk\.min_variance, 0\.01: its noise would hide nothing"):
        bench.session.publish_sample(sample([3] * 99 + [4]))
    assert bench.publisher.published == []
