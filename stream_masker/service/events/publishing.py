"""Publishing of events of a file, or of synthetic ones, with a rate, backpressure and counts of failures."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TextIO

import orjson
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from stream_masker.errors import ConfigurationError
from stream_masker.pipeline.formats import document_of
from stream_masker.pipeline.hl7v2 import Hl7Format, hl7_path
from stream_masker.pipeline.paths import JsonValue, Path, compile_path, first_values
from stream_masker.pipeline.reasons import RecordRejectedError
from stream_masker.service.configuration.model import Configuration
from stream_masker.service.events.synthetic import PATIENT_PATH, SyntheticDischarges
from stream_masker.service.files.events import open_events
from stream_masker.service.files.inputs import FileEvent
from stream_masker.service.files.outputs import open_output
from stream_masker.service.kafka.clients import ANSWER_SECONDS, confluent_properties, connect_producer, require_broker
from stream_masker.service.kafka.errors import check_topics, explained
from stream_masker.service.observability.progress import shown_activity

PRODUCER_DEFAULTS: Final = {
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 20,
    "partitioner": "murmur2_random",
}
"""Defaults that ``kafka.properties`` can override. A key goes to the partition that Kafka's own clients choose for it.
Compression is off: near the broker it costs more than it saves."""

DELIVERY_WAIT_SECONDS: Final = 0.1
"""The time of one wait for delivery reports; signals are handled in between."""

FLUSH_SECONDS: Final = 10.0
"""The time limit for the records of a run that ended early."""

MAX_REPORTED_LINES: Final = 10
"""The number of malformed lines that are reported individually; the summary counts all of them."""


class Event(NamedTuple):
    """An event to publish, or a malformed line of a file: ``problem`` then says why, without its content."""

    number: int
    value: bytes
    key: bytes | None = None
    problem: str = ""


def file_events(events: Iterable[FileEvent], key: str | None, *, hl7: bool = False) -> Iterator[Event]:
    """Yield the events of a file with their message keys.

    key: the path of the message key, whose first value counts; None for no key; hl7: whether they are HL7 v2 messages.
    """
    path = None if key is None else compile_path(key)
    if hl7 and path is not None:
        path = hl7_path(path, first=True)
    for number, line, problem in events:
        if problem is not None:
            yield Event(number, line, problem=" at ".join(filter(None, problem)))
            continue
        text = line if hl7 else line.strip()
        try:
            event = document_of(Hl7Format() if hl7 else None, text)
        except orjson.JSONDecodeError:
            yield Event(number, line, problem="not JSON")
        except RecordRejectedError as error:
            yield Event(number, line, problem=error.reason.value)
        else:
            is_object = isinstance(event, dict)
            yield Event(number, text, message_key(event, path), "" if is_object else "not a JSON object")


def message_key(event: JsonValue, path: Path | None) -> bytes | None:
    """Return the key of an event's message, its first value at a path: a text in UTF-8, of other values their JSON."""
    value = None if path is None else first_values([event], path)[0]
    return value.encode() if isinstance(value, str) else None if value is None else orjson.dumps(value)


def synthetic_events(discharges: SyntheticDischarges, records: int, key: str | None = None) -> Iterator[Event]:
    """Yield synthetic events, keyed by the path ``key``, by default the patient's id."""
    path = compile_path(key or PATIENT_PATH)
    for number, event in enumerate(discharges.events(records), start=1):
        yield Event(number, orjson.dumps(event), message_key(event, path))


