"""Clients from the configuration: librdkafka properties as they are, and translated for kafka-python.

kafka-python is imported where a client of it is made: workers start without it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from confluent_kafka import KafkaException

from stream_masker.errors import ConfigurationError, ServiceError
from stream_masker.service.configuration.model import Configuration, KafkaSection

if TYPE_CHECKING:
    from kafka import KafkaAdminClient, KafkaProducer

log = logging.getLogger(__name__)

AnyClient = TypeVar("AnyClient")
PropertyValue: TypeAlias = str | bool | int | float

PROBE_MS = 10_000
"""How long a kafka-python client looks for a broker, in milliseconds."""


def confluent_properties(configuration: Configuration, **extra: PropertyValue) -> dict[str, Any]:
    """The properties of a confluent-kafka client: the configuration's, and over them the caller's own.

    ``extra`` may be written with underscores: ``group_id="x"`` is ``group.id``.
    """
    own = {name.replace("_", "."): value for name, value in extra.items()}
    servers = configuration.kafka.bootstrap_servers
    return {**configuration.kafka.properties, "bootstrap.servers": servers, **own}


class Transactional(Protocol):
    """What is used of ``confluent_kafka.Producer``."""

    def begin_transaction(self) -> None: ...


@contextmanager
def fatal_errors(client: Transactional) -> Iterator[None]:
    """Where a client serves callbacks: raises its fatal error as the KafkaException that it is.

    confluent-kafka leaves that exception pending while it calls back for what comes at the same time, failed deliveries
    and log lines, whose Python code may clear it or raise over it: a SystemError is then all that is left. A client
    with a fatal error gives it again for whatever else is asked of its transactions.
    """
    try:
        yield
    except SystemError:
        _raise_fatal(client)
        raise


def _raise_fatal(client: Transactional) -> None:
    """Raises the fatal error of a client that has one."""
    try:
        client.begin_transaction()
    except KafkaException as failure:
        if failure.args[0].fatal():
            raise


def kafka_python_arguments(kafka: KafkaSection, known: Mapping[str, Any]) -> dict[str, Any]:
    """kafka-python's arguments for librdkafka properties; of those only what the client knows.

    Properties without a counterpart are left out; a debug log names them. Raises ConfigurationError for a value that
    cannot be read.
    """
    arguments = {"bootstrap_servers": kafka.bootstrap_servers.split(",")}
    for name, value in kafka.properties.items():
        argument, read = TRANSLATION.get(name, ("", _text))
        if argument in known:
            arguments[argument] = _reading(name, value, read)
        else:
            log.debug("kafka.properties.%s has no counterpart in kafka-python's client: left out", name)
    return arguments


def kafka_python_producer(configuration: Configuration, **defaults: Any) -> KafkaProducer:
    """A producer for ``configuration.kafka``, whose properties win over ``defaults``.

    Raises ServiceError when no broker answers, ConfigurationError for properties that cannot be used.
    """
    from kafka import KafkaProducer

    return _connected(KafkaProducer, configuration.kafka, defaults)


def kafka_python_admin(configuration: Configuration) -> KafkaAdminClient:
    """An admin client for ``configuration.kafka``. Raises like ``kafka_python_producer``."""
    from kafka import KafkaAdminClient

    return _connected(KafkaAdminClient, configuration.kafka, {})


def _connected(client: Callable[..., AnyClient], kafka: KafkaSection, defaults: Mapping[str, Any]) -> AnyClient:
    from kafka.errors import KafkaConfigurationError, KafkaError

    arguments = kafka_python_arguments(kafka, client.DEFAULT_CONFIG)  # type: ignore[attr-defined]
    try:
        with _unlogged("kafka"):  # every attempt is logged as an error; what counts is how it ends
            return client(**{"api_version_auto_timeout_ms": PROBE_MS, **defaults, **arguments})
    except (AssertionError, KafkaConfigurationError, ValueError, OSError) as error:
        raise ConfigurationError(f"kafka.properties cannot be used: {error}") from error
    except KafkaError as error:
        reason = type(error).__name__
        raise ServiceError(f"no connection to Kafka at {kafka.bootstrap_servers}: {reason}") from error


@contextmanager
def _unlogged(name: str) -> Iterator[None]:
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def _reading(name: str, value: PropertyValue, read: Callable[[PropertyValue], Any]) -> Any:
    try:
        return read(value)
    except ValueError:
        raise ConfigurationError(f"kafka.properties.{name} is of the wrong kind") from None


def _text(value: PropertyValue) -> str:
    return str(value)


def _upper(value: PropertyValue) -> str:
    return str(value).upper()


def _whole(value: PropertyValue) -> int:
    return int(float(value))


def _flag(value: PropertyValue) -> bool:
    return str(value).lower() in {"true", "1", "t"}


def _codec(value: PropertyValue) -> str | None:
    return None if str(value).lower() == "none" else str(value).lower()


def _acks(value: PropertyValue) -> int | str:
    return "all" if str(value).lower() in {"all", "-1"} else int(value)


def _checks_name(value: PropertyValue) -> bool:
    return str(value).lower() == "https"


TRANSLATION: Mapping[str, tuple[str, Callable[[PropertyValue], Any]]] = {
    "acks": ("acks", _acks),
    "batch.size": ("batch_size", _whole),
    "client.id": ("client_id", _text),
    "compression.codec": ("compression_type", _codec),
    "compression.type": ("compression_type", _codec),
    "connections.max.idle.ms": ("connections_max_idle_ms", _whole),
    "delivery.timeout.ms": ("delivery_timeout_ms", _whole),
    "enable.idempotence": ("enable_idempotence", _flag),
    "linger.ms": ("linger_ms", _whole),
    "message.max.bytes": ("max_request_size", _whole),
    "message.timeout.ms": ("delivery_timeout_ms", _whole),
    "metadata.max.age.ms": ("metadata_max_age_ms", _whole),
    "queue.buffering.max.ms": ("linger_ms", _whole),
    "reconnect.backoff.max.ms": ("reconnect_backoff_max_ms", _whole),
    "reconnect.backoff.ms": ("reconnect_backoff_ms", _whole),
    "request.required.acks": ("acks", _acks),
    "request.timeout.ms": ("request_timeout_ms", _whole),
    "retry.backoff.ms": ("retry_backoff_ms", _whole),
    "sasl.kerberos.service.name": ("sasl_kerberos_service_name", _text),
    "sasl.mechanism": ("sasl_mechanism", _upper),
    "sasl.mechanisms": ("sasl_mechanism", _upper),
    "sasl.password": ("sasl_plain_password", _text),
    "sasl.username": ("sasl_plain_username", _text),
    "security.protocol": ("security_protocol", _upper),
    "ssl.ca.location": ("ssl_cafile", _text),
    "ssl.certificate.location": ("ssl_certfile", _text),
    "ssl.cipher.suites": ("ssl_ciphers", _text),
    "ssl.crl.location": ("ssl_crlfile", _text),
    "ssl.endpoint.identification.algorithm": ("ssl_check_hostname", _checks_name),
    "ssl.key.location": ("ssl_keyfile", _text),
    "ssl.key.password": ("ssl_password", _text),
}
"""librdkafka's property: kafka-python's argument, and how its value is read. Also the aliases of librdkafka."""
