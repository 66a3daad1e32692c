"""The log format, and the description of exceptions."""

from __future__ import annotations

import io
import logging

from stream_masker.errors import ServiceError
from stream_masker.service.observability.logs import describe


def raised(error: Exception) -> Exception:
    try:
        raise error  # noqa: TRY301 - an exception with a traceback
    except Exception as caught:
        return caught


def test_unexpected_exception_is_described_by_type_and_location() -> None:
    text = describe(raised(ValueError("E11.9 of patient 4711")))
    assert text.startswith("ValueError at test_logs.py:")
    assert "E11" not in text


def test_stream_masker_errors_are_described_by_their_text() -> None:
    assert describe(raised(ServiceError("the topic is missing"))) == "the topic is missing"


def test_logs_are_single_lines_without_texts_of_unexpected_exceptions(stream: io.StringIO) -> None:
    log = logging.getLogger("stream_masker.test")
    log.debug("not shown")
    log.info("two\nlines")
    log.error("batch failed", exc_info=raised(KeyError("E11.9")))
    lines = stream.getvalue().splitlines()
    assert [line.split(" ", 1)[1] for line in lines[:1]] == ["INFO stream_masker.test two lines"]
    assert "ERROR stream_masker.test batch failed: KeyError at test_logs.py:" in lines[1]
    assert len(lines) == 2
    assert "E11" not in stream.getvalue()
