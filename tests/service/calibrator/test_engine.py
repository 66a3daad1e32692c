"""The engine: one session while active, none otherwise; after a failure the next session starts from the topics."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from stream_masker.errors import ServiceError, StatisticsError
from stream_masker.pipeline.calibration.window import CalibrationSettings
from stream_masker.service.calibrator import engine
from stream_masker.service.calibrator.engine import CalibratorEngine
from stream_masker.service.kafka.topic_reader import StoppedError
from stream_masker.service.observability.health import Health
from stream_masker.service.observability.metrics import Metrics


class FakeSession:
    """Records its calls; ``World`` injects the failures."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.blocks: list[int] = []
        self.ticks = 0
        self.pending_windows = 0
        self.published = 0
        self.samples: list[Any] = []
        self.unsettled = False
        self.settled = 0
        self.parts: list[Any] = []
        self.history = SimpleNamespace(latest=world.latest)

    def deliver(self, offset: int, timestamp: int, value: bytes) -> None:
        if value in self.world.errors:
            raise self.world.errors.pop(value)
        self.blocks.append(offset)
        self.pending_windows += value == b"cut"

    def tick(self, now: float) -> None:
        self.ticks += 1

    def publish_next(self) -> None:
        self.pending_windows -= 1
        self.published += 1

    def reconfigure(self, parts: Any) -> None:
        self.parts.append(parts)
        self.unsettled = True

    def publish_settings(self) -> None:
        self.unsettled = False
        self.settled += 1

    def publish_sample(self, counts: Any) -> None:
        if counts == "useless":
            self.world.found = None
            raise StatisticsError("some attribute has no value")
        self.samples.append(counts)
        self.history.latest = "version 1"


class FakeSampler:
    def __init__(self, world: World) -> None:
        self.world = world
        self.records = 7
        self.stopped = False

    def start(self) -> None:
        self.world.samplers.append(self)

    def stop(self) -> None:
        self.stopped = True

    def result(self) -> Any:
        return self.world.found


class FakeFile:
    """A configuration file; ``changed``: whether the next reload finds other settings."""

    def __init__(self) -> None:
        self.current = SimpleNamespace(hash="0123456789abcdef")
        self.refused: str | None = None
        self.refusals = 0
        self.changed = False
        self.reloads: list[bool] = []

    def reload_if_changed(self, *, force: bool) -> bool:
        self.reloads.append(force)
        changed, self.changed = self.changed, False
        return changed


def with_configuration(parts: Any, configuration: Any) -> Any:
    """Return the same components with another configuration."""
    return SimpleNamespace(**{**vars(parts), "configuration": configuration})


