"""Batches that are large when they are decompressed: the broker refuses them, or a person is told."""

from __future__ import annotations

import logging

import pytest
from confluent_kafka import KafkaError, Producer
from kafka_records import QUIET, read_all
from workers import Setting, ids, running, value

from stream_masker.service.kafka.topics import TopicStatus, prepare_topics

BLANKS = 60 * 2**20
"""Bytes of a record of blanks, which zstd compresses to 2 kB."""


def send(here: Setting, content: bytes) -> list[KafkaError | None]:
    """Publish a compressed record; return its delivery error."""
    properties = {"compression.type": "zstd", "message.max.bytes": 2 * BLANKS}
    producer, errors = Producer({"bootstrap.servers": here.bootstrap, **properties, **QUIET}), []
    producer.produce(here.topics["input"], content, partition=0, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(60) == 0
    return errors


def test_the_broker_refuses_bombs_for_an_input_that_topics_created(here: Setting) -> None:
    lines = prepare_topics(here.configuration(), partitions=1)
    assert {line.status for line in lines} == {TopicStatus.CREATED}
    [error] = send(here, b" " * BLANKS)
    assert error is not None
    assert error.code() == KafkaError.MSG_SIZE_TOO_LARGE
    assert send(here, value(1)) == [None]
    assert len(read_all(here.bootstrap, here.topics["input"])) == 1
    here.publish(1)
    with running(here.configuration()) as worker:
        worker.reaches(1)
    assert ids(here.read("output")) == [1]


def test_an_input_that_may_be_compressed_is_named_by_topics_and_at_the_start(
    here: Setting, caplog: pytest.LogCaptureFixture
) -> None:
    here.create(1)
    here.publish(1)
    advice = f"--entity-name {here.topics['input']} --add-config compression.type=uncompressed"
    line = next(
        line for line in prepare_topics(here.configuration(), dry_run=True) if line.name == here.topics["input"]
    )
    assert (line.status, advice in line.detail) == (TopicStatus.EXISTS, True)
    with caplog.at_level(logging.WARNING), running(here.configuration()) as worker:
        here.produce(range(1), partitions=1)
        worker.reaches(1)
    assert advice in caplog.text
    caplog.clear()
    here.alter("input", compression_type="uncompressed")
    with caplog.at_level(logging.WARNING), running(here.configuration()) as worker:
        here.produce(range(1, 2), partitions=1)
        worker.reaches(1)
    assert "compression.type" not in caplog.text
