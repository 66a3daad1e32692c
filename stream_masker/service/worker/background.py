"""Steps that may be slow, taken in another thread while this one stays a member of the consumer group."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from math import inf
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")

POLL_AFTER_SECONDS = 1.0
"""Seconds that a step may take before the group is served meanwhile."""

POLL_EVERY_SECONDS = 0.5

STUCK_AFTER_SECONDS = 600.0
"""Seconds after which a step counts as stuck: then nothing shows any more that the process is alive."""


class SerialExecutor:
    """A thread that takes one step after the other. It ends with the process, even if a step never does."""

    def __init__(self, name: str) -> None:
        self._steps: SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def submit(self, step: Callable[[], T]) -> Future[T]:
        """The step's result, or what it raised, when its turn has come."""
        future: Future[T] = Future()
        self._steps.put((step, future))
        return future

    def _run(self) -> None:
        while True:
            self._take(*self._steps.get())

    def _take(self, step: Callable[[], Any], future: Future[Any]) -> None:
        try:
            result = step()
        except BaseException as failure:  # noqa: BLE001 - whoever asks for the result gets it
            future.set_exception(failure)
        else:
            future.set_result(result)


def _nothing(_: Callable[[], bool]) -> None:
    """Does nothing meanwhile."""


class BackgroundRunner:
    """Takes steps in a thread of its own; whoever waits for one polls the group now and then.

    So no step, however slow, keeps this process from polling for ``max.poll.interval.ms``. ``serve`` polls once,
    taking no records; ``turn`` shows that the process is alive.
    """

    def __init__(
        self, *, serve: Callable[[], None], turn: Callable[[], object], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._serve = serve
        self._turn = turn
        self._clock = clock
        self._hand = SerialExecutor("masking")

    def run(self, step: Callable[[], T], meanwhile: Callable[[Callable[[], bool]], None] = _nothing) -> T:
        """Takes a step; its result, or what it raised.

        ``meanwhile`` is called at once, in this thread, with a function that says whether the step is over: it is not
        to last for much longer than that, nor for long at all.
        """
        future = self._hand.submit(step)
        meanwhile(future.done)
        return self.wait(future)

    def wait(self, step: Future[T], limit: Callable[[], float] = lambda: inf) -> T:
        """Waits for a step that is taken in any thread; its result, or what it raised.

        Raises TimeoutError after ``limit`` seconds, which is asked again and again: it may shrink.
        """
        start, patience = self._clock(), POLL_AFTER_SECONDS
        while wait([step], patience).not_done:
            taken = self._clock() - start
            if taken > limit():
                raise TimeoutError
            if taken < STUCK_AFTER_SECONDS:
                self._turn()
            self._serve()
            patience = POLL_EVERY_SECONDS
        return step.result()
