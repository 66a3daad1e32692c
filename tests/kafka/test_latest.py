"""The latest masked records on a real Apache Kafka, whose partitions have markers of transactions and aborted records."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer
from kafka_records import QUIET
from workers import START, Setting, running

from stream_masker.cli import main

RECORDS, SHOWN = 60, 7


@pytest.fixture
def here(here: Setting) -> Setting:
    here.create(2)
    return here


def abort_record(here: Setting) -> None:
    """Write a record to the end of the output in a transaction that is aborted."""
    producer = Producer({"bootstrap.servers": here.bootstrap, "transactional.id": here.topics["output"], **QUIET})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(here.topics["output"], b'{"id": "aborted"}', partition=0, timestamp=START + 10 * RECORDS)
    assert producer.flush(60) == 0
    producer.abort_transaction(60)


def test_the_latest_committed_records_of_all_partitions_stand_below_the_version_that_masked_them(here: Setting) -> None:
    here.publish(1)
    here.produce(range(RECORDS), partitions=2)
    with running(here.configuration()) as worker:
        worker.reaches(RECORDS)
    abort_record(here)
    done = CliRunner().invoke(main, ["audit", "--config", str(here.path), "--json", "--records", str(SHOWN)])
    assert done.exit_code == 0, done.output
    shown = json.loads(done.stdout)
    written = sorted(here.read("output"), key=lambda record: record.timestamp)[-SHOWN:]
    assert [one["value"]["id"] for one in shown["records"]] == list(range(RECORDS - SHOWN, RECORDS))
    places = [(one["partition"], one["offset"], one["value"]) for one in shown["records"]]
    assert places == [(record.partition, record.offset, record.json) for record in written]
    assert {(one["version"], one["mechanism"]) for one in shown["records"]} == {(1, "semantic_noise")}
    assert [version["version"] for version in shown["statistics"]] == [1]
    lines = CliRunner().invoke(main, ["audit", "--config", str(here.path), "--records", "1"]).stdout.splitlines()
    assert lines[0].startswith("statistics version 1 (")
    last = written[-1]
    assert lines[-2:] == [
        f"partition {last.partition}, offset {last.offset}, semantic_noise:",
        f"  {json.dumps(last.json, separators=(',', ':'))}",
    ]
