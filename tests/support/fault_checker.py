"""Checks of exactly-once processing during faults, on the output of the service.

``Checker`` reads the topics as records are committed; ``Audit`` checks everything when all records have an outcome.

Records carry a number in the header ``n``. Of P partitions, partition p holds the numbers p, p + P, p + 2P, ... in this
order, so each number corresponds to an offset.
"""

from __future__ import annotations

import re
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import orjson
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient
from fhir_provenance import Range, range_of
from kafka_records import QUIET, Record, as_record, read_all, reader_properties
from sealed_topics import opened, statistics_opener
from workers import CODES

from stream_masker.pipeline.records import Inputs
from stream_masker.pipeline.wire.statistics import decode_statistics
from stream_masker.service.configuration import Configuration
from stream_masker.service.kafka.names import consumer_group_id
from stream_masker.service.kafka.topic_identity import identified
from stream_masker.service.masking import Masking
from stream_masker.service.worker.statistics_consumer import ActiveStatistics, PublishedVersion, VersionBuffer

CONCEPTS = {"root", *CODES, *(code[:2] for code in CODES)}
FIELDS = {"id", "patient", "first", "second"}
VERSION = "stream-masker-version"
GARBAGE = b"garbage"
"""The key of messages on internal topics that no process has written."""

MOVING = {
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError._TIMED_OUT,
}
"""Errors of a request for offsets while the group's coordinator moves to another broker."""

TIMESTAMP_OUT_OF_RANGE = "timestamp_out_of_range"
"""The reason of records that the output refuses."""

PATIENT = re.compile(rb'"p[0-6]"')
"""The id of a patient, as a text in JSON."""


@dataclass
class CommittedRecords:
    """What a reader of committed records has read so far."""

    masked: dict[int, Record] = field(default_factory=dict)
    rejected: dict[int, str] = field(default_factory=dict)
    last: dict[tuple[str, int], int] = field(default_factory=dict)
    published: dict[int, bytes] = field(default_factory=dict)
    ranges: dict[int, int] = field(default_factory=dict)
    blocks: list[Record] = field(default_factory=list)
    provenance: dict[int, list[Range]] = field(default_factory=lambda: defaultdict(list))

    @property
    def settled(self) -> int:
        return len(self.masked) + len(self.rejected)


class Checker:
    """Reads the committed records of the topics of ``configuration`` on a thread, and collects violations.

    ``hashes``: of the configuration in other releases.
    """

    def __init__(self, configuration: Configuration, partitions: int, hashes: Collection[bytes] = ()) -> None:
        self.configuration = configuration
        self.partitions = partitions
        self.seen = CommittedRecords()
        self.violations: list[str] = []
        self.hashes = {configuration.hash.encode(), *hashes}
        self._buffer = VersionBuffer(statistics_opener(configuration))
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="checker", daemon=True)

    def __enter__(self) -> Checker:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(30)

    @property
    def settled(self) -> int:
        """The number of records with an outcome."""
        return self.seen.settled

    def check(self) -> None:
        """Fail if there are violations so far."""
        assert self._thread.is_alive(), "the checker has ended"
        assert not self.violations, f"{len(self.violations)} violations: {self.violations[:5]}"

    def _run(self) -> None:
        topics = self.configuration.topics
        handlers = {
            topics.output: self._handle_masked,
            topics.rejected: self._handle_rejected,
            topics.statistics: self._handle_statistics,
            topics.calibration: self._handle_block,
            **({topics.provenance: self._handle_provenance} if topics.provenance else {}),
        }
        consumer = Consumer(reader_properties(self.configuration.kafka.bootstrap_servers, "read_committed"))
        found = consumer.list_topics(timeout=30).topics
        consumer.assign([TopicPartition(t, p, OFFSET_BEGINNING) for t in handlers for p in found[t].partitions])
        while not self._stop.is_set():
            for message in consumer.consume(1000, 0.2):
                if message.error() is None:
                    handlers[message.topic()](as_record(message))
                else:
                    self._handle_error(message)
        consumer.close()

    def _handle_error(self, message: Message) -> None:
        if message.error().code() in {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}:
            self.violations.append(f"{message.topic()}: {message.error().str()}")

    def _handle_masked(self, record: Record) -> None:
        number = int(record.headers["n"])
        self._settle(number, record.topic, record.partition)
        self.seen.masked[number] = record
        for wrong in masking_errors(record, self.hashes):
            self.violations.append(f"record {number}: {wrong}")

    def _handle_rejected(self, record: Record) -> None:
        rejection = record.json
        number = rejection["partition"] + self.partitions * rejection["offset"]
        self._settle(number, record.topic, rejection["partition"])
        self.seen.rejected[number] = rejection["reason"]

    def _settle(self, number: int, topic: str, partition: int) -> None:
        """Note the outcome of a record: the only one, in the order of its partition."""
        if number in self.seen.masked or number in self.seen.rejected:
            self.violations.append(f"record {number} has two outcomes")
        if number % self.partitions != partition:
            self.violations.append(f"record {number} is in partition {partition}")
        if number <= self.seen.last.get((topic, partition), -1):
            self.violations.append(f"record {number} comes after {self.seen.last[topic, partition]}")
        self.seen.last[topic, partition] = number

    def _handle_statistics(self, record: Record) -> None:
        self._buffer.add(record.key, record.value)
        for published in self._buffer.take():
            if self.seen.published.setdefault(published.version, published.value) != published.value:
                self.violations.append(f"statistics version {published.version} was published twice")
            self._handle_range(published)

    def _handle_block(self, record: Record) -> None:
        if record.key != GARBAGE:
            self.seen.blocks.append(record)

    def _handle_provenance(self, record: Record) -> None:
        """The events of a partition follow one another without a gap: the publisher uses no transactions."""
        found, before = range_of(record.json), self.seen.provenance[range_of(record.json).partition]
        if found.first != (before[-1].last + 1 if before else 0):
            self.violations.append(f"the range {found} follows {before[-1:]}")
        before.append(found)

    def _handle_range(self, published: PublishedVersion) -> None:
        """Each range of blocks results in one version only, even if the calibrator counts the blocks several times."""
        blocks = decode_statistics(published.value).blocks
        if blocks is not None and self.seen.ranges.setdefault(blocks.last, published.version) != published.version:
            other = self.seen.ranges[blocks.last]
            self.violations.append(f"statistics versions {other} and {published.version} end with one block")


