"""Records that the worker cannot read: it is not ready, says where, and reads the other partitions."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer
from kafka_records import QUIET, write
from workers import START, Running, Setting, ids, running, value

from stream_masker.service.worker import partition_source

BEYOND = 101_000_000
"""Bytes of one record that are more than the client decompresses."""


@pytest.fixture
def here(here: Setting) -> Setting:
    here.create(2)
    here.publish(1)
    return here


def bomb(here: Setting) -> None:
    """Publish a batch of three records to partition 0; the second one has 101 MB of blanks, in some kilobytes."""
    properties = {"compression.type": "zstd", "message.max.bytes": 2 * BEYOND, "batch.size": 2 * BEYOND}
    producer = Producer({"bootstrap.servers": here.bootstrap, "linger.ms": 60_000, **properties, **QUIET})
    for content in (value(100), b" " * BEYOND, value(102)):
        producer.produce(here.topics["input"], content, partition=0, timestamp=START)
    assert producer.flush(60) == 0


def test_a_record_of_more_than_100_megabytes_is_named_and_other_partitions_go_on(here: Setting) -> None:
    here.produce(range(20), partitions=2)
    bomb(here)
    here.produce(range(20, 40), partitions=2)
    with running(here.configuration()) as worker:
        worker.wait(lambda: worker.metric("unreadable_partitions") == 1, "the error that lasts")
        [reason] = worker.health.reasons
        assert f"partition 0 of {here.topics['input']} cannot be read at offset 10: " in reason
        assert "--reset-offsets" in reason
        worker.wait(lambda: worker.metric("records_in_total") == 30, "the records of the other partition")


def test_records_that_retention_deleted_before_a_worker_read_them_are_counted(
    here: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are not counted if the broker does not answer soon, which a busy machine would show."""
    monkeypatch.setattr(partition_source, "SHORT_REQUEST_SECONDS", 30.0)
    here.produce(range(20), partitions=2)
    with running(here.configuration()) as worker:
        worker.reaches(20)
    here.produce(range(20, 60), partitions=2)
    here.delete_records(0, 25)
    with running(here.configuration()) as worker:
        worker.wait(lambda: worker.metric("records_in_total") == 25, "the records that are left")
        worker.wait(lambda: worker.metric("records_skipped_total", cause="retention") == 15, "the count")
    with running(here.configuration()) as worker:
        here.produce(range(60, 62), partitions=2)
        worker.reaches(2)
        assert worker.metric("records_skipped_total", cause="retention") == 0


def test_what_retention_deletes_is_counted_once_and_control_records_are_not(here: Setting) -> None:
    """Deleted records were counted at the end of their partition and again with the next ones; markers counted too."""
    here.produce(range(20), partitions=2)
    with running(here.configuration()) as worker:
        worker.reaches(20)
    here.produce(range(20, 40), partitions=2)
    here.delete_records(0, 20)
    with running(here.configuration()) as worker:
        worker.reaches(10)
        worker.wait(lambda: skipped_by_retention(worker) == 10, "the count of a partition without records")
        produce_in_transaction(here, 40)
        worker.reaches(11)
        worker.wait(lambda: lag_of(worker, here) == 0, "the end of the partition, behind the marker")
        here.delete_records(0, 22)
        here.produce(range(42, 43), partitions=2)
        worker.reaches(12)
        assert skipped_by_retention(worker) == 10


def test_a_client_that_continues_at_the_end_counts_what_it_passes(here: Setting) -> None:
    """With ``auto.offset.reset=latest``, records that retention had left were passed without a word."""
    here.produce(range(20), partitions=2)
    with running(here.configuration()) as worker:
        worker.reaches(20)
    here.produce(range(20, 40), partitions=2)
    here.delete_records(0, 15)
    here.data["kafka"]["properties"]["auto.offset.reset"] = "latest"
    with running(here.configuration()) as worker:
        worker.reaches(10)
        worker.wait(lambda: skipped_by_retention(worker) > 0, "the count")
        here.produce(range(40, 42), partitions=2)
        worker.reaches(12)
        assert skipped_by_retention(worker) == 10


def produce_in_transaction(here: Setting, number: int) -> None:
    """Publish an event to partition 0, and behind it the marker of its transaction."""
    producer = Producer({"bootstrap.servers": here.bootstrap, "transactional.id": here.topics["input"], **QUIET})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(here.topics["input"], value(number), partition=0, timestamp=START)
    producer.commit_transaction(60)


def skipped_by_retention(worker: Running) -> float:
    return worker.metric("records_skipped_total", cause="retention")


def lag_of(worker: Running, here: Setting) -> float | None:
    """The lag of partition 0; None before it is known."""
    labels = {"topic": here.topics["input"], "partition": "0"}
    return worker.registry.get_sample_value("stream_masker_consumer_lag", labels)
