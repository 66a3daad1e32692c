"""Logs: one line each on standard error, and never a raw value.

Text of exceptions that stream-masker or Kafka's client raise is written for logs. Any other exception may quote the
data that it stumbled over, so of these only the type and the places in the code are told.
"""

from __future__ import annotations

import logging
import sys
import time
import traceback
from pathlib import Path
from typing import TextIO

from confluent_kafka import KafkaException

from stream_masker.errors import StreamMaskerError

LOG_LEVELS = ("debug", "info", "warning", "error")

LOG_FORMAT = "%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s %(message)s"


class OneLine(logging.Formatter):
    """UTC time, level, logger, message, and an exception as ``describe`` tells it; all on one line."""

    def __init__(self) -> None:
        super().__init__(LOG_FORMAT, "%Y-%m-%dT%H:%M:%S")

    @staticmethod
    def converter(seconds: float | None) -> time.struct_time:
        """Times are UTC."""
        return time.gmtime(seconds)

    def format(self, record: logging.LogRecord) -> str:
        """Formats a record; its exception's own text is not in it unless ``describe`` gives it."""
        error = record.exc_info[1] if record.exc_info else None
        line = self.formatMessage(self._prepared(record))
        return " ".join((line if error is None else f"{line}: {describe(error)}").splitlines())

    def _prepared(self, record: logging.LogRecord) -> logging.LogRecord:
        record.message = record.getMessage()
        record.asctime = self.formatTime(record, self.datefmt)
        return record


def describe(error: BaseException) -> str:
    """What an exception says where that cannot hold a value of a record; else its type and where it arose."""
    if isinstance(error, StreamMaskerError):
        return str(error)
    if isinstance(error, KafkaException):
        return f"Kafka: {error.args[0].str() if error.args else 'unknown error'}"
    return f"{type(error).__name__} at {_places(error)}"


def _places(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(frames)) or "unknown"


def configure_logs(level: str = "info", stream: TextIO | None = None) -> None:
    """Sends the logs of all modules to ``stream`` (standard error), from ``level`` on; replaces earlier handlers."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(OneLine())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
