"""Publishing of synthetic events, with a rate, backpressure and counts of failures; or writing them to a file."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, TextIO, TypeVar

import orjson
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from stream_masker.errors import ConfigurationError
from stream_masker.pipeline.paths import Document
from stream_masker.service.configuration.model import Configuration
from stream_masker.service.files.outputs import open_output
from stream_masker.service.kafka.clients import confluent_properties, connect_producer
from stream_masker.service.kafka.errors import explained
from stream_masker.service.kafka.reader import require_topics
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

T = TypeVar("T")


@dataclass(slots=True)
class PublishingSummary:
    """The result of a run: records sent, failures by cause, and seconds."""

    topic: str
    sent: int = 0
    failed: Counter[str] = field(default_factory=Counter)
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
        done = f"produced {self.delivered:,} records to {self.topic} in {self.seconds:.1f} s ({rate:,.0f} records/s)"
        return "; ".join([done, *(f"{count:,} not delivered ({reason})" for reason, count in self.failed.items())])


def paced(events: Iterable[T], rate: float | None, clock: Callable[[], float] = time.monotonic) -> Iterator[T]:
    """Yield events at ``rate`` > 0 a second, None for full speed; catches up after delays."""
    start = clock()
    for sent, event in enumerate(events):
        if rate and (early := start + sent / rate - clock()) > 0:
            time.sleep(early)
        yield event


def publish(
    events: Iterable[Document], configuration: Configuration, *, stream: TextIO, rate: float | None = None
) -> PublishingSummary:
    """Send synthetic events to the input topic, keyed by the patient's id, and wait until all are delivered.

    rate: in records/s; None for full speed. The progress is written to ``stream``. Raises ServiceError if there is no
    broker or the topic does not exist, ConfigurationError if the records of the topic have schemas.
    """
    if configuration.format.value != "json":
        raise ConfigurationError("format.value: produce writes no records of schemas: use a producer of your own")
    topic, properties = configuration.topics.input, confluent_properties(configuration)
    require_topics(configuration, [topic])
    producer = connect_producer({**PRODUCER_DEFAULTS, **properties})
    summary = PublishingSummary(topic)
    try:
        start = time.monotonic()
        with shown_activity(stream) as show:
            for event in paced(events, rate):
                summary.sent += 1
                _send(producer, event, summary)
                show(f"producing, {summary.sent:,} records so far")
            while producer.flush(DELIVERY_WAIT_SECONDS):
                pass
        summary.seconds = time.monotonic() - start
    finally:
        producer.flush(FLUSH_SECONDS)
    return summary


def _send(producer: Producer, event: Document, summary: PublishingSummary) -> None:
    """Send an event; waits while the producer's queue is full."""
    patient = event["patient"]
    key = str(patient["id"] if isinstance(patient, dict) else patient)
    while True:
        try:
            producer.produce(summary.topic, orjson.dumps(event), key, on_delivery=summary.count)
        except BufferError:
            producer.poll(DELIVERY_WAIT_SECONDS)
            continue
        except KafkaException as failure:
            summary.count(failure.args[0])
        producer.poll(0)
        return


def write_events(events: Iterable[Document], out: str, *, stream: TextIO, rate: float | None = None) -> None:
    """Write events as JSON lines to a file, or to standard output for ``-``; the progress is written to ``stream``.

    Needs no broker. Raises ServiceError for a file that cannot be written.
    """
    with shown_activity(stream) as show, open_output(out) as file:
        for written, event in enumerate(paced(events, rate), start=1):
            file.write(orjson.dumps(event, option=orjson.OPT_APPEND_NEWLINE))
            show(f"writing, {written:,} events so far")
