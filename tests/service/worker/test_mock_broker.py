"""The worker on librdkafka's mock broker, which the demonstration uses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from kafka_records import QUIET, mock_broker
from workers import Setting, running, setting


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Setting]:
    with mock_broker() as bootstrap:
        here = setting(bootstrap, tmp_path)
        here.data["noise_key"] = "patient.id"
        admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
        for topic in here.topics.values():
            admin.list_topics(topic, timeout=10)
        yield here


@pytest.mark.exhaustive
def test_the_worker_holds_and_then_masks_everything_once(here: Setting) -> None:
    here.produce(range(200))
    with running(here.configuration()) as worker:
        worker.wait(lambda: worker.health.notes == ("no statistics yet: none are published",), "the note")
        here.publish(1)
        worker.reaches(200)
        here.produce(range(200, 300))
        worker.reaches(300)
    masked = here.read("output")
    assert sorted(record.json["id"] for record in masked) == list(range(300))
    for partition in range(4):
        ids = [record.json["id"] for record in masked if record.partition == partition]
        assert ids == [i for i in range(300) if i % 4 == partition]
