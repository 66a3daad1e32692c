"""What a worker does with a statistics topic that it cannot use, or that is not the one that it knew."""

from __future__ import annotations

import logging

import pytest
from confluent_kafka.admin import AdminClient
from kafka_records import QUIET, write
from workers import Setting, ids, running

from stream_masker.service.kafka.names import consumer_group_id
from stream_masker.service.worker import statistics_consumer

REFRESH_MS = 2_000
RECORDS = 40
UNREADABLE = {"snapshot": {"snapshot_format": 1_000_000}}
"""Changes of a version that make it one of a format that no release knows."""


@pytest.fixture
def here(here: Setting) -> Setting:
    here.data["kafka"]["properties"]["topic.metadata.refresh.interval.ms"] = REFRESH_MS
    here.create(partitions=2)
    return here


def members(here: Setting) -> int:
    """The number of members of the workers' group."""
    admin, group = AdminClient({"bootstrap.servers": here.bootstrap, **QUIET}), consumer_group_id(here.configuration())
    return len(admin.describe_consumer_groups([group])[group].result(60).members)


def test_a_worker_takes_the_versions_of_a_topic_that_was_created_anew(here: Setting) -> None:
    """It stayed at the old version for ever, ready and without a word, while new workers took the new one."""
    here.publish(7)
    here.produce(range(RECORDS), partitions=2)
    with running(here.configuration()) as worker:
        worker.reaches(RECORDS)
        assert worker.metric("statistics_version") == 7
        here.recreate("statistics")
        here.publish(1)
        worker.wait(lambda: worker.metric("statistics_version") == 1, "the version of the new topic")
        here.produce(range(RECORDS, 2 * RECORDS), partitions=2)
        worker.reaches(2 * RECORDS)
    assert sorted(ids(here.read("output"))) == list(range(2 * RECORDS))


def test_a_worker_that_cannot_read_a_version_keeps_the_one_in_force(
    here: Setting, caplog: pytest.LogCaptureFixture
) -> None:
    here.publish(1)
    with running(here.configuration()) as worker:
        worker.wait(lambda: worker.metric("statistics_version") == 1, "the first version")
        here.publish(2, **UNREADABLE)
        worker.wait(lambda: worker.metric("statistics_refused_total") == 1, "the refused version")
        here.produce(range(RECORDS), partitions=2)
        worker.reaches(RECORDS)
        assert worker.health.reasons == ()
        assert [note.startswith("version 2 was refused: ") for note in worker.health.notes] == [True]
        assert (worker.metric("statistics_version"), worker.metric("statistics_refused_total")) == (1, 1)
    errors = [line for line in caplog.records if line.levelno == logging.ERROR]
    assert [line.getMessage().startswith("statistics version 2 was refused") for line in errors] == [True]


def test_a_worker_that_can_read_no_version_does_not_join_the_group(here: Setting) -> None:
    """It held a partition until the calibrator was new, while the other workers could have masked its records."""
    here.publish(1, **UNREADABLE)
    with running(here.configuration()) as worker:
        worker.wait(lambda: worker.metric("held_because", reason="version_refused") == 1, "the refused version")
        assert [reason.startswith("no statistics yet: version 1") for reason in worker.health.reasons] == [True]
        assert members(here) == 0
        here.publish(2)
        here.produce(range(RECORDS), partitions=2)
        worker.reaches(RECORDS)
        assert members(here) == 1


def test_a_flood_of_garbage_hides_no_version_and_stops_no_worker(
    here: Setting, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(statistics_consumer, "TURN_MESSAGES", 1_000)
    here.publish(1)
    with running(here.configuration()) as worker:
        worker.wait(lambda: worker.metric("statistics_version") == 1, "the first version")
        garbage = [{"key": b"garbage", "value": b"%d" % number} for number in range(50_000)]
        write(here.bootstrap, here.topics["statistics"], garbage)
        here.publish(2)
        here.produce(range(RECORDS), partitions=2)
        worker.reaches(RECORDS)
        worker.wait(lambda: worker.metric("statistics_version") == 2, "the version behind the garbage")
    assert len([line for line in caplog.records if "ignoring messages" in line.getMessage()]) == 1
