"""Clients of librdkafka from the configuration; properties that it refuses are configuration errors."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from stream_masker.errors import ConfigurationError
from stream_masker.service.configuration.model import Configuration
from stream_masker.service.kafka.failures import explained
from stream_masker.service.observability.logs import RepeatFilter

log = logging.getLogger("stream_masker.kafka")
log.addFilter(lambda record: "property and will be ignored" not in record.getMessage())
log.addFilter(RepeatFilter())
"""librdkafka's own log, without its warnings about properties that apply to other kinds of clients, and with one line
a minute for each cause."""

ClientProperties: TypeAlias = dict[str, Any]
PropertyValue: TypeAlias = str | bool | int | float

QUEUED_MESSAGES = 50
"""The default number of messages with which the consumer's queue is full. librdkafka counts only their values for
``queued.max.messages.kbytes``, so that its default of 100,000 holds keys and headers of any size."""

FETCH_BACKOFF_MS = 1
"""The default delay before a consumer with a full queue fetches again. A reader empties its queue faster
than librdkafka's default of one second."""

RETRY_BACKOFF_MS = 500
"""The default delay before a producer sends a request again. A commit that takes longer costs a new producer
(``retry_delay``), so the delay is longer than librdkafka's default of 100 ms."""

LONGEST_RETRY_BACKOFF_MS = 1_000
"""librdkafka's default limit of this delay, which doubles with each failure."""

RETRY_PROPERTIES: Final = {"retry.backoff.ms": RETRY_BACKOFF_MS, "retry.backoff.max.ms": LONGEST_RETRY_BACKOFF_MS}

OFFSETS_RETRY_MS = 500
"""The fixed delay after which librdkafka sends the offsets of a transaction again."""

RETRY_JITTER = 0.2
"""The share by which librdkafka varies the delay."""


COMMITTED_READS: Final[ClientProperties] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
}
"""The properties of every consumer: it reads committed records, reports the end of a partition, and commits
nothing by itself."""


def confluent_properties(configuration: Configuration, **extra: PropertyValue) -> dict[str, Any]:
    """Return the properties of a confluent-kafka client: the configuration's, overridden by ``extra``.

    ``extra`` may use underscores instead of dots: ``group_id="x"`` is ``group.id``.
    """
    overrides = {name.replace("_", "."): value for name, value in extra.items()}
    servers = configuration.kafka.bootstrap_servers
    return {**configuration.kafka.properties, "bootstrap.servers": servers, **overrides}


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
        _raise_fatal(client)
        raise


def _raise_fatal(client: Producer) -> None:
    """Raise the client's fatal error, if it has one."""
    try:
        client.begin_transaction()
    except KafkaException as failure:
        if failure.args[0].fatal():
            raise


def connect_consumer(properties: ClientProperties) -> Consumer:
    """Make a consumer, whose queue is bounded. Raises ConfigurationError for properties that librdkafka refuses."""
    bounds = {"queued.min.messages": QUEUED_MESSAGES, "fetch.queue.backoff.ms": FETCH_BACKOFF_MS}
    return _client(Consumer, {"error_cb": _log_error, **bounds, **properties})


def connect_producer(properties: ClientProperties) -> Producer:
    """Make a producer without delivery reports: a failed delivery fails its transaction, and the error names the topic.

    Raises ConfigurationError for properties that librdkafka refuses.
    """
    return _client(Producer, {"error_cb": _log_error, **properties})


def connect_admin(properties: ClientProperties) -> AdminClient:
    """Make an admin client. Raises ConfigurationError for properties that librdkafka refuses."""
    client: AdminClient = _client(AdminClient, {"error_cb": _log_error, **properties})
    return client


def _client(kind: type[Any], properties: ClientProperties) -> Any:
    try:
        return kind(properties, logger=log)
    except KafkaException as failure:
        raise ConfigurationError(f"kafka.properties cannot be used: {failure.args[0].str()}") from None


def _log_error(error: KafkaError) -> None:
    log.warning("%s", explained(error))


def retry_delay(properties: ClientProperties) -> float:
    """Return the least seconds that a producer with these properties waits before it sends a request again."""
    backoff = (1 - RETRY_JITTER) * float(properties["retry.backoff.ms"])
    return min(backoff, float(properties["retry.backoff.max.ms"]), OFFSETS_RETRY_MS) / 1000


REFRESH_PROPERTY = "topic.metadata.refresh.interval.ms"
"""The property of ``kafka.properties`` that sets how often topics are looked at, as in Kafka's own clients."""

REFRESH_MS = 30_000
"""Its default, in milliseconds."""


def refresh_seconds(properties: Mapping[str, object], default: int = REFRESH_MS) -> float:
    """Return the seconds between two requests about topics; ``default``: in milliseconds."""
    return float(str(properties.get(REFRESH_PROPERTY, default))) / 1000
