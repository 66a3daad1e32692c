"""A log filter that passes one line for each cause and minute.

Kafka clients log every attempt to reach a broker, thousands of lines a second while a broker is down. The cause of a
line is its logger, its level, and its text without digits: addresses of one broker, attempts and times
are one cause.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass

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