@dataclass(slots=True)
class PublishingSummary:
    """The result of a run: records sent, failures by cause, malformed lines, and seconds."""

    topic: str
    sent: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    malformed: int = 0
    seconds: float = 0.0

    @property
    def delivered(self) -> int:
        """The number of records that the broker has acknowledged."""
        return self.sent - self.failed.total()

    def count(self, error: KafkaError | None, _: Message | None = None) -> None:
        """Count a delivery that failed, if there is an error."""
        if error is not None:
            self.failed[explained(error)] += 1

    def __str__(self) -> str:
        rate = self.delivered / max(self.seconds, 1e-9)
        parts = [f"produced {self.delivered:,} records to {self.topic} in {self.seconds:.1f} s ({rate:,.0f} records/s)"]
        parts += [f"{self.malformed:,} malformed lines left out"] if self.malformed else []
        parts += [f"{count:,} not delivered ({reason})" for reason, count in self.failed.items()]
        return "; ".join(parts)


def paced(events: Iterable[Event], rate: float | None, clock: Callable[[], float] = time.monotonic) -> Iterator[Event]:
    """Yield events at ``rate`` > 0 a second, None for full speed; catches up after delays."""
    start = clock()
    for sent, event in enumerate(events):
        if rate and (early := start + sent / rate - clock()) > 0:
            time.sleep(early)
        yield event


def publish(
    events: Iterable[Event], configuration: Configuration, *, stream: TextIO, rate: float | None = None
) -> PublishingSummary:
    """Send events to the input topic, at ``rate`` records/s or at full speed, and wait until all are delivered.

    Malformed events are counted; the first ones and the progress are written to ``stream``. Raises ServiceError if
    there is no broker or the topic does not exist, ConfigurationError if the records of the topic have schemas.
    """
    if configuration.format.value != "json":
        raise ConfigurationError("format.value: produce writes no records of schemas: use a producer of your own")
    topic, properties = configuration.topics.input, confluent_properties(configuration)
    require_broker(properties)
    producer = connect_producer({**PRODUCER_DEFAULTS, **properties})
    summary = PublishingSummary(topic)
    try:
        error = producer.list_topics(topic, ANSWER_SECONDS).topics[topic].error
        if error is not None and error.code() != KafkaError.LEADER_NOT_AVAILABLE:
            check_topics({topic: error}, str(properties.get("sasl.username", "")))
        start = time.monotonic()
        with shown_activity(stream) as show:
            for event in paced(events, rate):
                if event.problem:
                    summary.malformed += 1
                    if summary.malformed <= MAX_REPORTED_LINES:
                        print(f"event {event.number}: {event.problem}", file=stream, flush=True)
                    continue
                summary.sent += 1
                _send(producer, event, summary)
                show(f"producing, {summary.sent:,} records so far")
            while producer.flush(DELIVERY_WAIT_SECONDS):
                pass
        summary.seconds = time.monotonic() - start
    finally:
        producer.flush(FLUSH_SECONDS)
    return summary


def _send(producer: Producer, event: Event, summary: PublishingSummary) -> None:
    """Send an event; waits while the producer's queue is full."""
    while True:
        try:
            producer.produce(summary.topic, event.value, event.key, on_delivery=summary.count)
        except BufferError:
            producer.poll(DELIVERY_WAIT_SECONDS)
            continue
        except KafkaException as failure:
            summary.count(failure.args[0])
        producer.poll(0)
        return


def publish_file(
    configuration: Configuration, name: str, *, stream: TextIO, rate: float | None = None
) -> PublishingSummary:
    """Publish the events of a file. Raises like ``publish`` and ``open_events``."""
    section = configuration.produce
    with open_events(name, section, configuration.records) as source:
        events = file_events(source.events, section.key, hl7=source.kind == "hl7")
        return publish(events, configuration, stream=stream, rate=rate)


def write_events(events: Iterable[Event], out: str, *, stream: TextIO, rate: float | None = None) -> None:
    """Write events as JSON lines to a file, or to standard output for ``-``; the progress is written to ``stream``.

    Needs no broker. Raises ServiceError for a file that cannot be written.
    """
    with shown_activity(stream) as show, open_output(out) as file:
        for written, event in enumerate(paced(events, rate), start=1):
            file.write(event.value + b"\n")
            show(f"writing, {written:,} events so far")
