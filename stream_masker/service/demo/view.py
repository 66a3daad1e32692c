"""The demonstration on a terminal (live) or in a file (line by line)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from stream_masker.core.ontology import Taxonomy
from stream_masker.service.demo.watch import Observed, ObservedEvent

PLAIN_SECONDS = 1.0
SHOWN_SECONDARIES = 2

ShownFigures = Mapping[str, Any]


def say(console: Console, text: str) -> None:
    """Prints text as it is, unwrapped."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)


class DemoView:
    """Shows ``Observed``; a context manager. ``taxonomies``: for the labels of concepts."""

    def __init__(self, console: Console, records: int, taxonomies: Mapping[str, Taxonomy]) -> None:
        self._console = console
        self._records = records
        self._taxonomies = taxonomies
        self._live = Live(console=console, refresh_per_second=5) if console.is_terminal else None
        self._start = time.monotonic()
        self._told = 0.0
        self._told_version = 0
        self._told_pair = False

    def __enter__(self) -> DemoView:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def update(self, seen: Observed) -> None:
        """Shows what was seen by now; on no terminal only what is new."""
        if self._live is not None:
            self._live.update(self._screen(seen))
        else:
            self._tell(seen)

    def _tell(self, seen: Observed) -> None:
        if time.monotonic() - self._told >= PLAIN_SECONDS:
            self._told = time.monotonic()
            say(
                self._console,
                f"{seen.produced:,} produced, {seen.outcomes:,} masked or rejected, {self._rate(seen):,.0f}/s",
            )
        version = 0 if seen.drift is None else seen.drift.version
        if version > self._told_version:
            self._told_version = version
            say(self._console, "\n".join(statistics_lines(seen, self._taxonomies)))
        if seen.pair is not None and not self._told_pair:
            self._told_pair = True
            say(self._console, "\n".join(pair_lines(*seen.pair)))

    def _rate(self, seen: Observed) -> float:
        return seen.outcomes / max(time.monotonic() - self._start, 1e-9)

    def _screen(self, seen: Observed) -> RenderableType:
        progress = Table.grid(expand=True, padding=(0, 1))
        progress.add_row(
            f"{seen.produced:,} produced", f"{seen.outcomes:,} masked or rejected", f"{self._rate(seen):,.0f} records/s"
        )
        bar = ProgressBar(total=self._records, completed=min(seen.outcomes, self._records))
        parts: list[RenderableType] = [Panel(Group(progress, bar), title="stream-masker demo")]
        parts.append(Panel(Text("\n".join(statistics_lines(seen, self._taxonomies))), title="calibration window"))
        if seen.pair is not None:
            parts.append(Panel(Columns([Text("\n".join(pair_lines(*seen.pair)))]), title="one synthetic event"))
        return Group(*parts)


def statistics_lines(seen: Observed, taxonomies: Mapping[str, Taxonomy]) -> list[str]:
    """Version, sMean by label, sVar, sdCor, RMSE and drift, a line each."""
    if seen.statistics is None:
        return ["no statistics yet: the worker holds back every record until the first ones are there"]
    message, statistics = seen.statistics, seen.statistics.statistics
    lines = [f"statistics version {message.version} ({message.source}, {statistics.records:,} records)"]
    utility, drift = (_measures(seen, part) for part in ("utility", "baseline"))
    for name in statistics.attributes:
        concept = statistics.mean[name]
        label = taxonomies[name].label(concept)
        lines.append(f"  {name}: sMean {concept} {label}, sVar {statistics.variance[name]:.4f}")
        lines += [f"    {text}" for text in (*_utility_of(utility, name), *_drift_of(drift, name))]
    return lines + list(_correlations(statistics.attributes, statistics.correlation, utility))


def _measures(seen: Observed, part: str) -> ShownFigures:
    measures = None if seen.drift is None else getattr(seen.drift, part)
    return measures or {"attributes": {}, "pairs": []}


def _utility_of(utility: ShownFigures, name: str) -> Iterator[str]:
    if figures := utility["attributes"].get(name):
        yield (
            f"masked: sVar {figures['variance']:.4f}, "
            f"RMSE actual {figures['rmse_actual']:.4f}, target {figures['rmse_target']:.4f}"
        )


def _drift_of(drift: ShownFigures, name: str) -> Iterator[str]:
    if figures := drift["attributes"].get(name):
        yield (
            f"drift from the baseline: sMean {figures['mean']:.3f}, sVar {figures['variance']:.4f}, "
            f"Jensen-Shannon {figures['divergence']:.3f}, never seen before {figures['novel']:.1%}"
        )


def _correlations(names: tuple[str, ...], correlation: Any, utility: ShownFigures) -> Iterator[str]:
    masked = {tuple(pair["attributes"]): pair["correlation"] for pair in utility["pairs"]}
    for i, first in enumerate(names):
        for j in range(i + 1, len(names)):
            after = masked.get((first, names[j]))
            told = "not known yet" if after is None else f"{after:.4f}"
            yield f"  sdCor({first}, {names[j]}): original {correlation[i][j]:.4f}, masked {told}"


def pair_lines(before: ObservedEvent, after: ObservedEvent) -> list[str]:
    """One event before and after, which may be shown because it was generated."""
    lines = [f"synthetic event {before['encounter_id']}, before -> after"]
    lines.append(f"  principal: {_diagnosis(before, 'principal')} -> {_diagnosis(after, 'principal')}")
    both = zip(before["diagnoses"]["secondary"], after["diagnoses"]["secondary"], strict=False)
    lines += [f"  secondary: {_code(b)} -> {_code(a)}" for b, a in list(both)[:SHOWN_SECONDARIES]]
    lines.append(f"  patient:   {before['patient']['id']} -> {after['patient']['id']}")
    return lines


def _diagnosis(event: ObservedEvent, which: str) -> str:
    return _code(event["diagnoses"][which])


def _code(diagnosis: Mapping[str, str]) -> str:
    return f"{diagnosis['code']} {diagnosis.get('display') or ''}".strip()
