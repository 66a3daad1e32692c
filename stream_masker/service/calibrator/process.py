"""The calibrator process: a Faust application with an agent that takes the blocks, and timers that publish.

Faust manages the group of calibrators, of which one gets the calibration topic's partition, and delivers the blocks.
Nothing is acknowledged: each assignment restores its state from the topics, and the agent goes on from there by a seek.
Faust reads blocks of open and aborted transactions too. That is harmless: the records of an aborted transaction are
masked again, and the later block replaces the earlier one.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
import threading
import time
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeVar, cast

import faust
from confluent_kafka import KafkaException
from faust.auth import SASLCredentials, SSLCredentials
from faust.types import TP, AppT, EventT
from faust.types.auth import CredentialsT
from yarl import URL

from stream_masker.errors import ServiceError
from stream_masker.service.calibrator.bootstrap import CalibratorComponents, build_components
from stream_masker.service.calibrator.calibration import Calibration, initialise_counters
from stream_masker.service.configuration import Configuration
from stream_masker.service.kafka.clients import PropertyValue, calibrator_group, credentials
from stream_masker.service.kafka.errors import NoBrokerError
from stream_masker.service.kafka.reader import SINGLE_PARTITION, StoppedError, require_topics
from stream_masker.service.observability.http import HttpServer
from stream_masker.service.observability.logs import describe
from stream_masker.service.observability.metrics import Health, Metrics, process_registry
from stream_masker.service.process import exit_at_once, in_background, stop_on_signals

T = TypeVar("T")

log = logging.getLogger(__name__)

STANDBY = "standby: another calibrator is active"

BACKOFF_SECONDS = (1.0, 30.0)
"""The delay before a failed calibration is restored again: the initial and the maximum one."""

STALE_SECONDS = 300.0
"""The time without a heartbeat of the event loop after which the process is not alive."""

NOISY_LOGGERS = ("faust", "mode", "asyncio")

TICK_SECONDS = 0.25
"""The time between two ticks, and between two heartbeats of the process."""

SESSION_SECONDS, GROUP_HEARTBEAT_SECONDS, REBALANCE_SECONDS = 10.0, 2.0, 15.0
"""Seconds. The group removes a calibrator that died after ``SESSION_SECONDS``; another one then becomes active."""

WATCH_SECONDS = 0.5
STOP_SECONDS = 8.0
"""The time limit for stopping Faust, which waits for a broker to leave its group."""

Seek = Callable[[int], Awaitable[None]]
"""Goes on from an offset of the calibration topic."""


def run_calibrator(configuration: Configuration, *, http_port: int | None = None) -> None:
    """Run the calibrator until SIGTERM or SIGINT. ``http_port`` overrides the configuration's port.

    Raises ConfigurationError if the configuration or the HTTP port cannot be used, ServiceError if a topic is missing
    or the calibrator failed. If no broker is reachable, it retries.
    """
    health, stop = Health(stale_after=STALE_SECONDS), threading.Event()
    stop_on_signals(stop)
    registry = process_registry("calibrator", health)
    with HttpServer(configuration, health, registry, port=http_port):
        limit_client_logs()
        metrics = Metrics(registry, "calibrator")
        metrics.forget()
        initialise_counters(metrics)
        driver = Driver(build_components(configuration), metrics, health)
        if await_topics(configuration, health, stop):
            health.reason("start", "joining the group")
            in_time = asyncio.run(run_application(configuration, driver, stop))
            log.info("stopped")
            if driver.is_computing or not in_time:
                exit_at_once()


def await_topics(configuration: Configuration, health: Health, stop: threading.Event) -> bool:
    """Wait for a broker; return False if the process stops before. Raises ServiceError if a topic is missing."""
    while not stop.is_set():
        try:
            require_topics(configuration, configuration.topics.internal.values())
        except NoBrokerError as error:
            log.warning("%s; trying again", error)
            health.reason("brokers", str(error))
            stop.wait(BACKOFF_SECONDS[0])
        else:
            health.reason("brokers", None)
            return True
    return False


class Driver:
    """Drives a ``Calibration`` while the partition is assigned to this process. It belongs to the event loop."""

    def __init__(self, components: CalibratorComponents, metrics: Metrics, health: Health) -> None:
        self._components, self._metrics, self._health = components, metrics, health
        self._one_at_a_time = threading.Lock()
        self._calibration: Calibration | None = None
        self._assignment: threading.Event | None = None  # set when it ends; None for a standby
        self._seen, self._rewinds = -1, False
        self._retry_at, self._backoff = 0.0, BACKOFF_SECONDS[0]

    @property
    def is_computing(self) -> bool:
        """Whether a task runs."""
        return self._one_at_a_time.locked()

    def assigned(self, *, active: bool) -> None:
        """Take over or stand by. Each assignment restores everything from the topics."""
        self.revoked()
        self._assignment = threading.Event() if active else None
        self._seen, self._retry_at = -1, 0.0
        self._health.reason("start", None)
        self._health.note("role", None if active else STANDBY)
        self._health.reason("role", "taking over: reading the topics" if active else None)
        if not active:
            self._health.reason("risk", None)
            self._metrics.forget()

    def revoked(self) -> None:
        """Publish nothing until the next assignment."""
        if self._assignment is not None:
            self._assignment.set()
        self._assignment = None
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
        assignment = self._assignment
        if assignment is None or time.monotonic() < self._retry_at:
            return
        try:
            if self._calibration is None:
                await self._restore(assignment, seek)
            elif (task := self._calibration.next_task(time.time())) is not None:
                await self._compute(task)
        except (ServiceError, KafkaException) as error:
            if assignment is self._assignment:
                self._fail(error)

    def beat(self) -> None:
        """Record a heartbeat of the event loop."""
        self._health.beat()
        if self._calibration is not None:
            self._calibration.show(self._health, time.time())

    async def _restore(self, assignment: threading.Event, seek: Seek) -> None:
        try:
            restored = await self._compute(
                partial(Calibration.open, self._components, self._metrics, assignment.is_set)
            )
        except StoppedError:
            return
        if not assignment.is_set():
            self._calibration, self._rewinds = restored, self._seen > restored.position
            await seek(restored.position + 1)
            self._backoff = BACKOFF_SECONDS[0]
            self._health.reason("role", None)

    async def _compute(self, task: Callable[[], T]) -> T:
        """Run a task in a thread, after the one of an earlier assignment that may still run; return its result."""

        def run() -> T:
            with self._one_at_a_time:
                return task()

        return await asyncio.wrap_future(in_background(run, name="computing"))

    def _fail(self, error: Exception) -> None:
        self._drop()
        log.warning("%s; retrying in %.0f s", describe(error), self._backoff)
        self._health.reason("role", describe(error))
        self._retry_at = time.monotonic() + self._backoff
        self._backoff = min(2 * self._backoff, BACKOFF_SECONDS[1])

    def _drop(self) -> None:
        self._calibration = None
        self._components.publisher.close()


async def run_application(configuration: Configuration, driver: Driver, stop: threading.Event) -> bool:
    """Run the application until the process stops; return whether it has stopped in time. Raises its error."""
    app = build_app(configuration, driver)
    starting = asyncio.create_task(app.start())
    while not stop.is_set() and _crash_cause(app, starting) is None:
        await asyncio.sleep(WATCH_SECONDS)
    error = _crash_cause(app, starting)
    driver.stop()
    stopping = asyncio.ensure_future(app.stop())
    _, running = await asyncio.wait([stopping, starting], timeout=STOP_SECONDS, return_when=asyncio.ALL_COMPLETED)
    if error is not None and not stop.is_set():
        raise error
    return not running


def _crash_cause(app: faust.App, starting: asyncio.Task[None]) -> BaseException | None:
    """Return the exception that ended an application without a stop; None while it starts or runs."""
    if app.crashed:
        return cast(BaseException, app.crash_reason)
    return starting.exception() if starting.done() else None


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
    partition = TP(name, SINGLE_PARTITION)
    blocks = app.topic(name, key_serializer="raw", value_serializer="raw", acks=False)

    @app.agent(blocks, name="blocks")  # type: ignore[untyped-decorator]
    async def merge(stream: faust.StreamT[bytes]) -> None:
        async for event in cast(AsyncIterable[EventT], stream.events()):
            message = event.message
            if message.partition == SINGLE_PARTITION:
                driver.take(message.offset, round(message.timestamp * 1000), message.key, message.value or b"")

    @app.timer(interval=TICK_SECONDS)  # type: ignore[untyped-decorator]
    async def publish() -> None:
        # on the thread that fetches: ``seek`` alone would drop what that thread reads at the same time, and end it
        await driver.tick(lambda offset: app.consumer.seek_wait({partition: offset}))

    @app.timer(interval=TICK_SECONDS)  # type: ignore[untyped-decorator]
    async def beat() -> None:
        driver.beat()

    async def assigned(sender: AppT, assigned: set[TP], **kwargs: Any) -> None:
        driver.assigned(active=partition in assigned)

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
    context = given["ssl_context"]
    if "sasl_mechanism" not in given:
        return None if context is None else SSLCredentials(context)
    user, password = given["sasl_plain_username"], given["sasl_plain_password"]
    return SASLCredentials(username=user, password=password, ssl_context=context, mechanism=given["sasl_mechanism"])


def limit_client_logs() -> None:
    """Reduce the logs of Faust and its Kafka client to what users can act on. Their debug records hold messages."""
    for name in NOISY_LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    logging.getLogger("aiokafka").setLevel(logging.ERROR)
