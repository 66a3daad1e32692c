"""Records that the output topic refuses: the worker finds them, rejects them with a reason, and masks all others."""

from __future__ import annotations

import random
import time
from typing import Any

import orjson
import pytest
from kafka_records import write
from workers import START, Setting, event, ids, running, value

LATE = time.time_ns() // 1_000_000 - 30 * 24 * 3_600_000
"""A timestamp of a month ago."""


@pytest.fixture
def here(here: Setting) -> Setting:
    here.create()
    here.alter("input", retention_ms="-1")
    here.data.update(message={"key": "keep"}, limits={"rejected_share": 1.0})
    return here


def publish(here: Setting, bad: dict[int, dict[str, Any]], records: int = 400) -> None:
    """Publish events; ``bad``: what differs from an ordinary record, by the event's number."""
    here.publish(1)
    ordinary = lambda i: {"value": value(i), "key": b"k%d" % i, "partition": i % 4, "timestamp": START + i}  # noqa: E731
    write(here.bootstrap, here.topics["input"], ({**ordinary(i), **bad.get(i, {})} for i in range(records)))


def check(here: Setting, bad: dict[int, dict[str, Any]], reason: str, records: int = 400) -> None:
    """Run a worker to the end of the input: the bad records are rejected, and all others masked in their order."""
    with running(here.configuration()) as worker:
        worker.reaches(records)
        assert worker.metric("records_rejected_total", reason=reason) == len(bad)
    masked = here.read("output")
    for partition in range(4):
        expected = [i for i in range(records) if i % 4 == partition and i not in bad]
        assert ids([record for record in masked if record.partition == partition]) == expected
    rejected = here.read("rejected")
    assert {record.json["reason"] for record in rejected} == {reason}
    offsets = {(i % 4, i // 4) for i in bad}
    assert {(record.json["partition"], record.json["offset"]) for record in rejected} == offsets


def test_records_without_a_key_are_rejected_if_the_output_is_compacted(here: Setting) -> None:
    here.alter("output", cleanup_policy="compact")
    bad = {i: {"key": None} for i in (5, 6, 77, 79, 83, 399)}
    publish(here, bad)
    check(here, bad, "missing_key")


def test_records_with_a_timestamp_that_the_output_refuses_are_rejected(here: Setting) -> None:
    here.alter("output", message_timestamp_before_max_ms=str(7 * 24 * 3_600_000))
    bad = {i: {"timestamp": LATE} for i in (0, 201, 202, 222)}
    publish(here, bad)
    check(here, bad, "timestamp_out_of_range")


def test_records_that_are_larger_than_the_output_takes_are_rejected(here: Setting) -> None:
    """The topic takes less than when the worker started."""
    here.data["fields"] = {"keep": ["id", "note"], "unlisted": "drop"}
    noise = random.Random(1)
    notes = {i: noise.randbytes(60_000).hex() for i in (3, 100, 101)}
    bad = {i: {"value": orjson.dumps({**event(i), "note": note})} for i, note in notes.items()}
    publish(here, {})
    with running(here.configuration()) as worker:
        worker.reaches(400)
        here.alter("output", max_message_bytes="50000")
        publish(here, bad)
        worker.wait(lambda: worker.metric("records_in_total") >= 800, "all records")
        assert worker.metric("records_rejected_total", reason="too_large") == len(bad)
        aborted = worker.metric("transactions_total", outcome="aborted")
        publish(here, {})
        worker.wait(lambda: worker.metric("records_in_total") >= 1200, "more records")
        assert worker.metric("transactions_total", outcome="aborted") == aborted, "the size of requests stays"
        worker.wait(lambda: worker.health.reasons == (), "readiness")
    again = [i for i in range(400) if i not in bad]
    assert sorted(ids(here.read("output"))) == sorted([*range(400), *again, *range(400)])


def test_a_stream_of_which_many_records_are_refused_goes_on(here: Setting) -> None:
    here.alter("output", cleanup_policy="compact")
    bad = {i: {"key": None} for i in range(8_000) if i % 3}
    publish(here, bad, 8_000)
    check(here, bad, "missing_key", 8_000)
