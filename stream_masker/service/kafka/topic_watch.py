"""Whether a topic was deleted and created again under its name."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from confluent_kafka import KafkaException

from stream_masker.service.kafka.failures import explained
from stream_masker.service.observability.repeats import RepeatFilter

log = logging.getLogger(__name__)
log.addFilter(RepeatFilter())


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

    @property
    def due(self) -> bool:
        return self._clock() >= self._next

    def look(self) -> bool:
        """Request the id; return whether it is another one than before."""
        self._next = self._clock() + self._every
        try:
            found = self._request() or self._identity
        except KafkaException as failure:
            log.warning("the id of a topic is not known: %s", explained(failure.args[0]))
            return False
        earlier, self._identity = self._identity, found
        return earlier is not None and found != earlier
