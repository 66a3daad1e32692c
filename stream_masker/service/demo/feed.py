"""The generated events of the demonstration, published in step with the worker.

The embedded broker keeps about 5 MB of each partition and then drops the oldest records, read or not. So at most
``MAX_LEAD`` events are ahead of the worker. The second half, in which the diagnoses drift, waits until statistics of
the first half are in force: drift is a difference from them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self

from stream_masker.errors import ServiceError, StreamMaskerError
from stream_masker.service.configuration import Configuration
from stream_masker.service.demo.options import DemoOptions
from stream_masker.service.events.publishing import Event, publish, synthetic_events
from stream_masker.service.events.synthetic import synthetic_discharges

MAX_LEAD = 8_000
"""The most events that are published and not yet masked: less than 5 MB, even if one partition has all of them."""

WAIT_SECONDS = 0.02
CLOSE_SECONDS = 10.0


class EventFeed:
    """Context manager that publishes the events in a thread.

    ``outcomes``: returns the number of events that are masked or rejected. ``open_second_half``: lets the events of the
    second half follow.
    """

    def __init__(self, configuration: Configuration, options: DemoOptions, outcomes: Callable[[], int]) -> None:
        self._configuration = configuration
        self._options = options
        self._outcomes = outcomes
        self._second_half, self._stopped = threading.Event(), threading.Event()
        self._error: StreamMaskerError | None = None
        self._thread = threading.Thread(target=self._publish, name="demo-events", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._thread.join(CLOSE_SECONDS)

    def open_second_half(self) -> None:
        """Let the events with the drift follow."""
        self._second_half.set()

    def check(self) -> None:
        """Raise ServiceError if the events cannot be published."""
        if self._error is not None:
            raise ServiceError(f"the events cannot be published: {self._error}")

    def _publish(self) -> None:
        try:
            publish(self._events(), self._configuration, rate=self._options.rate or None, show=lambda _: None)
        except StreamMaskerError as error:
            self._error = error

    def _events(self) -> Iterator[Event]:
        options = self._options
        discharges = synthetic_discharges(
            self._configuration,
            correlation=options.correlation,
            outbreak_after=options.records // 2,
            seed=options.seed,
        )
        for number, event in enumerate(synthetic_events(discharges, options.records)):
            while not self._is_due(number):
                if self._stopped.wait(WAIT_SECONDS):
                    return
            yield event

    def _is_due(self, number: int) -> bool:
        is_open = self._second_half.is_set() or number < self._options.records // 2
        return is_open and number - self._outcomes() < MAX_LEAD
