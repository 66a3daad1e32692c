"""The engine: one session while active, none otherwise; after a failure the next session starts from the topics."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from itertools import count
from types import SimpleNamespace

import pytest
from support.calibrator_engine import EngineBench, FakeSession

from stream_masker.errors import ServiceError
from stream_masker.service.calibrator import engine
from stream_masker.service.calibrator.engine import EVENT_LOOP_STALE_SECONDS
from stream_masker.service.observability.health import Health


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[EngineBench]:
    made = EngineBench(monkeypatch)
    made.engine.start()
    yield made
    made.slow.clear()
    made.engine.stop()


def test_active_engine_opens_a_session_and_delivers_blocks_and_ticks(bench: EngineBench) -> None:
    bench.become_active()
    bench.deliver((4, b"x"), (7, b"window"), (9, b"x"))
    bench.engine.tick()
    bench.wait(lambda: bench.session.ticks and bench.session.published)
    assert bench.session.blocks == [4, 7, 9]
    assert bench.session.published == 1
    assert bench.health.reasons == ()


def test_standby_has_no_session_and_is_ready_with_a_note(bench: EngineBench) -> None:
    bench.engine.assigned(active=False)
    bench.deliver((4, b"x"))
    bench.wait(bench.engine._deliveries.empty)
    assert bench.sessions == []
    assert bench.health.reasons == ()
    assert bench.health.notes == ("standby: another calibrator is active",)


def test_a_calibrator_that_lost_its_role_shows_no_figures(bench: EngineBench) -> None:
    bench.become_active()
    bench.metrics.set("statistics_version", 7)
    bench.metrics.set("drift_divergence", 0.9, attribute="one", against="baseline")
    bench.metrics.add("statistics_published_total", source="blocks")
    bench.engine.revoked()
    bench.wait(lambda: bench.closed)
    assert bench.registry.get_sample_value("stream_masker_statistics_version") == 7
    bench.engine.assigned(active=False)
    bench.wait(lambda: bench.cleared)
    assert {family.type for family in bench.registry.collect()} == {"counter", "histogram"}
    assert bench.registry.get_sample_value("stream_masker_statistics_published_total", {"source": "blocks"}) == 1


def test_a_calibrator_that_stays_active_keeps_its_figures(bench: EngineBench) -> None:
    bench.become_active()
    bench.metrics.set("statistics_version", 7)
    bench.engine.revoked()
    bench.become_active()
    assert bench.registry.get_sample_value("stream_masker_statistics_version") == 7
    assert bench.cleared == 0


@pytest.mark.parametrize("withholds", [False, True])
def test_a_risk_beyond_a_limit_is_reported(bench: EngineBench, withholds: bool) -> None:
    bench.become_active()
    bench.session.withholds, bench.session.crossed = withholds, ("one: too vulnerable",)
    shown = lambda: bench.health.reasons if withholds else bench.health.notes  # noqa: E731
    bench.wait(lambda: any("one: too vulnerable" in text for text in shown()))
    assert bool(bench.health.reasons) == withholds
    bench.session.crossed = ()
    bench.wait(lambda: not any("too vulnerable" in text for text in shown()))
    assert bench.health.reasons == ()


def test_the_risk_of_a_window_follows_its_version(bench: EngineBench) -> None:
    bench.become_active()
    bench.deliver((4, b"window"))
    bench.wait(lambda: bench.session.assessed)
    assert bench.session.assessed == [(1, 0, 0)]


def test_the_risk_of_the_first_version_waits(bench: EngineBench) -> None:
    bench.latest, bench.found = None, "a sample"
    bench.become_active()
    bench.wait(lambda: bench.session.samples)
    bench.deliver((4, b"window"))
    bench.wait(lambda: bench.session.assessed)
    assert bench.session.assessed == [(1, 0, 1)]


def test_the_risk_of_a_first_version_that_stays_is_computed(
    bench: EngineBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "FIRST_RISK_SECONDS", 0.01)
    bench.latest, bench.found = None, "a sample"
    bench.become_active()
    bench.wait(lambda: bench.session.assessed)
    assert bench.session.assessed == [(0, 0, 1)]


def test_not_ready_before_the_first_assignment(bench: EngineBench) -> None:
    assert bench.health.reasons == ("starting",)


def test_every_assignment_starts_a_new_session(bench: EngineBench) -> None:
    bench.become_active()
    bench.become_active()
    assert len(bench.sessions) == 2


def test_revoked_engine_closes_the_publisher_and_publishes_nothing(bench: EngineBench) -> None:
    bench.become_active()
    first = bench.session
    bench.engine.revoked()
    bench.wait(lambda: bench.closed)
    bench.deliver((4, b"window"))
    bench.wait(bench.engine._deliveries.empty)
    bench.become_active()
    bench.deliver((5, b"x"))
    bench.wait(lambda: bench.session.blocks)
    assert (first.blocks, first.published) == ([], 0)
    assert bench.session.blocks == [5]


def test_revocation_stops_reading_the_topics(bench: EngineBench) -> None:
    bench.slow.set()
    bench.engine.assigned(active=True)
    bench.wait(bench.reading.is_set)
    assert bench.health.reasons == ("taking over: reading the topics",)
    bench.engine.revoked()
    bench.wait(lambda: bench.closed)
    assert bench.sessions == []
    bench.slow.clear()
    bench.become_active()
    assert len(bench.sessions) == 1


def test_failed_open_is_retried_and_reported(bench: EngineBench) -> None:
    bench.openings = [ServiceError("the publisher cannot be initialised: no coordinator") for _ in range(3)]
    seen: set[tuple[str, ...]] = set()
    bench.engine.assigned(active=True)
    bench.wait(lambda: seen.add(bench.health.reasons) or bench.sessions)
    assert ("the publisher cannot be initialised: no coordinator",) in seen
    bench.wait(lambda: bench.health.reasons == ())


def test_failed_session_is_replaced(bench: EngineBench) -> None:
    bench.become_active()
    bench.errors[b"bad"] = ServiceError("statistics cannot be published: fenced")
    bench.deliver((4, b"bad"))
    bench.wait(lambda: len(bench.sessions) == 2)
    bench.deliver((5, b"x"))
    bench.wait(lambda: bench.session.blocks == [5])
    assert bench.failures == []


def test_a_calibration_topic_that_is_created_anew_starts_a_new_session(bench: EngineBench) -> None:
    bench.become_active()
    bench.engine.tick()
    bench.wait(lambda: bench.session.ticks)
    bench.topic_id = "second"
    bench.engine.tick()
    bench.wait(lambda: len(bench.sessions) == 2)
    assert bench.failures == []


def test_unexpected_error_ends_the_engine(bench: EngineBench) -> None:
    bench.become_active()
    error = bench.errors[b"bad"] = RuntimeError("a bug")
    bench.deliver((4, b"bad"), (5, b"x"))
    bench.wait(lambda: bench.failures)
    assert bench.failures == [error]
    assert bench.session.blocks == []


def test_block_that_cannot_be_queued_is_a_failure(bench: EngineBench) -> None:
    error = RuntimeError("a bug")
    bench.engine.fail(error)
    assert bench.failures == [error]


def test_delivery_waits_while_the_queue_is_full(bench: EngineBench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.slow.set()
    bench.engine.assigned(active=True)
    bench.wait(bench.reading.is_set)
    room = engine.QUEUED_BLOCKS
    bench.deliver(*((i, b"x") for i in range(room)))
    late = threading.Thread(target=bench.deliver, args=((room, b"x"),))
    late.start()
    late.join(0.1)
    assert late.is_alive()
    bench.slow.clear()
    bench.wait(lambda: bench.sessions and len(bench.session.blocks) == room + 1)
    late.join(10)
    assert not late.is_alive()


def test_stop_ends_a_waiting_delivery(bench: EngineBench) -> None:
    bench.slow.set()
    bench.engine.assigned(active=True)
    bench.wait(bench.reading.is_set)
    bench.deliver(*((i, b"x") for i in range(engine.QUEUED_BLOCKS)))
    late = threading.Thread(target=bench.deliver, args=((999, b"x"),))
    late.start()
    bench.engine.stop()
    late.join(10)
    assert not late.is_alive()


def test_without_a_version_a_sample_is_published(bench: EngineBench) -> None:
    bench.latest = None
    bench.become_active()
    bench.wait(lambda: "no statistics yet: 7 records sampled, 1000 needed" in bench.health.notes)
    bench.found = "counts"
    bench.wait(lambda: bench.session.samples)
    assert "no statistics yet: 7 records sampled, computing them" in bench.session.notes_of_sample
    bench.wait(lambda: bench.samplers[0].stopped)
    assert bench.session.samples == ["counts"]
    assert (len(bench.samplers), bench.health.notes) == (1, ())


def test_unusable_sample_is_repeated(bench: EngineBench) -> None:
    bench.latest = None
    bench.become_active()
    bench.found = "useless"
    bench.wait(lambda: len(bench.samplers) == 2)
    assert bench.samplers[0].stopped
    assert bench.failures == []


def test_no_sample_if_there_is_a_version(bench: EngineBench) -> None:
    bench.become_active()
    bench.engine.tick()
    bench.wait(lambda: bench.session.ticks)
    assert bench.samplers == []


def test_changed_settings_are_published(bench: EngineBench) -> None:
    bench.become_active()
    bench.file.changed = True
    bench.engine.tick()
    bench.wait(lambda: bench.session.settings_published)
    assert [components.configuration for components in bench.session.components] == [bench.file.current]
    assert (bench.session.settings_published, bench.file.reloads) == (1, [False])


def test_reload_reads_the_file_again(bench: EngineBench) -> None:
    bench.become_active()
    bench.engine.reload()
    bench.wait(lambda: bench.file.reloads)
    assert bench.file.reloads == [True]
    assert bench.session.settings_published == 0


def test_session_with_other_settings_publishes_the_configured_ones(bench: EngineBench) -> None:
    bench.become_active()
    bench.session.settings_differ = True
    bench.wait(lambda: bench.session.settings_published)
    assert (bench.session.settings_published, bench.session.components) == (1, [])


def test_session_with_another_secret_publishes_the_required_one(bench: EngineBench) -> None:
    bench.become_active()
    bench.session.secret_differs = True
    bench.wait(lambda: bench.session.secret_published)
    assert (bench.session.secret_published, bench.session.settings_published) == (1, 0)


def test_refused_file_is_counted_and_reported(bench: EngineBench) -> None:
    bench.become_active()

    def refuse(*, force: bool) -> bool:
        bench.file.refused = "noise_key: a change here needs a restart"
        bench.file.refusals += 1
        return False

    bench.file.reload_if_changed = refuse
    bench.engine.tick()
    note = "a changed configuration was refused: noise_key: a change here needs a restart"
    bench.wait(lambda: note in bench.health.notes)
    assert bench.registry.get_sample_value("stream_masker_configuration_refused_total") == 1
    assert bench.session.components == []


def test_computing_pauses_after_the_second_version_and_then_takes_the_latest_window(
    bench: EngineBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = count()
    monkeypatch.setattr(engine, "time", SimpleNamespace(**vars(time) | {"process_time": lambda: 7.0 * next(ticks)}))
    bench.become_active()
    pace = bench.switch_pace(is_open=True)
    bench.deliver((1, b"window"))
    bench.wait(lambda: bench.session.published == 1)
    bench.deliver((2, b"window"))
    bench.wait(lambda: pace.charged)
    assert (bench.session.published, pace.charged) == (2, [7.0])
    pace.opened = False
    bench.deliver((3, b"window"), (4, b"window"), (5, b"window"))
    bench.wait(lambda: bench.session.skipped == 2)
    assert (bench.session.published, bench.session.pending_windows) == (2, 1)
    pace.opened = True
    bench.wait(lambda: bench.session.published == 3)
    assert (bench.session.skipped, bench.session.pending_windows) == (2, 0)
    assert bench.session.urgent == 0


def test_urgent_window_does_not_wait(bench: EngineBench) -> None:
    bench.become_active()
    bench.switch_pace(is_open=False)
    bench.session.is_urgent = True
    bench.deliver((3, b"window"))
    bench.wait(lambda: bench.session.published == 1)
    assert bench.session.urgent == 1


def test_sampling_begins_although_computing_pauses(bench: EngineBench) -> None:
    bench.become_active()
    bench.switch_pace(is_open=False)
    bench.session.begins_sampling = True
    bench.deliver((3, b"window"))
    bench.wait(lambda: bench.session.sampling_published)
    assert (bench.session.sampling_published, bench.session.published) == (1, 0)


def test_first_window_that_is_due_waits_for_the_blocks_that_follow_it(
    bench: EngineBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "MORE_BLOCKS_SECONDS", 600.0)
    bench.become_active()
    bench.deliver((1, b"window"), (2, b"window"), (3, b"window"))
    bench.wait(lambda: bench.session.skipped == 2)
    assert (bench.session.published, bench.session.pending_windows) == (0, 1)


def test_window_does_not_wait_for_more_blocks_while_there_is_no_version(
    bench: EngineBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "MORE_BLOCKS_SECONDS", 600.0)
    bench.latest = None
    bench.become_active()
    bench.deliver((1, b"window"))
    bench.wait(lambda: bench.session.published == 1)
    assert bench.session.skipped == 0


def test_pace_outlives_a_session(bench: EngineBench) -> None:
    bench.become_active()
    bench.switch_pace(is_open=False)
    bench.become_active()
    bench.deliver((3, b"window"), (4, b"window"))
    bench.wait(lambda: bench.session.skipped == 1)
    assert bench.session.published == 0


def test_heartbeat_needs_a_running_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    made, now, beats = EngineBench(monkeypatch), [0.0], []
    monkeypatch.setattr(engine, "time", SimpleNamespace(**vars(time) | {"monotonic": lambda: now[0]}))
    monkeypatch.setattr(Health, "beat", lambda _: beats.append(now[0]))
    made.engine.pulse()
    for now[0] in (0.0, EVENT_LOOP_STALE_SECONDS - 1, EVENT_LOOP_STALE_SECONDS):
        made.engine._heartbeat()
    made.engine.pulse()
    made.engine._heartbeat()
    assert beats == [0.0, EVENT_LOOP_STALE_SECONDS - 1, EVENT_LOOP_STALE_SECONDS]


def test_a_slow_computation_keeps_the_process_alive_while_it_gets_processor_time_and_the_version_ages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, beats, over = EngineBench(monkeypatch), count(), threading.Event()
    monkeypatch.setattr(engine, "COMPUTING_BEAT_SECONDS", 0.001)
    monkeypatch.setattr(Health, "beat", lambda _: next(beats))
    clock = [0.0, 0.1, 0.1, 0.2, 0.2, 0.2]

    def processor_seconds() -> float:
        if len(clock) == 1:
            over.set()
        return clock.pop(0) if len(clock) > 1 else clock[0]

    monkeypatch.setattr(made.engine._computing, "processor_seconds", processor_seconds)
    session = FakeSession(made)
    monkeypatch.setattr(made.engine, "_session", session)
    made.engine._compute(lambda: None if over.wait(60) else pytest.fail("nobody looks at the clock"))
    assert next(beats) == 2
    assert session.aged > 0
