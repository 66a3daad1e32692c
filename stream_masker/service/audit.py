"""Audits: the mask of a record derived once more, from the input record, the secret and the published statistics.

Nothing is taken from the masked record but its headers: they name the statistics version and the configuration that it
was masked under. No value is shown, whatever the outcome.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import takewhile

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition

from stream_masker.errors import ConfigurationError, ServiceError, StatisticsError
from stream_masker.pipeline.envelope import CONFIGURATION_HEADER, VERSION_HEADER
from stream_masker.pipeline.groups import GROUP_HEADER
from stream_masker.pipeline.records import Header, InputRecord, RecordOutcome, Rejected
from stream_masker.pipeline.wire.chunks import ChunkAssembler, Versions, chunk_position
from stream_masker.pipeline.wire.messages import StatisticsMessage, decode_rejection, decode_statistics
from stream_masker.service.configuration import Configuration
from stream_masker.service.kafka.topic_reader import POLL_TIMEOUT_SECONDS, SINGLE_PARTITION, connect_reader, read_to_end
from stream_masker.service.masking import Masking


@dataclass(frozen=True, slots=True)
class RecordPlace:
    """A record's place in the input topic."""

    partition: int
    offset: int

    @classmethod
    def parse(cls, text: str) -> RecordPlace:
        """``PARTITION:OFFSET``. Raises ServiceError."""
        partition, _, offset = text.partition(":")
        if not (partition.isdecimal() and offset.isdecimal()):
            raise ServiceError(f"{text!r} is no place of a record: use PARTITION:OFFSET, such as 0:1234")
        return cls(int(partition), int(offset))

    def __str__(self) -> str:
        return f"partition {self.partition}, offset {self.offset}"


@dataclass(frozen=True, slots=True)
class Finding:
    """What an audit found: whether the record's outcome is what it has to be, and in which words to say so."""

    place: RecordPlace
    matches: bool
    words: str


