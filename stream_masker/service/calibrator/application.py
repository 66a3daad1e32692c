"""The Faust application of the calibrator: an agent that takes the blocks, and a timer that publishes.

Faust brings the membership in the calibrators' group, of which one is assigned the calibration topic's partition, and
delivers its blocks. Nothing is acknowledged: each assignment restores its state from the topics, and the agent goes on
from there by a seek. Faust reads blocks of open and aborted transactions too. That is harmless: the records of an
aborted transaction are masked again, and the later block replaces the earlier one.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
import threading
import time
from collections.abc import AsyncIterable, Mapping
from contextlib import suppress
from typing import Any, cast

import faust
from confluent_kafka import KafkaException
from faust.auth import SASLCredentials, SSLCredentials
from faust.types import TP, AppT, EventT
from faust.types.auth import CredentialsT
from yarl import URL

from stream_masker.errors import ServiceError
from stream_masker.service.calibrator.calibration import Calibration, Task
from stream_masker.service.calibrator.components import CalibratorComponents
from stream_masker.service.configuration import Configuration
from stream_masker.service.kafka.access import calibrator_group
from stream_masker.service.kafka.clients import PropertyValue
from stream_masker.service.kafka.credentials import credentials
from stream_masker.service.kafka.reader import SINGLE_PARTITION, StoppedError
from stream_masker.service.observability.health import Health
from stream_masker.service.observability.logs import describe
from stream_masker.service.observability.metrics import Metrics
from stream_masker.service.runtime.process import in_background

log = logging.getLogger(__name__)

STANDBY = "standby: another calibrator is active"

TICK_SECONDS = 0.25
"""The time between two ticks, and between two heartbeats of the process."""

SESSION_SECONDS, GROUP_HEARTBEAT_SECONDS, REBALANCE_SECONDS = 10.0, 2.0, 15.0
"""Seconds. The group removes a calibrator that died after ``SESSION_SECONDS``; another one then becomes active."""

BACKOFF_SECONDS = (1.0, 30.0)
"""The delay before a failed calibration is restored again: the initial and the maximum one."""

NICENESS = 5
"""The priority at which statistics are computed: on a busy machine a third of what a worker's thread takes."""


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
            self._metrics.forget_gauges()

    def revoked(self) -> None:
        """Publish nothing until the next assignment."""
        self._active = False
        self._generation += 1
        self._drop()

    def take(self, offset: int, timestamp: int, key: bytes | None, value: bytes) -> None:
        """Merge a block. Blocks that come before the seek of ``tick`` takes effect come again after it."""
        if self._calibration is None:
            self._seen = offset
        elif not self._rewinds or offset <= self._seen:
            self._rewinds = False
            self._calibration.merge(offset, timestamp, key, value)

    async def tick(self, app: faust.App) -> None:
        """Restore the calibration, or compute what is due."""
        if not self._active or time.monotonic() < self._retry_at:
            return
        try:
            if self._calibration is None:
                await self._restore(app)
            else:
                await self._advance(self._calibration)
        except (ServiceError, KafkaException) as error:
            self._fail(error)

    def beat(self) -> None:
        """Record a heartbeat of the event loop."""
        self._health.beat()
        if self._calibration is not None:
            self._calibration.show(time.time())

    async def _restore(self, app: faust.App) -> None:
        generation, found = self._generation, []

        def task() -> None:
            found.append(Calibration.open(self._components, self._metrics, lambda: self._generation != generation))

        with suppress(StoppedError):
            await self._compute(task)
        if self._generation != generation:
            return
        [self._calibration] = found
        self._rewinds = self._seen > self._calibration.position
        await app.consumer.seek(TP(self._components.configuration.topics.calibration, SINGLE_PARTITION), self._next)
        self._backoff = BACKOFF_SECONDS[0]
        self._health.reason("role", None)

    @property
    def _next(self) -> int:
        return 0 if self._calibration is None else self._calibration.position + 1

    async def _advance(self, calibration: Calibration) -> None:
        generation = self._generation
        while generation == self._generation and (task := calibration.next_task(time.time())) is not None:
            await self._compute(task)
        if generation == self._generation:
            self._show(calibration)

    async def _compute(self, task: Task) -> None:
        """Run a task in a thread, after the one of an earlier assignment that may still run."""

        def run() -> None:
            with self._one_at_a_time:
                task()

        self.is_computing = True
        try:
            await asyncio.wrap_future(in_background(run, name="computing", niceness=NICENESS))
        finally:
            self.is_computing = False

    def _show(self, calibration: Calibration) -> None:
        """Report limits of the risk that the last version crosses; a version that is withheld makes it not ready."""
        needed, text = self._components.settings.min_records, "; ".join(calibration.crossed) or None
        sampled = calibration.sampled
        note = None if sampled is None else f"no statistics yet: {sampled} records sampled, {needed} needed"
        self._health.note("statistics", note)
        self._health.reason("risk", f"statistics are withheld: {text}" if calibration.withholds else None)
        self._health.note("risk", None if calibration.withholds else text)
        self._health.statements = calibration.statements

    def _fail(self, error: Exception) -> None:
        self._drop()
        log.warning("%s; retrying in %.0f s", describe(error), self._backoff)
        self._health.reason("role", describe(error))
        self._retry_at = time.monotonic() + self._backoff
        self._backoff = min(2 * self._backoff, BACKOFF_SECONDS[1])

    def _drop(self) -> None:
        self._calibration = None
        self._components.publisher.close()


