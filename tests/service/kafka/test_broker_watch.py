"""The readiness of a process while no broker answers."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from stream_masker.service.configuration.sections import KafkaSection
from stream_masker.service.demo.run import EmbeddedBroker
from stream_masker.service.kafka.broker_watch import COMPONENT, LOST_REQUESTS, BrokerWatch, watched_brokers
from stream_masker.service.observability.health import STARTING, Health


class Cluster:
    """Answers requests, or does not."""

    def __init__(self) -> None:
        self.answers = True
        self.requests = 0

    def request(self) -> None:
        self.requests += 1
        if not self.answers:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))


@pytest.fixture
def health() -> Health:
    health = Health()
    health.reason(STARTING, None)
    return health


def test_a_process_is_not_ready_while_no_broker_answers(health: Health) -> None:
    cluster = Cluster()
    watch = BrokerWatch(cluster.request, health, "kafka:9092")
    watch.turn()
    cluster.answers = False
    for _ in range(LOST_REQUESTS - 1):
        watch.turn()
    assert health.reasons == ()
    watch.turn()
    assert health.reasons[0].startswith("no broker answers at kafka:9092: check that the broker runs")
    assert health.blocking[COMPONENT]
    cluster.answers = True
    watch.turn()
    assert health.reasons == ()
    assert not health.blocking[COMPONENT]


def test_the_broker_of_the_demonstration_answers_and_is_missed_when_it_is_gone(health: Health) -> None:
    """It names no controller."""
    with EmbeddedBroker() as broker:
        configuration: Any = SimpleNamespace(kafka=KafkaSection(bootstrap_servers=broker.address))
        watch = watched_brokers(configuration, health)
        for _ in range(LOST_REQUESTS):
            watch.turn()
        assert health.reasons == ()
    for _ in range(LOST_REQUESTS + 1):
        watch.turn()
    assert health.blocking[COMPONENT]


def test_short_losses_do_not_count(health: Health) -> None:
    cluster = Cluster()
    watch = BrokerWatch(cluster.request, health, "kafka:9092")
    for _ in range(LOST_REQUESTS):
        for cluster.answers in (*[False] * (LOST_REQUESTS - 1), True):
            watch.turn()
    assert health.reasons == ()


def test_requests_are_made_until_the_block_ends(health: Health) -> None:
    cluster = Cluster()
    with BrokerWatch(cluster.request, health, "kafka:9092", pause=0.001):
        deadline = time.monotonic() + 30
        while cluster.requests < 3 and time.monotonic() < deadline:
            time.sleep(0.001)
    made = cluster.requests
    assert made >= 3
    time.sleep(0.05)
    assert cluster.requests == made
