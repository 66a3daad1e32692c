"""What Faust and what it stands on may log: little, once, and never a message's bytes."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable

log = logging.getLogger(__name__)

NOISY_LOGGERS = ("faust", "mode", "asyncio", "aiokafka")
"""Their debug logs hold whole messages, so they are never on."""

CLIENTS = ("aiokafka", "stream_masker.kafka")
"""The loggers of Faust's client and of ours."""

RATE_LIMIT_SECONDS = 30.0
"""Seconds between two messages of a client, which tells every attempt of each part to reach a broker that is gone."""


def limit_client_logs() -> None:
    """Keeps what Faust and the clients say to what a user can use: that Faust crashed, we say ourselves.

    Debug logs have more of it.
    """
    debug = log.isEnabledFor(logging.DEBUG)
    for name in NOISY_LOGGERS:
        logging.getLogger(name).setLevel(logging.INFO if debug else logging.CRITICAL)
    if not debug:
        theirs, ours = map(logging.getLogger, CLIENTS)
        theirs.setLevel(logging.ERROR)
        theirs.handlers, theirs.propagate = [RelayHandler(RateLimit())], False
        ours.addFilter(RateLimit())


class RateLimit:
    """A log filter that lets one message pass in ``RATE_LIMIT_SECONDS`` seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next = -math.inf

    def __call__(self, record: logging.LogRecord) -> bool:
        """Whether the record may pass."""
        if self._clock() < self._next:
            return False
        self._next = self._clock() + RATE_LIMIT_SECONDS
        return True


class RelayHandler(logging.Handler):
    """Tells as a warning of ours, without its traceback, what passes a filter."""

    def __init__(self, passes: Callable[[logging.LogRecord], bool]) -> None:
        super().__init__()
        self.addFilter(passes)

    def emit(self, record: logging.LogRecord) -> None:
        log.warning("Kafka: %s", record.getMessage())
