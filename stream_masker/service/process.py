"""Process-level helpers: background tasks, garbage collection, protected memory, and a watchdog for the exit."""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import logging
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from types import FrameType
from typing import Final, NoReturn, TypeVar

T = TypeVar("T")

log = logging.getLogger(__name__)


def in_background(task: Callable[[], T], *, name: str) -> Future[T]:
    """Run a task in a daemon thread; return the future of its result. A stuck task does not keep the process alive."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            result = task()
        except BaseException as failure:  # noqa: BLE001 - the future's reader raises it
            future.set_exception(failure)
        else:
            future.set_result(result)

    future.set_running_or_notify_cancel()
    threading.Thread(target=run, name=name, daemon=True).start()
    return future


PR_SET_DUMPABLE: Final = 4


def protect_process() -> None:
    """Forbid core dumps of this process, and on Linux the access of other processes to its memory."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


ALLOCATIONS: Final = 200_000
"""The objects that may accumulate before garbage is collected: more than the batches in flight have."""


def collect_rarely() -> None:
    """Let batches of records cause no collection of garbage: each would look through all their objects."""
    gc.set_threshold(ALLOCATIONS, *gc.get_threshold()[1:])


def exit_at_once() -> NoReturn:
    """End the process with exit code 0, without the interpreter's shutdown.

    The shutdown ends daemon threads when they next need the interpreter's lock. If such a thread is in compiled code,
    such as LLVM's, unwinding it aborts the process.
    """
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


STOP_LIMIT_SECONDS = 25.0
"""The time limit for a stop; pods have 30 seconds. The limits of its steps add up to less."""


def stop_on_signals(stop: threading.Event) -> None:
    """Set ``stop`` on SIGTERM and SIGINT, and end the process at once on a second signal.

    A process that still runs after ``STOP_LIMIT_SECONDS`` ends with exit code 1, and writes the stack of each thread to
    standard error. This is as safe as a crash: the brokers abort what is not committed. The watchdog is not a Python
    thread, because the interpreter's shutdown itself may hang. Does nothing outside of the main thread, which has no
    signal handlers.
    """

    def handle(number: int, _: FrameType | None) -> None:
        log.info("%s: stopping", signal.Signals(number).name)
        signal.signal(number, signal.SIG_DFL)
        faulthandler.dump_traceback_later(STOP_LIMIT_SECONDS, exit=True)
        stop.set()

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handle)
        signal.signal(signal.SIGINT, handle)