class Auditor:
    """Audits records of one configuration. Reads topics, joins no group, writes nothing."""

    def __init__(self, configuration: Configuration, consumer: Consumer) -> None:
        """Raises ConfigurationError for a configuration that cannot mask."""
        self._topics = configuration.topics
        self._consumer = consumer
        self._masking = Masking(configuration)
        self._version = cache(self._read_version)

    def audit(self, at: RecordPlace) -> Finding:
        """Raises ServiceError when there is no such record, KafkaException when a topic cannot be read."""
        record = self._input(at)
        if (rejection := self._rejection(at)) is not None:
            return self._judge_rejection(at, record, rejection)
        last = None
        for found in self._masked(at, record.timestamp):
            last = self._judge_masked(at, record, found)
            if last.matches:
                return last
        return last or Finding(at, False, "not masked and not rejected: perhaps it has not been read yet")

    def _input(self, at: RecordPlace) -> InputRecord:
        for message in self._read(self._topics.input, at.partition, at.offset):
            if message.offset() == at.offset:
                return as_record(message)
            break
        raise ServiceError(f"{self._topics.input} has no record at {at}: it is not there yet, or not any more")

    def _rejection(self, at: RecordPlace) -> Rejected | None:
        """The rejection of the record; of several equal ones the first."""
        rejected = self._topics.rejected
        partitions = len(self._consumer.list_topics(rejected, timeout=POLL_TIMEOUT_SECONDS).topics[rejected].partitions)
        key = f"{self._topics.input}:{at.partition}:{at.offset}".encode()
        for message in self._read(rejected, at.partition % max(1, partitions)):
            if message.key() == key:
                return decode_rejection(message.value() or b"")[2]
        return None

    def _masked(self, at: RecordPlace, timestamp: int) -> list[Message]:
        """The masked records that may be the record's: those of its partition and timestamp, in their order."""
        wanted = TopicPartition(self._topics.output, at.partition, timestamp)
        start = self._consumer.offsets_for_times([wanted], timeout=POLL_TIMEOUT_SECONDS)[0].offset
        if start < 0:
            return []
        messages = self._read(self._topics.output, at.partition, start)
        return [message for message in messages if message.timestamp()[1] == timestamp]

    def _judge_rejection(self, at: RecordPlace, record: InputRecord, found: Rejected) -> Finding:
        """A rejection depends on no statistics, but masking the record needs some: the newest."""
        version = max(self._versions(), default=0)
        if not version:
            return Finding(at, False, "rejected, but there are no statistics to derive that by")
        derived = self._derive(at, [record], version)
        matches = isinstance(derived, Rejected) and (derived.reason, derived.field) == (found.reason, found.field)
        words = f"rejected ({found.reason})"
        return Finding(at, matches, words if matches else f"{words}, which the configuration does not give")

    def _judge_masked(self, at: RecordPlace, record: InputRecord, found: Message) -> Finding:
        headers = dict(found.headers() or ())
        version, configuration = _number(headers.get(VERSION_HEADER)), headers.get(CONFIGURATION_HEADER) or b""
        words = f"masked under statistics version {version} at {self._topics.output}, offset {found.offset()}"
        try:
            under = self._under(version).configuration.hash
            derived = self._derive(at, self._group(at, record, headers.get(GROUP_HEADER)), version)
        except (ConfigurationError, StatisticsError) as error:
            return Finding(at, False, f"{words}, which cannot be derived: {error}")
        if under.encode() != configuration:
            told = configuration.decode("ascii", "replace")
            return Finding(at, False, f"{words} and configuration {told}; the one given is {under}")
        matches = _same(derived, found)
        return Finding(
            at, matches, words if matches else f"{words}, but the secret and the statistics give another mask"
        )

    def _group(self, at: RecordPlace, record: InputRecord, told: bytes | None) -> list[InputRecord]:
        """The records that were masked together with a record; itself alone where the headers name no group."""
        if told is None:
            return [record]
        first, last = (_number(bound) for bound in told.partition(b"-")[::2])
        messages = self._read(self._topics.input, at.partition, first)
        return [as_record(message) for message in takewhile(lambda message: message.offset() <= last, messages)]

    def _derive(self, at: RecordPlace, records: Sequence[InputRecord], version: int) -> RecordOutcome:
        """The record's outcome under a version, masked with the records of its group. Raises StatisticsError where it
        is not among them."""
        masking = self._under(version)
        masking.mechanism.restore(self._version(version).snapshot)
        result = masking.masker.mask(self._topics.input, at.partition, records, statistics_version=version)
        derived = [outcome for outcome in result.outcomes if outcome.offset == at.offset]
        if not derived:
            raise StatisticsError("the group that its headers name does not hold it")
        return derived[0]

    def _under(self, version: int) -> Masking:
        """What masks under the version's settings."""
        return self._masking.under(self._version(version).settings)

    def _read_version(self, version: int) -> StatisticsMessage:
        """Raises StatisticsError for a version that the topic does not hold any more."""
        versions = self._versions()
        if version not in versions:
            raise StatisticsError(f"statistics version {version} is not on {self._topics.statistics} (any more)")
        return decode_statistics(versions[version].message())

    def _versions(self) -> dict[int, ChunkAssembler]:
        """What the statistics topic holds, by version."""
        return collected(self._read(self._topics.statistics, SINGLE_PARTITION))

    def _read(self, topic: str, partition: int, start: int = OFFSET_BEGINNING) -> Iterator[Message]:
        """Committed records of a partition from an offset on, up to its present end."""
        return read_to_end(self._consumer, topic, partition=partition, start=start, patience=POLL_TIMEOUT_SECONDS)


def audit(configuration: Configuration, places: Iterable[RecordPlace]) -> Iterator[Finding]:
    """Audits records of the input topic. Raises ServiceError, ConfigurationError, KafkaException."""
    with connect_reader(configuration) as consumer:
        auditor = Auditor(configuration, consumer)
        yield from map(auditor.audit, places)


def as_record(message: Message) -> InputRecord:
    """A message as the record masker takes it."""
    headers: list[Header] = list(message.headers() or ())
    return InputRecord(message.offset(), message.value(), message.key(), headers, message.timestamp()[1])


def collected(messages: Iterable[Message]) -> dict[int, ChunkAssembler]:
    """Versions put together out of the messages of the statistics topic, in their order; complete ones only."""
    versions = Versions()
    for message in messages:
        if (found := chunk_position(message.key())) is not None:
            versions.take(*found, message.value())
    return {version: pieces for version, pieces in versions.items() if pieces.complete}


def _number(text: bytes | None) -> int:
    return int(text) if text is not None and text.isdigit() else 0


def _same(derived: RecordOutcome, found: Message) -> bool:
    """Whether a masked record is what was derived: value, key and headers, byte for byte."""
    headers: list[Header] = list(found.headers() or ())
    return not isinstance(derived, Rejected) and (derived.value, derived.key, derived.headers) == (
        found.value(),
        found.key(),
        headers,
    )
