"""The Faust application: membership of the calibrator's group, and committed blocks in order.

Faust decides nothing here. It tells whether this process is the active calibrator, hands over the blocks of the
calibration topic and ticks; ``BlockListener`` does the rest, and rebuilds its state from the topics whenever it becomes
active. So what Faust acknowledges or forgets can neither lose nor repeat a block.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterable
from contextlib import suppress
from typing import Any, Protocol, cast

import faust
from faust.transport.drivers import aiokafka as driver
from faust.types import TP, AppT, EventT
from faust.types.transports import TransportT
from mode.threads import WorkerThread
from yarl import URL

from stream_masker.errors import ConfigurationError
from stream_masker.service.calibrator.credentials import faust_credentials
from stream_masker.service.configuration import Configuration
from stream_masker.service.kafka.topic_reader import SINGLE_PARTITION

TICK_SECONDS = 1.0
"""Seconds between two ticks."""

STREAM_BUFFER_BLOCKS = 64
"""Blocks that Faust may hold for the listener."""

LEAVE_GROUP_SECONDS = 4.0
"""Seconds in which the consumer may leave the group, and its thread end."""

SESSION, HEARTBEAT, REBALANCE = 10.0, 2.0, 15.0
"""Seconds: a calibrator that died is out of the group after ``SESSION``, and another one takes over."""


class BlockListener(Protocol):
    """What the application drives."""

    def assigned(self, *, active: bool) -> None:
        """Called after every change in the group: whether this process is the active calibrator."""

    def revoked(self) -> None:
        """Called before the group changes: until ``assigned`` is called, another process may be active."""

    async def deliver(self, offset: int, written: int, raw: bytes) -> None:
        """Takes a block; returns once it is taken, not once it is merged."""

    def tick(self) -> None:
        """Called about every ``TICK_SECONDS`` seconds."""

    def fail(self, error: BaseException) -> None:
        """Called when ``deliver`` raised: Faust would acknowledge the block and go on."""


class LeavingThread(WorkerThread):  # type: ignore[misc]
    """A thread that is waited for a while. Faust's own is waited for without end, by the event loop and at exit."""

    def __init__(self, service: Any, **named: Any) -> None:
        super().__init__(service, **named)
        self.daemon = True

    def stop(self) -> None:
        """Waits until the service has stopped, or for ``LEAVE_GROUP_SECONDS`` seconds."""
        self.is_stopped.wait(LEAVE_GROUP_SECONDS)


class CommittedThread(driver.AIOKafkaConsumerThread):  # type: ignore[misc]
    """A consumer thread that reads committed records only.

    Faust reads uncommitted ones unless its exactly_once mode is on, which has open loss and duplicate bugs. It gives
    no setting for the isolation level alone, so it is set on the consumer before that starts and makes its fetcher.
    """

    Worker = LeavingThread
    logger = logging.getLogger("faust.transport")

    def _create_worker_consumer(self, transport: driver.Transport) -> Any:
        consumer = super()._create_worker_consumer(transport)
        if not hasattr(consumer, "_isolation_level"):
            raise ConfigurationError("this release of aiokafka cannot be told to read committed records only")
        consumer._isolation_level = "read_committed"
        return consumer

    async def on_thread_stop(self) -> None:
        """Stops the consumer. With no broker left it may be cancelled by its own fetcher, fail to say good-bye, or
        never end: then it is left alone.
        """
        stopping = asyncio.ensure_future(super().on_thread_stop())
        done, _ = await asyncio.wait([stopping], timeout=LEAVE_GROUP_SECONDS)
        stopping.cancel()
        for task in done:
            with suppress(asyncio.CancelledError, driver.KafkaError):
                task.result()


