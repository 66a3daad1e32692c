"""A static member that is fenced by another one with its name."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer
from workers import Setting, running

from stream_masker.service.worker.client_properties import consumer_properties


@pytest.fixture
def here(here: Setting) -> Setting:
    here.create()
    here.publish(1)
    return here


def fence(consumer: Consumer, topic: str) -> None:
    """Join the group with a name that is taken."""
    consumer.subscribe([topic])
    while not consumer.assignment():
        consumer.poll(0.1)
    consumer.close()


def test_a_fenced_member_rejoins(here: Setting, caplog: pytest.LogCaptureFixture) -> None:
    configuration = here.configuration(worker={"instance": "one", "static_member": True})
    here.produce(range(100))
    with running(configuration) as worker:
        worker.reaches(100)
        fence(Consumer(consumer_properties(configuration)), here.topics["input"])
        here.produce(range(100, 200))
        worker.reaches(200)
    assert "rejoining the group with a new client" in caplog.text
    assert sorted(record.json["id"] for record in here.read("output")) == list(range(200))
