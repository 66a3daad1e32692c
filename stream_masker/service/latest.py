"""The latest masked records of a topic, below the statistics that they were masked by, as they may be published."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import orjson
from confluent_kafka import Consumer, Message, TopicPartition

from stream_masker.core.statistics import Statistics
from stream_masker.pipeline.formats import RecordFormat, document_of
from stream_masker.pipeline.messages import decode_statistics
from stream_masker.pipeline.publication import LabelledConcept, Publication
from stream_masker.pipeline.reasons import RecordRejectedError
from stream_masker.pipeline.records import MECHANISM_HEADER, VERSION_HEADER
from stream_masker.service.audit import authentic_versions
from stream_masker.service.configuration import Configuration
from stream_masker.service.configuration.build import build_taxonomies
from stream_masker.service.configuration.secret import topic_seal
from stream_masker.service.formats.wire_format import wire_format
from stream_masker.service.kafka.clients import confluent_properties
from stream_masker.service.kafka.failures import require_broker
from stream_masker.service.kafka.messages import MessageOpener
from stream_masker.service.kafka.topic_reader import (
    POLL_TIMEOUT_SECONDS,
    SINGLE_PARTITION,
    connect_reader,
    read_to_end,
    require_topics_of,
)

MARKERS = 20
"""Offsets that are read for each record: those of transactions' markers hold no record."""


@dataclass(frozen=True, slots=True)
class LatestRecord:
    """A masked record: its place, what its headers name, and its JSON or text; None for a tombstone."""

    partition: int
    offset: int
    version: int
    mechanism: str
    value: Any

    def lines(self) -> Iterator[str]:
        """Yield the lines for people."""
        yield f"partition {self.partition}, offset {self.offset}, {self.mechanism or 'not masked'}:"
        text = self.value if isinstance(self.value, str) else orjson.dumps(self.value).decode()
        yield from (f"  {line}" for line in text.splitlines())


@dataclass(frozen=True, slots=True)
class PublishedVersion:
    """A statistics version as it may be published. mean: the label of sMean by attribute, None of too few records."""

    version: int
    source: str
    statistics: Statistics
    mean: Mapping[str, str | None]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON-serialisable form."""
        return {
            "version": self.version,
            "source": self.source,
            "records": self.statistics.records,
            "mean": dict(self.mean),
            "variance": dict(self.statistics.variance),
            "correlation": self.statistics.correlation.tolist(),
        }

    def lines(self) -> Iterator[str]:
        """Yield the lines for people: sMean and sVar of each attribute, sdCor of each pair."""
        statistics = self.statistics
        yield f"statistics version {self.version} ({self.source}, {statistics.records:,} records)"
        for name in statistics.attributes:
            mean = self.mean[name] or "of too few records to be shown"
            yield f"  {name}: sMean {mean}, sVar {statistics.variance[name]:.4f}"
        for (i, first), (j, second) in combinations(enumerate(statistics.attributes), 2):
            yield f"  sdCor({first}, {second}): {statistics.correlation[i][j]:.4f}"


def latest_records(
    configuration: Configuration, records: int
) -> tuple[list[LatestRecord], dict[int, PublishedVersion]]:
    """Return the latest masked records of a topic, oldest first, and the versions that they name, if they still exist.

    Raises ServiceError, ConfigurationError, KafkaException.
    """
    topics = configuration.topics
    require_broker(confluent_properties(configuration))
    require_topics_of(configuration, [topics.output, topics.statistics])
    with connect_reader(configuration) as consumer:
        record_format = None if configuration.records == "hl7v2" else wire_format(configuration)
        latest = [_record(message, record_format) for message in _latest(consumer, topics.output, records)]
        return latest, {one.version: one for one in _versions(configuration, consumer, {r.version for r in latest})}


def latest_lines(records: Sequence[LatestRecord], versions: Mapping[int, PublishedVersion]) -> Iterator[str]:
    """Yield the lines for people: the records of each version, below its statistics."""
    for number in dict.fromkeys(record.version for record in records):
        yield from versions[number].lines() if number in versions else [_unknown(number)]
        for record in records:
            if record.version == number:
                yield from record.lines()


def _unknown(number: int) -> str:
    return f"statistics version {number}: no longer on the topic" if number else "no statistics: tombstones"


def _latest(consumer: Consumer, topic: str, records: int) -> list[Message]:
    """Return the latest records of all partitions, by their time."""
    partitions = consumer.list_topics(topic, timeout=POLL_TIMEOUT_SECONDS).topics[topic].partitions
    last = [message for number in partitions for message in _end(consumer, topic, number, records)]
    return sorted(last, key=lambda message: message.timestamp()[1])[-records:]


def _end(consumer: Consumer, topic: str, partition: int, records: int) -> deque[Message]:
    """Return the last records of a partition, at most ``records``; fewer if most of its end are markers."""
    low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=POLL_TIMEOUT_SECONDS)
    if low >= high:
        return deque()
    start = max(low, high - MARKERS * records)
    read = read_to_end(consumer, topic, partition=partition, start=start, patience=POLL_TIMEOUT_SECONDS)
    return deque(read, maxlen=records)


def _record(message: Message, record_format: RecordFormat | None) -> LatestRecord:
    headers = dict(message.headers() or ())
    version = headers.get(VERSION_HEADER) or b""
    mechanism = (headers.get(MECHANISM_HEADER) or b"").decode("ascii", "replace")
    number = int(version) if version.isdigit() else 0
    value = _value(message.value(), record_format)
    return LatestRecord(message.partition() or 0, message.offset() or 0, number, mechanism, value)


def _value(value: bytes | None, record_format: RecordFormat | None) -> Any:
    if value is None:
        return None
    try:
        return document_of(record_format, value)
    except (orjson.JSONDecodeError, RecordRejectedError):
        return value.decode(errors="replace")


def _versions(configuration: Configuration, consumer: Consumer, numbers: set[int]) -> Iterator[PublishedVersion]:
    topic = configuration.topics.statistics
    read = read_to_end(consumer, topic, partition=SINGLE_PARTITION, patience=POLL_TIMEOUT_SECONDS)
    complete = authentic_versions(read, MessageOpener(topic_seal(configuration, topic)))
    taxonomies = build_taxonomies(configuration)
    least = configuration.publication.min_records
    publication = Publication(taxonomies, configuration.calibration.rollup_depth, least)
    for number in sorted(numbers & complete.keys()):
        message = decode_statistics(complete[number])
        exact = message.statistics
        means = publication.means(exact)
        mean = {name: _label(means.get(name)) for name in exact.attributes}
        yield PublishedVersion(number, message.source, publication.statistics(exact), mean)


def _label(mean: LabelledConcept | None) -> str | None:
    return None if mean is None else f"{mean.concept} {mean.label}".strip()
