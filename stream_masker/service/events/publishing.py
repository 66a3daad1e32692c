"""Publishing of events to the input topic, with batching, backpressure, a rate limit and counts of failures."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TextIO

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from stream_masker.errors import ParameterError, ServiceError
from stream_masker.pipeline.reasons import RecordRejectedError
from stream_masker.service.configuration.model import Configuration
from stream_masker.service.events.files import FileEvent, MalformedLine, file_events
from stream_masker.service.files.events import open_events
from stream_masker.service.formats.wire_format import EventEncoder, event_encoder
from stream_masker.service.kafka.clients import confluent_properties, connect_producer
from stream_masker.service.kafka.failures import check_topics, explained, require_broker
from stream_masker.service.kafka.topic_reader import BROKER_PROBE_SECONDS
from stream_masker.service.observability.progress import ReportProgress, progress

PRODUCER_DEFAULTS = {
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 20,
    "partitioner": "murmur2_random",
}
"""Defaults that ``kafka.properties`` can override. A key goes to the partition that Kafka's own clients choose for it.
Compression is off: near the broker it costs more than it saves."""

DELIVERY_WAIT_SECONDS = 0.1
"""The time of one wait for delivery reports; signals are handled in between."""

CREATION_SECONDS = 2.0
"""The time limit until a broker that creates topics by itself knows a new one."""

MISSING = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.LEADER_NOT_AVAILABLE})

FLUSH_SECONDS = 10.0
"""The time limit for the records of a run that ended early."""


class RateLimiter:
    """Limits a run to ``rate`` records per second; None is full speed. It catches up after delays."""

    def __init__(
        self,
        rate: float | None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if rate is not None and not rate > 0:
            raise ParameterError(f"rate must be above 0 records/s, not {rate}")
        self._interval = 1 / rate if rate else 0.0
        self._clock, self._sleep = clock, sleep
        self._start = clock()

    def wait(self, sent: int) -> None:
        """Wait until the next record is due, given the number of records sent."""
        if self._interval and (early := self._start + sent * self._interval - self._clock()) > 0:
            self._sleep(early)


class EventPublisher:
    """Sends events to one topic. ``sent`` counts the events sent, ``failed`` the undelivered ones by cause.

    encoder: encodes events that are not JSON on the topic. Those that do not fit its schema are undelivered too.

    A topic with a small ``max.message.bytes`` refuses a whole batch for one event of it. The events of such a batch are
    sent again one by one, so that no event fails for its neighbour.
    """

    def __init__(self, producer: Producer, topic: str, encoder: EventEncoder | None = None) -> None:
        self._producer, self._topic, self._encoder = producer, topic, encoder
        self._refused: deque[FileEvent] = deque()
        self.sent = 0
        self.failed: Counter[str] = Counter()

    @property
    def delivered(self) -> int:
        """The number of records that the broker has acknowledged; final after ``flush``."""
        return self.sent - self.failed.total()

    def send(self, event: FileEvent) -> None:
        """Send an event; waits while the producer's queue is full."""
        self._send_refused()
        self.sent += 1
        try:
            encoded = self._encoded(event)
        except RecordRejectedError as error:
            self.failed[error.reason.value] += 1
        else:
            self._produce(encoded, self._on_delivery)

    def _encoded(self, event: FileEvent) -> FileEvent:
        if self._encoder is None:
            return event
        key = None if event.key is None else self._encoder.key(event.key)
        return FileEvent(self._encoder.value(event.value), key)

    def _produce(self, event: FileEvent, on_delivery: Callable[[KafkaError | None, Message | None], None]) -> None:
        while True:
            try:
                self._producer.produce(self._topic, event.value, event.key, on_delivery=on_delivery)
            except BufferError:
                self._producer.poll(DELIVERY_WAIT_SECONDS)
            except KafkaException as failure:
                self._count(failure.args[0])
                return
            else:
                self._producer.poll(0)
                return

    def flush(self) -> None:
        """Wait until every record is delivered or has failed."""
        self._wait()
        self._send_refused()

    def _wait(self) -> None:
        while self._producer.flush(DELIVERY_WAIT_SECONDS):
            pass

    def _send_refused(self) -> None:
        while self._refused:
            self._wait()
            self._produce(self._refused.popleft(), self._on_last_delivery)
            self._wait()

    def _on_delivery(self, error: KafkaError | None, message: Message | None) -> None:
        if error is not None and message is not None and error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            self._refused.append(FileEvent(message.value() or b"", message.key()))
        else:
            self._on_last_delivery(error, message)

    def _on_last_delivery(self, error: KafkaError | None, _: Message | None) -> None:
        if error is not None:
            self._count(error)

    def _count(self, error: KafkaError) -> None:
        self.failed[explained(error)] += 1


