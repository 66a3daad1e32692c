"""Clients from the configuration, their groups and transactional ids, and whether a broker answers them.

All clients are librdkafka's, except two: kafka-python creates topics, and Faust runs the calibrator. ``credentials``
translates the properties for these.
"""

from __future__ import annotations

import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import orjson
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from stream_masker.errors import ConfigurationError
from stream_masker.service.configuration.model import Configuration
from stream_masker.service.configuration.service import TopicsSection
from stream_masker.service.kafka.errors import connection_problem, explained, is_refusal

log = logging.getLogger("stream_masker.kafka")
log.addFilter(lambda record: "property and will be ignored" not in record.getMessage())
"""librdkafka's own log, without its warnings about properties that apply to other kinds of clients."""

ClientProperties: TypeAlias = dict[str, Any]
PropertyValue: TypeAlias = str | bool | int | float

CONSUMER_DEFAULTS: Final[ClientProperties] = {"queued.min.messages": 50, "fetch.queue.backoff.ms": 1}
"""The queue of a consumer. librdkafka counts only values for ``queued.max.messages.kbytes``, so that its default of
100,000 messages holds keys and headers of any size. A reader empties its queue faster than the default of one second
before a full queue is filled again."""

COMMITTED_READS: Final[ClientProperties] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
}
"""What no property overrides: a consumer reads committed records, reports the end of a partition, and commits nothing
by itself."""

RETRY_PROPERTIES: Final = {"retry.backoff.ms": 500, "retry.backoff.max.ms": 1_000}
"""The delay before a transactional producer sends a request again: the first one and its limit, because it doubles with
each failure. No property overrides it, because ``SENT_ONCE_SECONDS`` depends on it."""

SENT_ONCE_SECONDS: Final = 0.4
"""A transactional request that is answered sooner was sent once: librdkafka varies the delay by a fifth, and sends the
offsets of a transaction again after half a second, whatever the properties are. A commit that takes longer costs a new
producer, so the delay is longer than librdkafka's default of 100 ms."""

RECONNECT_MS = 1_000
"""The default maximum pause before a client connects again. With librdkafka's default of ten seconds, a process would
resume long after a broker is back."""

PRODUCER_BYTES: Final = 1_000_000
"""librdkafka's default of ``message.max.bytes``: the maximum size of a message, and of a batch of messages."""

MAX_VERSION_BYTES: Final = 64 * 1024 * 1024
"""The largest statistics version, which is one message."""

WORKER_TRANSACTION_MS = 20_000
"""The default transaction timeout: committed readers wait at most this long for the transaction of a dead worker."""

BATCH_BYTES = 16_777_216
"""The greatest size of the keys, values and headers of a batch, beyond its last read, and of a group. It is also the
default size of a broker's response, which stands in memory once more while it is read."""

WATCH_MS = 10_000
"""The time between two looks whether a consumer knows a broker."""

ANSWER_SECONDS = 2.0
"""Seconds in which a broker has to answer a request for metadata."""

READER_GROUP = "stream-masker-reader"
"""The name that consumers of single partitions give as their group; they join none."""

NO_TOPIC = "?"
"""A name that no topic can have, so that a request about it creates none, and needs no access to any."""


def confluent_properties(configuration: Configuration) -> ClientProperties:
    """Return the configured properties of a confluent-kafka client."""
    section = configuration.kafka
    default = {"reconnect.backoff.max.ms": RECONNECT_MS}
    return {**default, **section.properties, "bootstrap.servers": section.bootstrap_servers}


def consumer_group_id(configuration: Configuration) -> str:
    """Return the consumer group of all workers of one input: ``group.id`` if configured, else a name of its own."""
    return str(configuration.kafka.properties.get("group.id", f"stream-masker.{configuration.topics.input}"))


def calibrator_group(configuration: Configuration) -> str:
    """Return the consumer group of all calibrators of a calibration topic; one member is active."""
    return f"{configuration.topics.calibration}.calibrator"


