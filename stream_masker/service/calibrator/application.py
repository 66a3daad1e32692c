"""The Faust application of the calibrator: an agent that takes the blocks, and timers that publish.

Faust manages the group of calibrators, of which one gets the calibration topic's partition, and delivers the blocks.
Nothing is acknowledged: each assignment restores its state from the topics, and the agent goes on from there by a seek.
Faust reads blocks of open and aborted transactions too. That is harmless: the records of an aborted transaction are
masked again, and the later block replaces the earlier one.
"""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import AsyncIterable, Mapping
from typing import Any, cast

import faust
from faust.auth import SASLCredentials, SSLCredentials
from faust.types import TP, AppT, EventT
from faust.types.auth import CredentialsT
from yarl import URL

from stream_masker.service.calibrator.driver import Driver
from stream_masker.service.configuration import Configuration
from stream_masker.service.kafka.access import calibrator_group
from stream_masker.service.kafka.clients import PropertyValue
from stream_masker.service.kafka.credentials import credentials
from stream_masker.service.kafka.reader import SINGLE_PARTITION

TICK_SECONDS = 0.25
"""The time between two ticks, and between two heartbeats of the process."""

SESSION_SECONDS, GROUP_HEARTBEAT_SECONDS, REBALANCE_SECONDS = 10.0, 2.0, 15.0
"""Seconds. The group removes a calibrator that died after ``SESSION_SECONDS``; another one then becomes active."""

WATCH_SECONDS = 0.5
STOP_SECONDS = 8.0
"""The time limit for stopping Faust, which waits for a broker to leave its group."""


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
