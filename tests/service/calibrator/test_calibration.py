"""One assignment of the calibrator: which blocks it takes, when it publishes what, and what it tells."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from itertools import count

import pytest
from calibration_bench import CalibrationBench, array_block, block, counts
from hypothesis import given
from hypothesis import strategies as st
from support.documents import mutated

from stream_masker.core.statistics.counts import Counts
from stream_masker.errors import ServiceError
from stream_masker.pipeline.messages import TopicSeal, encode_block
from stream_masker.service.calibrator import calibration

NewBench = Callable[..., CalibrationBench]


def test_versions_come_from_the_window_and_their_age_is_shown(bench: CalibrationBench) -> None:
    bench.shown()
    assert bench.metric("statistics_version") == 0
    bench.deliver(0, block(0))
    assert bench.advance(0.0) == 1
    bench.deliver(1, block(10))
    assert bench.advance(1.0) == 0, "too few new records"
    bench.deliver(2, block(20))
    assert bench.advance(1_000.0) == 1
    assert [(m.version, m.source, m.statistics.records) for m in bench.messages] == [
        (1, "blocks", 10),
        (2, "blocks", 30),
    ]
    assert bench.messages[1].blocks is not None
    assert (bench.messages[1].blocks.first, bench.messages[1].blocks.last) == (0, 2)
    assert (bench.metric("window_records"), bench.metric("statistics_version")) == (30, 2)
    bench.shown(bench.messages[1].published / 1000 + 5)
    assert bench.metric("statistics_age_seconds") == pytest.approx(5)


def test_no_message_ends_the_calibration(new_bench: NewBench) -> None:
    """A defective worker can write any block."""
    bench = new_bench()
    seal = TopicSeal(bench.components.configuration.topics.calibration, [b"the secret of all processes"])
    taxonomies, offsets = bench.components.subject.mechanism.taxonomies, count()
    blocks = [encode_block(one, taxonomies) for one in (block(0), array_block(0, [2, 0, 3]))]

    @given(st.data())
    def merge_and_compute(data: st.DataObject) -> None:
        message = data.draw(mutated(data.draw(st.sampled_from(blocks))))
        bench.calibration.merge(next(offsets), 0, b"", seal.seal(b"", message))
        bench.deliver(last := next(offsets), block(10 * last))
        if (task := bench.calibration.next_task(1e12)) is not None:
            task()
        assert bench.calibration.position == last

    merge_and_compute()


class FakeSample:
    """A sample that is complete at the second read."""

    def __init__(self, _: object) -> None:
        self.records = 0

    def read(self) -> Counts | None:
        self.records += 14
        return counts([0, 1, 2, 3, 4, 5, 6] * 3) if self.records > 14 else None


def test_the_first_version_may_come_from_a_sample(bench: CalibrationBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "Sample", FakeSample)
    bench.calibration._sample_at = 0.0
    assert (bench.advance(0.0), bench.messages) == (1, [])
    assert bench.shown().notes == ("no statistics yet: 14 records sampled, 10 needed",)
    assert (bench.advance(1e12), bench.shown().notes) == (1, ())
    bench.deliver(0, block(0))
    assert bench.advance(0.0) == 0, "a version from blocks needs more records or more time"
    bench.deliver(1, block(10))
    bench.advance(60.0)
    assert [m.source for m in bench.messages] == ["bootstrap", "blocks"]
    assert 0 < bench.messages[0].guessed["semantic_noise"] <= 1, "workers say what an attacker can guess from the start"


def test_a_window_that_cannot_be_computed_is_left_out(bench: CalibrationBench) -> None:
    bench.deliver(0, block(0, [3] * 10))
    assert bench.advance(0.0) == 1
    assert not bench.messages
    assert bench.shown().notes
    assert bench.metric("statistics_withheld_total") == 1
    for offset in (1, 2):
        bench.deliver(offset, block(10 * offset))
    bench.advance(100.0, risk=True)
    assert [m.version for m in bench.messages] == [1]
    assert not bench.shown().notes


def test_computing_takes_a_share_of_a_core(bench: CalibrationBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first version is not charged: the second one replaces a small sample."""
    clock = iter(range(100))
    monkeypatch.setattr("stream_masker.service.calibrator.calibration.time.process_time", lambda: next(clock))
    monkeypatch.setattr("stream_masker.service.calibrator.calibration.time.time", lambda: 1_000.0)
    for offset, now in ((0, 1_000.0), (2, 1_000.0), (4, 1_000.0), (6, 1_008.9), (8, 1_009.0)):
        for k in range(3):
            bench.deliver(3 * offset + k, block(10 * (3 * offset + k)))
        bench.advance(now)
    assert len(bench.messages) == 3, "after one second of a tenth of a core, nine seconds pass"


