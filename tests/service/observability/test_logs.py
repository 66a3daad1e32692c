"""The log format, the description of exceptions, and repeated lines: one for each cause and minute."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest

from stream_masker.errors import ServiceError
from stream_masker.service.observability.logs import REPEAT_SECONDS, RepeatFilter, configure_logs, describe


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """The text that the service logs, while its logs are configured."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    configure_logs("info", stream)
    yield stream
    root.handlers[:], root.level = handlers, level


def test_logs_are_single_lines_without_texts_of_unexpected_exceptions(stream: io.StringIO) -> None:
    log = logging.getLogger("stream_masker.test")
    log.debug("not shown")
    log.info("two\nlines")
    try:
        log.info({}["E11.9"])
    except KeyError:
        log.exception("batch failed")
    lines = stream.getvalue().splitlines()
    assert [line.split(" ", 1)[1] for line in lines[:1]] == ["INFO stream_masker.test two lines"]
    assert "ERROR stream_masker.test batch failed: KeyError at test_logs.py:" in lines[1]
    assert len(lines) == 2
    assert "E11" not in stream.getvalue()
    assert describe(ServiceError("the topic is missing")) == "the topic is missing"


def record(
    text: str, at: float = 0.0, level: int = logging.WARNING, name: str = "stream_masker.kafka"
) -> logging.LogRecord:
    return logging.makeLogRecord({"name": name, "levelno": level, "msg": text, "created": at})


def test_a_cause_passes_once_a_minute() -> None:
    passes = RepeatFilter()
    given = [record(f"broker 127.0.0.1:9092: refused (after {k} ms)", at=k / 2) for k in range(240)]
    assert [line.created for line in given if passes(line)] == [0.0, REPEAT_SECONDS]


def test_other_causes_levels_and_loggers_pass() -> None:
    passes = RepeatFilter()
    assert passes(record("no broker"))
    assert passes(record("authentication failed"))
    assert passes(record("no broker", level=logging.ERROR))
    assert passes(record("no broker", name="aiokafka"))
    assert not passes(record("no broker"))
    assert all(passes(record("no broker", level=logging.INFO)) for _ in range(3))
