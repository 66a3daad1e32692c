"""The stop flag and the heartbeat of a process's main loop."""

from __future__ import annotations

import threading

from stream_masker.service.observability.health import Health


class Liveness:
    """Tells loops whether to continue, and records their heartbeat in ``health``."""

    def __init__(self, health: Health, stop: threading.Event) -> None:
        self._health = health
        self._stop = stop

    def running(self) -> bool:
        """Return False when the process stops. Records no heartbeat: for threads other than the main one."""
        return not self._stop.is_set()

    def beat(self) -> bool:
        """Record a heartbeat. Return False when the process stops."""
        self._health.beat()
        return self.running()

    def pause(self, seconds: float) -> bool:
        """Wait, but no longer than until the process stops; then record a heartbeat. Return False when it stops."""
        self._stop.wait(seconds)
        return self.beat()