def test_a_window_that_is_due_goes_before_the_risk_of_the_version_before_it(bench: CalibrationBench) -> None:
    for number in range(3):
        for offset in range(3 * number, 3 * number + 3):
            bench.deliver(offset, block(10 * offset))
        task = bench.calibration.next_task(1e12)
        assert task is not None
        task()
        assert len(bench.messages) == number + 1
    assert bench.metric("risk_vulnerability", attribute="one", given="value") is None
    bench.advance(1e12, risk=True)
    assert bench.metric("risk_vulnerability", attribute="one", given="value") is not None


def test_a_version_for_another_secret_is_published_again(bench: CalibrationBench) -> None:
    """It has no masks, so the verdict on earlier masks is forgotten."""
    bench.deliver(0, block(0))
    bench.advance(0.0)
    assert bench.planner.history.latest is not None
    bench.planner.history.latest = replace(bench.planner.history.latest, secret_id="ab" * 8)
    bench.metrics.set("drift_verdict", 2, against="expected")
    assert bench.advance(1.0) == 1
    first, second = bench.messages
    assert (second.version, second.secret_id) == (2, first.secret_id)
    assert first.statistics.variance == second.statistics.variance
    assert bench.metric("drift_verdict", against="expected") is None
    assert bench.metric("drift_verdict", against="previous") is not None


def test_a_version_beyond_a_limit_is_published_and_reported(
    new_bench: NewBench, caplog: pytest.LogCaptureFixture
) -> None:
    bench = new_bench(risk={"max_vulnerability": 0.01})
    bench.deliver(0, block(0))
    with caplog.at_level(logging.INFO):
        bench.advance(0.0, risk=True)
    assert [m.version for m in bench.messages] == [1]
    assert "published nevertheless" in caplog.text
    assert "statistics version 1: Nothing is promised about single records" in caplog.text
    assert bench.metric("risk_limits_crossed") > 0
    assert not {*bench.shown().reasons} - {"starting"}
    assert "risk.max_vulnerability" in bench.shown().notes[0]
    assert "statistics version 1:\n  " in bench.shown().page()


def test_a_version_beyond_a_limit_is_withheld(new_bench: NewBench, caplog: pytest.LogCaptureFixture) -> None:
    bench = new_bench(risk={"max_vulnerability": 0.01, "action": "hold"})
    bench.deliver(0, block(0))
    bench.advance(0.0)
    assert not bench.messages
    assert "statistics are withheld" in bench.shown().reasons[-1]
    assert bench.metric("statistics_withheld_total") == 1
    assert "withheld" in caplog.text


def test_an_error_of_the_publisher_reaches_the_caller(bench: CalibrationBench) -> None:
    bench.publisher.error = ServiceError("fenced")
    bench.deliver(0, block(0))
    with pytest.raises(ServiceError, match="fenced"):
        bench.advance(0.0)
    assert bench.planner.history.latest is None


def test_masked_statistics_are_left_out_without_masked_values(bench: CalibrationBench) -> None:
    bench.deliver(0, replace(block(0), masked=counts([-1] * 10)))
    bench.advance(0.0)
    assert bench.publisher.published[0].utility is None
    assert bench.metric("rmse", attribute="one", kind="actual") is None


def test_few_records_are_not_published(new_bench: NewBench) -> None:
    """Classes of fewer than ``publication.min_records`` records are not in the drift report, nor in the metrics."""
    bench = new_bench(publication={"min_records": 50})
    bench.deliver(0, block(0))
    bench.advance(0.0)
    assert bench.publisher.published[0].shown["original"].values == {}
    assert set(bench.publisher.published[0].shown["original"].mean.values()) == {""}
    bench.deliver(1, block(10, [0] * 40))
    assert bench.advance(100.0) == 0, "a version differs from the one before by at least as many records"
    bench.deliver(2, block(50, [0] * 40 + [3] * 20))
    bench.advance(100.0)
    attributes = bench.publisher.published[1].report["baseline"]["attributes"].values()
    assert {one["concept"] for each in attributes for one in each["moved"]} == {"a"}