def masking_errors(record: Record, hashes: Collection[bytes]) -> Iterable[str]:
    """Yield the signs that a record is not completely masked; ``hashes``: of the configurations that may mask it."""
    if record.headers.get("stream-masker-configuration") not in hashes or VERSION not in record.headers:
        yield "its headers do not state the masking"
    if record.key is None or len(record.key) < 8:
        yield "its key is not masked"
    if record.value is None:
        return
    event = record.json
    if set(event) != FIELDS or set(event["patient"]) != {"id"}:
        yield "it has other fields"
    if len(event["patient"]["id"]) < 8:
        yield "its patient is not masked"
    if not {event["first"], event["second"]} <= CONCEPTS:
        yield "its codes are not in the ontology"


class Audit:
    """The complete check of all records; those checked before are not masked again."""

    def __init__(self, checker: Checker, kinds: Mapping[int, str]) -> None:
        self.checker = checker
        self.kinds = kinds
        self.checked = 0
        self.masking = identified(Masking(checker.configuration), [checker.configuration.topics.single])

    def run(self, records: int) -> None:
        """Check that the first ``records`` records have one outcome each, and that nothing else is in the topics."""
        seen, configuration = self.checker.seen, self.checker.configuration
        self.checker.check()
        assert seen.settled == records
        assert seen.masked.keys() | seen.rejected.keys() == set(range(records))
        wrong = {n: r for n, r in seen.rejected.items() if self.kinds.get(n) != r}
        assert not wrong, f"rejected for another reason: {wrong}"
        assert {n for n in range(self.checked, records) if self.kinds.get(n, "")} <= seen.rejected.keys()
        used = {int(record.headers[VERSION]) for record in seen.masked.values()}
        assert used <= seen.published.keys(), f"masked under {used - seen.published.keys()}, never published"
        originals = read_all(configuration.kafka.bootstrap_servers, configuration.topics.input)
        assert [len([r for r in originals if r.partition == p]) for p in range(self.checker.partitions)] == [
            len(range(p, records, self.checker.partitions)) for p in range(self.checker.partitions)
        ]
        self._check_provenance(records)
        self._check_masking(originals)
        self._check_blocks(originals)
        self._check_uncommitted()
        self._wait_for_no_lag(records)
        self.checked = records

    def _check_provenance(self, records: int) -> None:
        """Check that the events count each record by its outcome."""
        if self.checker.configuration.topics.provenance:
            seen, partitions = self.checker.seen, self.checker.partitions
            ends = [seen.provenance[p][-1].last + 1 for p in range(partitions)]
            assert ends == [len(range(p, records, partitions)) for p in range(partitions)]
            sums = sum((Counter(one.counts) for found in seen.provenance.values() for one in found), Counter())
            tombstones = sum(record.value is None for record in seen.masked.values())
            masked = len(seen.masked) - tombstones
            assert sums == {"masked": masked, "tombstones": tombstones, "rejected": len(seen.rejected)}

    def _check_masking(self, originals: Iterable[Record]) -> None:
        """Mask each record again under the version that it names: the result is the same to the byte."""
        groups: dict[tuple[int, int], list[tuple[Record, Record]]] = defaultdict(list)
        for original in originals:
            number = int(original.headers["n"])
            if number >= self.checked and (masked := self.checker.seen.masked.get(number)):
                groups[int(masked.headers[VERSION]), original.partition].append((original, masked))
        for (version, partition), pairs in sorted(groups.items()):
            self._check_same(version, partition, pairs)

    def _check_same(self, version: int, partition: int, pairs: list[tuple[Record, Record]]) -> None:
        configuration, statistics = self.checker.configuration, ActiveStatistics(self.masking)
        assert statistics.consider([PublishedVersion(version, self.version(version))])
        result = statistics.masking.masker.mask(
            configuration.topics.input,
            partition,
            Inputs(
                offsets=[original.offset for original, _ in pairs],
                values=[original.value for original, _ in pairs],
                keys=[original.key for original, _ in pairs],
                timestamps=[original.timestamp for original, _ in pairs],
                headers=[list(original.headers.items()) for original, _ in pairs],
            ),
            statistics_version=version,
        )
        assert list(result.values) == [masked.value for _, masked in pairs]
        assert list(result.keys) == [masked.key for _, masked in pairs]
        assert list(result.timestamps) == [masked.timestamp for _, masked in pairs]

    def version(self, version: int) -> bytes:
        """Return a published version, in the format of the tests' own release."""
        return self.checker.seen.published[version]

    def _check_blocks(self, originals: Iterable[Record]) -> None:
        """Check that the committed blocks do not overlap and count each record once, with its values.

        A record that the output refuses counts as one that was masked.
        """
        seen = self.checker.seen.blocks
        blocks = [orjson.loads(opened(self.checker.configuration, record)) for record in seen]
        for partition in range(self.checker.partitions):
            mine = [block for block in blocks if block["partition"] == partition]
            assert all(a["last_offset"] < b["first_offset"] for a, b in pairwise(mine))
        masked = {None, TIMESTAMP_OUT_OF_RANGE}
        events = [r for r in originals if r.value is not None and self.kinds.get(int(r.headers["n"])) in masked]
        assert sum(block["records"] for block in blocks) == len(events)
        assert sum((Counter(block["rejected"]) for block in blocks), Counter()) == Counter(
            reason for reason in self.checker.seen.rejected.values() if reason not in masked
        )
        for name in ("first", "second"):
            counted: Counter[str] = Counter()
            for block in blocks:
                counts = block["attributes"][name]["original"]
                counted.update(dict(zip(counts["concepts"], counts["counts"], strict=True)))
            assert counted == Counter(event.json[name] for event in events)

    def _check_uncommitted(self) -> None:
        """Check that the records of aborted transactions are masked too."""
        configuration = self.checker.configuration
        bootstrap, topics = configuration.kafka.bootstrap_servers, configuration.topics
        for record in read_all(bootstrap, topics.output, isolation="read_uncommitted"):
            assert not list(masking_errors(record, self.checker.hashes))
        for record in read_all(bootstrap, topics.rejected, isolation="read_uncommitted"):
            assert not PATIENT.search(record.value or b"")
        blocks = read_all(bootstrap, topics.calibration, isolation="read_uncommitted")
        for record in (record for record in blocks if record.key != GARBAGE):
            assert not PATIENT.search(opened(configuration, record))

    def _wait_for_no_lag(self, records: int, timeout: float = 600.0) -> None:
        deadline = time.monotonic() + timeout
        ends = [len(range(p, records, self.checker.partitions)) for p in range(self.checker.partitions)]
        while (offsets := self._committed()) != ends:
            assert time.monotonic() < deadline, f"the group is at {offsets} of {ends}"
            time.sleep(0.2)

    def _committed(self) -> list[int] | None:
        """The group's committed offsets; None while its coordinator moves to another broker."""
        try:
            return committed(self.checker.configuration, self.checker.partitions)
        except KafkaException as error:
            if error.args[0].code() not in MOVING:
                raise
            return None


def committed(configuration: Configuration, partitions: int, isolation: str = "read_committed") -> list[int]:
    """Return the group's committed offsets.

    ``isolation``: with any value but ``read_committed``, open transactions that commit offsets do not delay the answer.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": configuration.kafka.bootstrap_servers,
            "group.id": consumer_group_id(configuration),
            "isolation.level": isolation,
            **QUIET,
        }
    )
    try:
        found = consumer.committed([TopicPartition(configuration.topics.input, p) for p in range(partitions)], 30)
    finally:
        consumer.close()
    return [max(0, p.offset) for p in found]


def leader_of(bootstrap: str, topic: str) -> int:
    """Return the broker that leads a topic's first partition."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    return int(admin.list_topics(topic, timeout=30).topics[topic].partitions[0].leader)


def numbered(number: int) -> list[tuple[str, bytes]]:
    return [("n", orjson.dumps(number))]
