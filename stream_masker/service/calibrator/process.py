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
from collections.abc import AsyncIterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import faust
from faust.auth import SASLCredentials, SSLCredentials
from faust.types import TP, AppT, EventT
from faust.types.auth import CredentialsT
from yarl import URL

from stream_masker.errors import ServiceError, StreamMaskerError
from stream_masker.service.calibrator.bootstrap import build_components
from stream_masker.service.calibrator.driver import Driver
from stream_masker.service.calibrator.metrics import initialise_counters
from stream_masker.service.configuration import Configuration
from stream_masker.service.kafka.access import calibrator_group
from stream_masker.service.kafka.clients import PropertyValue, await_brokers, credentials
from stream_masker.service.kafka.reader import SINGLE_PARTITION, require_topics
from stream_masker.service.observability.health import Health
from stream_masker.service.observability.http import HttpServer
from stream_masker.service.observability.logs import RepeatFilter, describe
from stream_masker.service.observability.metrics import Metrics, process_registry
from stream_masker.service.process import exit_at_once, stop_on_signals

log = logging.getLogger(__name__)
log.addFilter(RepeatFilter())

STALE_SECONDS = 300.0
"""The time without a heartbeat of the event loop after which the process is not alive."""

NOISY_LOGGERS = ("faust", "mode", "asyncio", "aiokafka")
"""Loggers whose debug records contain whole messages, so debug level is never enabled for them."""

TICK_SECONDS = 0.25
"""The time between two ticks, and between two heartbeats of the process."""

SESSION_SECONDS, GROUP_HEARTBEAT_SECONDS, REBALANCE_SECONDS = 10.0, 2.0, 15.0
"""Seconds. The group removes a calibrator that died after ``SESSION_SECONDS``; another one then becomes active."""

WATCH_SECONDS = 0.5
STOP_SECONDS = 8.0
"""The time limit for stopping Faust, which waits for a broker to leave its group."""


def run_calibrator(configuration: Configuration, *, http_port: int | None = None) -> None:
    """Run the calibrator until SIGTERM or SIGINT. ``http_port`` overrides the configuration's port.

    Raises ConfigurationError if the configuration or the HTTP port cannot be used, ServiceError if a topic is missing
    or the calibrator failed. If no broker is reachable, it retries.
    """
    health, stop = Health(stale_after=STALE_SECONDS), threading.Event()
    stop_on_signals(stop)
    registry = process_registry("calibrator", health)
    with HttpServer(configuration, health, registry, port=http_port), unexpected_errors_hidden():
        limit_client_logs()
        metrics = Metrics(registry, "calibrator")
        metrics.forget_gauges()
        initialise_counters(metrics)
        driver = Driver(build_components(configuration), metrics, health)
        topics = configuration.topics.internal.values()
        check = partial(require_topics, configuration, topics)
        if await_brokers(configuration, health, check, lambda s: not stop.wait(s)):
            health.reason("start", "joining the group")
            in_time = asyncio.run(run_application(configuration, driver, stop))
            log.info("stopped")
            if driver.is_computing or not in_time:
                exit_at_once()


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
        await driver.tick(lambda offset: app.consumer.seek(partition, offset))

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
    if given.mechanism is None:
        return None if given.context is None else SSLCredentials(given.context)
    return SASLCredentials(
        username=given.username, password=given.password, ssl_context=given.context, mechanism=given.mechanism
    )


def limit_client_logs() -> None:
    """Reduce the logs of Faust and its Kafka client to what users can act on; with debug logs, keep more of them."""
    debug = log.isEnabledFor(logging.DEBUG)
    for name in NOISY_LOGGERS:
        logging.getLogger(name).setLevel(logging.INFO if debug else logging.CRITICAL)
    if not debug:
        client = logging.getLogger("aiokafka")
        client.setLevel(logging.ERROR)
        client.handlers, client.propagate = [RelayHandler()], False


class RelayHandler(logging.Handler):
    """Logs records as warnings of this module, which are not repeated, and without tracebacks."""

    def emit(self, record: logging.LogRecord) -> None:
        log.warning("Kafka: %s", record.getMessage())


@contextmanager
def unexpected_errors_hidden() -> Iterator[None]:
    """Convert an unexpected exception to a ServiceError without the exception's text, which may quote a record."""
    try:
        yield
    except StreamMaskerError:
        raise
    except Exception as error:  # noqa: BLE001 - reported without its text
        raise ServiceError(f"the calibrator failed: {describe(error)}") from None
