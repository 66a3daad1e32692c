"""Clients of librdkafka from the configuration, and whether a broker answers them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeAlias, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from stream_masker.errors import ConfigurationError
from stream_masker.service.configuration.model import Configuration
from stream_masker.service.kafka.errors import (
    ALLOW,
    CHECK_ADDRESS,
    NoBrokerError,
    connection_problem,
    explained,
    is_refusal,
)
from stream_masker.service.observability.health import Health
from stream_masker.service.observability.logs import RepeatFilter

T = TypeVar("T")

log = logging.getLogger("stream_masker.kafka")
log.addFilter(lambda record: "property and will be ignored" not in record.getMessage())
log.addFilter(RepeatFilter())
"""librdkafka's own log, without its warnings about properties that apply to other kinds of clients, and with one line
a minute for each cause."""

ClientProperties: TypeAlias = dict[str, Any]
PropertyValue: TypeAlias = str | bool | int | float

BOUNDS: Final[ClientProperties] = {"queued.min.messages": 50, "fetch.queue.backoff.ms": 1}
"""The queue of a consumer. librdkafka counts only values for ``queued.max.messages.kbytes``, so that its default of
100,000 messages holds keys and headers of any size. A reader empties its queue faster than the default of one second
before a full queue is filled again."""

RETRY_PROPERTIES: Final = {"retry.backoff.ms": 500, "retry.backoff.max.ms": 1_000}
"""The delay before a producer sends a request again: the first one and its limit, because it doubles with each failure.
A commit that takes longer costs a new producer (``retry_delay``), so it is longer than librdkafka's 100 ms."""

OFFSETS_RETRY_MS = 500
"""The fixed delay after which librdkafka sends the offsets of a transaction again."""

RETRY_JITTER = 0.2
"""The share by which librdkafka varies the delay."""

RECONNECT_MS = 1_000
"""The default maximum pause before a client connects again. With librdkafka's default of ten seconds, a process would
resume long after a broker is back."""

PRODUCER_BYTES: Final = 1_000_000
"""librdkafka's default of ``message.max.bytes``: the maximum size of a message, and of a batch of messages."""

MAX_VERSION_BYTES: Final = 64 * 1024 * 1024
"""The largest statistics version, which is one message."""

COMMITTED_READS: Final[ClientProperties] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
}
"""The properties of every consumer: it reads committed records, reports the end of a partition, and commits
nothing by itself."""

BROKERS = "brokers"
"""The component of ``Health`` whose reason says that no broker answers."""

BROKER_RETRY_SECONDS = 2.0
"""Seconds between two attempts to reach a broker at the start."""

ANSWER_SECONDS = 2.0
"""Seconds in which a broker has to answer a request for metadata."""

WATCH_SECONDS = 1.0
LOST_REQUESTS = 2
"""The seconds between an answer and the next request of ``watched_brokers``, and the number of requests in a row
without an answer after which the process is not ready. A reconnection takes less."""

NO_TOPIC = "?"
"""A name that no topic can have, so that a request about it creates none, and needs no access to any."""


def confluent_properties(configuration: Configuration) -> ClientProperties:
    """Return the configured properties of a confluent-kafka client."""
    return {**configuration.kafka.properties, "bootstrap.servers": configuration.kafka.bootstrap_servers}


def check_properties(configuration: Configuration) -> None:
    """Raise ConfigurationError for properties that librdkafka does not know or accept."""
    connect_consumer({**confluent_properties(configuration), "group.id": "stream-masker.probe", "log_level": 0}).close()


def retry_delay(properties: ClientProperties) -> float:
    """Return the least seconds that a producer with these properties waits before it sends a request again."""
    backoff = (1 - RETRY_JITTER) * float(properties["retry.backoff.ms"])
    return min(backoff, float(properties["retry.backoff.max.ms"]), OFFSETS_RETRY_MS) / 1000


def connect_consumer(properties: ClientProperties) -> Consumer:
    """Make a consumer, whose queue is bounded. Raises ConfigurationError for properties that librdkafka refuses."""
    return _client(Consumer, {**BOUNDS, **properties})


