"""Records that a broker refuses: their transaction fails, and the log says of which topic they are, and why."""

from __future__ import annotations

import logging

import pytest
from confluent_kafka import Consumer
from kafka_records import Topics

from stream_masker.service.configuration import parse_configuration
from stream_masker.service.producer import Outcome, TransactionalProducer
from stream_masker.service.worker_clients import connect_producer, producer_properties

CONFIGURATION = {
    "ontologies": {"icd": {"source": "icd10cm"}},
    "attributes": {"principal": {"path": "code", "ontology": "icd"}},
    "mechanism": {"correlated": False, "reference": "mean"},
    "fields": {"unlisted": "drop"},
    "secret": {"env": "SECRET"},
}


def test_a_record_larger_than_its_topic_takes_fails_the_transaction_which_names_the_topic(
    kafka: str, topics: Topics, caplog: pytest.LogCaptureFixture
) -> None:
    topic = topics("small", config={"max.message.bytes": "2000"})
    configuration = parse_configuration({**CONFIGURATION, "kafka": {"bootstrap_servers": kafka}})
    properties = producer_properties(configuration, topic)
    producer = TransactionalProducer(
        connect=lambda: connect_producer({**properties, "compression.type": "none"}),
        transactional_id=topic,
        turn=lambda: True,
        expiry=20,
    )
    assert producer.open()
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": topic})
    with caplog.at_level(logging.WARNING):
        assert producer.fill(lambda send: send(topic, 0, [(bytes(3000), None, 0, [])])) is None
        assert producer.commit([], consumer.consumer_group_metadata(), lambda: None) is Outcome.ABORTED
    consumer.close()
    [failure] = [record.getMessage() for record in caplog.records if record.name == "stream_masker.service.producer"]
    assert topic in failure
    assert "too large" in failure
