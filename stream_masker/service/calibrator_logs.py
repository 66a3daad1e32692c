"""What Faust and what it stands on may log: little, once, and never a message's bytes."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable

log = logging.getLogger(__name__)

LOUD = ("faust", "mode", "asyncio", "aiokafka")
"""Their debug logs hold whole messages, so they are never on."""

CLIENT = "aiokafka"

SELDOM = 30.0
"""Seconds between two messages of the client, which tells every attempt of each part to reach a broker that is gone."""


def quieten() -> None:
    """Keeps other libraries' logs to what a user can use: that Faust crashed, we say ourselves. More in debug logs."""
    debug = log.isEnabledFor(logging.DEBUG)
    for name in LOUD:
        logging.getLogger(name).setLevel(logging.INFO if debug else logging.CRITICAL)
    if not debug:
        client = logging.getLogger(CLIENT)
        client.setLevel(logging.ERROR)
        client.handlers, client.propagate = [Seldom()], False


class Seldom(logging.Handler):
    """Passes on what it is told once in ``SELDOM`` seconds, as a warning of ours."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._next = -math.inf

    def emit(self, record: logging.LogRecord) -> None:
        if self._clock() >= self._next:
            self._next = self._clock() + SELDOM
            log.warning("Kafka: %s", record.getMessage())
