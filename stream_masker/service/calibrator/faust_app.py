"""The Faust application: membership in the calibrator's group and ordered delivery of committed blocks.

The application makes no decisions. It reports whether this process is the active calibrator, delivers the blocks of the
calibration topic, and ticks. The ``CalibratorEngine`` does the rest and rebuilds its state from the topics whenever it
becomes active, so nothing that Faust acknowledges or forgets can lose or repeat a block.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterable, Callable, Mapping
from contextlib import suppress
from typing import Any, cast

import faust
from aiokafka.abc import AbstractTokenProvider
from faust.auth import OAuthCredentials, SASLCredentials, SSLCredentials
from faust.tables import TableManager
from faust.transport.drivers import aiokafka as driver
from faust.types import TP, AppT, EventT
from faust.types.auth import CredentialsT
from faust.types.transports import TransportT
from mode.threads import WorkerThread
from yarl import URL

from stream_masker.errors import ConfigurationError, ServiceError
from stream_masker.service.calibrator.engine import CalibratorEngine
from stream_masker.service.configuration import Configuration
from stream_masker.service.kafka.clients import PropertyValue, refresh_seconds
from stream_masker.service.kafka.credentials import ClientTokens, ssl_context
from stream_masker.service.kafka.names import calibrator_group
from stream_masker.service.kafka.topic_reader import SINGLE_PARTITION
from stream_masker.service.observability.logs import RepeatFilter

log = logging.getLogger(__name__)

NOISY_LOGGERS = ("faust", "mode", "asyncio", "aiokafka")
"""Loggers whose debug records contain whole messages, so debug level is never enabled for them."""

FAUST_CLIENT_LOGGER = "aiokafka"
"""The logger of Faust's Kafka client."""


def limit_client_logs() -> None:
    """Reduce the logs of Faust and the Kafka clients to what users can act on; with debug logs, keep more of them.

    The calibrator logs crashes of Faust itself.
    """
    debug = log.isEnabledFor(logging.DEBUG)
    for name in NOISY_LOGGERS:
        logging.getLogger(name).setLevel(logging.INFO if debug else logging.CRITICAL)
    if not debug:
        client = logging.getLogger(FAUST_CLIENT_LOGGER)
        client.setLevel(logging.ERROR)
        client.handlers, client.propagate = [RelayHandler(RepeatFilter())], False


class RelayHandler(logging.Handler):
    """Logs the records that pass a filter as warnings of this module, without tracebacks."""

    def __init__(self, passes: Callable[[logging.LogRecord], bool]) -> None:
        super().__init__()
        self.addFilter(passes)

    def emit(self, record: logging.LogRecord) -> None:
        log.warning("Kafka: %s", record.getMessage())


SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SASL_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")

KafkaProperties = Mapping[str, PropertyValue]


def faust_credentials(properties: KafkaProperties) -> CredentialsT | None:
    """Return the credentials for ``security.protocol`` and its related properties; None for plaintext.

    Raises ConfigurationError for a protocol or mechanism that Faust does not support, or an unreadable certificate.
    """
    protocol = _one_of(
        "security.protocol", str(properties.get("security.protocol", "PLAINTEXT")).upper(), SECURITY_PROTOCOLS
    )
    context = ssl_context(properties) if protocol.endswith("SSL") else None
    if protocol.startswith("SASL"):
        return _sasl(properties, context)
    return None if context is None else SSLCredentials(context)


def _sasl(properties: KafkaProperties, context: ssl.SSLContext | None) -> CredentialsT:
    given = properties.get("sasl.mechanism", properties.get("sasl.mechanisms", "PLAIN"))
    mechanism = _one_of("sasl.mechanism", str(given).upper(), SASL_MECHANISMS)
    if mechanism == "OAUTHBEARER":
        return OAuthCredentials(oauth_cb=_Tokens(properties), ssl_context=context)
    return SASLCredentials(
        username=str(properties.get("sasl.username", "")),
        password=str(properties.get("sasl.password", "")),
        ssl_context=context,
        mechanism=mechanism,
    )


