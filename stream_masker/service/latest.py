"""The latest masked records of a topic, with the publishable figures of the statistics that masked them."""

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
from stream_masker.pipeline.publication import Publication
from stream_masker.pipeline.reasons import RecordRejectedError
from stream_masker.pipeline.records import MECHANISM_HEADER, VERSION_HEADER
from stream_masker.service.configuration import Configuration
from stream_masker.service.configuration.build import build_taxonomies
from stream_masker.service.formats.wire_format import wire_format
from stream_masker.service.kafka.reader import (
    POLL_TIMEOUT_SECONDS,
    connect_reader,
    partition_counts,
    read_to_end,
    read_versions,
    require_topics,
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
    require_topics(configuration, [topics.output, topics.statistics])
    with connect_reader(configuration) as consumer:
        record_format = None if configuration.records == "hl7v2" else wire_format(configuration)
        partitions = partition_counts(consumer, configuration, [topics.output])[topics.output]
        ends = [message for n in range(partitions) for message in _end(consumer, topics.output, n, records)]
        newest = sorted(ends, key=lambda message: message.timestamp()[1])[-records:]
        latest = [_record(message, record_format) for message in newest]
        versions = read_versions(consumer, configuration)
    named = {record.version for record in latest}
    return latest, _published(configuration, {n: value for n, value in versions.items() if n in named})


def latest_lines(records: Sequence[LatestRecord], versions: Mapping[int, PublishedVersion]) -> Iterator[str]:
    """Yield the lines for people: the records of each version, below its statistics."""
    for number in dict.fromkeys(record.version for record in records):
        unknown = f"statistics version {number}: no longer on the topic" if number else "no statistics: tombstones"
        yield from versions[number].lines() if number in versions else [unknown]
        for record in records:
            if record.version == number:
                yield from record.lines()


def _end(consumer: Consumer, topic: str, partition: int, records: int) -> deque[Message]:
    """Return the last records of a partition, at most ``records``; fewer if most of its end are markers."""
    low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=POLL_TIMEOUT_SECONDS)
    if low >= high:
        return deque()
    start = max(low, high - MARKERS * records)
    read = read_to_end(consumer, topic, partition=partition, start=start, patience=POLL_TIMEOUT_SECONDS)
    return deque(read, maxlen=records)


def _record(message: Message, record_format: RecordFormat | None) -> LatestRecord:
    headers, value = dict(message.headers() or ()), message.value()
    version = headers.get(VERSION_HEADER) or b""
    mechanism = (headers.get(MECHANISM_HEADER) or b"").decode("ascii", "replace")
    try:
        shown = None if value is None else document_of(record_format, value)
    except (orjson.JSONDecodeError, RecordRejectedError):
        shown = value.decode(errors="replace")
    number = int(version) if version.isdigit() else 0
    return LatestRecord(message.partition() or 0, message.offset() or 0, number, mechanism, shown)


def _published(configuration: Configuration, versions: Mapping[int, bytes]) -> dict[int, PublishedVersion]:
    """Return versions as they may be published."""
    publication = Publication(build_taxonomies(configuration), configuration.publication.min_records)
    shown = {}
    for number, value in sorted(versions.items()):
        message = decode_statistics(value)
        statistics, means = publication.shown(message.statistics)
        labels = {name: f"{mean.concept} {mean.label}".strip() for name, mean in means.items()}
        by_attribute = {name: labels.get(name) for name in statistics.attributes}
        shown[number] = PublishedVersion(number, message.source, statistics, by_attribute)
    return shown
