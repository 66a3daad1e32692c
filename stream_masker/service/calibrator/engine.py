"""The calibrator's engine: one thread that merges blocks and holds a session while this process is active.

Statistics are computed in a thread of lower priority, for which the engine waits.

Faust acknowledges a block when the engine's queue takes it, not when it is merged. No block is lost: any failure ends
the session, and the next session reads everything again from the topics.
"""

from __future__ import annotations

import asyncio
import logging
import math
import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from contextlib import contextmanager
from dataclasses import dataclass

from confluent_kafka import KafkaException

from stream_masker.errors import ServiceError, StatisticsError
from stream_masker.pipeline.calibration.pace import Pace
from stream_masker.service.calibrator.bootstrap import Sampler
from stream_masker.service.calibrator.components import CalibratorComponents
from stream_masker.service.calibrator.session import CalibrationSession
from stream_masker.service.kafka.topic_reader import StoppedError
from stream_masker.service.observability.health import Health
from stream_masker.service.observability.logs import describe
from stream_masker.service.observability.metrics import Metrics
from stream_masker.service.runtime.process import SerialExecutor

log = logging.getLogger(__name__)

QUEUED_BLOCKS = 256
"""The maximum number of blocks that wait to be merged; when it is reached, Faust waits."""

POLL_BLOCK_SECONDS = 0.2
"""The maximum time that one iteration waits for a block."""

EVENT_LOOP_STALE_SECONDS = 60.0
"""The time without a pulse of the event loop after which the process is not alive."""

COMPUTING_BEAT_SECONDS = 1.0
"""The time after which a computation that has used processor time counts as a heartbeat."""

BACKOFF_SECONDS = (1.0, 30.0)
"""The delay before a failed session is opened again: the initial and the maximum one."""

MORE_BLOCKS_SECONDS = 2.0
"""The time for which a window that becomes due waits for the blocks that follow it, while there is a version.

A fast stream fills the window within this time, and workers count samples before the statistics take a core.
"""

NICENESS = 5
"""The priority at which statistics are computed: on a busy machine a third of what a worker's thread takes."""

FIRST_RISK_SECONDS = 10.0
"""The time after which the risk of the first version is computed, unless a window's version has replaced it.

That one follows as soon as the records that waited for statistics are masked, and should not wait for the risk.
"""

STANDBY_REASON = "standby: another calibrator is active"


