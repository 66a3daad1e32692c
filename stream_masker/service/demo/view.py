"""What the demonstration shows: a progress bar, one event before and after, and six lines at the end."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Self, TypeAlias

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

from stream_masker.service.demo.watch import DemoEvent, Observations
from stream_masker.summary import TO_DO, moved_text

Figures: TypeAlias = Mapping[tuple[str, frozenset[tuple[str, str]]], float]
"""The metrics of a process: values by name and labels."""

PLAIN_SECONDS = 2.0
ATTRIBUTES = {"principal": "principal diagnoses", "secondary": "secondary diagnoses"}


def print_plain(console: Console, text: str) -> None:
    """Print text unformatted and unwrapped."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)


class DemoView:
    """Context manager that shows the progress: a bar on a terminal, otherwise lines; and an event once it is masked."""

    def __init__(self, console: Console, records: int) -> None:
        self._console, self._start, self._printed, self._shown = console, time.monotonic(), 0.0, False
        text = TextColumn("{task.completed:,.0f} of {task.total:,.0f} events masked, {task.fields[rate]:,.0f}/s")
        phase = TextColumn("{task.fields[phase]}")
        self._bar = Progress(BarColumn(), text, phase, console=console, disable=not console.is_terminal)
        self._task = self._bar.add_task("", total=records, rate=0.0, phase="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._bar.stop()

    def update(self, seen: Observations, phase: str) -> None:
        """Show the observations. ``phase``: what is going on now."""
        now = time.monotonic()
        rate = seen.outcomes / max(now - self._start, 1e-9)
        self._bar.update(self._task, completed=seen.outcomes, rate=rate, phase=phase)
        if not self._console.is_terminal and now - self._printed >= PLAIN_SECONDS:
            self._printed = now
            print_plain(self._console, f"{seen.outcomes:,} of {seen.produced:,} events masked, {rate:,.0f}/s; {phase}")
        if seen.pair is not None and not self._shown:
            self._shown = True
            self._console.print(event_table(*seen.pair))


def event_table(before: DemoEvent, after: DemoEvent) -> Table:
    """Return one event before and after masking; it may be shown because it is synthetic."""
    table = Table(
        "", "before", "after", title=f"event {before['encounter_id']}, which is synthetic", title_justify="left"
    )
    old, new = before["diagnoses"], after["diagnoses"]
    table.add_row("principal diagnosis", _diagnosis(old["principal"]), _diagnosis(new["principal"]))
    for one, other in list(zip(old["secondary"], new["secondary"], strict=True))[:2]:
        table.add_row("secondary diagnosis", _diagnosis(one), _diagnosis(other))
    table.add_row("patient", before["patient"]["id"], after["patient"]["id"])
    table.add_row("name", before["patient"]["name"], "(dropped)")
    return table


def _diagnosis(diagnosis: Mapping[str, str]) -> str:
    return f"{diagnosis['code']} {diagnosis.get('display') or ''}".strip()


def summary_lines(seen: Observations, seconds: float, figures: Figures) -> list[str]:
    """Return the six lines at the end. ``figures``: the metrics of the calibrator."""
    return [
        f"Events:   {seen.masked:,} masked, {seen.rejected:,} rejected, in {seconds:.0f} s, one worker",
        f"Attacker: {_guesses(figures)}",
        f"Kept:     {_kept(figures)}",
        f"Drift:    {drift_text(seen)}",
        f"          {_moved(seen)}",
        "Next:     stream-masker config init --events FILE proposes a configuration for your own events; "
        "stream-masker --help lists all commands",
    ]


def _figure(figures: Figures, name: str, **labels: str) -> float | None:
    return figures.get((f"stream_masker_{name}", frozenset(labels.items())))


def _guesses(figures: Figures) -> str:
    def guesses() -> Iterator[str]:
        for attribute, words in ATTRIBUTES.items():
            right = _figure(figures, "risk_vulnerability", attribute=attribute, given="record")
            if right is None:
                right = _figure(figures, "risk_vulnerability", attribute=attribute, given="value")
            prior = _figure(figures, "risk_prior", attribute=attribute)
            if right is not None and prior is not None:
                yield f"{right:.0%} of the {words} (without masks {prior:.0%})"

    found = " and ".join(guesses())
    who = "who knows how often all codes and pairs of codes occur, but not the secret, guesses right"
    return f"one {who} {found}" if found else "what masks tell was not computed in time, because this machine is busy"


def _kept(figures: Figures) -> str:
    pair = {"first": "principal", "second": "secondary"}
    before, after = (_figure(figures, "sdcor", **pair, data=data) for data in ("original", "masked"))
    if before is None or after is None:
        return "the correlation of the masked diagnoses was not computed in time, because this machine is busy"
    svar = [_figure(figures, "svar", attribute="principal", data=data) for data in ("original", "masked")]
    dispersion = "" if None in svar else f", dispersion of principal diagnoses {svar[0]:.2f} and {svar[1]:.2f}"
    return f"correlation of principal and secondary diagnoses {before:.2f}, after masking {after:.2f}{dispersion}"


def drift_text(seen: Observations) -> str:
    """Return the verdict about the drift, and what an operator does."""
    if seen.drift is None or len(seen.versions) < 2:
        return "not shown: statistics of both halves were not published in time, because this machine is busy"
    report = seen.drift.baseline
    return "none was measured" if report is None else report["verdict"] + " (" + TO_DO[report["verdict"]] + ")"


def _moved(seen: Observations) -> str:
    """Say which block and which code became more frequent since the first version."""
    report = None if seen.drift is None else seen.drift.baseline
    moved = [] if report is None else report["attributes"]["principal"]["moved"]
    grown = {one["level"]: one for one in reversed(moved) if one["now"] > one["before"]}
    shown = [moved_text(grown[level]) for level in ("blocks", "codes") if level in grown]
    return f"moved most: {'; '.join(shown)}" if shown else "no code moved"
