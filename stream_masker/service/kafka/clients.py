"""Kafka clients from the configuration: librdkafka properties as they are, and translated for kafka-python.

kafka-python is imported where its clients are created, so that workers start without it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from confluent_kafka import KafkaException

from stream_masker.errors import ConfigurationError, ServiceError
from stream_masker.service.configuration.model import Configuration
from stream_masker.service.configuration.sections import KafkaSection
from stream_masker.service.kafka.failures import require_broker
from stream_masker.service.kafka.oauth import ClientTokens
from stream_masker.service.kafka.tls import has_inline_certificates, ssl_context

if TYPE_CHECKING:
    from kafka import KafkaAdminClient, KafkaProducer
    from kafka.sasl.oauth import AbstractTokenProvider

log = logging.getLogger(__name__)

AnyClient = TypeVar("AnyClient")
PropertyValue: TypeAlias = str | bool | int | float

BROKER_PROBE_MS = 10_000
"""The time that a kafka-python client looks for a broker, in milliseconds."""


def confluent_properties(configuration: Configuration, **extra: PropertyValue) -> dict[str, Any]:
    """Return the properties of a confluent-kafka client: the configuration's, overridden by ``extra``.

    ``extra`` may use underscores instead of dots: ``group_id="x"`` is ``group.id``.
    """
    overrides = {name.replace("_", "."): value for name, value in extra.items()}
    servers = configuration.kafka.bootstrap_servers
    return {**configuration.kafka.properties, "bootstrap.servers": servers, **overrides}


class Transactional(Protocol):
    """The part of ``confluent_kafka.Producer`` that ``fatal_errors`` uses."""

    def begin_transaction(self) -> None: ...


@contextmanager
def fatal_errors(client: Transactional) -> Iterator[None]:
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


def _raise_fatal(client: Transactional) -> None:
    """Raise the client's fatal error, if it has one."""
    try:
        client.begin_transaction()
    except KafkaException as failure:
        if failure.args[0].fatal():
            raise


def kafka_python_arguments(kafka: KafkaSection, known: Mapping[str, Any]) -> dict[str, Any]:
    """Translate librdkafka properties to the arguments that a kafka-python client accepts.

    Properties without a counterpart are ignored and named in a debug log. Raises ConfigurationError for a value that
    cannot be parsed.
    """
    arguments: dict[str, Any] = {"bootstrap_servers": kafka.bootstrap_servers.split(",")}
    for name, value in kafka.properties.items():
        argument, parse = PROPERTY_TRANSLATIONS.get(name, ("", _text))
        if argument in known:
            arguments[argument] = _parsed(name, value, parse)
        else:
            log.debug("ignoring kafka.properties.%s: kafka-python's client has no counterpart", name)
    if has_inline_certificates(kafka.properties):
        arguments["ssl_context"] = ssl_context(kafka.properties)
    if arguments.get("sasl_mechanism") == "OAUTHBEARER":
        arguments["sasl_oauth_token_provider"] = _token_provider(kafka)
    return arguments


def _token_provider(kafka: KafkaSection) -> AbstractTokenProvider:
    from kafka.sasl.oauth import AbstractTokenProvider

    tokens = ClientTokens(kafka.properties)

    class Provider(AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return tokens.token()

        def extensions(self) -> dict[str, str]:
            return tokens.extensions

    return Provider()


def kafka_python_producer(configuration: Configuration, **defaults: Any) -> KafkaProducer:
    """Connect a producer for ``configuration.kafka``, whose properties override ``defaults``.

    Raises ServiceError if no broker is reachable, ConfigurationError for properties that cannot be used.
    """
    from kafka import KafkaProducer

    return _connected(KafkaProducer, configuration.kafka, defaults)


def kafka_python_admin(configuration: Configuration) -> KafkaAdminClient:
    """Connect an admin client for ``configuration.kafka``. Raises like ``kafka_python_producer``."""
    from kafka import KafkaAdminClient

    return _connected(KafkaAdminClient, configuration.kafka, {})


def _connected(client: Callable[..., AnyClient], kafka: KafkaSection, defaults: Mapping[str, Any]) -> AnyClient:
    from kafka.errors import KafkaConfigurationError, KafkaError

    arguments = kafka_python_arguments(kafka, client.DEFAULT_CONFIG)  # type: ignore[attr-defined]
    require_broker({**kafka.properties, "bootstrap.servers": kafka.bootstrap_servers})
    try:
        with _silenced("kafka"):  # kafka-python logs every failed attempt as an error, even if a later one succeeds
            return client(**{"api_version_auto_timeout_ms": BROKER_PROBE_MS, **defaults, **arguments})
    except (AssertionError, KafkaConfigurationError, ValueError, OSError) as error:
        raise ConfigurationError(f"kafka.properties cannot be used: {error}") from error
    except KafkaError as error:
        reason = type(error).__name__
        raise ServiceError(f"cannot connect to Kafka at {kafka.bootstrap_servers}: {reason}") from error


@contextmanager
def _silenced(name: str) -> Iterator[None]:
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def _parsed(name: str, value: PropertyValue, parse: Callable[[PropertyValue], Any]) -> Any:
    try:
        return parse(value)
    except ValueError:
        raise ConfigurationError(f"kafka.properties.{name} has a value of the wrong type") from None


def _text(value: PropertyValue) -> str:
    return str(value)


def _upper(value: PropertyValue) -> str:
    return str(value).upper()


def _integer(value: PropertyValue) -> int:
    return int(float(value))


def _flag(value: PropertyValue) -> bool:
    return str(value).lower() in {"true", "1", "t"}


def _codec(value: PropertyValue) -> str | None:
    return None if str(value).lower() == "none" else str(value).lower()


def _acks(value: PropertyValue) -> int | str:
    return "all" if str(value).lower() in {"all", "-1"} else int(value)


def _checks_name(value: PropertyValue) -> bool:
    return str(value).lower() == "https"


PROPERTY_TRANSLATIONS: Mapping[str, tuple[str, Callable[[PropertyValue], Any]]] = {
    "acks": ("acks", _acks),
    "batch.size": ("batch_size", _integer),
    "client.id": ("client_id", _text),
    "compression.codec": ("compression_type", _codec),
    "compression.type": ("compression_type", _codec),
    "connections.max.idle.ms": ("connections_max_idle_ms", _integer),
    "delivery.timeout.ms": ("delivery_timeout_ms", _integer),
    "enable.idempotence": ("enable_idempotence", _flag),
    "linger.ms": ("linger_ms", _integer),
    "message.max.bytes": ("max_request_size", _integer),
    "message.timeout.ms": ("delivery_timeout_ms", _integer),
    "metadata.max.age.ms": ("metadata_max_age_ms", _integer),
    "queue.buffering.max.ms": ("linger_ms", _integer),
    "reconnect.backoff.max.ms": ("reconnect_backoff_max_ms", _integer),
    "reconnect.backoff.ms": ("reconnect_backoff_ms", _integer),
    "request.required.acks": ("acks", _acks),
    "request.timeout.ms": ("request_timeout_ms", _integer),
    "retry.backoff.ms": ("retry_backoff_ms", _integer),
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
"""librdkafka properties, including aliases: the kafka-python argument and the parser of its value."""
