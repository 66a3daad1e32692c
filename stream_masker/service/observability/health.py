"""The health of a process: whether it is alive and ready, why not, and what its last statistics say."""

from __future__ import annotations

import time
from collections.abc import Callable

from stream_masker import __version__


class Health:
    """The liveness and readiness of a process, written by its loops in any thread and read by the HTTP server: in steps
    that no other thread interrupts.

    Alive: the component ``start`` has a reason, as until everything is loaded and connected, or the loop recorded a
    heartbeat within the last ``stale_after`` seconds. Ready: alive, and no component has a reason against it. Notes
    report problems that do not affect readiness.

    ``statements``: what the page says of the statistics in use, a line each.
    """

    def __init__(self, *, stale_after: float = 60.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._stale_after, self._clock, self._beat = stale_after, clock, clock()
        self._reasons: dict[str, str | None] = {"start": "starting"}
        self._notes: dict[str, str | None] = {}
        self._on_reason: Callable[[str, bool], object] = lambda _component, _blocks: None
        self.statements: tuple[str, ...] = ()

    def beat(self) -> None:
        """Record a heartbeat of the main loop."""
        self._beat = self._clock()

    def reason(self, component: str, text: str | None) -> None:
        """Set the reason why a component is not ready; None if it is ready."""
        self._reasons[component] = text
        self._on_reason(component, text is not None)

    def note(self, component: str, text: str | None) -> None:
        """Set a note about a problem of a component that is ready; None if there is no problem."""
        self._notes[component] = text

    def watch(self, on_reason: Callable[[str, bool], object]) -> None:
        """Call ``on_reason`` with each component that reports, and whether it is why the process is not ready."""
        self._on_reason = on_reason
        for component, text in self._reasons.items():
            on_reason(component, text is not None)

    @property
    def alive(self) -> bool:
        """Whether the main loop runs, or the process starts."""
        return self._reasons["start"] is not None or self._clock() - self._beat < self._stale_after

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reasons why the process is not ready; empty if it is ready."""
        stale = () if self.alive else ("the main loop is not running",)
        return stale + tuple(text for text in [*self._reasons.values()] if text is not None)

    @property
    def notes(self) -> tuple[str, ...]:
        """The problems that do not affect readiness."""
        return tuple(text for text in [*self._notes.values()] if text is not None)

    def page(self) -> str:
        """Return the state as lines of text: version, readiness with its reasons, notes, and the statistics in use."""
        reasons, notes = self.reasons, self.notes
        lines = [f"stream-masker {__version__}", "not ready:" if reasons else "ready", *(f"  {one}" for one in reasons)]
        lines += ["notes:", *(f"  {one}" for one in notes)] if notes else []
        return "\n".join([*lines, *self.statements]) + "\n"