class CommittedConsumer(driver.Consumer):  # type: ignore[misc]
    """A consumer with a ``CommittedThread``, of records that are taken one after the other, in their order.

    Then what lies before the last one taken is done with. Faust looks for offsets that were left out, and counts the
    record behind such a gap twice: as each transaction leaves one out, what it remembers, and what it has not
    committed, would grow for ever.
    """

    logger = logging.getLogger("faust.transport")

    def _new_offset(self, tp: TP) -> int | None:
        """The offset to commit: that behind the last record taken. None: no record has been since the last time."""
        taken = self._acked[tp]
        offset = max(taken) + 1 if taken else None
        taken.clear()
        self._acked_index[tp].clear()
        return offset

    async def _add_gap(self, tp: TP, offset_from: int, offset_to: int) -> None:
        """Gaps do not matter."""

    def _new_consumer_thread(self) -> CommittedThread:
        return CommittedThread(self, loop=self.loop, beacon=self.beacon)


class CommittedTransport(driver.Transport):  # type: ignore[misc]
    """A transport with a ``CommittedConsumer``."""

    Consumer = CommittedConsumer


class CalibratorApp(faust.App):  # type: ignore[misc]
    """An application that consumes only: no producer, no web server, nothing on disk."""

    logger = logging.getLogger("faust.app")

    class BootStrategy(faust.App.BootStrategy):  # type: ignore[misc]
        enable_kafka_producer = False
        enable_web = False

    def _new_transport(self) -> TransportT:
        return CommittedTransport(self.conf.broker_consumer, self)

    def _create_directories(self) -> None:
        """Makes none: there are no tables."""


def calibrator_group(configuration: Configuration) -> str:
    """The consumer group of all calibrators of one calibration topic: one of them is active."""
    return f"{configuration.topics.calibration}.calibrator"


def build_app(configuration: Configuration, listener: BlockListener) -> faust.App:
    """The application, not started. Raises ConfigurationError for Kafka properties that Faust has no match for."""
    app = CalibratorApp(
        calibrator_group(configuration),
        broker=[URL(f"kafka://{server.strip()}") for server in configuration.kafka.bootstrap_servers.split(",")],
        broker_credentials=faust_credentials(configuration.kafka.properties),
        broker_check_crcs=verifies_checksums(configuration),
        broker_client_id="stream-masker-calibrator",
        broker_heartbeat_interval=HEARTBEAT,
        broker_rebalance_timeout=REBALANCE,
        broker_session_timeout=SESSION,
        consumer_auto_offset_reset="earliest",
        store="memory://",
        stream_buffer_maxsize=STREAM_BUFFER_BLOCKS,
        topic_allow_declare=False,
        topic_disable_leader=True,
        web_enabled=False,
    )
    connect_listener(app, configuration.topics.calibration, listener)
    return app


def verifies_checksums(configuration: Configuration) -> bool:
    """Whether to check every batch's checksum: as librdkafka only if ``check.crcs`` says so. Brokers check them when
    they take a batch; librdkafka's own broker in memory keeps wrong ones of transactions.
    """
    return str(configuration.kafka.properties.get("check.crcs", False)).lower() == "true"


def connect_listener(app: faust.App, topic: str, listener: BlockListener) -> None:
    """Hands the application's assignment, blocks and ticks to the listener."""

    async def assigned(sender: AppT, assigned: set[TP], **kwargs: Any) -> None:
        listener.assigned(active=any(tp.topic == topic and tp.partition == SINGLE_PARTITION for tp in assigned))

    async def revoked(sender: AppT, revoked: set[TP], **kwargs: Any) -> None:
        listener.revoked()

    async def blocks(stream: faust.StreamT[bytes]) -> None:
        try:
            async for event in cast(AsyncIterable[EventT], stream.events()):
                await deliver(listener, event)
        except Exception as error:
            listener.fail(error)
            raise

    async def tick() -> None:
        listener.tick()

    app.on_partitions_assigned.connect(assigned, weak=False)
    app.on_partitions_revoked.connect(revoked, weak=False)
    channel = app.topic(topic, key_serializer="raw", value_serializer="raw")
    app.agent(channel, name="blocks")(blocks)
    app.timer(interval=TICK_SECONDS)(tick)


async def deliver(listener: BlockListener, event: EventT) -> None:
    """Hands a block over, unless it is on a partition that no block belongs on."""
    message = event.message
    if message.partition == SINGLE_PARTITION:
        await listener.deliver(message.offset, round(message.timestamp * 1000), message.value or b"")
