"""Audit of masked records: derive a record's mask again and compare it with the written record.

The mask is derived from the input record, the secret and the published statistics. Only the headers of the masked
record are used: they name the statistics version and the configuration. No value is ever shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import takewhile

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition

from stream_masker.errors import ConfigurationError, ServiceError, StatisticsError
from stream_masker.pipeline.messages import StatisticsMessage, decode_rejection, decode_statistics
from stream_masker.pipeline.records import (
    CONFIGURATION_HEADER,
    GROUP_HEADER,
    VERSION_HEADER,
    Header,
    InputRecord,
    RecordOutcome,
    Rejected,
)
from stream_masker.pipeline.seal import SealError
from stream_masker.service.configuration import Configuration
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
from stream_masker.service.masking import Masking


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


class Auditor:
    """Audits the records of one input topic. It reads topics, joins no group and writes nothing."""

    def __init__(self, configuration: Configuration, consumer: Consumer) -> None:
        """Raises ConfigurationError for a configuration that cannot mask, KafkaException if no broker answers."""
        self._topics = configuration.topics
        self._input = configuration.topics.single
        self._consumer = consumer
        self._masking = Masking(configuration, format_of=wire_format)
        self._opener = MessageOpener(topic_seal(configuration, configuration.topics.statistics))
        self._version = cache(self._read_version)

    def audit(self, location: RecordLocation) -> Finding:
        """Audit one record. Raises ServiceError if it does not exist, KafkaException if a topic cannot be read."""
        record = self._record(location)
        if (rejection := self._rejection(location)) is not None:
            return self._judge_rejection(location, record, rejection)
        last = None
        for message in self._masked(location, record.timestamp):
            last = self._judge_masked(location, record, message)
            if last.matches:
                return last
        return last or Finding(location, False, "neither masked nor rejected; it may not have been processed yet")

    def _record(self, location: RecordLocation) -> InputRecord:
        for message in self._read(self._input, location.partition, location.offset):
            if message.offset() == location.offset:
                return as_record(message)
            break
        raise ServiceError(f"{self._input} has no record at {location}: not yet written, or already deleted")

    def _rejection(self, location: RecordLocation) -> Rejected | None:
        """Return the record's rejection, the first one if there are several; None if there is none."""
        rejected = self._topics.rejected
        partitions = len(self._consumer.list_topics(rejected, timeout=POLL_TIMEOUT_SECONDS).topics[rejected].partitions)
        key = f"{self._input}:{location.partition}:{location.offset}".encode()
        for message in self._read(rejected, location.partition % max(1, partitions)):
            if message.key() == key:
                return decode_rejection(message.value() or b"")[2]
        return None

    def _masked(self, location: RecordLocation, timestamp: int) -> list[Message]:
        """Return the masked records that can belong to the record: same partition and timestamp, in offset order."""
        timestamp_query = TopicPartition(self._topics.output, location.partition, timestamp)
        start = self._consumer.offsets_for_times([timestamp_query], timeout=POLL_TIMEOUT_SECONDS)[0].offset
        if start < 0:
            return []
        messages = self._read(self._topics.output, location.partition, start)
        return [message for message in messages if message.timestamp()[1] == timestamp]

    def _judge_rejection(self, location: RecordLocation, record: InputRecord, written: Rejected) -> Finding:
        """Compare a rejection. It does not depend on statistics, but masking needs some: the newest version is used."""
        version = max(self._versions(), default=0)
        if not version:
            return Finding(location, False, "rejected, but there are no statistics to verify it with")
        derived = self._derive(location, [record], version)
        matches = isinstance(derived, Rejected) and (derived.reason, derived.field) == (written.reason, written.field)
        description = f"rejected ({written.reason})"
        return Finding(
            location, matches, description if matches else f"{description}, but the configuration gives another outcome"
        )

    def _judge_masked(self, location: RecordLocation, record: InputRecord, message: Message) -> Finding:
        headers = dict(message.headers() or ())
        version, configuration = _number(headers.get(VERSION_HEADER)), headers.get(CONFIGURATION_HEADER) or b""
        description = f"masked under statistics version {version} at {self._topics.output}, offset {message.offset()}"
        try:
            under = self._masking.configuration.hash
            derived = self._derive(location, self._group(location, record, headers.get(GROUP_HEADER)), version)
        except (ConfigurationError, StatisticsError) as error:
            return Finding(location, False, f"{description}, which cannot be derived: {error}")
        if under.encode() != configuration:
            masked_under = configuration.decode("ascii", "replace")
            return Finding(
                location,
                False,
                f"{description} and configuration {masked_under}, but the given configuration is {under}",
            )
        matches = _same(derived, message)
        return Finding(
            location,
            matches,
            description if matches else f"{description}, but the secret and the statistics give another mask",
        )

    def _group(self, location: RecordLocation, record: InputRecord, bounds: bytes | None) -> list[InputRecord]:
        """Return the records that were masked as one group; the record alone if the headers name no group."""
        if bounds is None:
            return [record]
        first, last = (_number(bound) for bound in bounds.partition(b"-")[::2])
        messages = self._read(self._input, location.partition, first)
        return [as_record(message) for message in takewhile(lambda message: message.offset() <= last, messages)]

    def _derive(self, location: RecordLocation, records: Sequence[InputRecord], version: int) -> RecordOutcome:
        """Return the record's outcome under a version, masked together with its group.

        Raises StatisticsError if the group does not contain the record.
        """
        masking = self._masking
        masking.restore(self._version(version))
        result = masking.masker.mask(self._input, location.partition, records, statistics_version=version)
        derived = [outcome for outcome in result.outcomes if outcome.offset == location.offset]
        if not derived:
            raise StatisticsError("the group that its headers name does not contain it")
        return derived[0]

    def _read_version(self, version: int) -> StatisticsMessage:
        """Read a statistics version. Raises StatisticsError if the topic does not contain it."""
        versions = self._versions()
        if version not in versions:
            raise StatisticsError(f"statistics version {version} is not on {self._topics.statistics}")
        return decode_statistics(versions[version])

    def _versions(self) -> dict[int, bytes]:
        """Return the authentic statistics versions on the topic."""
        return authentic_versions(self._read(self._topics.statistics, SINGLE_PARTITION), self._opener)

    def _read(self, topic: str, partition: int, start: int = OFFSET_BEGINNING) -> Iterator[Message]:
        """Yield the committed records of a partition from an offset to its present end."""
        return read_to_end(self._consumer, topic, partition=partition, start=start, patience=POLL_TIMEOUT_SECONDS)


