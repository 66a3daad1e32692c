"""A calibrator engine with fake sessions, samples and a fake configuration file."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from stream_masker.errors import StatisticsError
from stream_masker.pipeline.calibration.window import CalibrationSettings
from stream_masker.service.calibrator import engine
from stream_masker.service.calibrator.engine import CalibratorEngine
from stream_masker.service.kafka.topic_identity import TopicWatch
from stream_masker.service.kafka.topic_reader import StoppedError
from stream_masker.service.observability.health import Health
from stream_masker.service.observability.metrics import Metrics

CORE_SHARE = 0.01


class FakeSession:
    """Records its calls; ``EngineBench`` injects the failures."""

    def __init__(self, bench: EngineBench) -> None:
        self.bench = bench
        self.blocks: list[int] = []
        self.ticks = self.aged = 0
        self.pending_windows = 0
        self.is_urgent = False
        self.skipped = self.urgent = 0
        self.published = 0
        self.samples: list[Any] = []
        self.assessed: list[tuple[int, int, int]] = []
        self.settings_differ = self.begins_sampling = self.secret_differs = False
        self.settings_published = self.sampling_published = self.secret_published = 0
        self.crossed: tuple[str, ...] = ()
        self.withholds = False
        self.components: list[Any] = []
        self.history = SimpleNamespace(latest=bench.latest)

    def deliver(self, offset: int, timestamp: int, key: bytes | None, value: bytes) -> None:
        if value in self.bench.errors:
            raise self.bench.errors.pop(value)
        self.blocks.append(offset)
        self.pending_windows += value == b"window"

    def tick(self, now: float) -> None:
        self.ticks += 1

    def show_age(self, now: float) -> None:
        self.aged += 1

    def skip_windows(self, *, keep: int) -> None:
        self.skipped += max(0, self.pending_windows - keep)
        self.pending_windows = min(self.pending_windows, keep)

    def publish_next(self, *, urgent: bool) -> None:
        self.urgent += urgent
        self.pending_windows -= 1
        self.published += 1

    def assess_risk(self) -> None:
        self.assessed.append((self.published, self.settings_published, len(self.samples)))

    def reconfigure(self, components: Any) -> None:
        self.components.append(components)
        self.settings_differ = True

    def publish_settings(self) -> None:
        self.settings_differ = False
        self.settings_published += 1

    def publish_secret(self) -> None:
        self.secret_differs = False
        self.secret_published += 1

    def publish_sampling(self) -> None:
        self.begins_sampling = False
        self.sampling_published += 1

    def publish_sample(self, counts: Any) -> None:
        if counts == "useless":
            self.bench.found = None
            raise StatisticsError("some attribute has no value")
        self.samples.append(counts)
        self.notes_of_sample = self.bench.health.notes
        self.history.latest = "version 1"


class SwitchedPace:
    """A pace that a test opens and closes. charged: the processor times of all computations."""

    def __init__(self, is_open: bool) -> None:
        self.opened = is_open
        self.charged: list[float] = []

    def charge(self, seconds: float, now: float) -> None:
        self.charged.append(seconds)

    def hold(self, until: float) -> None:
        """Hold nothing."""

    def is_open(self, now: float) -> bool:
        return self.opened


class FakeSampler:
    def __init__(self, bench: EngineBench) -> None:
        self.bench = bench
        self.records = 7
        self.stopped = False

    def start(self) -> None:
        self.bench.samplers.append(self)

    def stop(self) -> None:
        self.stopped = True

    def result(self) -> Any:
        return self.bench.found


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


def with_configuration(components: Any, configuration: Any) -> Any:
    """Return the same components with another configuration."""
    return SimpleNamespace(**{**vars(components), "configuration": configuration})


class EngineBench:
    """The engine under test and its environment."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sessions: list[FakeSession] = []
        self.samplers: list[FakeSampler] = []
        self.errors: dict[bytes, Exception] = {}
        self.openings: list[Exception] = []
        self.latest: Any = "version 3"
        self.topic_id = "first"
        self.found: Any = None
        self.failures: list[BaseException] = []
        self.closed = self.cleared = 0
        self.reading = threading.Event()
        self.slow = threading.Event()
        self.health = Health()
        monkeypatch.setattr(engine, "CalibrationSession", SimpleNamespace(open=self.open))
        monkeypatch.setattr(engine, "Sampler", lambda configuration: FakeSampler(self))
        monkeypatch.setattr(engine, "BACKOFF_SECONDS", (0.01, 0.02))
        monkeypatch.setattr(engine, "POLL_BLOCK_SECONDS", 0.01)
        monkeypatch.setattr(engine, "MORE_BLOCKS_SECONDS", 0.0)
        components: Any = SimpleNamespace(
            publisher=SimpleNamespace(close=self.close),
            settings=CalibrationSettings(every_seconds=0.01, core_share=CORE_SHARE),
            configuration=None,
            page=SimpleNamespace(clear=self.clear_page),
            calibration_topic=TopicWatch(lambda: self.topic_id, every=0.0),
        )
        monkeypatch.setattr(engine, "reconfigure", with_configuration)
        self.registry = CollectorRegistry()
        self.file: Any = FakeFile()
        self.metrics = Metrics(self.registry, "calibrator")
        self.engine = CalibratorEngine(components, self.metrics, self.health, self.failures.append, self.file)

    def open(self, components: Any, metrics: Any, stopped: Callable[[], bool]) -> FakeSession:
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

    def clear_page(self) -> None:
        self.cleared += 1

    @property
    def session(self) -> FakeSession:
        return self.sessions[-1]

    def deliver(self, *blocks: tuple[int, bytes]) -> None:
        for offset, value in blocks:
            asyncio.run(self.engine.deliver(offset, 0, None, value))

    def wait(self, reached: Callable[[], Any]) -> None:
        deadline = time.monotonic() + 10
        while not reached():
            assert time.monotonic() < deadline, f"timeout, failures: {self.failures}"
            time.sleep(0.005)

    def switch_pace(self, *, is_open: bool) -> SwitchedPace:
        """Replace the pace by one that the test opens and closes."""
        pace = SwitchedPace(is_open)
        self.engine._pace = pace  # type: ignore[assignment]
        return pace

    def become_active(self) -> None:
        before = len(self.sessions)
        self.engine.assigned(active=True)
        self.wait(lambda: len(self.sessions) > before)
