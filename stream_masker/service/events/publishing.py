"""Publishing of events to the input topic, with batching, backpressure, a rate limit and counts of failures."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Lock
from typing import Any

from kafka import KafkaProducer
from kafka.errors import AuthorizationError, KafkaError, KafkaTimeoutError

from stream_masker.errors import ParameterError, ServiceError
from stream_masker.pipeline.reasons import RecordRejectedError
from stream_masker.service.configuration.model import Configuration
from stream_masker.service.events.files import FileEvent
from stream_masker.service.formats.wire_format import EventEncoder, event_encoder
from stream_masker.service.kafka.clients import kafka_python_producer
from stream_masker.service.kafka.failures import missing_topics_text
from stream_masker.service.kafka.topic_reader import require_topics_of
from stream_masker.service.observability.progress import ReportProgress

PRODUCER_DEFAULTS = {
    "acks": "all",
    "enable_idempotence": True,
    "batch_size": 65_536,
    "linger_ms": 20,
    "max_block_ms": 15_000,
}
"""Defaults that ``kafka.properties`` can override. Compression is off: near the broker it costs more than it saves."""

MARK_INTERVAL, MAX_MARKS = 1_000, 50
"""Backpressure: every ``MARK_INTERVAL``-th record is a mark. At most ``MAX_MARKS`` marks are in flight."""


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
    """Sends events to one topic. ``sent`` counts the events sent, ``failed`` the undelivered ones by error type.

    encoder: encodes events that are not JSON on the topic. Those that do not fit its schema are undelivered too.
    """

    def __init__(self, producer: KafkaProducer, topic: str, encoder: EventEncoder | None = None) -> None:
        self._producer, self._topic, self._encoder = producer, topic, encoder
        self._marks: deque[Any] = deque()
        self.sent = 0
        self.failed: Counter[str] = Counter()
        self._lock = Lock()

    @property
    def delivered(self) -> int:
        """The number of records that the broker has acknowledged; final after ``flush``."""
        return self.sent - self.failed.total()

    def send(self, event: FileEvent) -> None:
        """Send an event; waits while too many are in flight."""
        self.sent += 1
        try:
            encoded = self._encoded(event)
            future = self._producer.send(self._topic, value=encoded.value, key=encoded.key)
        except RecordRejectedError as error:
            self._count_failure(error.reason.value)
        except KafkaError as error:
            self._fail(error)
        else:
            future.add_errback(self._fail)
            if self.sent % MARK_INTERVAL == 0:
                self._mark(future)

    def _encoded(self, event: FileEvent) -> FileEvent:
        if self._encoder is None:
            return event
        key = None if event.key is None else self._encoder.key(event.key)
        return FileEvent(self._encoder.value(event.value), key)

    def flush(self) -> None:
        """Wait until every record is delivered or has failed."""
        self._producer.flush()

    def _mark(self, future: Any) -> None:
        self._marks.append(future)
        if len(self._marks) > MAX_MARKS:
            with suppress(KafkaError):  # the record's errback counts the failure
                self._marks.popleft().get()

    def _fail(self, error: BaseException) -> None:
        self._count_failure(type(error).__name__)

    def _count_failure(self, reason: str) -> None:
        with self._lock:
            self.failed[reason] += 1


@contextmanager
def publisher(configuration: Configuration) -> Iterator[EventPublisher]:
    """Open a publisher to the input topic.

    Raises ServiceError if there is no broker or the topic does not exist, ConfigurationError if the settings of the
    schema registry cannot be used.
    """
    encoder = event_encoder(configuration)
    producer = kafka_python_producer(configuration, **PRODUCER_DEFAULTS)
    try:
        _require_topic(producer, configuration)
        yield EventPublisher(producer, configuration.topics.single, encoder)
    finally:
        producer.close(timeout=10)


def _require_topic(producer: KafkaProducer, configuration: Configuration) -> None:
    topic = configuration.topics.single
    try:
        known = producer.partitions_for(topic)
    except (KafkaTimeoutError, AuthorizationError):
        known = None
    if not known:
        require_topics_of(configuration, [topic])
        raise ServiceError(missing_topics_text([topic]))


@dataclass(frozen=True, slots=True)
class PublishingSummary:
    """The result of a run: records delivered, failures by error type, malformed lines, and seconds."""

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
