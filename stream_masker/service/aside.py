"""Steps that may be slow, taken in another thread while this one stays a member of the consumer group."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 1.0
"""Seconds that a step may take before the group is served meanwhile."""

SERVE_EVERY = 0.5

LONGEST = 600.0
"""Seconds after which a step counts as stuck: then nothing shows any more that the process is alive."""


class Aside:
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
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="masking")

    def run(self, step: Callable[[], T]) -> T:
        """Takes a step; its result, or what it raised."""
        return self.wait(self._thread.submit(step))

    def wait(self, step: Future[T]) -> T:
        """Waits for a step that is taken in any thread; its result, or what it raised."""
        start, patience = self._clock(), PATIENCE
        while wait([step], patience).not_done:
            if self._clock() - start < LONGEST:
                self._turn()
            self._serve()
            patience = SERVE_EVERY
        return step.result()

    def close(self) -> None:
        """Waits for the step that is being taken, if any."""
        self._thread.shutdown()
