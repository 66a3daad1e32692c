"""Audit of the masked records: verify what was written for an input record, and show the latest ones.

To verify a record, its mask is derived again from the input record, the secret and the published statistics, and
compared with the written record, of which only the headers are used: they name the statistics version and the
configuration. No value of it is shown.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache, partial
from itertools import combinations, takewhile
from typing import Any, TypeAlias

import orjson
from confluent_kafka import Consumer, Message, TopicPartition

from stream_masker.errors import ConfigurationError, ServiceError, StatisticsError
from stream_masker.pipeline.formats import Form, record_form
from stream_masker.pipeline.messages import (
    StatisticsMessage,
    Taxonomies,
    decode_statistics,
    encode_rejection,
    number_of,
)
from stream_masker.pipeline.records import (
    CONFIGURATION_HEADER,
    GROUP_HEADER,
    MECHANISM_HEADER,
    VERSION_HEADER,
    Header,
    RecordRejectedError,
    Rejected,
)
from stream_masker.pipeline.versions import put_in_force, shown
from stream_masker.service.configuration import Configuration
from stream_masker.service.configuration.build import build_taxonomies
from stream_masker.service.configuration.secret import topic_seal
from stream_masker.service.formats import wire_format
from stream_masker.service.kafka.reader import POLL_TIMEOUT_SECONDS, connect_reader, read_to_end, require_topics
from stream_masker.service.masking import Masking
from stream_masker.service.worker.source import headers_of, to_inputs
from stream_masker.service.worker.statistics import Versions

MARKERS = 20
"""Offsets that are read for each record that is shown: those of transactions' markers hold no record."""

Written: TypeAlias = tuple[bytes | None, bytes | None, list[Header]]
"""The value, key and headers of a masked record."""

Entry: TypeAlias = dict[str, Any]
"""A masked record: partition, offset, the version and mechanism that its headers name, and as value its JSON or text,
None for a tombstone. Or a statistics version: version, source, records; mean, the label of sMean by attribute, None of
too few records; variance by attribute; and the matrix of correlation."""


@dataclass(frozen=True, slots=True)
class RecordLocation:
    """The location of a record in the input topic."""

    partition: int
    offset: int

    @classmethod
    def parse(cls, text: str) -> RecordLocation:
        """Parse ``PARTITION:OFFSET``. Raises ServiceError."""
        partition, _, offset = text.partition(":")
        if not (partition.isdecimal() and offset.isdecimal()):
            raise ServiceError(f"{text!r} is not the location of a record: use PARTITION:OFFSET, such as 0:1234")
        return cls(int(partition), int(offset))

    def __str__(self) -> str:
        return f"partition {self.partition}, offset {self.offset}"


@dataclass(frozen=True, slots=True)
class Finding:
    """Whether the outcome of an input record is the derived one, and a description."""

    location: RecordLocation
    matches: bool
    description: str


def audit(configuration: Configuration, locations: Iterable[RecordLocation]) -> Iterator[Finding]:
    """Audit records of the input topic. It joins no group and writes nothing.

    Raises ServiceError, ConfigurationError, and KafkaException if a topic cannot be read.
    """
    topics = configuration.topics
    require_topics(configuration, [topics.input, topics.output, topics.rejected, topics.statistics])
    with closing(connect_reader(configuration)) as consumer:
        auditor = _Auditor(configuration, consumer)
        for location in locations:
            yield Finding(location, *auditor.audit(location))


def read_versions(consumer: Consumer, configuration: Configuration) -> dict[int, bytes]:
    """Return the authentic versions on the statistics topic, by number. Raises like ``read_to_end``."""
    topic = configuration.topics.statistics
    versions = Versions(topic_seal(configuration, topic))
    for message in read_to_end(consumer, topic):
        versions.add(message.key(), message.value())
    return versions.found


