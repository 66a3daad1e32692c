"""The calibrator's one working thread: takes what Faust hands over, and keeps a session while this process is active.

Blocks are acknowledged when they are taken, not when they are merged. That loses nothing: whatever goes wrong, the
session ends, and the next one reads everything again from the topics.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from confluent_kafka import KafkaException

from stream_masker.errors import ServiceError, StatisticsError
from stream_masker.service.calibrator.bootstrap import Sampler
from stream_masker.service.calibrator.components import CalibratorComponents, reconfigured
from stream_masker.service.calibrator.session import CalibrationSession
from stream_masker.service.configuration.reload import ConfigurationFile
from stream_masker.service.kafka.topic_reader import StoppedError
from stream_masker.service.observability.health import Health
from stream_masker.service.observability.logs import describe
from stream_masker.service.observability.metrics import Metrics

log = logging.getLogger(__name__)

QUEUED_BLOCKS = 256
"""Blocks that may wait to be merged; beyond that Faust waits."""

TURN_SECONDS = 0.2
"""Seconds that a turn waits for something to do."""

ENGINE_PULSE_SECONDS = 60.0
"""Seconds without a pulse of the event loop after which the process is not alive."""

BACKOFF_SECONDS = (1.0, 30.0)
"""Seconds before a failed session is tried again: at first, and at most."""

STANDBY_REASON = "standby: another calibrator is active"


@dataclass(frozen=True, slots=True)
class DeliveredBlock:
    """A block as it was read."""

    offset: int
    written: int
    raw: bytes


class CalibratorEngine:
    """Driven by the event loop through ``assigned``, ``revoked``, ``deliver``, ``tick`` and ``pulse``, which return at
    once; works in a thread of its own, between ``start`` and ``stop``. ``failed`` is called with what ended it early.
    """

    def __init__(
        self,
        parts: CalibratorComponents,
        metrics: Metrics,
        health: Health,
        failed: Callable[[BaseException], None],
        file: ConfigurationFile | None = None,
    ) -> None:
        """``file``: where the configuration comes from; its settings are taken up when it changes."""
        self._parts = parts
        self._file = file
        self._due = False
        self._again = False
        self._metrics = metrics
        self._health = health
        self._failed = failed
        self._deliveries: queue.Queue[DeliveredBlock] = queue.Queue(QUEUED_BLOCKS)
        self._stopping = threading.Event()
        self._term = 0
        self._active = False
        self._served = 0
        self._ticked = False
        self._pulse = time.monotonic()
        self._retry_at = 0.0
        self._sample_at = 0.0
        self._wait = BACKOFF_SECONDS[0]
        self._session: CalibrationSession | None = None
        self._sampler: Sampler | None = None
        self._thread = threading.Thread(target=self._run, name="calibrator", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float = 10.0) -> None:
        """Ends the thread; nothing is published after that."""
        self._stopping.set()
        self._thread.join(timeout)

    def assigned(self, *, active: bool) -> None:
        """The group has decided; every decision starts a new session on the active calibrator."""
        self._term += 1
        self._active = active
        self._health.reason("start", None)
        self._health.note("role", None if active else STANDBY_REASON)
        self._health.reason("role", "taking over: reading the topics" if active else None)

    def revoked(self) -> None:
        """The group is about to decide anew; until then nothing is published."""
        self._active = False

    async def deliver(self, offset: int, written: int, raw: bytes) -> None:
        """Takes a block; waits while too many wait to be merged."""
        while not self._stopping.is_set():
            try:
                return self._deliveries.put_nowait(DeliveredBlock(offset, written, raw))
            except queue.Full:
                await asyncio.sleep(TURN_SECONDS / 10)

    def fail(self, error: BaseException) -> None:
        """A block could not be taken."""
        self._failed(error)

    def tick(self) -> None:
        """Time has passed."""
        self._ticked = self._due = True

    def reload(self) -> None:
        """The configuration file is to be read again, changed or not."""
        self._again = True

    def pulse(self) -> None:
        """The event loop turns."""
        self._pulse = time.monotonic()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._beat()
                self._turn()
        except BaseException as error:  # noqa: BLE001 - told to the owner, who ends the process
            self._failed(error)
        finally:
            self._end()

    def _beat(self) -> None:
        if time.monotonic() - self._pulse < ENGINE_PULSE_SECONDS:
            self._health.beat()

    def _turn(self) -> None:
        try:
            self._look()
            self._follow()
            self._merge()
            self._advance()
        except StoppedError:
            self._end()
        except (ServiceError, KafkaException) as error:
            self._give_up(error)

    def _look(self) -> None:
        """Takes up the settings of a configuration file that has changed."""
        if self._file is None or not (self._due or self._again):
            return
        again, self._again, self._due = self._again, False, False
        refusals = self._file.refusals
        if self._file.look(again=again):
            self._parts = reconfigured(self._parts, self._file.current)
            log.info("the configuration has changed: %s", self._file.current.hash)
            if self._session is not None:
                self._session.reconfigure(self._parts)
        self._metrics.add("configuration_refused_total", self._file.refusals - refusals)
        refused = self._file.refused
        self._health.note("configuration", refused and f"a changed configuration was refused: {refused}")

    def _outdated(self) -> bool:
        """Whether the session, present or to come, is no longer wanted. Asked while it reads, so it beats as well."""
        self._beat()
        return self._stopping.is_set() or not self._active or self._term != self._served

    def _follow(self) -> None:
        """Ends a session that is no longer wanted, and opens one that is."""
        if self._session is not None and self._outdated():
            self._end()
        if self._session is None and self._active and time.monotonic() >= self._retry_at:
            self._served = self._term
            self._session = CalibrationSession.open(self._parts, self._metrics, self._outdated)
            self._wait = BACKOFF_SECONDS[0]
            self._health.reason("role", None)

    def _give_up(self, error: Exception) -> None:
        """Ends a session that failed; the next one is opened after a while."""
        self._end()
        log.warning("%s; trying again in %.0f s", describe(error), self._wait)
        self._health.reason("role", describe(error))
        self._retry_at = time.monotonic() + self._wait
        self._wait = min(2 * self._wait, BACKOFF_SECONDS[1])

    def _end(self) -> None:
        self._session = None
        self._parts.publisher.close()
        self._stop_sampling()

    def _merge(self) -> None:
        """Merges the blocks that wait; without a session there is nothing to do for them: it will read them itself."""
        for delivery in self._waiting():
            if self._session is not None:
                self._session.deliver(delivery.offset, delivery.written, delivery.raw)

    def _waiting(self) -> list[DeliveredBlock]:
        idle = self._session is None or not self._session.waiting
        try:
            first = self._deliveries.get(timeout=TURN_SECONDS if idle else 0.001)
        except queue.Empty:
            return []
        return [first, *(self._deliveries.get_nowait() for _ in range(self._deliveries.qsize()))]

    def _advance(self) -> None:
        """Computes and publishes one version at most, so that blocks are merged in between."""
        if self._session is None or self._outdated():
            return
        if self._ticked:
            self._ticked = False
            self._session.tick(time.time())
        if self._session.unsettled:
            self._session.publish_settings()
        if self._session.waiting:
            self._session.publish_next()
        self._bootstrap(self._session)

    def _bootstrap(self, session: CalibrationSession) -> None:
        """Samples the input while there is no version."""
        if session.history.latest is not None:
            self._stop_sampling()
        elif self._sampler is None:
            self._start_sampling()
        else:
            self._await_sample(session, self._sampler)

    def _start_sampling(self) -> None:
        if time.monotonic() >= self._sample_at:
            self._sampler = Sampler(self._parts.configuration)
            self._sampler.start()

    def _await_sample(self, session: CalibrationSession, sampler: Sampler) -> None:
        counts = sampler.result()
        least = self._parts.settings.min_records
        self._health.note("statistics", f"no statistics yet: {sampler.records} records sampled, {least} needed")
        if counts is None:
            return
        try:
            session.publish_sample(counts)
        except StatisticsError as error:
            log.warning("no statistics from the sample: %s", error)
            self._stop_sampling()
            self._sample_at = time.monotonic() + self._parts.settings.every_seconds

    def _stop_sampling(self) -> None:
        self._health.note("statistics", None)
        if self._sampler is not None:
            self._sampler.stop()
            self._sampler = None
