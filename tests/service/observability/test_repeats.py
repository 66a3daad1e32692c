"""Repeated log lines: one for each cause and minute."""

from __future__ import annotations

import logging
import re
import time

import pytest

from stream_masker.service.kafka.clients import connect_producer
from stream_masker.service.observability.logs import MAX_CAUSES, REPEAT_SECONDS, RepeatFilter


def record(text: str, level: int = logging.WARNING, name: str = "stream_masker.kafka") -> logging.LogRecord:
    return logging.makeLogRecord({"name": name, "levelno": level, "msg": text})


def test_a_cause_passes_once_a_minute_with_the_number_of_dropped_lines() -> None:
    now = [0.0]
    passes = RepeatFilter(clock=lambda: now[0])
    lines = []
    for number in range(240):
        now[0] = number / 2
        line = record(f"broker 127.0.0.1:9092: connection refused (after {number} ms)")
        if passes(line):
            lines.append((now[0], line.getMessage()))
    assert lines == [
        (0.0, "broker 127.0.0.1:9092: connection refused (after 0 ms)"),
        (
            REPEAT_SECONDS,
            "broker 127.0.0.1:9092: connection refused (after 120 ms) (119 more like this one)",
        ),
    ]


def test_other_causes_levels_and_loggers_pass() -> None:
    passes = RepeatFilter(clock=lambda: 0.0)
    assert passes(record("no broker"))
    assert passes(record("authentication failed"))
    assert passes(record("no broker", level=logging.ERROR))
    assert passes(record("no broker", name="aiokafka"))
    assert not passes(record("no broker"))
    assert all(passes(record("no broker", level=logging.INFO)) for _ in range(3))


def test_the_number_of_remembered_causes_is_bounded() -> None:
    passes = RepeatFilter(clock=lambda: 0.0)
    for number in range(10 * MAX_CAUSES):
        assert passes(record("cause " + "x" * number))
    assert len(passes._causes) == MAX_CAUSES


def test_an_unreachable_broker_is_logged_once_for_each_cause(caplog: pytest.LogCaptureFixture) -> None:
    """Two seconds of a producer that tries to connect to two addresses every few milliseconds."""
    with caplog.at_level(logging.INFO, logger="stream_masker.kafka"):
        backoff = {"reconnect.backoff.ms": 1, "reconnect.backoff.max.ms": 2}
        producer = connect_producer({"bootstrap.servers": "127.0.0.1:1,localhost:1", **backoff})
        end = time.monotonic() + 2
        while time.monotonic() < end:
            producer.poll(0.05)
    causes = [re.sub("[0-9]+", "", line.getMessage()) for line in caplog.records]
    assert causes
    assert len(set(causes)) == len(causes)


def test_thousands_of_lines_of_the_kafka_client_become_one(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="stream_masker.kafka"):
        for number in range(2400):
            logging.getLogger("stream_masker.kafka").error("a test: disconnected (after %dms in state UP)", number)
    assert [line.getMessage() for line in caplog.records] == ["a test: disconnected (after 0ms in state UP)"]
