"""Audit of masked records: derive a record's mask again and compare it with the written record.

The mask is derived from the input record, the secret and the published statistics. Only the headers of the masked
record are used: they name the statistics version and the configuration. No value is ever shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache, partial
from itertools import takewhile

from confluent_kafka import Consumer, Message, TopicPartition

from stream_masker.errors import ConfigurationError, ServiceError, StatisticsError
from stream_masker.pipeline.messages import decode_rejection, decode_statistics
from stream_masker.pipeline.records import CONFIGURATION_HEADER, GROUP_HEADER, VERSION_HEADER, RecordOutcome, Rejected
from stream_masker.service.configuration import Configuration
from stream_masker.service.formats import wire_format
from stream_masker.service.kafka.reader import (
    POLL_TIMEOUT_SECONDS,
    connect_reader,
    read_to_end,
    read_versions,
    require_topics,
)
from stream_masker.service.masking import Masking
from stream_masker.service.worker.groups import headers_of, to_inputs


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
    """The result of an audit: whether the record's outcome is the derived one, and a description."""

    location: RecordLocation
    matches: bool
    description: str


def audit(configuration: Configuration, locations: Iterable[RecordLocation]) -> Iterator[Finding]:
    """Audit records of the input topic. It joins no group and writes nothing.

    Raises ServiceError, ConfigurationError, and KafkaException if a topic cannot be read.
    """
    topics = configuration.topics
    counts = require_topics(configuration, [topics.input, topics.output, topics.rejected, topics.statistics])
    with closing(connect_reader(configuration)) as consumer:
        auditor = _Auditor(configuration, consumer, counts[topics.rejected])
        for location in locations:
            yield Finding(location, *auditor.audit(location))


class _Auditor:
    """Audits records of the input topic; ``rejected_partitions``: of the topic of rejections."""

    def __init__(self, configuration: Configuration, consumer: Consumer, rejected_partitions: int) -> None:
        self._configuration, self._consumer = configuration, consumer
        self._topics, self._rejected_partitions = configuration.topics, rejected_partitions
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
        matches, description = False, "neither masked nor rejected; it may not have been processed yet"
        for message in self._masked(location, record.timestamp()[1]):
            matches, description = self._judge_masked(location, record, message)
            if matches:
                break
        return matches, description

    def _rejection(self, location: RecordLocation) -> Rejected | None:
        """Return the record's rejection, the first one if there are several; None if there is none."""
        key = f"{self._topics.input}:{location.partition}:{location.offset}".encode()
        messages = self._read(self._topics.rejected, partition=location.partition % self._rejected_partitions)
        return next((decode_rejection(one.value() or b"")[2] for one in messages if one.key() == key), None)

    def _masked(self, location: RecordLocation, timestamp: int) -> Iterator[Message]:
        """Yield the masked records that can belong to the record: same partition and timestamp, in offset order."""
        query = TopicPartition(self._topics.output, location.partition, timestamp)
        start = self._consumer.offsets_for_times([query], timeout=POLL_TIMEOUT_SECONDS)[0].offset
        messages = list(self._read(query.topic, partition=query.partition, start=start)) if start >= 0 else []
        return (message for message in messages if message.timestamp()[1] == timestamp)

    def _judge_rejection(self, location: RecordLocation, record: Message, written: Rejected) -> tuple[bool, str]:
        """Compare a rejection. It does not depend on statistics, but masking needs some: the newest version is used."""
        version = max(self._versions(), default=0)
        if not version:
            return False, "rejected, but there are no statistics to verify it with"
        derived = self._derive(location, [record], version)
        matches = isinstance(derived, Rejected) and (derived.reason, derived.field) == (written.reason, written.field)
        wrong = "" if matches else ", but the configuration gives another outcome"
        return matches, f"rejected ({written.reason}){wrong}"

    def _judge_masked(self, location: RecordLocation, record: Message, message: Message) -> tuple[bool, str]:
        headers = dict(message.headers() or ())
        version, configuration = _number(headers.get(VERSION_HEADER)), headers.get(CONFIGURATION_HEADER) or b""
        what = f"masked under statistics version {version} at {self._topics.output}, offset {message.offset()}"
        try:
            derived = self._derive(location, self._group(location, record, headers.get(GROUP_HEADER)), version)
        except (ConfigurationError, StatisticsError) as error:
            return False, f"{what}, which cannot be derived: {error}"
        if (given := self._configuration.hash) != (under := configuration.decode("ascii", "replace")):
            return False, f"{what} and configuration {under}, but the given configuration is {given}"
        matches = _same(derived, message)
        wrong = "" if matches else ", but the secret and the statistics give another mask"
        return matches, f"{what}{wrong}"

    def _group(self, location: RecordLocation, record: Message, bounds: bytes | None) -> list[Message]:
        """Return the records that were masked as one group; the record alone if the headers name no group."""
        if bounds is None:
            return [record]
        first, last = map(_number, bounds.partition(b"-")[::2])
        messages = self._read(self._topics.input, partition=location.partition, start=first)
        return list(takewhile(lambda message: (message.offset() or 0) <= last, messages))

    def _derive(self, location: RecordLocation, records: Sequence[Message], version: int) -> RecordOutcome:
        """Return the record's outcome under a version, masked together with its group.

        Raises StatisticsError if the topic does not have the version, or the group does not contain the record.
        """
        if version not in self._versions():
            raise StatisticsError(f"statistics version {version} is not on {self._topics.statistics}")
        self._masking.restore(decode_statistics(self._versions()[version]))
        masker, topic = self._masking.masker, self._topics.input
        result = masker.mask(topic, location.partition, to_inputs(records, masker), statistics_version=version)
        for outcome in result.outcomes:
            if outcome.offset == location.offset:
                return outcome
        raise StatisticsError("the group that its headers name does not contain it")


def _number(text: bytes | None) -> int:
    return int(text) if text is not None and text.isdigit() else 0


def _same(derived: RecordOutcome, message: Message) -> bool:
    """Return whether a masked record equals the derived one in value, key and headers."""
    written = (message.value(), message.key(), list(headers_of(message)))
    return not isinstance(derived, Rejected) and (derived.value, derived.key, derived.headers) == written
