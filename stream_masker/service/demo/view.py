"""The display of the demonstration: live on a terminal, line by line elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import combinations
from typing import Any

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from stream_masker.core.ontology import Taxonomy
from stream_masker.core.statistics import Statistics
from stream_masker.pipeline.publication import Publication
from stream_masker.service.configuration import Configuration
from stream_masker.service.configuration.build import mechanism_parameters
from stream_masker.service.demo.watch import Observations, ObservedEvent
from stream_masker.summary import drift_lines, three_sentences

ReportedMeasures = Mapping[str, Any]
"""The measures of a drift report: ``utility``."""


def statistics_lines(
    version: int,
    source: str,
    statistics: Statistics,
    means: Mapping[str, str],
    utility: ReportedMeasures | None,
    *,
    more: Callable[[str], Iterable[str]] = lambda _: (),
    unknown: str = "",
) -> Iterator[str]:
    """Yield the lines for a version, sMean, sVar, sdCor and what is known of the masked records.

    * ``means``: the text for sMean of each attribute. ``utility``: the measures of the masked records, or None.
    * ``more``: further lines about an attribute. ``unknown``: what follows a correlation that masks have not yet.
    """
    measures = utility or {"attributes": {}, "pairs": []}
    yield f"statistics version {version} ({source}, {statistics.records:,} records)"
    for name in statistics.attributes:
        yield f"  {name}: {means[name]}, sVar {statistics.variance[name]:.4f}"
        if masked := measures["attributes"].get(name):
            yield (
                f"    masked: sVar {masked['variance']:.4f}, RMSE actual {masked['rmse_actual']:.4f}, "
                f"target {masked['rmse_target']:.4f}"
            )
        yield from (f"    {text}" for text in more(name))
    known = {tuple(pair["attributes"]): pair["correlation"] for pair in measures["pairs"]}
    for (i, first), (j, second) in combinations(enumerate(statistics.attributes), 2):
        after = known.get((first, second))
        text = unknown if after is None else f", masked {after:.4f}"
        yield f"  sdCor({first}, {second}): original {statistics.correlation[i][j]:.4f}{text}"


PLAIN_SECONDS = 1.0
SHOWN_SECONDARIES = 2
ROLLUP_DEPTH = 2
"""The depth of the roll-up in the demonstration's configuration, which is the default."""


def print_plain(console: Console, text: str) -> None:
    """Print text unformatted and unwrapped."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)


class DemoView:
    """Context manager that displays ``Observations``; ``taxonomies`` provide the labels of concepts."""

    def __init__(self, console: Console, records: int, taxonomies: Mapping[str, Taxonomy]) -> None:
        self._console = console
        self._records = records
        self._taxonomies = taxonomies
        self._live = Live(console=console, refresh_per_second=5) if console.is_terminal else None
        self._start = time.monotonic()
        self._printed_at = 0.0
        self._printed_state: tuple[float, ...] = ()
        self._printed_version = 0
        self._printed_pair = False

    def __enter__(self) -> DemoView:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def update(self, observations: Observations) -> None:
        """Display the observations; without a terminal, print only what is new."""
        if self._live is not None:
            self._live.update(self._screen(observations))
        else:
            self._print_new(observations)

    def _print_new(self, observations: Observations) -> None:
        state = (observations.produced, observations.outcomes, observations.computing)
        if state != self._printed_state and time.monotonic() - self._printed_at >= PLAIN_SECONDS:
            self._printed_at, self._printed_state = time.monotonic(), state
            print_plain(
                self._console,
                f"{observations.produced:,} produced, {observations.outcomes:,} masked or rejected, "
                f"{self._rate(observations):,.0f}/s{waiting_text(observations)}",
            )
        version = 0 if observations.drift is None else observations.drift.version
        if version > self._printed_version:
            self._printed_version = version
            print_plain(self._console, "\n".join(version_lines(observations, self._taxonomies)))
        if observations.pair is not None and not self._printed_pair:
            self._printed_pair = True
            print_plain(self._console, "\n".join(pair_lines(*observations.pair)))

    def _rate(self, observations: Observations) -> float:
        return observations.outcomes / max(time.monotonic() - self._start, 1e-9)

    def _screen(self, observations: Observations) -> RenderableType:
        progress = Table.grid(expand=True, padding=(0, 1))
        progress.add_row(
            f"{observations.produced:,} produced",
            f"{observations.outcomes:,} masked or rejected",
            f"{self._rate(observations):,.0f} records/s{waiting_text(observations)}",
        )
        bar = ProgressBar(total=self._records, completed=min(observations.outcomes, self._records))
        parts: list[RenderableType] = [Panel(Group(progress, bar), title="stream-masker demo")]
        lines = [*version_lines(observations, self._taxonomies), *drift_of(observations)]
        parts.append(Panel(Text("\n".join(lines)), title="calibration window"))
        if observations.pair is not None:
            parts.append(Panel(Columns([Text("\n".join(pair_lines(*observations.pair)))]), title="one synthetic event"))
        return Group(*parts)


def waiting_text(observations: Observations) -> str:
    """Say what events wait for, if they do."""
    seconds = observations.computing
    return f"; the calibrator has been computing statistics for {seconds:.0f} s" if seconds else ""


def version_lines(observations: Observations, taxonomies: Mapping[str, Taxonomy]) -> list[str]:
    """Return the lines for the version, sMean with labels, sVar, sdCor and RMSE."""
    message, report = observations.statistics, observations.drift
    if message is None:
        return ["no statistics yet: the worker holds all records until the first version is published"]
    utility = None if report is None else report.utility
    means = {name: _mean_of(message.statistics, name, taxonomies) for name in message.statistics.attributes}
    return list(
        statistics_lines(
            message.version,
            message.source,
            message.statistics,
            means,
            utility,
            unknown=", masked not known yet",
        )
    )


def _mean_of(statistics: Statistics, name: str, taxonomies: Mapping[str, Taxonomy]) -> str:
    """Return the text for sMean, without the concept if too few records are in its class; for the root, which says
    little, with the most frequent chapter."""
    mean = Publication(taxonomies, ROLLUP_DEPTH).means(statistics).get(name)
    if mean is None:
        return "sMean of too few records to be shown"
    concept = mean.concept
    text, chapters = _labelled(concept, taxonomies[name]), statistics.rollup[name]
    if concept != taxonomies[name].ids[0] or not chapters:
        return text
    chapter = max(chapters, key=chapters.__getitem__)
    return f"sMean is the root; most frequent {chapter} {taxonomies[name].label(chapter)}, {chapters[chapter]:.0%}"


def _labelled(concept: str, taxonomy: Taxonomy) -> str:
    return f"sMean {concept} {taxonomy.label(concept)}"


def drift_of(observations: Observations) -> list[str]:
    """Return the lines about the drift from the baseline; none while there is no comparison."""
    report = None if observations.drift is None else observations.drift.baseline
    return [] if report is None else list(drift_lines(report))


def promise_line(configuration: Configuration) -> str:
    """Return the promise of the mechanism, in one sentence."""
    promise = mechanism_parameters(configuration).get("certainty")
    return three_sentences(None, promise=promise, incomplete=configuration.may_lack_codes)[0]


def pair_lines(before: ObservedEvent, after: ObservedEvent) -> list[str]:
    """Return the lines for one event before and after masking; it may be shown because it is synthetic."""
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
