"""Whether the worker's consumer has a connection to a broker, from librdkafka's statistics."""

from __future__ import annotations

import orjson

from stream_masker.service.kafka.failures import CHECK_ADDRESS
from stream_masker.service.observability.health import Health

STATISTICS_MS = 1_000
"""Milliseconds between two reports of librdkafka."""

LOST_REPORTS = 3
"""The worker is not ready after this many reports in a row without a connection. A reconnection takes less."""

COMPONENT = "brokers"


class BrokerWatch:
    """Receives librdkafka's statistics (``stats_cb``), in the thread that polls the consumer."""

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
