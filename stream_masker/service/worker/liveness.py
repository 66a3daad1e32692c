"""The stop flag and the heartbeat of a process's main loop."""

from __future__ import annotations

import threading

from stream_masker.service.observability.health import Health


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