class _Tokens(AbstractTokenProvider):  # type: ignore[misc]
    """The tokens of OAUTHBEARER in the form that aiokafka takes.

    Its client tries to connect again after an OSError.
    """

    def __init__(self, properties: KafkaProperties) -> None:
        self._tokens = ClientTokens(properties)

    async def token(self) -> str:
        try:
            return await asyncio.to_thread(self._tokens.token)
        except ServiceError as error:
            raise ConnectionError(str(error)) from None

    def extensions(self) -> dict[str, str]:
        return self._tokens.extensions


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise ConfigurationError(
            f"kafka.properties.{name} is not supported by the calibrator: use one of {', '.join(allowed)}"
        )
    return value


TICK_SECONDS = 1.0
"""The time between two ticks."""

STREAM_BUFFER_BLOCKS = 64
"""The maximum number of blocks that Faust buffers for the listener."""

LEAVE_GROUP_SECONDS = 4.0
"""The time limit for leaving the group and ending the consumer's thread."""

SESSION_SECONDS, GROUP_HEARTBEAT_SECONDS, REBALANCE_SECONDS = 10.0, 2.0, 15.0
"""Seconds. The group removes a calibrator that died after ``SESSION_SECONDS``; another one then becomes active."""


class BoundedStopThread(WorkerThread):  # type: ignore[misc]
    """A daemon thread that is joined with a time limit; Faust joins its own threads without one."""

    def __init__(self, service: Any, **options: Any) -> None:
        super().__init__(service, **options)
        self.daemon = True

    def stop(self) -> None:
        """Wait until the service has stopped, at most ``LEAVE_GROUP_SECONDS`` seconds."""
        self.is_stopped.wait(LEAVE_GROUP_SECONDS)


class CommittedThread(driver.AIOKafkaConsumerThread):  # type: ignore[misc]
    """A consumer thread that reads only committed records.

    Faust reads uncommitted records unless its exactly_once mode is on, which has open loss and duplicate bugs. There is
    no separate setting for the isolation level, so it is set on the consumer before the consumer creates its fetcher.
    """

    Worker = BoundedStopThread
    logger = logging.getLogger("faust.transport")

    def _create_worker_consumer(self, transport: driver.Transport) -> Any:
        consumer = super()._create_worker_consumer(transport)
        if not hasattr(consumer, "_isolation_level"):
            raise ConfigurationError(
                "this release of aiokafka has no isolation level that can be set to read_committed"
            )
        consumer._isolation_level = "read_committed"
        return consumer

    async def on_thread_stop(self) -> None:
        """Stop the consumer within ``LEAVE_GROUP_SECONDS`` seconds, otherwise abandon it.

        Without a broker, its fetcher may cancel it, its leave request may fail, or it may never end.
        """
        stopping = asyncio.ensure_future(super().on_thread_stop())
        done, _ = await asyncio.wait([stopping], timeout=LEAVE_GROUP_SECONDS)
        stopping.cancel()
        for task in done:
            with suppress(asyncio.CancelledError, driver.KafkaError):
                task.result()


class CommittedConsumer(driver.Consumer):  # type: ignore[misc]
    """A consumer with a ``CommittedThread`` whose records are processed one by one, in order.

    Every offset before the last processed one is therefore done. Faust instead tracks gaps between offsets and counts
    the record after a gap twice. Each transaction leaves a gap, so its list of acknowledged offsets, and the number of
    uncommitted ones, would grow without bound.
    """

    logger = logging.getLogger("faust.transport")

    def _new_offset(self, tp: TP) -> int | None:
        """Return the offset to commit, after the last processed record; None if there is none since the last commit."""
        processed = self._acked[tp]
        offset = max(processed) + 1 if processed else None
        processed.clear()
        self._acked_index[tp].clear()
        return offset

    async def _add_gap(self, tp: TP, offset_from: int, offset_to: int) -> None:
        """Ignore gaps."""

    def _new_consumer_thread(self) -> CommittedThread:
        return CommittedThread(self, loop=self.loop, beacon=self.beacon)


