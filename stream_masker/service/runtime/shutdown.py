"""A watchdog that ends a stopping process within a time limit, even if a part of it hangs."""

from __future__ import annotations

import faulthandler

STOP_LIMIT_SECONDS = 25.0
"""The time limit for a stop; pods have 30 seconds. The limits of its steps add up to less."""

LATE_EXIT_CODE = 1
"""The exit code of a process that the watchdog ended."""


def exit_within(seconds: float = STOP_LIMIT_SECONDS) -> None:
    """End the process with ``LATE_EXIT_CODE`` if it is still running after this number of seconds.

    This is as safe as a crash: the brokers abort what is not committed. The stack of each thread is written to standard
    error. The watchdog is not a Python thread, because the interpreter's shutdown itself may hang.
    """
    faulthandler.dump_traceback_later(seconds, exit=True)
