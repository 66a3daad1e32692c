"""Drives the calibration of this process while the calibration topic's partition is assigned to it."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from confluent_kafka import KafkaException

from stream_masker.errors import ServiceError
from stream_masker.service.calibrator.bootstrap import CalibratorComponents
from stream_masker.service.calibrator.calibration import Calibration
from stream_masker.service.kafka.reader import StoppedError
from stream_masker.service.observability.health import Health
from stream_masker.service.observability.logs import describe
from stream_masker.service.observability.metrics import Metrics
from stream_masker.service.process import in_background

T = TypeVar("T")

log = logging.getLogger(__name__)

STANDBY = "standby: another calibrator is active"

BACKOFF_SECONDS = (1.0, 30.0)
"""The delay before a failed calibration is restored again: the initial and the maximum one."""

Seek = Callable[[int], Awaitable[None]]
"""Goes on from an offset of the calibration topic."""


class Driver:
    """Drives a ``Calibration`` while the partition is assigned to this process. It belongs to the event loop."""

    def __init__(self, components: CalibratorComponents, metrics: Metrics, health: Health) -> None:
        self._components = components
        self._metrics = metrics
        self._health = health
        self._one_at_a_time = threading.Lock()
        self.is_computing = False
        self._calibration: Calibration | None = None
        self._active = False
        self._generation = 0
        self._seen = -1
        self._rewinds = False
        self._retry_at = 0.0
        self._backoff = BACKOFF_SECONDS[0]

    def assigned(self, *, active: bool) -> None:
        """Take over or stand by. Each assignment restores everything from the topics."""
        self.revoked()
        self._active = active
        self._seen, self._retry_at = -1, 0.0
        self._health.reason("start", None)
        self._health.note("role", None if active else STANDBY)
        self._health.reason("role", "taking over: reading the topics" if active else None)
        if not active:
            self._health.reason("risk", None)
            self._metrics.forget_gauges()

    def revoked(self) -> None:
        """Publish nothing until the next assignment."""
        self._active = False
        self._generation += 1
        self._drop()

    def stop(self) -> None:
        """Publish nothing any more."""
        self._health.reason("stop", "stopping")
        self.revoked()

    def take(self, offset: int, timestamp: int, key: bytes | None, value: bytes) -> None:
        """Merge a block. Blocks that arrive before the seek of ``tick`` takes effect arrive again after it."""
        if self._calibration is None:
            self._seen = offset
        elif not self._rewinds or offset <= self._seen:
            self._rewinds = False
            self._calibration.merge(offset, timestamp, key, value)

    async def tick(self, seek: Seek) -> None:
        """Restore the calibration, or compute what is due."""
        if not self._active or time.monotonic() < self._retry_at:
            return
        try:
            if self._calibration is None:
                await self._restore(seek)
            else:
                await self._advance(self._calibration)
        except (ServiceError, KafkaException) as error:
            self._fail(error)

    def beat(self) -> None:
        """Record a heartbeat of the event loop."""
        self._health.beat()
        if self._calibration is not None:
            self._calibration.show(self._health, time.time())

    async def _restore(self, seek: Seek) -> None:
        generation = self._generation

        def stopped() -> bool:
            return self._generation != generation

        try:
            restored = await self._compute(partial(Calibration.open, self._components, self._metrics, stopped))
        except StoppedError:
            return
        if not stopped():
            self._calibration, self._rewinds = restored, self._seen > restored.position
            await seek(restored.position + 1)
            self._backoff = BACKOFF_SECONDS[0]
            self._health.reason("role", None)

    async def _advance(self, calibration: Calibration) -> None:
        generation = self._generation
        while generation == self._generation and (task := calibration.next_task(time.time())) is not None:
            await self._compute(task)

    async def _compute(self, task: Callable[[], T]) -> T:
        """Run a task in a thread, after the one of an earlier assignment that may still run; return its result."""

        def run() -> T:
            with self._one_at_a_time:
                return task()

        self.is_computing = True
        try:
            return await asyncio.wrap_future(in_background(run, name="computing"))
        finally:
            self.is_computing = False

    def _fail(self, error: Exception) -> None:
        self._drop()
        log.warning("%s; retrying in %.0f s", describe(error), self._backoff)
        self._health.reason("role", describe(error))
        self._retry_at = time.monotonic() + self._backoff
        self._backoff = min(2 * self._backoff, BACKOFF_SECONDS[1])

    def _drop(self) -> None:
        self._calibration = None
        self._components.publisher.close()
