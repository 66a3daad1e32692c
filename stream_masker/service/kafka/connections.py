"""Construction of librdkafka clients; properties that librdkafka refuses are configuration errors."""

from __future__ import annotations

import logging
from typing import Any, TypeAlias

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from stream_masker.errors import ConfigurationError
from stream_masker.service.kafka.failures import explained
from stream_masker.service.observability.repeats import RepeatFilter

log = logging.getLogger("stream_masker.kafka")
log.addFilter(lambda record: "property and will be ignored" not in record.getMessage())
log.addFilter(RepeatFilter())
"""librdkafka's own log, without its warnings about properties that apply to other kinds of clients, and with one line
a minute for each cause."""

ClientProperties: TypeAlias = dict[str, Any]


def connect_consumer(properties: ClientProperties) -> Consumer:
    """Make a consumer. Raises ConfigurationError for properties that librdkafka refuses."""
    return _client(Consumer, {"error_cb": _log_error, **properties})


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
