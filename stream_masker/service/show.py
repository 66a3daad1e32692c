"""The latest masked records of a topic, and the statistics that they were masked by, as they may be published."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import orjson
from confluent_kafka import Consumer, Message, TopicPartition

from stream_masker.core.ontology import Taxonomy
from stream_masker.core.statistics import Statistics
from stream_masker.pipeline.calibration.publication import Publication
from stream_masker.pipeline.formats import RecordFormat, document_of
from stream_masker.pipeline.pseudonyms import MECHANISM_HEADER, VERSION_HEADER
from stream_masker.pipeline.reasons import RecordRejectedError
from stream_masker.pipeline.wire.reports import DriftReport, decode_drift
from stream_masker.pipeline.wire.statistics import decode_statistics
from stream_masker.service.audit import complete_versions
from stream_masker.service.calibrator.components import publication_settings
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

ReportedMeasures = Mapping[str, Any]
"""The measures of a drift report: ``utility`` or ``baseline``."""


def statistics_lines(
    version: int,
    source: str,
    statistics: Statistics,
    means: Mapping[str, str],
    utility: ReportedMeasures | None,
    *,
    more: Callable[[str], Iterable[str]] = lambda _: (),
    unknown: str = "",
) -> Iterator[str]:
    """Yield the lines for a version, sMean, sVar, sdCor and what is known of the masked records.

    * ``means``: the text for sMean of each attribute. ``utility``: the measures of the masked records, or None.
    * ``more``: further lines about an attribute. ``unknown``: what follows a correlation that masks have not yet.
    """
    measures = utility or {"attributes": {}, "pairs": []}
    yield f"statistics version {version} ({source}, {statistics.records:,} records)"
    for name in statistics.attributes:
        yield f"  {name}: {means[name]}, sVar {statistics.variance[name]:.4f}"
        if masked := measures["attributes"].get(name):
            yield (
                f"    masked: sVar {masked['variance']:.4f}, RMSE actual {masked['rmse_actual']:.4f}, "
                f"target {masked['rmse_target']:.4f}"
            )
        yield from (f"    {text}" for text in more(name))
    known = {tuple(pair["attributes"]): pair["correlation"] for pair in measures["pairs"]}
    for (i, first), (j, second) in combinations(enumerate(statistics.attributes), 2):
        after = known.get((first, second))
        text = unknown if after is None else f", masked {after:.4f}"
        yield f"  sdCor({first}, {second}): original {statistics.correlation[i][j]:.4f}{text}"


MARKERS = 20
"""Offsets that are read for each record: those of transactions' markers hold no record."""

DRIFT_REPORTS = 1_000
"""The number of offsets at the end of the drift topic that are read."""


@dataclass(frozen=True, slots=True)
class ShownRecord:
    """A masked record: its place, what its headers name, and its JSON or text; None for a tombstone."""

    partition: int
    offset: int
    version: int
    mechanism: str
    value: Any


@dataclass(frozen=True, slots=True)
class ShownVersion:
    """A statistics version as it may be published. mean: the label of sMean by attribute, None of too few records.

    utility: the measures of the masked records of its window; None if they are not known.
    """

    version: int
    source: str
    statistics: Statistics
    mean: Mapping[str, str | None]
    utility: Mapping[str, Any] | None

    def to_dict(self) -> dict[str, Any]:
        statistics = self.statistics
        return {
            "version": self.version,
            "source": self.source,
            "records": statistics.records,
            "mean": dict(self.mean),
            "variance": dict(statistics.variance),
            "correlation": statistics.correlation.tolist(),
            "utility": self.utility,
        }


def shown_records(configuration: Configuration, records: int) -> tuple[list[ShownRecord], list[ShownVersion]]:
    """Return the latest masked records of a topic, oldest first, and the versions that they name, if they still exist.

    Raises ServiceError, ConfigurationError, KafkaException.
    """
    topics = configuration.topics
    require_broker(confluent_properties(configuration))
    require_topics_of(configuration, [topics.output, topics.statistics, topics.drift])
    with connect_reader(configuration) as consumer:
        messages = _latest(consumer, topics.output, records)
        record_format = None if configuration.records == "hl7v2" else wire_format(configuration)
        shown = [_record(message, record_format) for message in messages]
        return shown, list(_versions(configuration, consumer, {record.version for record in shown}))


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


def _record(message: Message, record_format: RecordFormat | None) -> ShownRecord:
    headers = dict(message.headers() or ())
    version = headers.get(VERSION_HEADER) or b""
    mechanism = (headers.get(MECHANISM_HEADER) or b"").decode("ascii", "replace")
    number = int(version) if version.isdigit() else 0
    return ShownRecord(
        message.partition() or 0, message.offset() or 0, number, mechanism, _value(message.value(), record_format)
    )


def _value(value: bytes | None, record_format: RecordFormat | None) -> Any:
    if value is None:
        return None
    try:
        return document_of(record_format, value)
    except (orjson.JSONDecodeError, RecordRejectedError):
        return value.decode(errors="replace")


def _versions(configuration: Configuration, consumer: Consumer, numbers: set[int]) -> Iterator[ShownVersion]:
    topics = configuration.topics
    opener = MessageOpener(topic_seal(configuration, topics.statistics))
    read = read_to_end(consumer, topics.statistics, partition=SINGLE_PARTITION, patience=POLL_TIMEOUT_SECONDS)
    complete = complete_versions(read, opener)
    reports = {report.version: report for report in _reports(consumer, topics.drift)}
    taxonomies = build_taxonomies(configuration)
    publication = Publication(publication_settings(configuration), taxonomies, configuration.calibration.rollup_depth)
    for number in sorted(numbers & complete.keys()):
        message = decode_statistics(complete[number].message())
        exact = message.statistics
        yield ShownVersion(
            version=number,
            source=message.source,
            statistics=publication.statistics(exact),
            mean={name: _label(publication.mean(exact, name), taxonomies[name]) for name in exact.attributes},
            utility=reports[number].utility if number in reports else None,
        )


def _reports(consumer: Consumer, topic: str) -> Iterator[DriftReport]:
    return (decode_drift(message.value() or b"") for message in _end(consumer, topic, SINGLE_PARTITION, DRIFT_REPORTS))


def _label(concept: str | None, taxonomy: Taxonomy) -> str | None:
    return None if concept is None else f"{concept} {taxonomy.label(concept)}".strip()


def shown_lines(records: Sequence[ShownRecord], versions: Sequence[ShownVersion]) -> Iterator[str]:
    """Yield the lines for people: the records under each version, below its statistics."""
    known = {version.version: version for version in versions}
    for number in dict.fromkeys(record.version for record in records):
        yield from _version_lines(known[number]) if number in known else [_unknown(number)]
        for record in records:
            if record.version == number:
                yield f"partition {record.partition}, offset {record.offset}, {record.mechanism or 'not masked'}:"
                text = record.value if isinstance(record.value, str) else orjson.dumps(record.value).decode()
                yield from (f"  {line}" for line in text.splitlines())


def _unknown(number: int) -> str:
    return f"statistics version {number}: no longer on the topic" if number else "no statistics: tombstones"


def _version_lines(shown: ShownVersion) -> Iterator[str]:
    means = {name: f"sMean {label or 'of too few records to be shown'}" for name, label in shown.mean.items()}
    return statistics_lines(shown.version, shown.source, shown.statistics, means, shown.utility)
