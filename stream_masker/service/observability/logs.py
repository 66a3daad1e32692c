"""Logs: one line per record, as text on standard error or as JSON on standard output, without raw values.

Exception texts of stream-masker and of the Kafka client are safe to log. Any other exception may quote the data that
caused it, so only its type and its source locations are logged.

Kafka clients log every attempt to reach a broker, thousands of lines a second while a broker is down. ``RepeatFilter``
passes one warning or error for each cause and minute. The cause is the logger, the level and the text without digits.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time
import traceback
from pathlib import Path
from typing import TextIO

from confluent_kafka import KafkaException

from stream_masker.errors import StreamMaskerError
from stream_masker.service.kafka.errors import explained

REPEAT_SECONDS = 60.0
"""The minimum time between two lines with the same cause."""

LOG_LEVELS = ("debug", "info", "warning", "error")

_DIGITS = re.compile(r"[0-9]+")


class RepeatFilter:
    """Passes the first line of each cause, and later at most one in ``REPEAT_SECONDS``. Below warnings, all pass."""

    def __init__(self) -> None:
        self._next: dict[tuple[str, int, str], float] = {}

    def __call__(self, record: logging.LogRecord) -> bool:
        """Return whether the record passes."""
        if record.levelno < logging.WARNING:
            return True
        cause = record.name, record.levelno, _DIGITS.sub("", record.getMessage())
        passes = record.created >= self._next.get(cause, 0.0)
        if passes:
            self._next[cause] = record.created + REPEAT_SECONDS
        return passes


class LineFormatter(logging.Formatter):
    """Formats a record on one line: UTC time, level, logger, and the message with the exception.

    ``as_json``: as an object with these parts instead of text.
    """

    def __init__(self, *, as_json: bool = False) -> None:
        super().__init__()
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        """Format a record; the exception appears only as described by ``describe``."""
        clock = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        error = record.exc_info[1] if record.exc_info else None
        parts = {
            "time": f"{clock}.{record.msecs:03.0f}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage() + ("" if error is None else f": {describe(error)}"),
        }
        if self._as_json:
            return json.dumps(parts, ensure_ascii=False)
        return " ".join(" ".join(parts.values()).splitlines())


def describe(error: BaseException) -> str:
    """Return an exception's text if it cannot contain a value of a record, otherwise its type and source locations."""
    if isinstance(error, StreamMaskerError):
        return str(error)
    if isinstance(error, KafkaException):
        return f"Kafka: {explained(error.args[0]) if error.args else 'unknown error'}"
    frames = traceback.extract_tb(error.__traceback__)
    places = " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(frames))
    return f"{type(error).__name__} at {places or 'unknown'}"


def configure_logs(level: str = "info", stream: TextIO | None = None, *, as_json: bool = False) -> None:
    """Send the logs of all modules, from ``level`` up and without repetitions, to ``stream``; replaces other handlers.

    The default is standard error, and with ``as_json`` standard output.
    """
    handler = logging.StreamHandler(stream or (sys.stdout if as_json else sys.stderr))
    handler.setFormatter(LineFormatter(as_json=as_json))
    handler.addFilter(RepeatFilter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
