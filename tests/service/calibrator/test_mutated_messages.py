"""Blocks and versions with any defect: the calibrator and the workers refuse them and continue."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import orjson
import pytest
from calibration_session import SessionBench, array_block, block, published
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mutations import mutated
from support.small_configuration import write_secret

from stream_masker.pipeline.calibration.history import History
from stream_masker.pipeline.calibration.versions import VersionPlanner
from stream_masker.pipeline.calibration.window import Window
from stream_masker.pipeline.wire.blocks import block_key, encode_block
from stream_masker.pipeline.wire.statistics import StatisticsMessage, encode_statistics
from stream_masker.service.calibrator.bootstrap import HistoryReader
from stream_masker.service.calibrator.components import CalibratorComponents
from stream_masker.service.configuration.sections import SecretSource
from stream_masker.service.masking import Masking
from stream_masker.service.worker.statistics import ActiveStatistics

ANY = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def raw_block(components: CalibratorComponents, first: int = 0) -> bytes:
    return encode_block(block(first), components.subject.taxonomies, configuration="0")


def raw_array_block(components: CalibratorComponents, first: int = 0) -> bytes:
    return encode_block(array_block(first, [0, 2, 1, 3, 0, 4]), components.subject.taxonomies, configuration="0")


def publishes(bench: SessionBench) -> bool:
    """Deliver a window of good blocks and publish it."""
    before = len(bench.publisher.published)
    for number in range(10):
        bench.deliver(100 + number, block(1_000 + 10 * number))
    while bench.session.pending_windows:
        bench.session.publish_next()
    return len(bench.publisher.published) > before


@pytest.fixture
def genuine(bench: SessionBench) -> StatisticsMessage:
    return published(bench)


@pytest.fixture
def masking(components: CalibratorComponents, tmp_path: Path) -> Masking:
    write_secret(tmp_path, content=b"the secret of all processes")
    return Masking(components.configuration.model_copy(update={"secret": SecretSource(file=str(tmp_path / "secret"))}))


@pytest.mark.exhaustive
@ANY
@given(data=st.data())
def test_a_session_goes_on_after_any_block(components: CalibratorComponents, data: st.DataObject) -> None:
    bench = SessionBench(replace(components, risk_limits=None))
    for offset in range(4):
        genuine = raw_array_block if offset % 2 else raw_block
        raw = data.draw(mutated(genuine(components, 10 * offset)))
        bench.session.deliver(offset, 0, b"discharges:0:%d" % (10 * offset), raw)
    while bench.session.pending_windows:
        bench.session.publish_next()
    assert publishes(bench)
    outcomes = [bench.metric("blocks_read_total", outcome=outcome) for outcome in ("merged", "refused")]
    assert sum(outcomes) == 14


BAD = {
    "as many records as the window, without values": ("records", 100),
    "as many rejected records as the window": ("rejected", {"not_json": 91}),
    "10^15 equal values": ("attributes.one.original.counts", [10**15] + [1] * 6),
    "counts whose sum overflows": ("attributes.one.original.counts", [2**63 - 1] * 7),
    "a pair that occurs more often than its values": ("pairs.0.original.counts", [9] + [1] * 6),
    "other values after masking than before": ("attributes.one.masked.counts", [3] * 7),
    "more truncations than values": ("attributes.one.truncated", 11),
    "an infinite sum of squares": ("attributes.one.squared_noise", 1e308),
    "an integer of more than 64 bits": ("attributes.one.given", 2**63),
}

BAD_LENGTHS = {
    "more elements than are counted": {"elements": [0, 300], "counts": [5, 1]},
    "more elements than values": {"elements": [0, 1, 2, 3, 5], "counts": [2, 1, 1, 1, 1]},
    "more records than the block": {"elements": [0, 1, 2, 3, 4], "counts": [10**15, 1, 1, 1, 1]},
    "a negative number of elements": {"elements": [-1, 1, 2, 3, 4], "counts": [2, 1, 1, 1, 1]},
    "a number of elements twice": {"elements": [0, 0, 1, 2, 3, 4], "counts": [1] * 6},
}


@pytest.mark.parametrize("bad", BAD)
def test_a_block_that_no_records_can_have_is_refused(
    bad: str, bench: SessionBench, caplog: pytest.LogCaptureFixture
) -> None:
    path, value = BAD[bad]
    message = orjson.loads(raw_block(bench.components))
    *parents, last = path.split(".")
    place = message
    for name in parents:
        place = place[int(name)] if isinstance(place, list) else place[name]
    place[last] = value
    check_refused(bench, message, caplog)


@pytest.mark.parametrize("bad", BAD_LENGTHS)
def test_lengths_of_arrays_that_no_records_can_have_are_refused(
    bad: str, bench: SessionBench, caplog: pytest.LogCaptureFixture
) -> None:
    message = orjson.loads(raw_array_block(bench.components))
    message["attributes"]["two"]["lengths"] = BAD_LENGTHS[bad]
    check_refused(bench, message, caplog)


def check_refused(bench: SessionBench, message: object, caplog: pytest.LogCaptureFixture) -> None:
    bench.session.deliver(3, 0, block_key(block(0)), orjson.dumps(message))
    assert bench.metric("blocks_read_total", outcome="refused") == 1
    assert len(caplog.records) == 1
    assert publishes(bench)


def test_a_window_of_blocks_with_and_without_lengths_is_published(bench: SessionBench) -> None:
    """Workers of two releases write to the topic during an update."""
    message = orjson.loads(raw_array_block(bench.components, 100))
    del message["attributes"]["two"]["lengths"]
    bench.deliver(3, array_block(0, [0, 2, 1, 3, 0, 4]))
    bench.session.deliver(4, 0, block_key(array_block(100, [1])), orjson.dumps(message))
    window = bench.session._pending[0]
    assert window.original.records == 12
    assert window.original.lengths[1].counts.tolist() == [2, 1, 1, 1, 1]
    bench.session.publish_next()
    assert len(bench.publisher.published) == 1


def test_a_window_with_more_unknown_values_than_values_has_statistics(bench: SessionBench) -> None:
    """Runs that are masked together count their unknown values in the first one's block, which may have no value."""
    message = orjson.loads(raw_block(bench.components))
    for attribute in message["attributes"].values():
        attribute |= {"given": 0, "unknown": 1}
    bench.session.deliver(3, 0, block_key(block(0)), orjson.dumps(message))
    bench.session.publish_next()
    [publish] = bench.publisher.published
    assert publish.message.statistics.unknown == {"one": 1.0, "two": 1.0}


