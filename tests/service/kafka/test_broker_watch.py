"""The readiness of a process while no broker is connected."""

from __future__ import annotations

import json

from stream_masker.service.kafka.broker_watch import LOST_REPORTS, BrokerWatch
from stream_masker.service.observability.health import STARTING, Health


def statistics(*states: str) -> str:
    return json.dumps({"brokers": {f"broker-{k}": {"state": state} for k, state in enumerate(states)}})


def test_the_worker_is_not_ready_while_no_broker_is_connected() -> None:
    health = Health()
    health.reason(STARTING, None)
    watch = BrokerWatch(health, "kafka:9092")
    for _ in range(LOST_REPORTS - 1):
        watch(statistics("DOWN", "TRY_CONNECT", "INIT"))
    assert health.reasons == ()
    watch(statistics("DOWN", "DOWN"))
    assert health.reasons[0].startswith("no broker answers at kafka:9092: check that the broker runs")
    watch(statistics("DOWN", "UP"))
    assert health.reasons == ()


def test_one_connection_is_enough_and_short_losses_do_not_count() -> None:
    health = Health()
    health.reason(STARTING, None)
    watch = BrokerWatch(health, "kafka:9092")
    for _ in range(LOST_REPORTS):
        watch(statistics("DOWN", "UP"))
        for _ in range(LOST_REPORTS - 1):
            watch(statistics("DOWN", "DOWN"))
    assert health.reasons == ()
