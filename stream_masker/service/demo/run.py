"""The demonstration from start to end.

Statistics of earlier events are published first, as ``stream-masker calibrate --publish`` does. The worker masks with
them at once. Halfway through, an outbreak begins, and the calibrator measures the drift from the earlier events.
"""

from __future__ import annotations

import secrets
import socket
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

import orjson
import yaml
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from rich.console import Console

from stream_masker.errors import ServiceError
from stream_masker.service.calibrator.bootstrap import publish_snapshot
from stream_masker.service.configuration import Configuration, load_configuration
from stream_masker.service.demo.processes import START_SECONDS, check, embedded_broker, last_lines, running
from stream_masker.service.demo.view import DemoEvent, DemoView, Progress, print_plain, summary_lines
from stream_masker.service.events.synthetic import NESTED_EVENTS, SyntheticDischarges
from stream_masker.service.files.inputs import FileEvent
from stream_masker.service.files.masking import FileMasking

TOPICS = ("input", "output", "rejected", "calibration", "statistics", "drift")

MAX_LEAD = 8_000
"""The most events that are published and not yet masked. The embedded broker keeps about 5 MB of each partition, and
then drops the oldest records, read or not."""

STALL_SECONDS = 300.0
"""The time without progress after which the demonstration fails."""

SILENT = 2
"""The log level of the demonstration's own clients: without the lines of their connections when the broker ends."""

POLL_SECONDS, REST_SECONDS, PAGE_SECONDS = 0.05, 0.5, 5.0
EVENTS_A_TURN = 1_000
SEED = 1