def build_app(configuration: Configuration, driver: Driver) -> faust.App:
    """Build the application without starting it. Raises ConfigurationError for unsupported Kafka properties."""
    app = faust.App(
        calibrator_group(configuration),
        broker=[URL(f"kafka://{server.strip()}") for server in configuration.kafka.bootstrap_servers.split(",")],
        broker_credentials=faust_credentials(configuration.kafka.properties),
        broker_check_crcs=str(configuration.kafka.properties.get("check.crcs", False)).lower() == "true",
        broker_client_id="stream-masker-calibrator",
        broker_heartbeat_interval=GROUP_HEARTBEAT_SECONDS,
        broker_rebalance_timeout=REBALANCE_SECONDS,
        broker_session_timeout=SESSION_SECONDS,
        consumer_auto_offset_reset="earliest",
        datadir=tempfile.mkdtemp(prefix="stream-masker-"),
        store="memory://",
        topic_allow_declare=False,
        topic_disable_leader=True,
        web_enabled=False,
    )
    name = configuration.topics.calibration
    blocks = app.topic(name, key_serializer="raw", value_serializer="raw", acks=False)

    @app.agent(blocks, name="blocks")  # type: ignore[untyped-decorator]
    async def merge(stream: faust.StreamT[bytes]) -> None:
        async for event in cast(AsyncIterable[EventT], stream.events()):
            message = event.message
            if message.partition == SINGLE_PARTITION:
                driver.take(message.offset, round(message.timestamp * 1000), message.key, message.value or b"")

    @app.timer(interval=TICK_SECONDS)  # type: ignore[untyped-decorator]
    async def publish() -> None:
        await driver.tick(app)

    @app.timer(interval=TICK_SECONDS)  # type: ignore[untyped-decorator]
    async def beat() -> None:
        driver.beat()

    async def assigned(sender: AppT, assigned: set[TP], **kwargs: Any) -> None:
        driver.assigned(active=TP(name, SINGLE_PARTITION) in assigned)

    async def revoked(sender: AppT, revoked: set[TP], **kwargs: Any) -> None:
        driver.revoked()

    app.on_partitions_assigned.connect(assigned, weak=False)
    app.on_partitions_revoked.connect(revoked, weak=False)
    return app


def faust_credentials(properties: Mapping[str, PropertyValue]) -> CredentialsT | None:
    """Return the credentials for ``security.protocol`` and its related properties; None for plaintext.

    Raises ConfigurationError for a protocol or mechanism that Faust does not support, or an unreadable certificate.
    """
    given = credentials(properties)
    if given.mechanism is None:
        return None if given.context is None else SSLCredentials(given.context)
    return SASLCredentials(
        username=given.username, password=given.password, ssl_context=given.context, mechanism=given.mechanism
    )