def publisher_id(topics: TopicsSection) -> str:
    """Return the transactional id that all publishers of a statistics topic share."""
    return f"{topics.statistics}.publisher"


def transactional_id(configuration: Configuration) -> str:
    """Return the id of this worker's producer: the group, and the worker's instance.

    The instance is ``worker.instance``, or the host's name and the native id of the calling thread, which on the main
    thread is the process id. A worker that restarts with the same id completes or aborts its open transaction at once.
    Two workers must never share an id.
    """
    instance = configuration.worker.instance or f"{socket.gethostname()}-{threading.get_native_id()}"
    return f"{consumer_group_id(configuration)}.{instance}"


def input_properties(configuration: Configuration) -> ClientProperties:
    """Return the properties of the input's consumer: it reads committed records and commits no offsets itself.

    A partition is never reset by the client: the worker chooses where it is read on, and counts what was deleted. The
    classic protocol uses the incremental assignor; that of KIP-848 is always incremental.
    """
    group = consumer_group_id(configuration)
    properties = {**confluent_properties(configuration), "group.id": group, "auto.offset.reset": "error"}
    kip_848 = str(properties.get("group.protocol", "")).lower() == "consumer"
    return {
        "queued.max.messages.kbytes": 2 * BATCH_BYTES // 1024,
        "fetch.max.bytes": max(BATCH_BYTES, int(properties.get("message.max.bytes", 0))),
        **properties,
        **({} if kip_848 else {"partition.assignment.strategy": "cooperative-sticky"}),
    }


def output_properties(configuration: Configuration, transactional_id: str) -> ClientProperties:
    """Return the properties of a worker's producer. Its queue has no limits: it holds one batch at a time."""
    return {
        "transaction.timeout.ms": WORKER_TRANSACTION_MS,
        "compression.type": "lz4",
        "linger.ms": 5,
        **confluent_properties(configuration),
        "transactional.id": transactional_id,
        "enable.idempotence": True,
        "queue.buffering.max.messages": 0,
        "queue.buffering.max.kbytes": 2**31 - 1,
    }


def check_properties(configuration: Configuration) -> None:
    """Raise ConfigurationError for properties that librdkafka does not know or accept; no broker need be there."""
    silent = {"group.id": "stream-masker.probe", "log_level": 0, "error_cb": lambda _: None}
    connect_consumer({**confluent_properties(configuration), **silent}).close()


def connect_consumer(properties: ClientProperties, on_lost: Callable[[], object] = lambda: None) -> Consumer:
    """Make a consumer of committed records, whose queue is bounded.

    ``on_lost`` is called, while the consumer is read, if it knows no broker any more, and must be replaced: librdkafka
    forgets brokers that are not in the answer of one that stops or starts, and may be left with none, for good. Raises
    ConfigurationError for properties that librdkafka refuses.
    """
    watch = {"statistics.interval.ms": WATCH_MS, "stats_cb": lambda text: knows_no_broker(text) and on_lost()}
    return _client(Consumer, {**CONSUMER_DEFAULTS, **properties, **COMMITTED_READS, **watch})


def knows_no_broker(statistics: str) -> bool:
    """Return whether a client's statistics, in librdkafka's JSON, name no broker that it was given or has learned."""
    return not any(one["source"] in {"configured", "learned"} for one in orjson.loads(statistics)["brokers"].values())


def connect_producer(properties: ClientProperties) -> Producer:
    """Make a producer. A failed delivery fails its transaction; without one, ask for delivery reports.

    Raises ConfigurationError for properties that librdkafka refuses.
    """
    return _client(Producer, {**properties, **RETRY_PROPERTIES} if "transactional.id" in properties else properties)


def _client(kind: type[Any], properties: ClientProperties) -> Any:
    try:
        return kind({"error_cb": lambda error: log.warning("%s", explained(error)), **properties}, logger=log)
    except KafkaException as failure:
        raise ConfigurationError(f"kafka.properties cannot be used: {failure.args[0].str()}") from None


