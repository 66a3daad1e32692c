"""Consumers and producers of librdkafka, made from properties; refused properties are configuration errors."""

from __future__ import annotations

import logging
from typing import Any, TypeAlias

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from stream_masker.errors import ConfigurationError

log = logging.getLogger("stream_masker.kafka")
log.addFilter(lambda record: "property and will be ignored" not in record.getMessage())
"""librdkafka's own log, without its remarks on properties that are for other kinds of clients."""

ClientProperties: TypeAlias = dict[str, Any]


def connect_consumer(properties: ClientProperties) -> Consumer:
    """Raises ConfigurationError for properties that librdkafka refuses."""
    return _made(Consumer, {"error_cb": _log_error, **properties})


def connect_producer(properties: ClientProperties) -> Producer:
    """A producer without delivery reports: a failed delivery fails its transaction, whose error names the topic.

    Raises ConfigurationError like the consumer.
    """
    return _made(Producer, {"error_cb": _log_error, **properties})


def _made(client: type[Any], properties: ClientProperties) -> Any:
    try:
        return client(properties, logger=log)
    except KafkaException as failure:
        raise ConfigurationError(f"kafka.properties cannot be used: {failure.args[0].str()}") from None


def _log_error(error: KafkaError) -> None:
    log.warning("%s", error.str())