def run_demo(console: Console, *, records: int, mechanism: str) -> tuple[str, dict[str, Any]]:
    """Mask generated events with all processes of the service; return the last lines, and the figures of the run.

    Raises ServiceError if a process stops, or for five minutes without progress.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="stream-masker-demo-")))
        print_plain(console, "Kafka: an in-memory broker in this process, for trials only")
        servers, (calibrator, worker) = stack.enter_context(embedded_broker()), free_ports(2)
        configuration = prepare_demo(folder, servers, records, mechanism, calibrator)
        config = ["--config", str(folder / "stream-masker.yaml")]
        processes = stack.enter_context(running(folder, {"worker": [*config, "--http-port", str(worker)]}))
        for name, port in {"calibrator": calibrator, "worker": worker}.items():
            print_plain(console, f"{name}: http://127.0.0.1:{port}/metrics")
        view, start = DemoView(console, records), time.monotonic()
        stream = EventStream(configuration, records)
        stack.callback(stream.close)
        view.update(stream.progress, "computing the statistics of earlier events")
        snapshot = FileMasking(configuration).snapshot(stream.earlier())
        version = publish_snapshot(configuration, snapshot)
        # A calibrator that finds no version would take a sample of its own.
        processes |= stack.enter_context(running(folder, {"calibrator": config}))
        sentences: list[str] = []
        while not (stream.is_masked and sentences):
            stream.turn()
            check(folder, processes)
            view.update(stream.progress, stream.phase)
            if stream.drift.get("version", 0) > version:
                sentences = sentences_of(calibrator)
            if stream.quiet_seconds > STALL_SECONDS:
                said = "; ".join(f"{name}: {last_lines(folder, name)}" for name in processes)
                raise ServiceError(f"no progress for {STALL_SECONDS:.0f} s; {said}")
        seconds = time.monotonic() - start
    lines = summary_lines(stream.progress, stream.drift, seconds, sentences)
    counts = {"masked": stream.progress.masked, "rejected": stream.progress.rejected}
    return "\n".join(lines), {**counts, "seconds": round(seconds, 1), "lines": lines}


def free_ports(count: int) -> list[int]:
    """Return ports at which nothing listens."""
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [probe.getsockname()[1] for probe in probes]


def prepare_demo(folder: Path, servers: str, records: int, mechanism: str, port: int) -> Configuration:
    """Write a configuration and a new secret to a folder, create the topics, and return the configuration."""
    secret = folder / "secret"
    secret.touch(mode=0o600)
    secret.write_bytes(secrets.token_bytes(32))
    file = folder / "stream-masker.yaml"
    file.write_text(yaml.safe_dump(demo_configuration(servers, records, mechanism, port), sort_keys=False))
    client, configuration = Producer({"bootstrap.servers": servers, "log_level": SILENT}), load_configuration(file, {})
    for name in TOPICS:
        client.list_topics(getattr(configuration.topics, name), START_SECONDS)
    return configuration


def demo_configuration(servers: str, records: int, mechanism: str, port: int) -> dict[str, Any]:
    """Return a configuration of nested events, with one statistics version of masked ones, all of the outbreak.

    With the newer protocol of groups, the worker is assigned its partitions at once.
    """
    return {
        **NESTED_EVENTS,
        "kafka": {"bootstrap_servers": servers, "properties": {"group.protocol": "consumer"}},
        "topics": {topic: f"stream-masker-demo.{topic}" for topic in TOPICS},
        "mechanism": {"name": mechanism},
        "calibration": {
            "window_records": records // 5,
            "min_records": records // 20,
            "every_records": 7 * records // 10,
            "every_seconds": 3_600,
            "core_share": 1.0,
        },
        "worker": {"batch_records": records // 40, "batch_delay": 0.1},
        "secret": {"file": "secret"},
        "http": {"port": port},
    }


class EventStream:
    """Sends the events, in step with the worker, and reads what becomes of them."""

    def __init__(self, configuration: Configuration, records: int) -> None:
        self.progress = Progress()
        self._topics, self._records, self._earlier = configuration.topics, records, records // 5
        discharges = SyntheticDischarges(configuration, outbreak_after=self._earlier + records // 2, seed=SEED)
        self._events = discharges.events(self._earlier + records)
        self._before: dict[str, DemoEvent] = {}
        self.drift: dict[str, Any] = {}
        self._progressed = time.monotonic()
        self._handlers = {
            self._topics.output: self._on_output,
            self._topics.rejected: self._on_rejected,
            self._topics.drift: self._on_drift,
        }
        properties = {"bootstrap.servers": configuration.kafka.bootstrap_servers, "log_level": SILENT}
        self._producer = Producer(properties)
        self._consumer = Consumer({**properties, "group.id": "demo", "isolation.level": "read_committed"})
        found = self._consumer.list_topics(timeout=START_SECONDS).topics
        self._consumer.assign([TopicPartition(name, n, 0) for name in self._handlers for n in found[name].partitions])

    def earlier(self) -> Iterator[FileEvent]:
        """Yield the events before those that are sent, with their numbers."""
        events = islice(self._events, self._earlier)
        return (FileEvent(number, orjson.dumps(event)) for number, event in enumerate(events, start=1))

    def turn(self) -> None:
        """Send the next events, and read what has come."""
        room = MAX_LEAD - (self.progress.sent - self.progress.outcomes)
        for event in islice(self._events, min(EVENTS_A_TURN, room)):
            self.progress.sent += 1
            if self.progress.pair is None:
                self._before[event["encounter_id"]] = event
            self._producer.produce(self._topics.input, orjson.dumps(event), event["patient"]["id"])
        self._producer.poll(0)
        for message in self._consumer.consume(EVENTS_A_TURN, REST_SECONDS if self.is_masked else POLL_SECONDS):
            if (error := message.error()) is None:
                self._handlers[str(message.topic())](message)
                self._progressed = time.monotonic()
            elif error.fatal():
                raise KafkaException(error)

    @property
    def is_masked(self) -> bool:
        """Whether every event is masked or rejected."""
        return self.progress.outcomes >= self._records

    @property
    def phase(self) -> str:
        """What is going on now."""
        if self.is_masked:
            return "comparing the last events with the earlier ones"
        has_begun = self.progress.outcomes >= self._records // 2
        return "masking; an outbreak of influenza has begun" if has_begun else "masking"

    @property
    def quiet_seconds(self) -> float:
        """The seconds since the last message."""
        return time.monotonic() - self._progressed

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()

    def _on_output(self, message: Message) -> None:
        self.progress.masked += 1
        if self.progress.pair is None:
            after = orjson.loads(message.value() or b"")
            before = self._before.pop(after["encounter_id"])
            if before["diagnoses"]["principal"] != after["diagnoses"]["principal"]:
                self.progress.pair, self._before = (before, after), {}

    def _on_rejected(self, _: Message) -> None:
        self.progress.rejected += 1

    def _on_drift(self, message: Message) -> None:
        self.drift = orjson.loads(message.value() or b"")


def sentences_of(port: int) -> list[str]:
    """Return what the page of the calibrator says of its statistics; nothing while their risk is not known."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=PAGE_SECONDS) as answer:
        _, _, text = answer.read().decode().partition("statistics version")
    return [line.strip() for line in text.splitlines()[1:]]
