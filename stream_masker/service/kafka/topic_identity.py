"""The id of a topic, which distinguishes it from an earlier topic of the same name."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from confluent_kafka import KafkaError, KafkaException, TopicCollection, Uuid
from confluent_kafka.admin import AdminClient

from stream_masker.service.configuration.model import Configuration
from stream_masker.service.kafka.clients import confluent_properties, connect_admin, refresh_seconds
from stream_masker.service.kafka.failures import explained, require_controller

log = logging.getLogger(__name__)

ANSWER_SECONDS = 10.0
"""The timeout of one request."""

NO_TOPIC_ID = str(Uuid(0, 0))
"""The id of a topic that has none: brokers before Kafka 2.8 do not give ids."""


def topic_identities(admin: AdminClient, topics: Sequence[str]) -> dict[str, str]:
    """Return the topics' ids, "" with a warning for one without. Raises KafkaException."""
    if not topics:
        return {}
    require_controller(admin, seconds=ANSWER_SECONDS)
    described = admin.describe_topics(TopicCollection([*topics]), request_timeout=ANSWER_SECONDS)
    identities = {topic: str(answer.result().topic_id) for topic, answer in described.items()}
    for topic in [topic for topic, identity in identities.items() if identity == NO_TOPIC_ID]:
        log.warning("%s has no id: if it is deleted and created again, noise by position repeats", topic)
        identities[topic] = ""
    return identities


def known_identities(admin: AdminClient, topic: str) -> dict[str, str]:
    """Return the id of a topic; nothing if it does not exist, so that its last records keep the id that they had.

    Raises KafkaException.
    """
    try:
        return topic_identities(admin, [topic])
    except KafkaException as failure:
        if failure.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise
        return {}


class TopicWatch:
    """Compares the id of a topic with the one before; ``every``: seconds between two requests.

    ``request`` returns the id, None while the topic does not exist. It may raise KafkaException.
    """

    def __init__(
        self, request: Callable[[], str | None], *, every: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._request = request
        self._every = every
        self._clock = clock
        self._next = clock()
        self._identity: str | None = None

    @classmethod
    def of(cls, configuration: Configuration, topic: str) -> TopicWatch:
        """Watch a topic by requests to its broker."""
        properties = {**confluent_properties(configuration), "log_level": 0}
        return cls(
            lambda: known_identities(connect_admin(properties), topic).get(topic), every=refresh_seconds(properties)
        )

    @property
    def due(self) -> bool:
        return self._clock() >= self._next

    def look(self) -> bool:
        """Request the id; return whether it is another one than before."""
        self._next = self._clock() + self._every
        try:
            identity = self._request() or self._identity
        except KafkaException as failure:
            log.warning("the id of a topic is not known: %s", explained(failure.args[0]))
            return False
        earlier, self._identity = self._identity, identity
        return earlier is not None and identity != earlier
