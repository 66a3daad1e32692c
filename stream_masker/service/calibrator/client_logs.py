"""Log levels and rate limits for Faust and its Kafka client; their logs never contain a message's bytes."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable

log = logging.getLogger(__name__)

NOISY_LOGGERS = ("faust", "mode", "asyncio", "aiokafka")
"""Loggers whose debug records contain whole messages, so debug level is never enabled for them."""

CLIENT_LOGGERS = ("aiokafka", "stream_masker.kafka")
"""The loggers of Faust's Kafka client and of librdkafka."""

RATE_LIMIT_SECONDS = 30.0
"""The minimum time between two log messages of a client, which logs every attempt to reach an unavailable broker."""


def limit_client_logs() -> None:
    """Reduce the logs of Faust and the Kafka clients to what users can act on; with debug logs, keep more of them.

    The calibrator logs crashes of Faust itself.
    """
    debug = log.isEnabledFor(logging.DEBUG)
    for name in NOISY_LOGGERS:
        logging.getLogger(name).setLevel(logging.INFO if debug else logging.CRITICAL)
    if not debug:
        theirs, ours = map(logging.getLogger, CLIENT_LOGGERS)
        theirs.setLevel(logging.ERROR)
        theirs.handlers, theirs.propagate = [RelayHandler(RateLimit())], False
        ours.addFilter(RateLimit())


class RateLimit:
    """A log filter that passes at most one record in ``RATE_LIMIT_SECONDS`` seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next = -math.inf

    def __call__(self, record: logging.LogRecord) -> bool:
        """Whether the record passes."""
        if self._clock() < self._next:
            return False
        self._next = self._clock() + RATE_LIMIT_SECONDS
        return True


class RelayHandler(logging.Handler):
    """Logs the records that pass a filter as warnings of this module, without tracebacks."""

    def __init__(self, passes: Callable[[logging.LogRecord], bool]) -> None:
        super().__init__()
        self.addFilter(passes)

    def emit(self, record: logging.LogRecord) -> None:
        log.warning("Kafka: %s", record.getMessage())
