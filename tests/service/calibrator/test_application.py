"""What drives the calibration: assignments, blocks and ticks, as Faust reports them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from stream_masker.errors import ServiceError
from stream_masker.service.calibrator import process
from stream_masker.service.calibrator.bootstrap import CalibratorComponents
from stream_masker.service.calibrator.calibration import initialise_counters
from stream_masker.service.calibrator.process import STANDBY, Driver, build_app
from stream_masker.service.observability.metrics import Health, Metrics


class FakeCalibration:
    """A calibration that is restored up to offset 4, and records what it is given. ``tasks``: what is due next."""

    def __init__(self) -> None:
        self.position = 4
        self.merged: list[int] = []
        self.tasks: list[Callable[[], None]] = []

    def merge(self, offset: int, timestamp: int, key: bytes | None, value: bytes) -> None:
        if offset > self.position:
            self.position = offset
            self.merged.append(offset)

    def next_task(self, now: float) -> Callable[[], None] | None:
        return self.tasks.pop(0) if self.tasks else None


class DriverBench:
    """A driver, the calibrations that it has opened, and the offsets that it has sought."""

    def __init__(self, components: CalibratorComponents) -> None:
        self.health = Health()
        metrics = Metrics(CollectorRegistry(), "calibrator")
        initialise_counters(metrics)
        self.driver = Driver(components, metrics, self.health)
        self.opened: list[FakeCalibration] = []
        self.sought: list[int] = []
        self.error: Exception | None = None

    def open(self, components: Any, metrics: Any, stopped: Callable[[], bool]) -> FakeCalibration:
        if self.error is not None:
            raise self.error
        self.opened.append(FakeCalibration())
        return self.opened[-1]

    async def _seek(self, offset: int) -> None:
        self.sought.append(offset)

    def tick(self) -> None:
        asyncio.run(self.driver.tick(self._seek))

    def take(self, *offsets: int) -> None:
        for offset in offsets:
            self.driver.take(offset, 0, b"", b"")


@pytest.fixture
def made(components: CalibratorComponents, monkeypatch: pytest.MonkeyPatch) -> DriverBench:
    one = DriverBench(components)
    monkeypatch.setattr(process.Calibration, "open", one.open)
    return one


def test_an_active_calibrator_restores_and_blocks_that_come_before_the_seek_come_again_after_it(
    made: DriverBench,
) -> None:
    """The ones that were skipped while the calibration was restored must not be lost."""
    made.driver.assigned(active=True)
    assert made.health.reasons == ("taking over: reading the topics",)
    made.take(0, 1, 2, 3, 4, 5, 6)
    made.tick()
    assert (made.sought, made.health.reasons) == ([5], ())
    made.take(7, 8)
    assert made.opened[0].merged == []
    made.take(5, 6, 6, 7, 8, 9)
    assert made.opened[0].merged == [5, 6, 7, 8, 9]


def test_a_standby_reads_and_publishes_nothing(made: DriverBench) -> None:
    made.health.reason("risk", "a version was withheld while it was active")
    made.driver.assigned(active=False)
    made.tick()
    made.take(5)
    assert (made.opened, made.health.notes, made.health.reasons) == ([], (STANDBY,), ())


def test_each_assignment_starts_anew(made: DriverBench) -> None:
    for _ in range(2):
        made.driver.assigned(active=True)
        made.tick()
    made.driver.revoked()
    made.take(9)
    made.tick()
    assert [calibration.merged for calibration in made.opened] == [[], []]


def fenced() -> None:
    raise ServiceError("fenced out")


def test_an_error_is_told_and_the_calibration_restored_after_a_pause(
    made: DriverBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    monkeypatch.setattr(process.time, "monotonic", lambda: clock[0])
    made.driver.assigned(active=True)
    made.error = ServiceError("the publisher cannot be initialised")
    made.tick()
    assert made.health.reasons == ("the publisher cannot be initialised",)
    made.error = None
    made.tick()
    assert not made.opened
    clock[0] += 1.0
    made.tick()
    assert (len(made.opened), made.health.reasons) == (1, ())
    made.opened[0].tasks = [fenced]
    made.tick()
    assert made.health.reasons == ("fenced out",)


def test_the_application_acknowledges_nothing_and_serves_nothing(
    components: CalibratorComponents, made: DriverBench
) -> None:
    app = build_app(components.configuration, made.driver)
    assert app.conf.id == f"{components.configuration.topics.calibration}.calibrator"
    assert not app.conf.web_enabled
    [agent] = app.agents.values()
    assert agent.channel.acks is False