@dataclass(frozen=True, slots=True)
class DeliveredBlock:
    """A block as read from the calibration topic; ``timestamp`` in milliseconds since the epoch."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes


class CalibratorEngine:
    """Runs sessions in its own thread, between ``start`` and ``stop``. The pace of computing outlives the sessions.

    The event loop drives it through ``assigned``, ``revoked``, ``deliver``, ``tick`` and ``pulse``, which return
    immediately. ``on_failure`` is called with the exception that ended the thread early.
    """

    def __init__(
        self,
        components: CalibratorComponents,
        metrics: Metrics,
        health: Health,
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._components = components
        self._pace = Pace(components.settings.core_share)
        self._has_computed = False
        self._has_window = False
        self._computing = SerialExecutor("computing", niceness=NICENESS)
        self._forget_due = False
        self._metrics = metrics
        self._health = health
        self._on_failure = on_failure
        self._deliveries: queue.Queue[DeliveredBlock] = queue.Queue(QUEUED_BLOCKS)
        self._stopping = threading.Event()
        self._generation = 0
        self._active = False
        self._session_generation = 0
        self._tick_due = False
        self._pulse = time.monotonic()
        self._retry_at = 0.0
        self._next_sample_at = 0.0
        self._first_risk_at = math.inf
        self._backoff = BACKOFF_SECONDS[0]
        self._session: CalibrationSession | None = None
        self._sampler: Sampler | None = None
        self._thread = threading.Thread(target=self._run, name="calibrator", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float = 10.0) -> bool:
        """End the thread; nothing is published afterwards. Return whether it has ended."""
        self._stopping.set()
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def assigned(self, *, active: bool) -> None:
        """Handle a new assignment of the group. Each one starts a new session on the active calibrator."""
        self._generation += 1
        self._active = active
        self._health.reason("start", None)
        self._forget_due = not active
        self._health.note("role", None if active else STANDBY_REASON)
        self._health.reason("role", "taking over: reading the topics" if active else None)

    def revoked(self) -> None:
        """Handle the start of a rebalance: until the next assignment nothing is published."""
        self._active = False

    async def deliver(self, offset: int, timestamp: int, key: bytes | None, value: bytes) -> None:
        """Queue a block; waits while the queue is full."""
        while not self._stopping.is_set():
            try:
                return self._deliveries.put_nowait(DeliveredBlock(offset, timestamp, key, value))
            except queue.Full:
                await asyncio.sleep(POLL_BLOCK_SECONDS / 10)

    def fail(self, error: BaseException) -> None:
        """Handle a block that could not be queued."""
        self._on_failure(error)

    def tick(self) -> None:
        """Handle the periodic timer."""
        self._tick_due = True

    def pulse(self) -> None:
        """Record that the event loop is running."""
        self._pulse = time.monotonic()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._heartbeat()
                self._iterate()
        except BaseException as error:  # noqa: BLE001 - passed to the owner, which ends the process
            self._on_failure(error)
        finally:
            self._close_session()

    def _heartbeat(self) -> None:
        if time.monotonic() - self._pulse < EVENT_LOOP_STALE_SECONDS:
            self._health.beat()

    def _iterate(self) -> None:
        try:
            self._update_session()
            self._merge_blocks()
            self._advance()
        except StoppedError:
            self._close_session()
        except (ServiceError, KafkaException) as error:
            self._fail_session(error)

    def _session_obsolete(self) -> bool:
        """Whether the current or next session is obsolete. Called during long reads, so it also records a heartbeat."""
        self._heartbeat()
        return self._stopping.is_set() or not self._active or self._generation != self._session_generation

    def _update_session(self) -> None:
        """Close an obsolete session, and open the one that is needed."""
        if self._session is not None and self._session_obsolete():
            self._close_session()
        if self._forget_due:
            self._forget_figures()
        if self._session is None and self._active and time.monotonic() >= self._retry_at:
            self._session_generation = self._generation
            self._session = CalibrationSession.open(self._components, self._metrics, self._session_obsolete)
            self._backoff = BACKOFF_SECONDS[0]
            self._health.reason("role", None)

    def _forget_figures(self) -> None:
        """Show no figures of versions any more: another calibrator is active and shows them."""
        self._forget_due = False
        self._metrics.forget_gauges()
        self._components.page.clear()

    def _fail_session(self, error: Exception) -> None:
        """Close a failed session; the next one is opened after a delay."""
        self._close_session()
        log.warning("%s; retrying in %.0f s", describe(error), self._backoff)
        self._health.reason("role", describe(error))
        self._retry_at = time.monotonic() + self._backoff
        self._backoff = min(2 * self._backoff, BACKOFF_SECONDS[1])

    def _close_session(self) -> None:
        self._session = None
        self._components.publisher.close()
        self._stop_sampling()

    def _merge_blocks(self) -> None:
        """Merge the queued blocks. Without a session they are discarded: the next session reads them from the topic."""
        for delivery in self._queued_blocks():
            if self._session is not None:
                self._session.deliver(delivery.offset, delivery.timestamp, delivery.key, delivery.value)

    def _queued_blocks(self) -> list[DeliveredBlock]:
        computes = self._session is not None and self._session.pending_windows and self._pace.is_open(time.monotonic())
        try:
            first = self._deliveries.get(timeout=0.001 if computes else POLL_BLOCK_SECONDS)
        except queue.Empty:
            return []
        return [first, *(self._deliveries.get_nowait() for _ in range(self._deliveries.qsize()))]

    def _advance(self) -> None:
        """Compute and publish at most one version, so that blocks are merged in between."""
        if self._session is None or self._session_obsolete():
            return
        if self._tick_due:
            self._tick_due = False
            self._look_at_calibration_topic()
            self._session.tick(time.time())
        if self._session.secret_differs:
            self._compute(self._session.publish_secret)
        self._await_more_blocks(self._session)
        if self._session.pending_windows:
            self._compute_statistics(self._session)
        self._bootstrap(self._session)
        self._assess_first(self._session)
        self._show_risk(self._session)

    def _look_at_calibration_topic(self) -> None:
        """Raise ServiceError, which starts a new session, if the topic was deleted and created again.

        Its offsets begin again, so that this session would take its blocks for those that it has merged.
        """
        topic = self._components.calibration_topic
        if topic.due and topic.look():
            raise ServiceError("the calibration topic was created anew")

    def _await_more_blocks(self, session: CalibrationSession) -> None:
        """Let the first window that waits wait for more blocks, unless there is no version yet."""
        waited, self._has_window = self._has_window, session.pending_windows > 0
        if self._has_window and not waited and session.history.latest is not None:
            self._pace.hold(time.monotonic() + MORE_BLOCKS_SECONDS)

    def _compute_statistics(self, session: CalibrationSession) -> None:
        """Compute and publish a version, if the pace allows it or drift makes it urgent."""
        waits = not self._pace.is_open(time.monotonic())
        if waits:
            session.skip_windows(keep=1)
            if session.begins_sampling:
                session.publish_sampling()
            if not session.is_urgent:
                return
        with self._charged():
            self._compute(lambda: session.publish_next(urgent=waits))
            self._compute(session.assess_risk)

    def _compute(self, task: Callable[[], None]) -> None:
        """Run a task in the computing thread. A slow one keeps the process alive while it gets processor time."""
        used = self._computing.processor_seconds()
        with self._health.computing():
            future = self._computing.submit(task)
            while wait([future], COMPUTING_BEAT_SECONDS).not_done:
                if self._session is not None:
                    self._session.show_age(time.time())
                before, used = used, self._computing.processor_seconds()
                if used > before:
                    self._heartbeat()
            future.result()

    @contextmanager
    def _charged(self) -> Iterator[None]:
        """Charge the processor time of the block to the pace, except that of the first computation.

        That one loads the kernels, and the version after it replaces a small sample.
        """
        start, first, self._has_computed = time.process_time(), not self._has_computed, True
        try:
            yield
        finally:
            if not first:
                self._pace.charge(time.process_time() - start, time.monotonic())

    def _show_risk(self, session: CalibrationSession) -> None:
        """Report limits of the risk that the last version crosses; a version that is withheld makes it not ready."""
        text = "; ".join(session.crossed) or None
        withheld = session.withholds and text is not None
        self._health.reason("risk", f"statistics are withheld: {text}" if withheld else None)
        self._health.note("risk", None if withheld else text)

    def _bootstrap(self, session: CalibrationSession) -> None:
        """Sample the input topic until there is a version."""
        if session.history.latest is not None:
            self._stop_sampling()
        elif self._sampler is None:
            self._start_sampling()
        else:
            self._await_sample(session, self._sampler)

    def _start_sampling(self) -> None:
        if time.monotonic() >= self._next_sample_at and self._pace.is_open(time.monotonic()):
            self._sampler = Sampler(self._components.configuration)
            self._sampler.start()

    def _await_sample(self, session: CalibrationSession, sampler: Sampler) -> None:
        sample = sampler.result()
        needed = f"{self._components.settings.min_records} needed" if sample is None else "computing them"
        self._health.note("statistics", f"no statistics yet: {sampler.records} records sampled, {needed}")
        if sample is None:
            return
        try:
            with self._charged():
                self._compute(lambda: session.publish_sample(sample))
            self._first_risk_at = time.monotonic() + FIRST_RISK_SECONDS
        except StatisticsError as error:
            log.warning("failed to compute statistics from the sample: %s", error)
            self._stop_sampling()
            self._next_sample_at = time.monotonic() + self._components.settings.every_seconds

    def _assess_first(self, session: CalibrationSession) -> None:
        """Compute the risk of the first version when it is due; nothing if a window's version has replaced it.

        Like the first version itself, it is not charged to the pace.
        """
        if time.monotonic() >= self._first_risk_at:
            self._first_risk_at = math.inf
            self._compute(session.assess_risk)

    def _stop_sampling(self) -> None:
        self._health.note("statistics", None)
        if self._sampler is not None:
            self._sampler.stop()
            self._sampler = None
