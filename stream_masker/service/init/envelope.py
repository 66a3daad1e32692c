"""The envelopes around rows: ``payload`` of Kafka Connect, and ``after`` or else ``before`` of Debezium."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

CHANGE = {"before", "after", "op"}
"""The members of an event of Debezium: the row before and after a change, either of which may be null, and its kind."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """Where the rows of events stand.

    prefixes: of the paths in a row, in the order in which they count: one empty text for events without an envelope.
    is_wrapped: whether the events have a schema beside their payload; has_changes: whether they are of Debezium.
    """

    prefixes: tuple[str, ...] = ("",)
    is_wrapped: bool = False
    has_changes: bool = False

    @classmethod
    def of(cls, events: Sequence[Mapping[str, Any]]) -> Envelope:
        """Return the envelope of most events."""
        is_wrapped = 2 * sum(event.keys() == {"schema", "payload"} for event in events) > len(events)
        inner = [event.get("payload") for event in events] if is_wrapped else events
        has_changes = 2 * sum(isinstance(one, dict) and one.keys() >= CHANGE for one in inner) > len(events)
        outer = "payload." if is_wrapped else ""
        rows = ("after.", "before.") if has_changes else ("",)
        return cls(tuple(f"{outer}{row}" for row in rows), is_wrapped, has_changes)

    def row(self, event: Any) -> dict[str, Any] | None:
        """Return the row of an event; None if it has none, as a heartbeat."""
        for prefix in self.prefixes:
            place = event
            for name in filter(None, prefix.split(".")):
                place = place.get(name) if isinstance(place, dict) else None
            if isinstance(place, dict):
                return place
        return None

    def paths(self, path: str) -> list[str]:
        """Return the paths of events for the path of a row, in the order in which they count."""
        return [f"{prefix.removesuffix('.') if path.startswith('[') else prefix}{path}" for prefix in self.prefixes]

    def path(self, path: str) -> str:
        """Return the path of events, of which the first with a value counts."""
        return " | ".join(self.paths(path))

    def attribute(self, attribute: Mapping[str, Any]) -> dict[str, Any]:
        """Return an attribute of rows as one of events."""
        path = attribute["path"]
        if not self.has_changes or "[*" not in path:
            return {**attribute, "path": self.path(path)}
        first, *others = self.paths(path)
        return {**attribute, "path": first, "also": others}

    def fields(self, person: str | None) -> dict[str, list[str]]:
        """Return the fields that are kept, and those that are pseudonymized. ``person``: the path of a person's id."""
        kept = {"keep": ["payload.op" if self.is_wrapped else "op"]} if self.has_changes else {}
        return {**kept, **({} if person is None else {"pseudonymize": self.paths(person)})}

    @property
    def dropped(self) -> dict[str, str]:
        """Why other parts of the envelope are dropped, by path."""
        found = {}
        if self.is_wrapped:
            found["schema"] = "it does not fit the masked payload: consumers read without it (schemas.enable=false)"
        if self.has_changes:
            found["source, ts_ms and the like"] = "parts of the envelope: keep what consumers need"
        return found
