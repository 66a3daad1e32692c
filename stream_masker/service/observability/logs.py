"""Logs: one line per record, as text on standard error or as JSON on standard output, without raw values.

Exception texts of stream-masker and of the Kafka client are safe to log. Any other exception may quote the data that
caused it, so only its type and its source locations are logged.

Kafka clients log every attempt to reach a broker, thousands of lines a second while a broker is down. ``RepeatFilter``
passes one line for each cause and minute. The cause is the logger, the level and the text without digits.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from confluent_kafka import KafkaException

from stream_masker.errors import StreamMaskerError
from stream_masker.service.kafka.errors import explained

REPEAT_SECONDS = 60.0
"""The minimum time between two lines with the same cause."""

MAX_CAUSES = 256
"""The maximum number of causes that are remembered; beyond it, the one that passed first is forgotten."""

_DIGITS = re.compile(r"[0-9]+")


@dataclass(slots=True)
class _Cause:
    """When a cause may pass again, and how many lines were dropped since it passed."""

    next: float
    dropped: int = 0


class RepeatFilter:
    """Passes the first line of each cause, and later at most one in ``REPEAT_SECONDS`` with the number of dropped ones.

    Lines below the level warning always pass.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._causes: dict[tuple[str, int, str], _Cause] = {}

    def __call__(self, record: logging.LogRecord) -> bool:
        """Return whether the record passes."""
        if record.levelno < logging.WARNING:
            return True
        text, now = record.getMessage(), self._clock()
        key = record.name, record.levelno, _DIGITS.sub("", text)
        cause = self._causes.get(key)
        if cause is not None and now < cause.next:
            cause.dropped += 1
            return False
        if cause is not None and cause.dropped:
            record.msg, record.args = "%s (%d more like this one)", (text, cause.dropped)
        self._remember(key, now)
        return True

    def _remember(self, key: tuple[str, int, str], now: float) -> None:
        self._causes.pop(key, None)
        while len(self._causes) >= MAX_CAUSES:
            del self._causes[next(iter(self._causes))]
        self._causes[key] = _Cause(now + REPEAT_SECONDS)


LOG_LEVELS = ("debug", "info", "warning", "error")

LOG_FORMAT = "%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s %(message)s"


class OneLineFormatter(logging.Formatter):
    """Formats a record on one line: UTC time, level, logger, message, and the exception as given by ``describe``."""

    def __init__(self) -> None:
        super().__init__(LOG_FORMAT, "%Y-%m-%dT%H:%M:%S")

    @staticmethod
    def converter(seconds: float | None) -> time.struct_time:
        """Convert times to UTC."""
        return time.gmtime(seconds)

    def format(self, record: logging.LogRecord) -> str:
        """Format a record; the exception appears only as described by ``describe``."""
        error = record.exc_info[1] if record.exc_info else None
        line = self.formatMessage(self._prepared(record))
        return " ".join((line if error is None else f"{line}: {describe(error)}").splitlines())

    def _prepared(self, record: logging.LogRecord) -> logging.LogRecord:
        record.message = record.getMessage()
        record.asctime = self.formatTime(record, self.datefmt)
        return record


def describe(error: BaseException) -> str:
    """Return an exception's text if it cannot contain a value of a record, otherwise its type and source locations."""
    if isinstance(error, StreamMaskerError):
        return str(error)
    if isinstance(error, KafkaException):
        return f"Kafka: {explained(error.args[0]) if error.args else 'unknown error'}"
    return f"{type(error).__name__} at {_source_locations(error)}"


def _source_locations(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(frames)) or "unknown"


class JsonFormatter(OneLineFormatter):
    """Formats a record as one line of JSON: the parts of ``OneLineFormatter`` by name."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record; ``error`` is the exception as described by ``describe``."""
        prepared = self._prepared(record)
        error = record.exc_info[1] if record.exc_info else None
        parts = {
            "time": f"{prepared.asctime}.{prepared.msecs:03.0f}Z",
            "level": prepared.levelname,
            "logger": prepared.name,
            "message": prepared.message,
            **({} if error is None else {"error": describe(error)}),
        }
        return json.dumps(parts, ensure_ascii=False)


def configure_logs(level: str = "info", stream: TextIO | None = None, *, as_json: bool = False) -> None:
    """Send the logs of all modules, from ``level`` up, to ``stream``; replaces other handlers.

    The default is standard error, and with ``as_json`` standard output.
    """
    handler = logging.StreamHandler(stream or (sys.stdout if as_json else sys.stderr))
    handler.setFormatter(JsonFormatter() if as_json else OneLineFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
