"""Writing synthetic events at a rate: to the input topic, or to a file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, TextIO, TypeAlias

import orjson
from confluent_kafka import KafkaError, KafkaException, Message

from stream_masker.errors import ConfigurationError
from stream_masker.pipeline.paths import Document
from stream_masker.service.configuration import Configuration
from stream_masker.service.files.streams import open_output
from stream_masker.service.kafka.clients import confluent_properties, connect_producer
from stream_masker.service.kafka.reader import require_topics
from stream_masker.service.observability.progress import shown_activity

DELIVERY_WAIT_SECONDS: Final = 0.1
"""The time of one wait for delivery reports; signals are handled in between."""

WriteEvent: TypeAlias = Callable[[Document], object]


def write_events(events: Iterable[Document], write: WriteEvent, *, stream: TextIO, rate: float | None = None) -> None:
    """Write events at a rate in events/s, None for full speed; catches up after delays.

    The progress is written to ``stream``.
    """
    with shown_activity(stream) as show:
        start = time.monotonic()
        for written, event in enumerate(events):
            if rate and (early := start + written / rate - time.monotonic()) > 0:
                time.sleep(early)
            write(event)
            show(f"writing, {written + 1:,} events so far")


@contextmanager
def file_writer(name: str) -> Iterator[WriteEvent]:
    """Give a function that writes an event as a line of JSON to a file, or to standard output for ``-``.

    Needs no broker. Raises ServiceError for a file that cannot be written.
    """
    with open_output(name) as file:
        yield lambda event: file.write(orjson.dumps(event, option=orjson.OPT_APPEND_NEWLINE))


@contextmanager
def topic_writer(configuration: Configuration) -> Iterator[WriteEvent]:
    """Give a function that sends an event to the input topic, by the patient's id. The block ends when all are there.

    Raises ServiceError if there is no broker or the topic does not exist, KafkaException for the first event that Kafka
    does not accept, ConfigurationError if the records of the topic have schemas.
    """
    if configuration.format.value != "json":
        raise ConfigurationError("format.value: produce writes no records of schemas: use a producer of your own")
    topic, settings = configuration.topics.input, {"enable.idempotence": True, "linger.ms": 20}
    require_topics(configuration, [topic])
    producer = connect_producer({**settings, **confluent_properties(configuration)})

    def check(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            raise KafkaException(error)

    def write(event: Document) -> None:
        patient = event["patient"]
        key = str(patient["id"] if isinstance(patient, dict) else patient)
        while True:
            try:
                producer.produce(topic, orjson.dumps(event), key, on_delivery=check)
            except BufferError:  # the queue is full
                producer.poll(DELIVERY_WAIT_SECONDS)
            else:
                break
        producer.poll(0)

    yield write
    while producer.flush(DELIVERY_WAIT_SECONDS):
        pass
