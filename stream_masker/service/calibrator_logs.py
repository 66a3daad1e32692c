"""What Faust and what it stands on may log: little, once, and never a message's bytes."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable

log = logging.getLogger(__name__)

LOUD = ("faust", "mode", "asyncio", "aiokafka")
"""Their debug logs hold whole messages, so they are never on."""

CLIENTS = ("aiokafka", "stream_masker.kafka")
"""The loggers of Faust's client and of ours."""

SELDOM = 30.0
"""Seconds between two messages of a client, which tells every attempt of each part to reach a broker that is gone."""


def quieten() -> None:
    """Keeps what Faust and the clients say to what a user can use: that Faust crashed, we say ourselves.

    Debug logs have more of it.
    """
    debug = log.isEnabledFor(logging.DEBUG)
    for name in LOUD:
        logging.getLogger(name).setLevel(logging.INFO if debug else logging.CRITICAL)
    if not debug:
        theirs, ours = map(logging.getLogger, CLIENTS)
        theirs.setLevel(logging.ERROR)
        theirs.handlers, theirs.propagate = [Relay(Seldom())], False
        ours.addFilter(Seldom())


class Seldom:
    """A log filter that lets one message pass in ``SELDOM`` seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next = -math.inf

    def __call__(self, record: logging.LogRecord) -> bool:
        """Whether the record may pass."""
        if self._clock() < self._next:
            return False
        self._next = self._clock() + SELDOM
        return True


class Relay(logging.Handler):
    """Tells as a warning of ours, without its traceback, what passes a filter."""

    def __init__(self, passes: Callable[[logging.LogRecord], bool]) -> None:
        super().__init__()
        self.addFilter(passes)

    def emit(self, record: logging.LogRecord) -> None:
        log.warning("Kafka: %s", record.getMessage())
