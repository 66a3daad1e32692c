"""Logs: one line per record, as text on standard error or as JSON on standard output, without raw values.

Exception texts of stream-masker and of the Kafka client are safe to log. Any other exception may quote the data that
caused it, so only its type and its source locations are logged.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import traceback
from pathlib import Path
from typing import TextIO

from confluent_kafka import KafkaException

from stream_masker.errors import StreamMaskerError
from stream_masker.service.kafka.failures import explained

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
