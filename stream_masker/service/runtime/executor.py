"""A thread that runs tasks one after the other."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


class SerialExecutor:
    """A daemon thread that runs tasks one after the other. A stuck task does not keep the process alive.

    ``niceness``: the priority of the thread, where threads have their own (Linux); 0: that of the process.
    """

    def __init__(self, name: str, *, niceness: int = 0) -> None:
        self._tasks: SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = SimpleQueue()
        self._niceness = niceness
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, task: Callable[[], T]) -> Future[T]:
        """Queue a task; the future holds its result or exception."""
        future: Future[T] = Future()
        self._tasks.put((task, future))
        return future

    def processor_seconds(self) -> float:
        """Return the processor time of the thread, where threads have a clock of their own; else of the process."""
        if sys.platform == "linux":
            return time.clock_gettime(time.pthread_getcpuclockid(self._thread.ident or 0))
        return time.process_time()

    def _run(self) -> None:
        _lower_priority(self._niceness)
        while True:
            _complete(*self._tasks.get())


def _complete(task: Callable[[], Any], future: Future[Any]) -> None:
    try:
        result = task()
    except BaseException as failure:  # noqa: BLE001 - the future's reader raises it
        future.set_exception(failure)
    else:
        future.set_result(result)


def _lower_priority(niceness: int) -> None:
    """Lower the priority of the current thread to a niceness; a thread that has a lower one keeps it."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, thread, max(niceness, os.getpriority(os.PRIO_PROCESS, thread)))
