"""The demonstration from start to end, and what it shows.

Statistics of earlier events are published first, as ``stream-masker calibrate --publish`` does. The worker masks with
them at once, while this process computes their risk. Halfway through, an outbreak begins, and the calibrator measures
the drift from the earlier events.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

import orjson
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from stream_masker.service.calibrator.bootstrap import publish_snapshot
from stream_masker.service.configuration import Configuration, load_configuration
from stream_masker.service.demo.processes import SILENT, START_SECONDS, Processes
from stream_masker.service.events.synthetic import SyntheticDischarges
from stream_masker.service.files import FileEvent
from stream_masker.service.files.masking import FileMasking
from stream_masker.service.process import in_background
from stream_masker.summary import TO_DO, moved_text

MAX_LEAD = 8_000
"""The most events that are published and not yet masked. The embedded broker keeps about 5 MB of each partition, and
then drops the oldest records, read or not. A quarter of all events is the most, so that a worker that reads one
partition after the other does not mask the outbreak of one before the earlier events of another."""

STALL_SECONDS = 120.0
"""The time without a masked event after which the demonstration ends with an error."""

POLL_SECONDS = 0.05
EVENTS_A_TURN = 1_000


def run_demo(console: Console, processes: Processes, *, records: int) -> tuple[str, dict[str, Any]]:
    """Mask generated events with the processes of the service; return the last lines, and the figures of the run.

    ``processes``: with the worker. Raises ServiceError if a process stops or nothing happens for ``STALL_SECONDS``.
    """
    configuration = load_configuration(processes.configuration, {})
    with progress_bar(console) as bar:
        bar.print("Kafka: an in-memory broker in this process, for trials only")
        start, shown = time.monotonic(), bar.add_task("learning from earlier events", total=records, rate="")
        processes.prepare("calibrator")
        stream, masking = EventStream(configuration, records), FileMasking(configuration)
        version = publish_snapshot(configuration, masking.snapshot(stream.earlier()))
        processes.begin("calibrator")  # without a version, it would take a sample of its own
        risk, is_shown = in_background(partial(masking.assessment, compare=False), name="risk"), False
        while not (stream.is_masked and stream.drift.get("version", 0) > version and risk.done()):
            stream.turn()
            processes.check()
            if risk.done() and time.monotonic() - stream.heard > STALL_SECONDS:
                raise processes.stalled(STALL_SECONDS)
            if stream.pair is not None and not is_shown:
                is_shown = True
                bar.print(event_table(*stream.pair))
            bar.update(shown, completed=stream.outcomes, description=stream.phase, rate=f"{stream.rate:,.0f} events/s")
        seconds = time.monotonic() - start
    counts = {"masked": stream.masked, "rejected": stream.rejected}
    lines = summary_lines(counts, seconds, risk.result().sentences, stream.drift)
    return "\n".join(lines), {**counts, "seconds": round(seconds, 1), "lines": lines}


class EventStream:
    """Sends the events, in step with the worker, and reads what becomes of them.

    ``pair``: an event before and after masking, whose principal diagnosis has changed. ``drift``: the last report.
    ``heard``: when the last masked or rejected event came.
    """

    def __init__(self, configuration: Configuration, records: int) -> None:
        self.masked = self.rejected = self._sent = 0
        self.pair: tuple[dict[str, Any], dict[str, Any]] | None = None
        self.drift: dict[str, Any] = {}
        self._topics, self._records = configuration.topics, records
        self._earlier = configuration.calibration.window_records
        discharges = SyntheticDischarges(configuration, outbreak_after=self._earlier + records // 2)
        self._events = discharges.events(self._earlier + records)
        self._before: dict[str, dict[str, Any]] = {}
        self._first = 0.0
        self.heard = time.monotonic()
        properties = {"bootstrap.servers": configuration.kafka.bootstrap_servers, "log_level": SILENT}
        self._producer = Producer(properties)
        self._consumer = Consumer({**properties, "group.id": "demo", "isolation.level": "read_committed"})
        found, read = self._consumer.list_topics(timeout=START_SECONDS).topics, ("output", "rejected", "drift")
        names = [getattr(self._topics, topic) for topic in read]
        self._consumer.assign([TopicPartition(name, n, 0) for name in names for n in found[name].partitions])

    def earlier(self) -> Iterator[FileEvent]:
        """Yield the events before those that are sent, with their numbers."""
        events = islice(self._events, self._earlier)
        return (FileEvent(number, orjson.dumps(event)) for number, event in enumerate(events, start=1))

    def turn(self) -> None:
        """Send the next events, and read what has come."""
        room = min(MAX_LEAD, self._records // 4) - (self._sent - self.outcomes)
        for event in islice(self._events, min(EVENTS_A_TURN, room)):
            self._sent += 1
            if self.pair is None:
                self._before[event["encounter_id"]] = event
            self._producer.produce(self._topics.input, orjson.dumps(event), event["patient"]["id"])
        self._producer.poll(0)
        for message in self._consumer.consume(EVENTS_A_TURN, POLL_SECONDS):
            if message.error() is None:
                self._take(message)

    def _take(self, message: Message) -> None:
        if message.topic() == self._topics.drift:
            self.drift = orjson.loads(message.value() or b"")
            return
        self.heard = time.monotonic()
        self._first = self._first or self.heard
        if message.topic() == self._topics.rejected:
            self.rejected += 1
            return
        self.masked += 1
        if self.pair is None:
            after = orjson.loads(message.value() or b"")
            before = self._before.pop(after["encounter_id"])
            if before["diagnoses"]["principal"] != after["diagnoses"]["principal"]:
                self.pair, self._before = (before, after), {}

    @property
    def outcomes(self) -> int:
        """The number of events that are masked or rejected."""
        return self.masked + self.rejected

    @property
    def is_masked(self) -> bool:
        """Whether every event is masked or rejected."""
        return self.outcomes >= self._records

    @property
    def rate(self) -> float:
        """The outcomes a second, from the first to the last one."""
        return self.outcomes / (self.heard - self._first) if self.heard > self._first > 0 else 0.0

    @property
    def phase(self) -> str:
        """What is going on now."""
        if self.is_masked:
            return "comparing with the earlier events"
        return "masking; an outbreak has begun" if self.outcomes >= self._records // 2 else "masking"


def progress_bar(console: Console) -> Progress:
    """Return a bar with what is going on, the number of events, and the rate; one line if there is no terminal."""
    return Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"),
        console=console,
    )  # fmt: skip


def event_table(before: Mapping[str, Any], after: Mapping[str, Any]) -> Table:
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


def summary_lines(
    counts: Mapping[str, int], seconds: float, sentences: Sequence[str], drift: Mapping[str, Any]
) -> list[str]:
    """Return the lines at the end. ``sentences``: what an attacker learns and what stays (``Assessment``)."""
    report, utility = drift["baseline"], drift["utility"]
    means = max(one["mean_distance"] for one in utility["attributes"].values())
    correlation = max(one["correlation_error"] for one in utility["pairs"])
    moved = max(one["rmse_actual"] for one in utility["attributes"].values())
    masks = "the masks are as expected" if utility["verdict"] == "none" else f"the masks: {utility['verdict']}"
    return [
        f"Events: {counts['masked']:,} masked, {counts['rejected']:,} rejected, in {seconds:.0f} s, one worker.",
        *sentences[:2],
        f"Kept: correlations change by at most {correlation:.3f}, and means by a distance of {means:.2f}; codes move "
        f"by at most {moved:.2f} (root mean square; 1 is the greatest distance).",
        f"Drift: {report['verdict']} ({TO_DO[report['verdict']]}); {_moved(report)}; {masks}.",
        "Next: `stream-masker config init --events FILE` proposes a configuration for your own events.",
    ]


def _moved(report: Mapping[str, Any]) -> str:
    """Say which block and which code have become more frequent."""
    moved = report["attributes"]["principal"]["moved"]
    grown = {one["level"]: one for one in reversed(moved) if one["now"] > one["before"]}
    shown = [moved_text(grown[level]) for level in ("blocks", "codes") if level in grown]
    return f"moved most: {'; '.join(shown)}" if shown else "no code moved"
