"""The latest masked records of a topic, with the publishable figures of the statistics that masked them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import combinations
from typing import Any, TypeAlias

import orjson
from confluent_kafka import Consumer, Message, TopicPartition

from stream_masker.pipeline.formats import RecordFormat, document_of
from stream_masker.pipeline.messages import decode_statistics
from stream_masker.pipeline.publication import Publication
from stream_masker.pipeline.reasons import RecordRejectedError
from stream_masker.pipeline.records import MECHANISM_HEADER, VERSION_HEADER
from stream_masker.service.configuration import Configuration
from stream_masker.service.configuration.build import build_taxonomies
from stream_masker.service.formats import wire_format
from stream_masker.service.kafka.reader import (
    POLL_TIMEOUT_SECONDS,
    connect_reader,
    read_to_end,
    read_versions,
    require_topics,
)

MARKERS = 20
"""Offsets that are read for each record: those of transactions' markers hold no record."""

Figures: TypeAlias = dict[str, Any]
"""A statistics version as it may be published: version, source, records; mean, the label of sMean by attribute, None of
too few records; variance by attribute; and the matrix of correlation."""


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


def latest_records(configuration: Configuration, records: int) -> tuple[list[LatestRecord], dict[int, Figures]]:
    """Return the latest masked records of a topic, oldest first, and the versions that they name, if they still exist.

    Raises ServiceError, ConfigurationError, KafkaException.
    """
    topics = configuration.topics
    partitions = require_topics(configuration, [topics.output, topics.statistics])[topics.output]
    record_format = None if configuration.records == "hl7v2" else wire_format(configuration)
    with closing(connect_reader(configuration)) as consumer:
        ends = [message for n in range(partitions) for message in _end(consumer, topics.output, n, records)]
        versions = read_versions(consumer, configuration)
    newest = sorted(ends, key=lambda message: message.timestamp()[1])[-records:]
    latest = [_record(message, record_format) for message in newest]
    named = {record.version for record in latest}
    return latest, _published(configuration, {n: value for n, value in versions.items() if n in named})


def latest_lines(records: Sequence[LatestRecord], versions: Mapping[int, Figures]) -> Iterator[str]:
    """Yield the lines for people: the records of each version, below its statistics."""
    for number in dict.fromkeys(record.version for record in records):
        unknown = f"statistics version {number}: no longer on the topic" if number else "no statistics: tombstones"
        yield from _version_lines(versions[number]) if number in versions else [unknown]
        for record in records:
            if record.version == number:
                yield from record.lines()


def _version_lines(figures: Figures) -> Iterator[str]:
    """Yield sMean and sVar of each attribute, and sdCor of each pair."""
    yield f"statistics version {figures['version']} ({figures['source']}, {figures['records']:,} records)"
    for name, mean in figures["mean"].items():
        yield f"  {name}: sMean {mean or 'of too few records to be shown'}, sVar {figures['variance'][name]:.4f}"
    for (i, first), (j, second) in combinations(enumerate(figures["mean"]), 2):
        yield f"  sdCor({first}, {second}): {figures['correlation'][i][j]:.4f}"


def _end(consumer: Consumer, topic: str, partition: int, records: int) -> deque[Message]:
    """Return the last records of a partition, at most ``records``; fewer if most of its end are markers."""
    low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=POLL_TIMEOUT_SECONDS)
    if low >= high:
        return deque()
    start = max(low, high - MARKERS * records)
    return deque(read_to_end(consumer, topic, partition=partition, start=start), maxlen=records)


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


def _published(configuration: Configuration, versions: Mapping[int, bytes]) -> dict[int, Figures]:
    """Return versions as they may be published."""
    publication = Publication(build_taxonomies(configuration), configuration.publication.min_records)
    shown = {}
    for number, value in sorted(versions.items()):
        message = decode_statistics(value)
        statistics, means = publication.shown(message.statistics)
        labels = {name: f"{mean.concept} {mean.label}".strip() for name, mean in means.items()}
        shown[number] = {
            "version": number,
            "source": message.source,
            "records": statistics.records,
            "mean": {name: labels.get(name) for name in message.statistics.attributes},
            "variance": dict(statistics.variance),
            "correlation": statistics.correlation.tolist(),
        }
    return shown
