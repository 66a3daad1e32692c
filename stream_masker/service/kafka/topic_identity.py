"""The id of a topic, which tells it from an earlier topic of the same name."""

from __future__ import annotations

import logging
from typing import Any, Protocol

from confluent_kafka import TopicCollection, Uuid

from stream_masker.service.kafka.clients import confluent_properties
from stream_masker.service.kafka.connections import connect_admin
from stream_masker.service.masking import Masking

log = logging.getLogger(__name__)

ANSWER_SECONDS = 10.0
"""The timeout of one request."""

NO_TOPIC_ID = str(Uuid(0, 0))
"""The id of a topic that has none: brokers before Kafka 2.8 do not give ids."""


class TopicAdmin(Protocol):
    """The method of ``confluent_kafka.admin.AdminClient`` that is used here."""

    def describe_topics(self, topics: TopicCollection, *, request_timeout: float) -> Any: ...


def topic_identity(admin: TopicAdmin, topic: str) -> str:
    """Return a topic's id, or "" with a warning if the broker has none. Raises KafkaException."""
    described = admin.describe_topics(TopicCollection([topic]), request_timeout=ANSWER_SECONDS)
    identity = str(described[topic].result().topic_id)
    if identity != NO_TOPIC_ID:
        return identity
    log.warning("%s has no id: if it is deleted and created again, noise by position repeats", topic)
    return ""


def identified(masking: Masking) -> Masking:
    """Return the masking, which knows the input topic's id now if noise depends on it. Raises KafkaException."""
    if masking.needs_identity:
        topic = masking.configuration.topics.input
        admin = connect_admin(confluent_properties(masking.configuration))
        masking.identify(topic, topic_identity(admin, topic))
    return masking
