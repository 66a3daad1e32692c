"""What the demonstration shows: its progress in lines, one event before and after, and six sentences at the end."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from rich.console import Console
from rich.table import Table

from stream_masker.summary import TO_DO, moved_text

DemoEvent: TypeAlias = dict[str, Any]

LINE_SECONDS = 2.0


@dataclass(slots=True)
class Progress:
    """How many events are sent, masked and rejected. ``pair``: one whose principal diagnosis masking has changed."""

    sent: int = 0
    masked: int = 0
    rejected: int = 0
    pair: tuple[DemoEvent, DemoEvent] | None = None

    @property
    def outcomes(self) -> int:
        """The number of events that are masked or rejected."""
        return self.masked + self.rejected


def print_plain(console: Console, text: str) -> None:
    """Print text unformatted and unwrapped."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)


class DemoView:
    """Shows the progress by a line every two seconds, and an event once it is masked."""

    def __init__(self, console: Console, records: int) -> None:
        self._console, self._records, self._printed, self._shown = console, records, 0.0, False
        self._first: tuple[int, float] | None = None
        self._outcomes, self._rate = 0, 0.0

    def update(self, seen: Progress, phase: str) -> None:
        """Show the progress. ``phase``: what is going on now. The rate is that from the first masked events to the
        last."""
        now = time.monotonic()
        if seen.outcomes > self._outcomes:
            self._outcomes, (count, start) = seen.outcomes, self._first or (seen.outcomes, now)
            self._first = count, start
            self._rate = (seen.outcomes - count) / (now - start) if now > start else 0.0
        if now - self._printed >= LINE_SECONDS:
            self._printed = now
            text = f"{seen.outcomes:,} of {self._records:,} events masked, {self._rate:,.0f}/s; {phase}"
            print_plain(self._console, text)
        if seen.pair is not None and not self._shown:
            self._shown = True
            self._console.print(event_table(*seen.pair))


def event_table(before: DemoEvent, after: DemoEvent) -> Table:
    """Return one event before and after masking; it may be shown because it is synthetic."""
    title = f"event {before['encounter_id']}, which is synthetic"
    table = Table("", "before", "after", title=title, title_justify="left")
    old, new = before["diagnoses"], after["diagnoses"]
    table.add_row("principal diagnosis", _diagnosis(old["principal"]), _diagnosis(new["principal"]))
    for one, other in list(zip(old["secondary"], new["secondary"], strict=True))[:2]:
        table.add_row("secondary diagnosis", _diagnosis(one), _diagnosis(other))
    table.add_row("patient", before["patient"]["id"], after["patient"]["id"])
    table.add_row("name", before["patient"]["name"], "(dropped)")
    return table


def _diagnosis(diagnosis: Mapping[str, str]) -> str:
    return f"{diagnosis['code']} {diagnosis.get('display') or ''}".strip()


def summary_lines(seen: Progress, drift: Mapping[str, Any], seconds: float, sentences: Sequence[str]) -> list[str]:
    """Return the lines at the end. ``drift``: the last report; ``sentences``: what the calibrator says."""
    report, utility = drift["baseline"] or {}, (drift["utility"] or {}).get("verdict")
    masks = "the masks are as expected" if utility == "none" else f"the verdict on the masks is {utility}"
    return [
        f"Events: {seen.masked:,} masked, {seen.rejected:,} rejected, in {seconds:.0f} s, one worker.",
        *sentences,
        f"Drift: {report['verdict']} ({TO_DO[report['verdict']]}); {_moved(report)}; {masks}.",
        "Next: `stream-masker config init --events FILE` proposes a configuration for your own events.",
    ]


def _moved(report: Mapping[str, Any]) -> str:
    """Say which block and which code have become more frequent."""
    moved = report["attributes"]["principal"]["moved"]
    grown = {one["level"]: one for one in reversed(moved) if one["now"] > one["before"]}
    shown = [moved_text(grown[level]) for level in ("blocks", "codes") if level in grown]
    return f"moved most: {'; '.join(shown)}" if shown else "no code moved"
