"""Whether a broker answers the process, from a small request at regular intervals.

The state of a connection does not tell: that to a broker that hangs stays open, and librdkafka gives up a request only
after ``socket.timeout.ms``, which is a minute by default.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial
from types import TracebackType

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from stream_masker.service.configuration import Configuration
from stream_masker.service.kafka.clients import confluent_properties, connect_admin
from stream_masker.service.kafka.failures import CHECK_ADDRESS
from stream_masker.service.observability.health import Health

log = logging.getLogger(__name__)

REQUEST_SECONDS = 2.0
"""Seconds in which a broker has to answer a request."""

PAUSE_SECONDS = 1.0
"""Seconds between an answer and the next request."""

NO_TOPIC = "?"
"""A name that no topic can have, so that a request about it creates none, and needs no access to any."""

LOST_REQUESTS = 2
"""The process is not ready after this many requests in a row without an answer. A reconnection takes less."""

COMPONENT = "brokers"
"""The component of ``Health`` whose reason says that no broker answers."""


class BrokerWatch:
    """Makes requests in a thread of its own, while the ``with`` block runs.

    ``request`` makes one. It raises KafkaException if no broker answers in time.
    """

    def __init__(
        self, request: Callable[[], object], health: Health, servers: str, *, pause: float = PAUSE_SECONDS
    ) -> None:
        self._request = request
        self._health = health
        self._servers = servers
        self._pause = pause
        self._lost = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="brokers", daemon=True)

    def __enter__(self) -> BrokerWatch:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(REQUEST_SECONDS)

    def _run(self) -> None:
        while not self._stop.is_set():
            self.turn()
            self._stop.wait(self._pause)

    def turn(self) -> None:
        """Make a request, and report that no broker answers, or that one answers again."""
        try:
            self._request()
        except KafkaException as failure:
            log.debug("no answer of a broker: %s", failure.args[0])
            self._lost += 1
            if self._lost == LOST_REQUESTS:
                self._health.reason(COMPONENT, f"no broker answers at {self._servers}: {CHECK_ADDRESS}")
        else:
            if self._lost >= LOST_REQUESTS:
                self._health.reason(COMPONENT, None)
            self._lost = 0


def watched_brokers(configuration: Configuration, health: Health) -> BrokerWatch:
    """Make a watch with a client of its own, which needs no access to a topic and logs nothing.

    Raises ConfigurationError for properties that librdkafka refuses.
    """
    client = connect_admin({**confluent_properties(configuration), "log_level": 0, "error_cb": lambda _: None})
    return BrokerWatch(partial(_request_metadata, client), health, configuration.kafka.bootstrap_servers)


def _request_metadata(client: AdminClient) -> None:
    """Request metadata from any broker. Other requests wait for the controller, which not every cluster names."""
    client.poll(0)
    client.list_topics(NO_TOPIC, timeout=REQUEST_SECONDS)