def audit(configuration: Configuration, locations: Iterable[RecordLocation]) -> Iterator[Finding]:
    """Audit records of the input topic. Raises ServiceError, ConfigurationError, KafkaException."""
    topics = configuration.topics
    require_broker(confluent_properties(configuration))
    require_topics_of(configuration, [topics.single, topics.output, topics.rejected, topics.statistics])
    with connect_reader(configuration) as consumer:
        auditor = Auditor(configuration, consumer)
        yield from map(auditor.audit, locations)


def as_record(message: Message) -> InputRecord:
    """Convert a message to the record masker's input."""
    headers: list[Header] = list(message.headers() or ())
    return InputRecord(message.offset(), message.value(), message.key(), headers, message.timestamp()[1])


def authentic_versions(messages: Iterable[Message], opener: MessageOpener) -> dict[int, bytes]:
    """Return the authentic versions among the messages of the statistics topic, without those that were removed."""
    versions: dict[int, bytes] = {}
    for message in messages:
        if not (message.key() or b"").isdigit():
            continue
        version, value = int(message.key()), message.value()
        if value is None:
            versions.pop(version, None)
            continue
        with suppress(SealError):
            versions[version] = opener.open(message.key(), value)
    return versions


def _number(text: bytes | None) -> int:
    return int(text) if text is not None and text.isdigit() else 0


def _same(derived: RecordOutcome, message: Message) -> bool:
    """Return whether a masked record equals the derived one in value, key and headers."""
    headers: list[Header] = list(message.headers() or ())
    return not isinstance(derived, Rejected) and (derived.value, derived.key, derived.headers) == (
        message.value(),
        message.key(),
        headers,
    )