def connect_producer(properties: ClientProperties) -> Producer:
    """Make a producer without delivery reports: a failed delivery fails its transaction, and the error names the topic.

    Raises ConfigurationError for properties that librdkafka refuses.
    """
    return _client(Producer, properties)


def _client(kind: type[Any], properties: ClientProperties) -> Any:
    try:
        return kind({"error_cb": _log_error, **properties}, logger=log)
    except KafkaException as failure:
        raise ConfigurationError(f"kafka.properties cannot be used: {failure.args[0].str()}") from None


def _log_error(error: KafkaError) -> None:
    log.warning("%s", explained(error))


@contextmanager
def fatal_errors(client: Producer) -> Iterator[None]:
    """Raise a client's fatal error as KafkaException while the client serves callbacks.

    confluent-kafka leaves the exception pending while it calls the callbacks for failed deliveries and log lines. Their
    Python code may clear or override it, and only a SystemError remains. A client with a fatal error reports it again
    on any later transactional call.
    """
    try:
        yield
    except SystemError:
        try:
            client.begin_transaction()
        except KafkaException as failure:
            if failure.args[0].fatal():
                raise
        raise


def require_broker(properties: ClientProperties, *, seconds: float = 10.0) -> None:
    """Raise ServiceError if no broker answers within some seconds, at once if it refuses the credentials.

    ``properties``: of a librdkafka client. NoBrokerError is raised if it may pass by itself, ConfigurationError for
    properties that librdkafka refuses.
    """
    causes: list[KafkaError] = []
    client, deadline = _probe(properties, causes.append), time.monotonic() + seconds
    while (failure := _unanswered(client)) is not None:
        refusals = [*filter(is_refusal, causes)]
        if refusals or time.monotonic() > deadline:
            others = (cause for cause in reversed(causes) if cause.code() != KafkaError._ALL_BROKERS_DOWN)
            raise connection_problem((*refusals, *others, failure)[0], properties)


def await_brokers(check: Callable[[], T], health: Health, pause: Callable[[float], bool]) -> T | None:
    """Return what ``check`` returns as soon as a broker answers; None when ``pause`` returns False.

    Meanwhile ``health`` has the reason. What will not pass by itself is raised.
    """
    while True:
        try:
            found = check()
        except NoBrokerError as error:
            reason = str(error)
        except KafkaException as failure:
            if is_refusal(failure.args[0], ALLOW):
                raise
            reason = f"no broker answers: {explained(failure.args[0])}"
        else:
            health.reason(BROKERS, None)
            return found
        log.warning("%s; trying again", reason)
        health.reason(BROKERS, reason)
        if not pause(BROKER_RETRY_SECONDS):
            return None


@contextmanager
def watched_brokers(configuration: Configuration, health: Health) -> Iterator[None]:
    """Report in ``health`` whether a broker answers, from a small request at intervals on a thread.

    The state of a connection does not tell: that to a broker that hangs stays open, and librdkafka gives up a request
    only after ``socket.timeout.ms``, which is a minute by default. Raises ConfigurationError for properties that
    librdkafka refuses.
    """
    client, stop = _probe(confluent_properties(configuration), lambda _: None), threading.Event()
    reason = f"no broker answers at {configuration.kafka.bootstrap_servers}: {CHECK_ADDRESS}"

    def watch() -> None:
        lost = 0
        while not stop.wait(WATCH_SECONDS):
            lost = 0 if _unanswered(client) is None else lost + 1
            health.reason(BROKERS, reason if lost >= LOST_REQUESTS else None)

    thread = threading.Thread(target=watch, name="brokers", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(ANSWER_SECONDS)


def _probe(properties: ClientProperties, on_error: Callable[[KafkaError], None]) -> AdminClient:
    """Return a client that logs nothing."""
    client: AdminClient = _client(AdminClient, {**properties, "log_level": 0, "error_cb": on_error})
    return client


def _unanswered(client: AdminClient) -> KafkaError | None:
    """Request metadata from any broker and serve the callbacks; return the error if none answers in time.

    Other requests wait for the controller, which not every cluster names.
    """
    try:
        client.list_topics(NO_TOPIC, timeout=ANSWER_SECONDS)
    except KafkaException as failure:
        error: KafkaError = failure.args[0]
        return error
    finally:
        client.poll(0)
    return None
