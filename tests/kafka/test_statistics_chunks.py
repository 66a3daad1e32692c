"""Snapshots larger than a message: published, recovered and deleted in chunks, and used for masking."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from kafka_records import QUIET, Record, read_all, write
from sealed_topics import opened, statistics_opener
from workers import Setting, running, sample_version

from stream_masker.pipeline.calibration.versions import DriftReport, Publish
from stream_masker.pipeline.wire.chunks import count_chunks, tombstones
from stream_masker.pipeline.wire.statistics import StatisticsMessage
from stream_masker.service.calibrator.bootstrap import publish_snapshot, read_published_history
from stream_masker.service.calibrator.components import (
    MESSAGE_OVERHEAD_BYTES,
    StatisticsPublisher,
    build_components,
    max_message_bytes,
)
from stream_masker.service.configuration import Configuration
from stream_masker.service.worker.statistics_consumer import VersionBuffer

LARGEST = 262_144
"""The maximum message size of the statistics topic, in bytes."""


@pytest.fixture
def topics(here: Setting) -> Setting:
    here.create(partitions=2, drift=1)
    here.alter("statistics", max_message_bytes=str(LARGEST))
    return here


def large(configuration: Configuration, version: int, size: int = 5_000_000) -> StatisticsMessage:
    """Return a version whose snapshot has ``size`` incompressible bytes."""
    message = sample_version(configuration, version)
    ballast = random.Random(version).randbytes(size // 2).hex()
    statistics = message.statistics.with_model({"ballast": ballast})
    return replace(message, snapshot={**message.snapshot, "statistics": statistics.to_dict()})


def publish(configuration: Configuration, message: StatisticsMessage, **changes: Any) -> int:
    publisher = StatisticsPublisher(configuration)
    publisher.open()
    report = DriftReport(message.version, 1, None, None, None, 1, 0)
    made = Publish(message, message.statistics, report, None, None, None, None, expired=(), removal=(), means={})
    return publisher.publish(replace(made, **changes))


def on_topic(topics: Setting) -> list[Record]:
    return read_all(topics.bootstrap, topics.topics["statistics"])


def test_maximum_message_size_comes_from_the_broker(topics: Setting) -> None:
    properties = {"bootstrap.servers": topics.bootstrap, **QUIET}
    assert max_message_bytes(properties, topics.topics["statistics"]) == LARGEST


def test_large_snapshot_is_published_in_chunks_and_used(topics: Setting) -> None:
    configuration = topics.configuration()
    message = large(configuration, 1)
    parts = publish(configuration, message)
    records = on_topic(topics)
    assert parts == len(records) - 1 >= 5_000_000 // LARGEST
    assert all(len(record.value or b"") <= LARGEST - MESSAGE_OVERHEAD_BYTES for record in records)
    assert read_published_history(build_components(configuration)).latest == message
    topics.produce(range(300), partitions=2)
    with running(configuration) as worker:
        worker.reaches(300)
        assert worker.metric("statistics_version") == 1
    assert {record.headers["stream-masker-version"] for record in topics.read("output")} == {b"1"}


def test_version_with_a_missing_chunk_is_not_used(topics: Setting) -> None:
    configuration = topics.configuration()
    publish(configuration, large(configuration, 1))
    publish(configuration, large(configuration, 2))
    write(topics.bootstrap, topics.topics["statistics"], [{"key": b"2:3", "value": None}])
    newest = VersionBuffer(statistics_opener(configuration))
    for record in on_topic(topics):
        newest.add(record.key, record.value)
    assert [version.version for version in newest.take()] == [1]
    topics.produce(range(100), partitions=2)
    with running(configuration) as worker:
        worker.reaches(100)
        assert worker.metric("statistics_version") == 1


def test_next_version_continues_from_a_chunked_one_and_deletes_it(topics: Setting) -> None:
    configuration = topics.configuration(calibration={"keep_versions": 1})
    first = large(configuration, 1, 1_000_000)
    parts = publish(configuration, replace(first, source="bootstrap"))
    assert [publish_snapshot(configuration, first.snapshot) for _ in range(2)] == [2, 3]
    removed = [record.key for record in on_topic(topics) if record.value is None]
    assert removed == [piece.key for piece in tombstones(1, parts)]
    head = next(record for record in on_topic(topics) if record.key == b"3")
    assert count_chunks(opened(configuration, head)) == parts
