"""The end of a process that was told to end: in time, whatever hangs."""

from __future__ import annotations

import faulthandler

GRACE_SECONDS_LEFT = 25.0
"""Seconds to end in, of the 30 that a pod has. The parts of an end, each with its own limit, add up to less."""

LATE_EXIT_CODE = 1
"""The exit code of a process that did not end by itself."""


def exit_within(seconds: float = GRACE_SECONDS_LEFT) -> None:
    """Ends the process at once, with ``LATE_EXIT_CODE``, if it is still there so many seconds from now on.

    That is as safe as a crash: what is not committed is aborted by the brokers. Where each thread was is written to
    the standard error. No thread of Python's does this, for the interpreter's own end may be what hangs.
    """
    faulthandler.dump_traceback_later(seconds, exit=True)
