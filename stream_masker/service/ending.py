"""The end of a process that was told to end: in time, whatever hangs."""

from __future__ import annotations

import logging
import os
import threading

log = logging.getLogger(__name__)

GRACE = 25.0
"""Seconds to end in, of the 30 that a pod has. The parts of an end, each with its own limit, add up to less."""

LATE = 1
"""The exit code of a process that did not end by itself."""


def end_within(seconds: float = GRACE) -> threading.Timer:
    """Ends the process at once, with ``LATE``, if it is still there so many seconds from now on.

    That is as safe as a crash: what is not committed is aborted by the brokers. The timer may be cancelled.
    """
    timer = threading.Timer(seconds, _end_at_once, [seconds])
    timer.daemon = True
    timer.start()
    return timer


def _end_at_once(seconds: float) -> None:
    log.error("not ended in order within %.0f s: ending at once", seconds)
    logging.shutdown()
    os._exit(LATE)
