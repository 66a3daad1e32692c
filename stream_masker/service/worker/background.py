"""Blocking work on a background thread, while the main thread keeps polling the consumer group."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from math import inf
from typing import Any, TypeVar

from stream_masker.service.observability.health import Health
from stream_masker.service.runtime.process import SerialExecutor


class Liveness:
    """Combines the stop flag ``stop`` with the heartbeat in ``health``."""

    def __init__(self, health: Health, stop: threading.Event) -> None:
        self._health = health
        self._stop = stop

    def running(self) -> bool:
        """Return False when the process stops. Threads other than the main one call it, so it records no heartbeat."""
        return not self._stop.is_set()

    def beat(self) -> bool:
        """Record a heartbeat. Return False when the process stops."""
        self._health.beat()
        return self.running()

    def pause(self, seconds: float) -> bool:
        """Wait for this time or until the process stops; then ``beat``."""
        self._stop.wait(seconds)
        return self.beat()


T = TypeVar("T")

POLL_AFTER_SECONDS = 1.0
"""Seconds of a task before the main thread starts to poll the group."""

POLL_EVERY_SECONDS = 0.5

STUCK_AFTER_SECONDS = 600.0
"""Seconds after which a task counts as stuck: the main thread stops its heartbeat, so that the process is restarted."""


def _do_nothing(_: Callable[[], bool]) -> None:
    """Do nothing while a task runs."""


class BackgroundRunner:
    """Runs tasks on one background thread; the calling thread polls the group until a task is done.

    A slow task therefore does not exceed ``max.poll.interval.ms``. ``poll`` polls the group once and reads no records;
    ``beat`` records that the process is alive.
    """

    def __init__(
        self, *, poll: Callable[[], None], beat: Callable[[], object], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._poll = poll
        self._beat = beat
        self._clock = clock
        self._executor = SerialExecutor("masking")

    def run(self, task: Callable[[], T], meanwhile: Callable[[Callable[[], bool]], None] = _do_nothing) -> T:
        """Run a task; return its result or raise its exception.

        ``meanwhile`` runs at once on the calling thread. Its argument is a function that returns whether the task is
        done. It should return soon after that, or after a short time.
        """
        future = self._executor.submit(task)
        meanwhile(future.done)
        return self.wait(future)

    def wait(self, future: Future[T], limit: Callable[[], float] = lambda: inf) -> T:
        """Wait for a task of any thread; return its result or raise its exception.

        Raises TimeoutError where ``wait_until_done`` returns False.
        """
        if not self.wait_until_done(future, limit):
            raise TimeoutError
        return future.result()

    def wait_until_done(self, future: Future[Any], limit: Callable[[], float] = lambda: inf) -> bool:
        """Wait for a task of any thread. Return False if it is not done after ``limit()`` seconds.

        ``limit`` is called again at each poll; its value may change.
        """
        start, seconds = self._clock(), POLL_AFTER_SECONDS
        while wait([future], seconds).not_done:
            elapsed = self._clock() - start
            if elapsed > limit():
                return False
            if elapsed < STUCK_AFTER_SECONDS:
                self._beat()
            self._poll()
            seconds = POLL_EVERY_SECONDS
        return True
