"""A calibration session: what it merges, refuses, computes, publishes and reports."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
from calibration_session import ABSENT, SessionBench, block, published, sample

from stream_masker.errors import ServiceError, StatisticsError
from stream_masker.pipeline.calibration.risk import RiskLimits
from stream_masker.pipeline.records import Block, Stratum
from stream_masker.pipeline.wire.statistics import BlockRange
from stream_masker.service.calibrator.components import CalibratorComponents
from stream_masker.service.calibrator.session import MAX_LOGGED_BLOCKS, MAX_PENDING_WINDOWS


def test_invalid_block_is_counted_logged_by_offset_and_skipped(
    bench: SessionBench, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        bench.deliver(3, b'{"format": 1, "topic": "SECRET"}')
    bench.deliver(4, block(0))
    assert bench.metric("blocks_read_total", outcome="refused") == 1
    assert bench.metric("blocks_read_total", outcome="merged") == 1
    assert "stream-masker.calibration, partition 0, offset 3" in caplog.text
    assert "SECRET" not in caplog.text
    assert bench.session.pending_windows == 1


def test_many_invalid_blocks_do_not_flood_the_log(bench: SessionBench, caplog: pytest.LogCaptureFixture) -> None:
    for offset in range(3 * MAX_LOGGED_BLOCKS):
        bench.deliver(offset, b"")
    assert len(caplog.records) == MAX_LOGGED_BLOCKS
    assert bench.metric("blocks_read_total", outcome="refused") == 3 * MAX_LOGGED_BLOCKS


def test_merged_block_is_not_decoded_again(bench: SessionBench) -> None:
    bench.deliver(4, block(0))
    bench.deliver(4, b"anything")
    bench.deliver(2, b"anything")
    assert bench.metric("blocks_read_total", outcome="refused") == 0
    assert bench.metric("blocks_read_total", outcome="merged") == 1


def test_version_is_computed_published_and_reported(bench: SessionBench) -> None:
    bench.deliver(4, block(0))
    bench.session.publish_next()
    [published] = bench.publisher.published
    assert (published.message.version, published.message.blocks) == (1, BlockRange(4, 4, 1))
    assert bench.session.history.latest == published.message
    assert bench.metric("statistics_published_total", source="blocks") == 1
    assert (bench.metric("window_records"), bench.metric("window_blocks")) == (10, 1)
    for data in ("original", "masked"):
        assert bench.metric("svar", attribute="one", data=data) == published.statistics.variance["one"]
        assert bench.metric("sdcor", first="one", second="two", data=data) == pytest.approx(1.0)
    assert bench.metric("rmse", attribute="one", kind="actual") == pytest.approx(0.5)
    assert bench.metric("rmse", attribute="one", kind="target") == pytest.approx(0.3)
    assert bench.metric("drift_variance", attribute="one", against="previous") is None
    assert bench.metric("calibration_duration_seconds_count") == 1
    assert bench.metric("calibration_processor_seconds_total") > 0
    assert bench.metric("calibration_windows_total", outcome="computed") == 1


def test_next_version_reports_drift_from_previous_and_baseline(bench: SessionBench) -> None:
    bench.deliver(4, block(0))
    bench.session.publish_next()
    bench.deliver(5, block(10, [3] * 10))
    bench.deliver(6, block(20, [3] * 10))
    bench.session.publish_next()
    first, second = (p.statistics for p in bench.publisher.published)
    change = pytest.approx(abs(second.variance["one"] - first.variance["one"]))
    assert bench.metric("drift_variance", attribute="one", against="previous") == change
    assert bench.metric("drift_variance", attribute="one", against="baseline") == change


def test_unpublished_version_is_not_in_the_history(bench: SessionBench) -> None:
    bench.deliver(4, block(0))
    bench.publisher.error = ServiceError("statistics cannot be published: fenced")
    with pytest.raises(ServiceError, match="fenced"):
        bench.session.publish_next()
    assert bench.session.history.latest is None
    assert bench.metric("statistics_published_total", source="blocks") == 0


def test_slow_process_skips_the_oldest_windows(bench: SessionBench) -> None:
    bench.deliver(0, block(0))
    for i in range(1, 2 * MAX_PENDING_WINDOWS + 3):
        bench.deliver(i, block(10 * i))
    assert bench.session.pending_windows == MAX_PENDING_WINDOWS
    while bench.session.pending_windows:
        bench.session.publish_next()
    assert bench.metric("calibration_windows_total", outcome="skipped") == 2
    lasts = [p.message.blocks.last for p in bench.publisher.published]
    assert lasts == list(range(4, 2 * MAX_PENDING_WINDOWS + 3, 2))
    assert [p.message.version for p in bench.publisher.published] == list(range(1, MAX_PENDING_WINDOWS + 1))


def test_only_a_drifted_window_is_urgent(bench: SessionBench) -> None:
    bench.deliver(4, block(0))
    assert not bench.session.is_urgent
    bench.session.publish_next()
    bench.deliver(5, block(10, [k % 7 for k in range(10)]))
    bench.deliver(6, block(20, [k % 7 for k in range(10)]))
    assert (bench.session.pending_windows, bench.session.is_urgent) == (1, False)
    for number in range(4):
        bench.deliver(7 + number, block(30 + 10 * number, [3] * 10))
    assert (bench.session.pending_windows, bench.session.is_urgent) == (3, True)
    bench.session.skip_windows(keep=1)
    bench.session.publish_next(urgent=True)
    assert bench.publisher.published[-1].message.blocks.last == 10
    assert bench.metric("calibration_windows_total", outcome="urgent") == 1


def test_drift_makes_one_computation_urgent_for_each_published_version(components: CalibratorComponents) -> None:
    """A flood whose statistics are withheld stays far from the published ones, and must not compute all the time."""
    bench = SessionBench(replace(components, risk_limits=RiskLimits(min_variance_share=0.9)))
    bench.deliver(0, block(0))
    bench.session.publish_next()
    for number in range(1, 31):
        bench.deliver(number, block(10 * number, [3] * 10))
        bench.session.skip_windows(keep=1)
        if bench.session.is_urgent:
            bench.session.publish_next(urgent=True)
    assert bench.metric("statistics_withheld_total") == 1
    assert bench.metric("calibration_windows_total", outcome="urgent") == 1
    assert len(bench.publisher.published) == 1


def test_window_without_values_gives_no_version(bench: SessionBench, caplog: pytest.LogCaptureFixture) -> None:
    bench.deliver(4, block(0, [ABSENT] * 10))
    bench.session.publish_next()
    assert bench.publisher.published == []
    assert "failed to compute statistics from the blocks up to offset 4" in caplog.text


def test_sample_is_published_once_and_only_as_first_version(bench: SessionBench) -> None:
    bench.session.publish_sample(sample([1, 2, 3]))
    bench.session.publish_sample(sample([1, 2, 3]))
    assert [p.message.source for p in bench.publisher.published] == ["bootstrap"]
    assert (bench.metric("window_records"), bench.metric("window_blocks")) == (3, 0)
    with pytest.raises(StatisticsError):
        SessionBench(bench.components).session.publish_sample(sample([ABSENT]))


def test_blocks_replace_a_sample_on_schedule(bench: SessionBench) -> None:
    bench.session.publish_sample(sample([1, 2, 3]))
    bench.deliver(4, block(0))
    assert bench.session.pending_windows == 0
    bench.deliver(5, block(10))
    assert bench.session.pending_windows == 1


def test_ticks_end_windows_and_age_the_statistics(bench: SessionBench) -> None:
    bench.session.tick(0.0)
    assert bench.metric("statistics_version") == 0
    bench.session.publish_sample(sample([1, 2, 3]))
    published = bench.publisher.published[0].message.published / 1000
    bench.deliver(4, block(0))
    bench.session.tick(published + 59)
    assert bench.session.pending_windows == 1
    assert bench.metric("statistics_age_seconds") == pytest.approx(59)
    assert bench.metric("statistics_version") == 1


def test_history_records_the_number_of_chunks(bench: SessionBench) -> None:
    bench.publisher.chunks = 3
    published(bench)
    assert bench.session.history.chunks == {1: 3}


def test_stream_that_fills_the_window_too_early_is_sampled_at_once(bench: SessionBench) -> None:
    bench.deliver(0, at(block(0), 0))
    bench.session.publish_next()
    for number in range(1, 13):
        bench.deliver(number, at(block(10 * number), 100 * number))
    assert (bench.session.begins_sampling, bench.session.is_urgent) == (True, False)
    bench.session.publish_sampling()
    first, message = (published.message for published in bench.publisher.published)
    assert message.sampling is not None
    assert message.sampling.level == 5
    assert (message.version, message.blocks) == (2, first.blocks)
    assert message.statistics.to_dict() == {**first.statistics.to_dict(), "version": 2}
    assert not bench.session.begins_sampling
    bench.session.skip_windows(keep=1)
    bench.session.publish_next()
    message = bench.publisher.published[-1].message
    assert (message.sampling.level, message.statistics.records) == (5, 100)
    bench.deliver(13, at(block(130), 1300))
    bench.deliver(14, at(block(140), 1400))
    assert not bench.session.is_urgent
    bench.deliver(15, replace(at(block(150), 1500), stratum=Stratum(5, 5)))
    bench.deliver(16, replace(at(block(160), 60_000), stratum=Stratum(5, 6)))
    bench.session.skip_windows(keep=1)
    bench.session.publish_next()
    sampled = bench.publisher.published[-1].message
    assert (sampled.blocks.level, sampled.statistics.records) == (5, 20)
    assert bench.metric("window_sampling_rate") == 2.0**-5
    assert bench.metric("window_span_seconds") == sampled.sampling.span == 58.5
    assert bench.metric("svar_standard_error", attribute="one") > 0
    assert bench.metric("sdcor_standard_error", first="one", second="two") is not None


def at(one: Block, milliseconds: int) -> Block:
    return replace(one, timestamp=1_000_000 + milliseconds)


WORKERS, GIVEN = "0123456789abcdef", "fedcba9876543210"


def of_worker(first: int, secret_id: str | None) -> Block:
    return replace(block(first), secret_id=secret_id)


def test_the_secret_of_the_first_worker_is_published_at_once(bench: SessionBench) -> None:
    bench.session.publish_sample(sample([0, 1, 2, 3, 4, 5, 6]))
    assert not bench.session.secret_differs
    bench.deliver(4, of_worker(0, None))
    assert not bench.session.secret_differs
    bench.deliver(5, of_worker(10, WORKERS))
    bench.deliver(6, of_worker(20, GIVEN))
    assert bench.session.secret_differs
    bench.session.publish_secret()
    first, second = (published.message for published in bench.publisher.published)
    assert (first.secret_id, second.secret_id, second.version) == (None, WORKERS, 2)
    assert second.snapshot["statistics"] == {**first.snapshot["statistics"], "version": 2}
    assert not bench.session.secret_differs


def test_the_secret_in_force_stays_although_a_worker_has_another(bench: SessionBench) -> None:
    bench.deliver(4, of_worker(0, WORKERS))
    bench.session.publish_next()
    for offset in range(5, 8):
        bench.deliver(offset, of_worker(10 * (offset - 4), GIVEN))
    bench.session.publish_next()
    assert [published.message.secret_id for published in bench.publisher.published] == [WORKERS, WORKERS]


def test_the_secret_that_the_calibrator_knows_replaces_the_one_in_force(bench: SessionBench) -> None:
    bench.deliver(4, of_worker(0, WORKERS))
    bench.session.publish_next()
    components = bench.components
    bench.session.reconfigure(replace(components, subject=replace(components.subject, secret_id=GIVEN)))
    assert bench.session.secret_differs
    bench.session.publish_secret()
    assert bench.publisher.published[-1].message.secret_id == GIVEN