def test_a_failure_in_merging_refuses_the_block(
    bench: SessionBench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as failing:
        failing.setattr(bench.session._window_log, "on_block", lambda *_: 1 // 0)
        bench.deliver(3, block(0))
    assert bench.metric("blocks_read_total", outcome="refused") == 1
    assert "offset 3: ZeroDivisionError at " in caplog.text
    assert publishes(bench)


def test_a_failure_in_computing_skips_the_window(
    bench: SessionBench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as failing:
        failing.setattr(Window, "styles", property(lambda _: 1 // 0))
        bench.deliver(3, block(0))
        bench.session.publish_next()
    assert bench.publisher.published == []
    assert "up to offset 3: ZeroDivisionError at " in caplog.text
    assert publishes(bench)


@pytest.mark.exhaustive
@ANY
@given(data=st.data())
def test_a_version_with_any_defect_is_used_or_refused(
    components: CalibratorComponents, genuine: StatisticsMessage, masking: Masking, data: st.DataObject
) -> None:
    raw = data.draw(mutated(encode_statistics(genuine)))
    reader = HistoryReader(History(components.subject), components.versions)
    reader.take(message(genuine.key, raw))
    mechanism = components.new_mechanism()
    planner = VersionPlanner(components.subject, mechanism, reader.history, components.settings, components.publication)
    bench = SessionBench(components)
    bench.deliver(0, block(0))
    window = bench.session._pending[0]
    assert planner.on_window(window, 1).message.version == reader.history.newest + 1
    active = ActiveStatistics(masking)
    active.consider([(genuine.version, raw)])
    assert (active.version == genuine.version) is (active.refused is None)


def message(key: bytes, value: bytes) -> SimpleNamespace:
    return SimpleNamespace(key=lambda: key, value=lambda: value, offset=lambda: 0, topic=lambda: "statistics")
