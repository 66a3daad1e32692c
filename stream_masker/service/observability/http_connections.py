"""The open connections of the HTTP server: how many there may be, and which one ends when another one arrives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from stream_masker.errors import ParameterError

MAX_CONNECTIONS = 16
"""The maximum number of connections that are answered, each with a thread."""

CONNECTION_SECONDS = 10.0
"""The maximum duration of a connection, and of one read from it."""

C = TypeVar("C", bound=Hashable)


@dataclass(slots=True)
class OpenConnection:
    """``address``: of the client; ``deadline``: in seconds of a monotonic clock; ``evicted``: told to end."""

    address: str
    deadline: float
    evicted: bool = False


class OpenConnections(Generic[C]):
    """At most ``limit`` connections, and as many that are told to end and have not ended yet.

    A new connection is always accepted while fewer than ``2 * limit`` are open. If ``limit`` are in use, it takes the
    place of the oldest one of the address that has most of them. Many slow connections therefore end each other, and
    not those of a probe, which has one at a time and from another address.
    """

    def __init__(self, limit: int = MAX_CONNECTIONS) -> None:
        if limit < 1:
            raise ParameterError(f"limit must be at least 1, not {limit}")
        self._limit = limit
        self._open: dict[C, OpenConnection] = {}

    def add(self, connection: C, address: str, now: float) -> tuple[bool, list[C]]:
        """Return whether a connection is accepted, and the connections to end for it."""
        if len(self._open) >= 2 * self._limit:
            return False, []
        used = {one: state for one, state in self._open.items() if not state.evicted}
        victims = [self._evicted(used)] if len(used) >= self._limit else []
        self._open[connection] = OpenConnection(address, now + CONNECTION_SECONDS)
        return True, victims

    def remove(self, connection: C) -> None:
        """Forget a connection that has ended."""
        self._open.pop(connection, None)

    def overdue(self, now: float) -> list[C]:
        """Return the connections whose time is over."""
        return [connection for connection, state in self._open.items() if state.deadline <= now]

    def _evicted(self, used: dict[C, OpenConnection]) -> C:
        [(greediest, _)] = Counter(state.address for state in used.values()).most_common(1)
        victim = next(connection for connection, state in used.items() if state.address == greediest)
        self._open[victim].evicted = True
        return victim
