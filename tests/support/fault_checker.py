"""What must hold while everything fails, checked from the consumer's side: as it happens, and whenever all is settled.

Records carry a number in the header ``n``: of P partitions, partition p holds p, p + P, p + 2P, ... in this order, so a
number is an offset and an offset a number.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import orjson
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka_records import QUIET, Record, as_record, read_all, reader_properties
from workers import CODES

from stream_masker.pipeline.records import Inputs
from stream_masker.pipeline.wire.messages import decode_statistics
from stream_masker.service.configuration import Configuration
from stream_masker.service.masking import Masking
from stream_masker.service.worker.client_properties import consumer_group_id
from stream_masker.service.worker.statistics_consumer import ActiveStatistics, PublishedVersion, VersionBuffer

CONCEPTS = {"root", *CODES, *(code[:2] for code in CODES)}
FIELDS = {"id", "patient", "first", "second"}
VERSION = "stream-masker-version"


@dataclass
class Seen:
    """What a committed reader has been given so far."""

    masked: dict[int, Record] = field(default_factory=dict)
    rejected: dict[int, str] = field(default_factory=dict)
    last: dict[tuple[str, int], int] = field(default_factory=dict)
    published: dict[int, bytes] = field(default_factory=dict)
    ranges: dict[int, int] = field(default_factory=dict)
    blocks: list[Record] = field(default_factory=list)

    @property
    def settled(self) -> int:
        return len(self.masked) + len(self.rejected)


class Checker:
    """Reads the topics of ``configuration`` as they are committed, in a thread, and notes what must not be."""

    def __init__(self, configuration: Configuration, partitions: int) -> None:
        self.configuration = configuration
        self.partitions = partitions
        self.seen = Seen()
        self.violations: list[str] = []
        self._buffer = VersionBuffer()
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
        """How many records have an outcome."""
        return self.seen.settled

    def holds(self) -> None:
        """Fails with what has been noted so far."""
        assert self._thread.is_alive(), "the checker has ended"
        assert not self.violations, f"{len(self.violations)} violations: {self.violations[:5]}"

    def _run(self) -> None:
        topics = self.configuration.topics
        takers = {
            topics.output: self._take_masked,
            topics.rejected: self._take_rejected,
            topics.statistics: self._take_statistics,
            topics.calibration: self.seen.blocks.append,
        }
        consumer = Consumer(reader_properties(self.configuration.kafka.bootstrap_servers, "read_committed"))
        found = consumer.list_topics(timeout=30).topics
        consumer.assign([TopicPartition(t, p, OFFSET_BEGINNING) for t in takers for p in found[t].partitions])
        while not self._stop.is_set():
            for message in consumer.consume(1000, 0.2):
                if message.error() is None:
                    takers[message.topic()](as_record(message))
                else:
                    self._take_error(message)
        consumer.close()

    def _take_error(self, message: Message) -> None:
        if message.error().code() in {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}:
            self.violations.append(f"{message.topic()}: {message.error().str()}")

    def _take_masked(self, record: Record) -> None:
        number = int(record.headers["n"])
        self._settle(number, record.topic, record.partition)
        self.seen.masked[number] = record
        for wrong in masked_wrongly(record, self.configuration.hash):
            self.violations.append(f"record {number}: {wrong}")

    def _take_rejected(self, record: Record) -> None:
        told = record.json
        number = told["partition"] + self.partitions * told["offset"]
        self._settle(number, record.topic, told["partition"])
        self.seen.rejected[number] = told["reason"]

    def _settle(self, number: int, topic: str, partition: int) -> None:
        """One outcome of each record, in the partition's order."""
        if number in self.seen.masked or number in self.seen.rejected:
            self.violations.append(f"record {number} has two outcomes")
        if number % self.partitions != partition:
            self.violations.append(f"record {number} is in partition {partition}")
        if number <= self.seen.last.get((topic, partition), -1):
            self.violations.append(f"record {number} comes after {self.seen.last[topic, partition]}")
        self.seen.last[topic, partition] = number

    def _take_statistics(self, record: Record) -> None:
        self._buffer.add(record.key, record.value)
        for published in self._buffer.take():
            if self.seen.published.setdefault(published.version, published.value) != published.value:
                self.violations.append(f"statistics version {published.version} was published twice")
            self._take_range(published)

    def _take_range(self, published: PublishedVersion) -> None:
        """The same blocks make one version, however often the calibrator counts them."""
        blocks = decode_statistics(published.value).blocks
        if blocks is not None and self.seen.ranges.setdefault(blocks.last, published.version) != published.version:
            other = self.seen.ranges[blocks.last]
            self.violations.append(f"statistics versions {other} and {published.version} end with one block")