class _Auditor:
    """Audits records of the input topic."""

    def __init__(self, configuration: Configuration, consumer: Consumer) -> None:
        self._configuration, self._consumer, self._topics = configuration, consumer, configuration.topics
        self._masking = Masking(configuration, format_of=wire_format)
        self._read = partial(read_to_end, consumer)
        self._versions = cache(partial(read_versions, consumer, configuration))

    def audit(self, location: RecordLocation) -> tuple[bool, str]:
        """Return whether a record's outcome is the derived one, and a description."""
        record = next(self._read(self._topics.input, partition=location.partition, start=location.offset), None)
        if record is None or record.offset() != location.offset:
            raise ServiceError(f"{self._topics.input} has no record at {location}: not yet written, or already deleted")
        if (rejection := self._rejection(location)) is not None:
            return self._judge_rejection(location, record, rejection)
        found = False, "neither masked nor rejected; it may not have been processed yet"
        for message in self._masked(location, record.timestamp()[1]):
            if (found := self._judge_masked(location, record, message))[0]:
                break
        return found

    def _rejection(self, location: RecordLocation) -> bytes | None:
        """Return the record's rejection, the first one if there are several; None if there is none."""
        key = f"{self._topics.input}:{location.partition}:{location.offset}".encode()
        messages = self._read(self._topics.rejected, partition=location.partition)
        return next((message.value() for message in messages if message.key() == key), None)

    def _masked(self, location: RecordLocation, timestamp: int) -> Iterator[Message]:
        """Yield the masked records that can belong to the record: same partition and timestamp, in offset order."""
        query = TopicPartition(self._topics.output, location.partition, timestamp)
        start = self._consumer.offsets_for_times([query], timeout=POLL_TIMEOUT_SECONDS)[0].offset
        messages = list(self._read(query.topic, partition=query.partition, start=start)) if start >= 0 else []
        return (message for message in messages if message.timestamp()[1] == timestamp)

    def _judge_rejection(self, location: RecordLocation, record: Message, written: bytes) -> tuple[bool, str]:
        """Compare a rejection. It does not depend on statistics, but masking needs some: the newest version is used."""
        version = max(self._versions(), default=0)
        if not version:
            return False, "rejected, but there are no statistics to verify it with"
        derived = self._derive(location, [record], version)
        if isinstance(derived, Rejected):
            own = encode_rejection(
                derived, topic=self._topics.input, partition=location.partition, offset=location.offset
            )
            if own == written:
                return True, f"rejected ({derived.reason})"
        return False, "rejected, but the configuration gives another outcome"

    def _judge_masked(self, location: RecordLocation, record: Message, message: Message) -> tuple[bool, str]:
        headers = dict(message.headers() or ())
        version, configuration = number_of(headers.get(VERSION_HEADER)) or 0, _text(headers.get(CONFIGURATION_HEADER))
        what = f"masked under statistics version {version} at {self._topics.output}, offset {message.offset()}"
        try:
            derived = self._derive(location, self._group(location, record, headers.get(GROUP_HEADER)), version)
        except (ConfigurationError, StatisticsError) as error:
            return False, f"{what}, which cannot be derived: {error}"
        if (given := self._configuration.hash) != configuration:
            return False, f"{what} and configuration {configuration}, but the given configuration is {given}"
        matches = derived == (message.value(), message.key(), list(headers_of(message)))
        wrong = "" if matches else ", but the secret and the statistics give another mask"
        return matches, f"{what}{wrong}"

    def _group(self, location: RecordLocation, record: Message, bounds: bytes | None) -> list[Message]:
        """Return the records that were masked as one group; the record alone if the headers name no group."""
        if bounds is None:
            return [record]
        first, last = (number_of(bound) or 0 for bound in bounds.partition(b"-")[::2])
        messages = self._read(self._topics.input, partition=location.partition, start=first)
        return list(takewhile(lambda message: (message.offset() or 0) <= last, messages))

    def _derive(self, location: RecordLocation, records: Sequence[Message], version: int) -> Rejected | Written:
        """Return the record's outcome under a version, masked together with its group.

        Raises StatisticsError if the topic does not have the version, or the group does not contain the record.
        """
        if version not in self._versions():
            raise StatisticsError(f"statistics version {version} is not on {self._topics.statistics}")
        put_in_force(decode_statistics(self._versions()[version]), self._masking.mechanism)
        masker, topic = self._masking.masker, self._topics.input
        for record in records:
            headers_of(record)  # marks one whose headers cannot be read, as the worker's input does
        result = masker.mask(topic, location.partition, to_inputs(records, masker), statistics_version=version)
        if location.offset not in result.offsets:
            raise StatisticsError("the group that its headers name does not contain it")
        index = result.offsets.index(location.offset)
        written = result.values[index], result.keys[index], [*result.headers[index]]
        return result.rejected.get(location.offset, written)


