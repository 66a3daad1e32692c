"""The demonstration from start to end."""

from __future__ import annotations

import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console

from stream_masker.errors import ServiceError, StreamMaskerError
from stream_masker.service.configuration.ontologies import load_ontologies
from stream_masker.service.demo.environment import DemoEnvironment, prepare_demo
from stream_masker.service.demo.options import DemoOptions
from stream_masker.service.demo.processes import ChildProcesses, embedded_broker
from stream_masker.service.demo.view import DemoView, Figures, print_plain, summary_lines
from stream_masker.service.demo.watch import Observations, TopicWatcher
from stream_masker.service.events.publishing import Event, publish, synthetic_events
from stream_masker.service.events.synthetic import synthetic_discharges
from stream_masker.service.kafka.topics import prepare_topics

MAX_LEAD = 8_000
"""The most events that are published and not yet masked. The embedded broker keeps about 5 MB of each partition, and
then drops the oldest records, read or not."""

STALL_SECONDS, SETTLE_SECONDS = 300.0, 120.0
"""The time without progress after which the demonstration fails, and after which it waits for statistics no longer."""

WAIT_SECONDS, CLOSE_SECONDS, SCRAPE_SECONDS = 0.02, 10.0, 5.0


@dataclass(frozen=True, slots=True)
class DemoSummary:
    """What a demonstration showed: as text, and as figures."""

    text: str
    figures: dict[str, Any]


class EventFeed:
    """Publishes the events in a thread, in step with the worker.

    At first there are enough events for the first statistics. The second half, with the outbreak, waits for ``opened``:
    drift is a difference from the statistics of the first half.
    """

    def __init__(self, environment: DemoEnvironment, options: DemoOptions, seen: Observations) -> None:
        self._configuration, self._options, self._seen = environment.configuration, options, seen
        self._sample = 2 * environment.configuration.calibration.min_records
        self.opened, self._stopped = threading.Event(), threading.Event()
        self.error: StreamMaskerError | None = None
        self._thread = threading.Thread(target=self._publish, name="demo-events", daemon=True)

    def __enter__(self) -> EventFeed:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join(CLOSE_SECONDS)

    def _publish(self) -> None:
        try:
            publish(self._events(), self._configuration, rate=self._options.rate or None, show=lambda _: None)
        except StreamMaskerError as error:
            self.error = error

    def _events(self) -> Iterator[Event]:
        records, seed = self._options.records, self._options.seed
        discharges = synthetic_discharges(self._configuration, outbreak_after=records // 2, seed=seed)
        for event in synthetic_events(discharges, records):
            while not self.is_due(event.number):
                if self._stopped.wait(WAIT_SECONDS):
                    return
            yield event

    def is_due(self, number: int) -> bool:
        """Return whether the event of this number, from 1, is to be published now."""
        is_open = self.opened.is_set() or number <= self._options.records // 2
        lead = MAX_LEAD if self._seen.statistics is not None else self._sample
        return is_open and number - self._seen.outcomes <= lead


def run_demo(options: DemoOptions, console: Console) -> DemoSummary:
    """Run all processes of the service on generated events until every event is accounted for.

    Raises ServiceError if a process stops, or for five minutes without progress.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="stream-masker-demo-")))
        if not options.bootstrap_servers:
            print_plain(console, "Kafka: an in-memory broker in this process, for trials only")
        servers = options.bootstrap_servers or stack.enter_context(embedded_broker())
        environment = prepare_demo(folder, servers, options)
        load_ontologies(environment.configuration)
        if options.bootstrap_servers:
            prepare_topics(environment.configuration)
        watcher = TopicWatcher(environment.configuration)
        stack.callback(watcher.close)
        children = stack.enter_context(ChildProcesses(folder))
        config = ["--config", str(environment.file)]
        children.start("calibrator", config)
        children.start("worker", [*config, "--http-port", str(environment.worker_port)])
        for name, port in environment.ports.items():
            print_plain(console, f"{name}: http://127.0.0.1:{port}/metrics")
        start = time.monotonic()
        feed = stack.enter_context(EventFeed(environment, options, watcher.observations))
        with DemoView(console, options.records) as view:
            _watch_until_done(watcher, children, feed, view.update, options.records)
        seconds = time.monotonic() - start
        return _summary(watcher.observations, seconds, _metrics(environment.calibrator_port))


def _watch_until_done(
    watcher: TopicWatcher,
    children: ChildProcesses,
    feed: EventFeed,
    show: Callable[[Observations, str], None],
    records: int,
) -> None:
    """Show what is observed until every event is masked or rejected and statistics of both halves are published.

    Statistics that do not come within ``SETTLE_SECONDS`` without other progress are not waited for.
    """
    seen, counted, progressed, opened_with = watcher.observations, 0, time.monotonic(), 0
    while True:
        watcher.poll()
        children.check()
        if feed.error is not None:
            raise ServiceError(f"the events cannot be published: {feed.error}")
        now = time.monotonic()
        if seen.progress > counted:
            counted, progressed = seen.progress, now
        is_late = now - progressed > SETTLE_SECONDS
        if not feed.opened.is_set() and (seen.versions or is_late):
            opened_with = len(seen.versions)
            feed.opened.set()
        is_covered = feed.opened.is_set() and len(seen.versions) > opened_with
        show(seen, _phase(seen, records, is_open=feed.opened.is_set()))
        if seen.outcomes >= records and (is_covered or is_late):
            return
        if now - progressed > STALL_SECONDS:
            raise ServiceError(
                f"no progress for {STALL_SECONDS:.0f} s; {seen.outcomes:,} of {seen.produced:,} published events were "
                f"processed; {children.last_words()}"
            )


def _phase(seen: Observations, records: int, *, is_open: bool) -> str:
    """Say what is going on now."""
    if seen.statistics is None:
        return "computing the first statistics from a sample"
    if not is_open and seen.outcomes < records // 2:
        return "the first half of the events"
    if not is_open:
        return "computing statistics of the first half"
    return "an outbreak of influenza" if seen.outcomes < records else "computing statistics of the outbreak"


def _metrics(port: int) -> Figures:
    """Return the metrics of a local process; none if it does not answer."""
    with suppress(OSError):
        answer = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=SCRAPE_SECONDS)
        families = text_string_to_metric_families(answer.read().decode())
        return {(one.name, frozenset(one.labels.items())): one.value for f in families for one in f.samples}
    return {}


def _summary(seen: Observations, seconds: float, figures: Figures) -> DemoSummary:
    lines = summary_lines(seen, seconds, figures)
    return DemoSummary(
        "\n".join(lines),
        {
            "produced": seen.produced,
            "masked": seen.masked,
            "rejected": seen.rejected,
            "seconds": round(seconds, 1),
            "versions": seen.statistics.version if seen.statistics else 0,
            "lines": lines,
        },
    )
