"""Whether a process has a connection to a broker, from librdkafka's statistics."""

from __future__ import annotations

import orjson
from confluent_kafka.admin import AdminClient

from stream_masker.service.configuration import Configuration
from stream_masker.service.kafka.clients import confluent_properties
from stream_masker.service.kafka.connections import connect_admin
from stream_masker.service.kafka.failures import CHECK_ADDRESS
from stream_masker.service.observability.health import Health

STATISTICS_MS = 1_000
"""Milliseconds between two reports of librdkafka."""

LOST_REPORTS = 3
"""The process is not ready after this many reports in a row without a connection. A reconnection takes less."""

COMPONENT = "brokers"
"""The component of ``Health`` whose reason says that no broker answers."""


class BrokerWatch:
    """Receives librdkafka's statistics (``stats_cb``), in the thread that polls the client."""

    def __init__(self, health: Health, bootstrap_servers: str) -> None:
        self._health = health
        self._servers = bootstrap_servers
        self._lost = 0

    def __call__(self, statistics: str) -> None:
        """Report a lost connection to all brokers, and that there is one again."""
        brokers = orjson.loads(statistics).get("brokers", {}).values()
        if any(broker.get("state") == "UP" for broker in brokers):
            if self._lost >= LOST_REPORTS:
                self._health.reason(COMPONENT, None)
            self._lost = 0
            return
        self._lost += 1
        if self._lost == LOST_REPORTS:
            self._health.reason(COMPONENT, f"no broker answers at {self._servers}: {CHECK_ADDRESS}")


def connect_watched(configuration: Configuration, health: Health) -> AdminClient:
    """Make a client that only keeps a connection to a broker, for a process without a librdkafka client of its own.

    ``poll`` it every second. It sends nothing and logs nothing, and needs no access to a topic. Raises
    ConfigurationError for properties that librdkafka refuses.
    """
    properties = confluent_properties(configuration, statistics_interval_ms=STATISTICS_MS)
    watch = BrokerWatch(health, configuration.kafka.bootstrap_servers)
    return connect_admin({**properties, "log_level": 0, "stats_cb": watch, "error_cb": lambda _: None})