def _text(header: bytes | None) -> str:
    return (header or b"").decode("ascii", "replace")


def latest_records(configuration: Configuration, records: int) -> tuple[list[Entry], dict[int, Entry]]:
    """Return the latest masked records, oldest first, and the versions that they name, if they still exist.

    Raises ServiceError, ConfigurationError, KafkaException.
    """
    topics = configuration.topics
    partitions = require_topics(configuration, [topics.output, topics.statistics])[topics.output]
    form = record_form(None if configuration.records == "hl7v2" else wire_format(configuration))
    with closing(connect_reader(configuration)) as consumer:
        ends = [message for n in range(partitions) for message in _end(consumer, topics.output, n, records)]
        versions = read_versions(consumer, configuration)
    newest = sorted(ends, key=lambda message: message.timestamp()[1])[-records:]
    latest = [_record(message, form) for message in newest]
    named = sorted({record["version"] for record in latest} & versions.keys())
    taxonomies, least = build_taxonomies(configuration), configuration.publication.min_records
    return latest, {number: _figures(decode_statistics(versions[number]), taxonomies, least) for number in named}


def latest_lines(records: Sequence[Entry], versions: Mapping[int, Entry]) -> Iterator[str]:
    """Yield the lines for people: the records of each version, below sMean, sVar and sdCor of its statistics."""
    for number in dict.fromkeys(record["version"] for record in records):
        unknown = f"statistics version {number}: no longer on the topic" if number else "no statistics: tombstones"
        yield from _version_lines(versions[number]) if number in versions else [unknown]
        for record in records:
            if record["version"] == number:
                place, value = f"partition {record['partition']}, offset {record['offset']}", record["value"]
                yield f"{place}, {record['mechanism'] or 'not masked'}:"
                text = value if isinstance(value, str) else orjson.dumps(value).decode()
                yield from (f"  {line}" for line in text.splitlines())


def _version_lines(figures: Entry) -> Iterator[str]:
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


def _record(message: Message, form: Form) -> Entry:
    headers, value = dict(message.headers() or ()), message.value()
    try:
        content = None if value is None else orjson.loads(orjson.dumps(form(value)[0], default=str))
    except RecordRejectedError:
        content = value.decode(errors="replace")
    return {
        "partition": message.partition(),
        "offset": message.offset(),
        "version": number_of(headers.get(VERSION_HEADER)) or 0,
        "mechanism": _text(headers.get(MECHANISM_HEADER)),
        "value": content,
    }


def _figures(message: StatisticsMessage, taxonomies: Taxonomies, least: int) -> Entry:
    """Return a version as it may be published."""
    statistics = shown(message.statistics, taxonomies, least)
    means = {name: f"{mean} {taxonomies[name].label(mean)}".strip() for name, mean in statistics.mean.items() if mean}
    return {
        "version": message.version,
        "source": message.source,
        "records": statistics.records,
        "mean": {name: means.get(name) for name in statistics.attributes},
        "variance": dict(statistics.variance),
        "correlation": statistics.correlation.tolist(),
    }