def fatal_error(client: Producer, failure: SystemError) -> KafkaException:
    """Return a client's fatal error, after a call that ended with a SystemError; raise this if there is none.

    confluent-kafka leaves the exception pending while it calls the callbacks for failed deliveries and log lines. Their
    Python code may clear or override it, and only a SystemError remains. A client with a fatal error reports it again
    on any later transactional call.
    """
    try:
        client.begin_transaction()
    except KafkaException as fatal:
        if fatal.args[0].fatal():
            return fatal
    raise failure


def require_broker(properties: ClientProperties, *, seconds: float = 10.0) -> None:
    """Raise ServiceError if no broker answers within some seconds, at once if it refuses the credentials.

    ``properties``: of a librdkafka client. NoBrokerError is raised if it may pass by itself, ConfigurationError for
    properties that librdkafka refuses. A broker answers if it sends metadata: other requests wait for the controller,
    which not every cluster names.
    """
    causes: list[KafkaError] = []
    client = _client(AdminClient, {**properties, "log_level": 0, "error_cb": causes.append})
    deadline = time.monotonic() + seconds
    while True:
        try:
            client.list_topics(NO_TOPIC, timeout=ANSWER_SECONDS)
        except KafkaException as failure:
            client.poll(0)
            refusals = [*filter(is_refusal, causes)]
            if refusals or time.monotonic() > deadline:
                others = (cause for cause in reversed(causes) if cause.code() != KafkaError._ALL_BROKERS_DOWN)
                first = (*refusals, *others, failure.args[0])[0]
                raise connection_problem(first, properties["bootstrap.servers"]) from None
        else:
            return


MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
LIBRDKAFKA_ONLY: Final = ("ssl.certificate.pem", "ssl.key.pem", "ssl.keystore.location", "ssl.crl.location")


def credentials(properties: Mapping[str, PropertyValue]) -> dict[str, Any]:
    """Return the credentials of ``security.protocol``, ``sasl.*`` and ``ssl.*`` as arguments of kafka-python's clients.

    Raises ConfigurationError, without anything of a secret, for a mechanism, a certificate or a key that cannot be
    used, and for properties that have no effect here.
    """
    text = {name: str(value) for name, value in properties.items()}
    protocol = text.get("security.protocol", "PLAINTEXT").upper()
    found = {"security_protocol": protocol, "ssl_context": _ssl_context(text) if protocol.endswith("SSL") else None}
    if not protocol.startswith("SASL"):
        return found
    mechanism = text.get("sasl.mechanism", text.get("sasl.mechanisms", "GSSAPI")).upper()
    if mechanism not in MECHANISMS:
        raise ConfigurationError(f"kafka.properties.sasl.mechanism is {mechanism}; use {', '.join(MECHANISMS)}")
    user, password = text.get("sasl.username", ""), text.get("sasl.password", "")
    return {**found, "sasl_mechanism": mechanism, "sasl_plain_username": user, "sasl_plain_password": password}


def _ssl_context(text: Mapping[str, str]) -> ssl.SSLContext:
    """Return the context for ``ssl.*``. Certificates and host names are verified unless the properties disable it."""
    for name in text.keys() & LIBRDKAFKA_ONLY:
        raise ConfigurationError(f"kafka.properties.{name} is supported by librdkafka only: use files of PEM")
    try:
        context = ssl.create_default_context(cafile=text.get("ssl.ca.location"), cadata=text.get("ssl.ca.pem"))
        if (certificate := text.get("ssl.certificate.location")) is not None:
            # Without a password, OpenSSL would ask the terminal for that of an encrypted key.
            context.load_cert_chain(certificate, text.get("ssl.key.location"), text.get("ssl.key.password", ""))
    except (OSError, ValueError, TypeError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise ConfigurationError(f"kafka.properties: a certificate or key of ssl.* cannot be used: {reason}") from None
    is_verified = text.get("enable.ssl.certificate.verification", "true").lower() == "true"
    context.check_hostname = is_verified and text.get("ssl.endpoint.identification.algorithm", "https") == "https"
    context.verify_mode = ssl.CERT_REQUIRED if is_verified else ssl.CERT_NONE
    return context