class CommittedTransport(driver.Transport):  # type: ignore[misc]
    """A transport that uses ``CommittedConsumer``."""

    Consumer = CommittedConsumer


class EmptyTableManager(TableManager):  # type: ignore[misc]
    """The manager of no tables: it starts at once. Faust's own waits a second for tables to be registered."""

    async def on_start(self) -> None:
        """Start the recovery, which resumes the consumer after each assignment."""
        await self._update_channels()
        await self.recovery.start()


class CalibratorApp(faust.App):  # type: ignore[misc]
    """A consume-only application: no producer, no web server, no files."""

    logger = logging.getLogger("faust.app")

    class BootStrategy(faust.App.BootStrategy):  # type: ignore[misc]
        enable_kafka_producer = False
        enable_web = False

    def _new_transport(self) -> TransportT:
        return CommittedTransport(self.conf.broker_consumer, self)

    def _create_directories(self) -> None:
        """Create no directories: there are no tables."""


def build_app(configuration: Configuration, listener: CalibratorEngine) -> faust.App:
    """Build the application without starting it. Raises ConfigurationError for unsupported Kafka properties."""
    app = CalibratorApp(
        calibrator_group(configuration),
        broker=[URL(f"kafka://{server.strip()}") for server in configuration.kafka.bootstrap_servers.split(",")],
        broker_credentials=faust_credentials(configuration.kafka.properties),
        broker_check_crcs=verifies_checksums(configuration),
        broker_client_id="stream-masker-calibrator",
        broker_heartbeat_interval=GROUP_HEARTBEAT_SECONDS,
        broker_rebalance_timeout=REBALANCE_SECONDS,
        broker_session_timeout=SESSION_SECONDS,
        consumer_auto_offset_reset="earliest",
        consumer_metadata_max_age_ms=round(1000 * refresh_seconds(configuration.kafka.properties)),
        TableManager=EmptyTableManager,
        store="memory://",
        stream_buffer_maxsize=STREAM_BUFFER_BLOCKS,
        topic_allow_declare=False,
        topic_disable_leader=True,
        web_enabled=False,
    )
    connect_listener(app, configuration.topics.calibration, listener)
    return app


def verifies_checksums(configuration: Configuration) -> bool:
    """Whether checksums of batches are verified: like librdkafka, only if ``check.crcs`` is set.

    Brokers verify them when they accept a batch. librdkafka's in-memory broker stores wrong ones in transactions.
    """
    return str(configuration.kafka.properties.get("check.crcs", False)).lower() == "true"


def connect_listener(app: faust.App, topic: str, listener: CalibratorEngine) -> None:
    """Connect the application's assignments, blocks and ticks to the listener."""

    async def assigned(sender: AppT, assigned: set[TP], **kwargs: Any) -> None:
        listener.assigned(active=any(tp.topic == topic and tp.partition == SINGLE_PARTITION for tp in assigned))

    async def revoked(sender: AppT, revoked: set[TP], **kwargs: Any) -> None:
        listener.revoked()

    async def blocks(stream: faust.StreamT[bytes]) -> None:
        try:
            async for event in cast(AsyncIterable[EventT], stream.events()):
                await deliver_event(listener, event)
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


async def deliver_event(listener: CalibratorEngine, event: EventT) -> None:
    """Deliver a block to the listener; ignores all partitions except the single one of the calibration topic."""
    message = event.message
    if message.partition == SINGLE_PARTITION:
        await listener.deliver(message.offset, round(message.timestamp * 1000), message.key, message.value or b"")