def masked_wrongly(record: Record, configuration: str) -> Iterable[str]:
    """What shows that a record is not, or not wholly, masked."""
    if record.headers.get("stream-masker-configuration") != configuration.encode() or VERSION not in record.headers:
        yield "it has no headers that say how it was masked"
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
        yield "its codes are none"


class Audit:
    """The whole check, of what has been settled since the last time."""

    def __init__(self, checker: Checker, kinds: Mapping[int, str]) -> None:
        self.checker = checker
        self.kinds = kinds
        self.checked = 0
        self.masking = Masking(checker.configuration)

    def of(self, records: int) -> None:
        """All of the first so many records have had their one outcome; nothing else is there."""
        seen, configuration = self.checker.seen, self.checker.configuration
        self.checker.holds()
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
        self._masked_as_they_should_be(originals)
        self._blocks_count(originals)
        self._nothing_unmasked_anywhere()
        self._no_lag(records)
        self.checked = records

    def _masked_as_they_should_be(self, originals: Iterable[Record]) -> None:
        """Masked again under the version that it names, each record is the same to the byte."""
        groups: dict[tuple[int, int], list[tuple[Record, Record]]] = defaultdict(list)
        for original in originals:
            number = int(original.headers["n"])
            if number >= self.checked and (masked := self.checker.seen.masked.get(number)):
                groups[int(masked.headers[VERSION]), original.partition].append((original, masked))
        for (version, partition), pairs in sorted(groups.items()):
            self._same(version, partition, pairs)

    def _same(self, version: int, partition: int, pairs: list[tuple[Record, Record]]) -> None:
        configuration, in_force = self.checker.configuration, ActiveStatistics(self.masking)
        assert in_force.consider([PublishedVersion(version, self.checker.seen.published[version])])
        result = in_force.masking.masker.mask(
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

    def _blocks_count(self, originals: Iterable[Record]) -> None:
        """The committed blocks are one after the other, and count each record once, with its values."""
        blocks = [block.json for block in self.checker.seen.blocks]
        for partition in range(self.checker.partitions):
            mine = [block for block in blocks if block["partition"] == partition]
            assert all(a["last_offset"] < b["first_offset"] for a, b in pairwise(mine))
        events = [r for r in originals if r.value is not None and not self.kinds.get(int(r.headers["n"]))]
        assert sum(block["records"] for block in blocks) == len(events)
        assert sum((Counter(block["rejected"]) for block in blocks), Counter()) == Counter(
            self.checker.seen.rejected.values()
        )
        for name in ("first", "second"):
            counted: Counter[str] = Counter()
            for block in blocks:
                counts = block["attributes"][name]["original"]
                counted.update(dict(zip(counts["concepts"], counts["counts"], strict=True)))
            assert counted == Counter(event.json[name] for event in events)

    def _nothing_unmasked_anywhere(self) -> None:
        """What was aborted is masked like the rest."""
        configuration = self.checker.configuration
        bootstrap, topics = configuration.kafka.bootstrap_servers, configuration.topics
        for record in read_all(bootstrap, topics.output, isolation="read_uncommitted"):
            assert not list(masked_wrongly(record, configuration.hash))
        for topic in (topics.rejected, topics.calibration):
            for record in read_all(bootstrap, topic, isolation="read_uncommitted"):
                assert b'"p' not in (record.value or b"").replace(b'"partition"', b"").replace(b'"pairs"', b"")

    def _no_lag(self, records: int, timeout: float = 30.0) -> None:
        deadline = time.monotonic() + timeout
        ends = [len(range(p, records, self.checker.partitions)) for p in range(self.checker.partitions)]
        while (there := committed(self.checker.configuration, self.checker.partitions)) != ends:
            assert time.monotonic() < deadline, f"the group is at {there} of {ends}"
            time.sleep(0.2)


def committed(configuration: Configuration, partitions: int) -> list[int]:
    """The group's offsets."""
    consumer = Consumer(
        {
            "bootstrap.servers": configuration.kafka.bootstrap_servers,
            "group.id": consumer_group_id(configuration),
            "isolation.level": "read_committed",
            **QUIET,
        }
    )
    found = consumer.committed([TopicPartition(configuration.topics.input, p) for p in range(partitions)], 30)
    consumer.close()
    return [max(0, p.offset) for p in found]


def leader_of(bootstrap: str, topic: str) -> int:
    """The broker that leads a topic's first partition."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    return int(admin.list_topics(topic, timeout=30).topics[topic].partitions[0].leader)


def numbered(number: int) -> list[tuple[str, bytes]]:
    return [("n", orjson.dumps(number))]