@contextmanager
def publisher(configuration: Configuration) -> Iterator[EventPublisher]:
    """Open a publisher to the input topic.

    Raises ServiceError if there is no broker or the topic does not exist, ConfigurationError if the settings of the
    schema registry cannot be used.
    """
    topic, properties = configuration.topics.single, confluent_properties(configuration)
    encoder = event_encoder(configuration)
    require_broker(properties)
    producer = connect_producer({**PRODUCER_DEFAULTS, **properties})
    try:
        _require_topic(producer, topic, str(properties.get("sasl.username", "")))
        yield EventPublisher(producer, topic, encoder)
    finally:
        producer.flush(FLUSH_SECONDS)


def _require_topic(producer: Producer, topic: str, user: str) -> None:
    """Raise ServiceError for a topic that does not exist and that the broker does not create by the request for it."""
    deadline = time.monotonic() + CREATION_SECONDS
    while error := producer.list_topics(topic, BROKER_PROBE_SECONDS).topics[topic].error:
        if error.code() not in MISSING or time.monotonic() > deadline:
            check_topics({topic: error}, user)
        time.sleep(DELIVERY_WAIT_SECONDS)


@dataclass(frozen=True, slots=True)
class PublishingSummary:
    """The result of a run: records delivered, failures by cause, malformed lines, and seconds."""

    topic: str
    delivered: int
    failed: Mapping[str, int]
    malformed: int
    seconds: float

    @property
    def complete(self) -> bool:
        """Whether every record that was sent was delivered."""
        return not self.failed

    def __str__(self) -> str:
        rate = self.delivered / max(self.seconds, 1e-9)
        parts = [f"produced {self.delivered:,} records to {self.topic} in {self.seconds:.1f} s ({rate:,.0f} records/s)"]
        parts += [f"{self.malformed:,} malformed lines left out"] if self.malformed else []
        parts += [f"{count:,} not delivered ({reason})" for reason, count in self.failed.items()]
        return "; ".join(parts)


def publish(
    events: Iterable[FileEvent],
    *,
    configuration: Configuration,
    rate: float | None,
    show: ReportProgress,
    malformed: Callable[[], int] = lambda: 0,
) -> PublishingSummary:
    """Send events to the input topic, at ``rate`` records/s or at full speed, and wait until all are delivered.

    Raises ParameterError for a rate that is not positive, FormatUnavailableError if the schema registry does not have
    the schema to encode events with or cannot be asked, and like ``publisher``.
    """
    pace = RateLimiter(rate)
    with publisher(configuration) as target:
        start = time.monotonic()
        for event in events:
            pace.wait(target.sent)
            target.send(event)
            show(target.sent)
        target.flush()
        seconds = time.monotonic() - start
    return PublishingSummary(configuration.topics.single, target.delivered, dict(target.failed), malformed(), seconds)


MAX_REPORTED_LINES = 10
"""The number of malformed lines that are reported individually; the summary counts all of them."""


class MalformedLineFilter:
    """Filters out, reports and counts malformed lines; with ``strict``, raises ServiceError at the first one."""

    def __init__(self, *, name: str, strict: bool, report: Callable[[str], None]) -> None:
        self._name, self._strict, self._report = name, strict, report
        self.malformed = 0

    def events(self, lines: Iterable[FileEvent | MalformedLine]) -> Iterator[FileEvent]:
        """Yield the events among the lines."""
        for line in lines:
            if isinstance(line, FileEvent):
                yield line
            else:
                self._reject(line)

    def _reject(self, line: MalformedLine) -> None:
        message = f"{self._name}, event {line.line}: {line.reason}"
        if self._strict:
            raise ServiceError(message)
        self.malformed += 1
        if self.malformed <= MAX_REPORTED_LINES:
            self._report(message)
        elif self.malformed == MAX_REPORTED_LINES + 1:
            self._report(f"{self._name}: further malformed lines are only counted")


def produce(
    configuration: Configuration,
    file: Path,
    *,
    stream: TextIO,
    rate: float | None = None,
    limit: int | None = None,
    strict: bool = False,
) -> PublishingSummary:
    """Publish the events of a file, at most ``limit``; writes progress and malformed lines to ``stream``.

    Raises ServiceError for a file or broker that cannot be used, and with ``strict`` for a malformed line;
    ConfigurationError if the settings of ``produce`` do not fit the file.
    """
    section = configuration.produce
    with open_events(str(file), section, configuration.records) as source:
        lines = file_events(source.lines, section.key, hl7=source.kind == "hl7")
        line_filter = MalformedLineFilter(
            name=file.name, strict=strict, report=lambda line: print(line, file=stream, flush=True)
        )
        with progress("produced", done=lambda _: source.file.share_read, stream=stream) as show:
            return publish(
                islice(line_filter.events(lines), limit),
                configuration=configuration,
                rate=rate,
                show=show,
                malformed=lambda: line_filter.malformed,
            )
