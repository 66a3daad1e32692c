"""An input that gets partitions while a worker runs: only those without a place in the output wait."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions
from kafka_records import QUIET
from workers import START, Setting, ids, running, value

REFRESH = {"topic.metadata.refresh.interval.ms": 1_000}


@pytest.fixture
def here(here: Setting) -> Setting:
    here.create(2)
    here.data["kafka"]["properties"].update(REFRESH)
    here.publish(1)
    return here


def grow(here: Setting, role: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": here.bootstrap, **QUIET})
    for future in admin.create_partitions([NewPartitions(here.topics[role], partitions)]).values():
        future.result(60)


def produce(here: Setting, numbers: range) -> None:
    """Publish events to four partitions, by a client that does not know the topic yet."""
    producer = Producer({"bootstrap.servers": here.bootstrap, **QUIET})
    for i in numbers:
        producer.produce(here.topics["input"], value(i), partition=i % 4, timestamp=START + i)
    assert producer.flush(30) == 0


def test_only_records_without_a_place_in_the_output_wait(here: Setting) -> None:
    here.produce(range(20), partitions=2)
    with running(here.configuration()) as worker:
        worker.reaches(20)
        grow(here, "input", 4)
        worker.wait(lambda: worker.metric("assigned_partitions") == 4, "the new partitions")
        produce(here, range(20, 60))
        worker.wait(lambda: worker.metric("records_in_total") == 40, "the records of the first two partitions")
        worker.wait(lambda: worker.health.reasons != (), "the reason")
        [reason] = worker.health.reasons
        assert reason.startswith(f"partitions 2, 3 of {here.topics['input']} wait: ")
        assert reason.endswith(f"{here.topics['output']} needs at least 4 partitions")
        produce(here, range(60, 64))
        worker.wait(lambda: worker.metric("records_in_total") == 42, "more records")
        grow(here, "output", 4)
        worker.reaches(64)
        worker.wait(lambda: worker.health.reasons == (), "readiness")
        assert worker.metric("transactions_total", outcome="aborted") == 0
    assert sorted(ids(here.read("output"))) == list(range(64))