class World:
    """The engine under test and its environment."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sessions: list[FakeSession] = []
        self.samplers: list[FakeSampler] = []
        self.errors: dict[bytes, Exception] = {}
        self.openings: list[Exception] = []
        self.latest: Any = "version 3"
        self.found: Any = None
        self.failures: list[BaseException] = []
        self.closed = 0
        self.reading = threading.Event()
        self.slow = threading.Event()
        self.health = Health()
        monkeypatch.setattr(engine, "CalibrationSession", SimpleNamespace(open=self.open))
        monkeypatch.setattr(engine, "Sampler", lambda configuration: FakeSampler(self))
        monkeypatch.setattr(engine, "BACKOFF_SECONDS", (0.01, 0.02))
        monkeypatch.setattr(engine, "POLL_BLOCK_SECONDS", 0.01)
        parts: Any = SimpleNamespace(
            publisher=SimpleNamespace(close=self.close),
            settings=CalibrationSettings(every_seconds=0.01),
            configuration=None,
        )
        monkeypatch.setattr(engine, "reconfigure", with_configuration)
        self.registry = CollectorRegistry()
        self.file: Any = FakeFile()
        metrics = Metrics(self.registry, "calibrator")
        self.engine = CalibratorEngine(parts, metrics, self.health, self.failures.append, self.file)

    def open(self, parts: Any, metrics: Any, stopped: Callable[[], bool]) -> FakeSession:
        self.reading.set()
        while self.slow.is_set():
            if stopped():
                raise StoppedError("reading was stopped")
            time.sleep(0.005)
        if self.openings:
            raise self.openings.pop(0)
        self.sessions.append(FakeSession(self))
        return self.sessions[-1]

    def close(self) -> None:
        self.closed += 1

    @property
    def session(self) -> FakeSession:
        return self.sessions[-1]

    def deliver(self, *blocks: tuple[int, bytes]) -> None:
        for offset, value in blocks:
            asyncio.run(self.engine.deliver(offset, 0, value))

    def wait(self, reached: Callable[[], Any]) -> None:
        deadline = time.monotonic() + 10
        while not reached():
            assert time.monotonic() < deadline, f"timeout, failures: {self.failures}"
            time.sleep(0.005)

    def become_active(self) -> None:
        before = len(self.sessions)
        self.engine.assigned(active=True)
        self.wait(lambda: len(self.sessions) > before)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    made = World(monkeypatch)
    made.engine.start()
    yield made
    made.slow.clear()
    made.engine.stop()


def test_active_engine_opens_a_session_and_delivers_blocks_and_ticks(world: World) -> None:
    world.become_active()
    world.deliver((4, b"x"), (7, b"cut"), (9, b"x"))
    world.engine.tick()
    world.wait(lambda: world.session.ticks and world.session.published)
    assert world.session.blocks == [4, 7, 9]
    assert world.session.published == 1
    assert world.health.reasons == ()


def test_standby_has_no_session_and_is_ready_with_a_note(world: World) -> None:
    world.engine.assigned(active=False)
    world.deliver((4, b"x"))
    world.wait(world.engine._deliveries.empty)
    assert world.sessions == []
    assert world.health.reasons == ()
    assert world.health.notes == ("standby: another calibrator is active",)


def test_not_ready_before_the_first_assignment(world: World) -> None:
    assert world.health.reasons == ("starting",)


def test_every_assignment_starts_a_new_session(world: World) -> None:
    world.become_active()
    world.become_active()
    assert len(world.sessions) == 2


def test_revoked_engine_closes_the_publisher_and_publishes_nothing(world: World) -> None:
    world.become_active()
    first = world.session
    world.engine.revoked()
    world.wait(lambda: world.closed)
    world.deliver((4, b"cut"))
    world.wait(world.engine._deliveries.empty)
    world.become_active()
    world.deliver((5, b"x"))
    world.wait(lambda: world.session.blocks)
    assert (first.blocks, first.published) == ([], 0)
    assert world.session.blocks == [5]


def test_revocation_stops_reading_the_topics(world: World) -> None:
    world.slow.set()
    world.engine.assigned(active=True)
    world.wait(world.reading.is_set)
    assert world.health.reasons == ("taking over: reading the topics",)
    world.engine.revoked()
    world.wait(lambda: world.closed)
    assert world.sessions == []
    world.slow.clear()
    world.become_active()
    assert len(world.sessions) == 1


def test_failed_open_is_retried_and_reported(world: World) -> None:
    world.openings = [ServiceError("the publisher cannot be initialised: no coordinator") for _ in range(3)]
    seen: set[tuple[str, ...]] = set()
    world.engine.assigned(active=True)
    world.wait(lambda: seen.add(world.health.reasons) or world.sessions)
    assert ("the publisher cannot be initialised: no coordinator",) in seen
    world.wait(lambda: world.health.reasons == ())


def test_failed_session_is_replaced(world: World) -> None:
    world.become_active()
    world.errors[b"bad"] = ServiceError("statistics cannot be published: fenced")
    world.deliver((4, b"bad"))
    world.wait(lambda: len(world.sessions) == 2)
    world.deliver((5, b"x"))
    world.wait(lambda: world.session.blocks == [5])
    assert world.failures == []


def test_unexpected_error_ends_the_engine(world: World) -> None:
    world.become_active()
    error = world.errors[b"bad"] = RuntimeError("a bug")
    world.deliver((4, b"bad"), (5, b"x"))
    world.wait(lambda: world.failures)
    assert world.failures == [error]
    assert world.session.blocks == []


def test_block_that_cannot_be_queued_is_a_failure(world: World) -> None:
    error = RuntimeError("a bug")
    world.engine.fail(error)
    assert world.failures == [error]


def test_delivery_waits_while_the_queue_is_full(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.slow.set()
    world.engine.assigned(active=True)
    world.wait(world.reading.is_set)
    room = engine.QUEUED_BLOCKS
    world.deliver(*((i, b"x") for i in range(room)))
    late = threading.Thread(target=world.deliver, args=((room, b"x"),))
    late.start()
    late.join(0.1)
    assert late.is_alive()
    world.slow.clear()
    world.wait(lambda: world.sessions and len(world.session.blocks) == room + 1)
    late.join(10)
    assert not late.is_alive()


def test_stop_ends_a_waiting_delivery(world: World) -> None:
    world.slow.set()
    world.engine.assigned(active=True)
    world.wait(world.reading.is_set)
    world.deliver(*((i, b"x") for i in range(engine.QUEUED_BLOCKS)))
    late = threading.Thread(target=world.deliver, args=((999, b"x"),))
    late.start()
    world.engine.stop()
    late.join(10)
    assert not late.is_alive()


def test_without_a_version_a_sample_is_published(world: World) -> None:
    world.latest = None
    world.become_active()
    world.wait(lambda: "no statistics yet: 7 records sampled, 1000 needed" in world.health.notes)
    world.found = "counts"
    world.wait(lambda: world.session.samples)
    world.wait(lambda: world.samplers[0].stopped)
    assert world.session.samples == ["counts"]
    assert (len(world.samplers), world.health.notes) == (1, ())


def test_unusable_sample_is_repeated(world: World) -> None:
    world.latest = None
    world.become_active()
    world.found = "useless"
    world.wait(lambda: len(world.samplers) == 2)
    assert world.samplers[0].stopped
    assert world.failures == []


def test_no_sample_if_there_is_a_version(world: World) -> None:
    world.become_active()
    world.engine.tick()
    world.wait(lambda: world.session.ticks)
    assert world.samplers == []


def test_changed_settings_are_published(world: World) -> None:
    world.become_active()
    world.file.changed = True
    world.engine.tick()
    world.wait(lambda: world.session.settled)
    assert [parts.configuration for parts in world.session.parts] == [world.file.current]
    assert (world.session.settled, world.file.reloads) == (1, [False])


def test_reload_reads_the_file_again(world: World) -> None:
    world.become_active()
    world.engine.reload()
    world.wait(lambda: world.file.reloads)
    assert world.file.reloads == [True]
    assert world.session.settled == 0


def test_session_with_other_settings_publishes_the_configured_ones(world: World) -> None:
    world.become_active()
    world.session.unsettled = True
    world.wait(lambda: world.session.settled)
    assert (world.session.settled, world.session.parts) == (1, [])


def test_refused_file_is_counted_and_reported(world: World) -> None:
    world.become_active()

    def refuse(*, force: bool) -> bool:
        world.file.refused = "noise_key: a change here needs a restart"
        world.file.refusals += 1
        return False

    world.file.reload_if_changed = refuse
    world.engine.tick()
    note = "a changed configuration was refused: noise_key: a change here needs a restart"
    world.wait(lambda: note in world.health.notes)
    assert world.registry.get_sample_value("stream_masker_configuration_refused_total") == 1
    assert world.session.parts == []


def test_heartbeat_needs_a_running_event_loop(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "EVENT_LOOP_STALE_SECONDS", 0.05)
    time.sleep(0.1)
    still = world.health.seconds_since_beat
    time.sleep(0.1)
    assert world.health.seconds_since_beat > still
    world.engine.pulse()
    world.wait(lambda: world.health.seconds_since_beat < 0.05)
