"""Every mechanism on a real Kafka, with calibrator and worker; every outcome is reproduced from published data."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from calibrating import calibrating
from kafka_records import Record, write
from sealed_topics import opened, statistics_opener
from support.schemas import schema_validator
from workers import CODES, START, Running, Setting, event, running

from stream_masker.core.mechanisms import MECHANISMS
from stream_masker.pipeline.records import InputRecord
from stream_masker.pipeline.wire.reports import decode_rejection
from stream_masker.pipeline.wire.statistics import StatisticsMessage, decode_statistics, encode_statistics
from stream_masker.service.audit import RecordLocation, audit
from stream_masker.service.configuration import Configuration, load_configuration
from stream_masker.service.kafka.topic_identity import identified
from stream_masker.service.masking import Masking
from stream_masker.service.runtime.warmup import warm_up
from stream_masker.service.worker.statistics_consumer import VersionBuffer

FIRST, SECOND = 1_500, 1_000
"""The numbers of records before and after the first statistics from blocks."""

PARTITIONS = 2
BAD = 50
"""One in this number of records has an unknown code."""

CALIBRATION = {"window_records": 5_000, "every_records": 500, "every_seconds": 1, "min_records": 300}

OWN: dict[str, dict[str, Any]] = {
    "semantic_noise": {"reference": "mean", "rounding": "ceil"},
    "microaggregation": {"k": 5},
    "rank_swapping": {"k": 5},
    "exponential": {"epsilon": 2.0},
}
"""Non-default parameters of mechanisms."""


@pytest.fixture
def topics(here: Setting) -> Setting:
    here.create(partitions=PARTITIONS, drift=1)
    return here


def configured(topics: Setting, name: str, **sections: Any) -> Configuration:
    """Configure a mechanism with two nominal attributes, and a numeric one if it masks numbers."""
    attributes = dict(topics.data["attributes"])
    if MECHANISMS[name].method_card.numeric:
        attributes["age"] = {"path": "age", "numeric": {"minimum": 0, "maximum": 120, "integer": True}}
    groups = {"records": 100, "delay": 0.5, "short": "suppress"}
    given = {"attributes": attributes, "calibration": CALIBRATION, "groups": groups, **sections}
    return topics.configuration(mechanism={"name": name, **OWN.get(name, {})}, **given)


def value(number: int) -> bytes:
    made = {**event(number), "third": event(number, seed=2)["second"], "age": number * 7919 % 100}
    return orjson.dumps({**made, "first": "nothing"} if number % BAD == 0 else made)


def produce(topics: Setting, numbers: range) -> None:
    records = ({"value": value(i), "partition": i % PARTITIONS, "timestamp": START + i} for i in numbers)
    write(topics.bootstrap, topics.topics["input"], records)


def versions(topics: Setting) -> dict[int, StatisticsMessage]:
    newest = VersionBuffer(statistics_opener(load_configuration(topics.path, {})))
    for record in topics.read("statistics"):
        newest.add(record.key, record.value)
    return {published.version: decode_statistics(published.value) for published in newest.take()}


def group_of(record: Record) -> range:
    """Return the offsets of a record's group."""
    first, last = (record.headers["stream-masker-group"] or b"").split(b"-")
    return range(int(first), int(last) + 1)


KINDS = ("semantic_noise", "semantic_transport", "pram", "microaggregation")
"""The default and its substitute, a mechanism whose numbers stay, and one of groups."""


@pytest.mark.usefixtures("few_groups")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in KINDS else pytest.mark.scheduled) for name in MECHANISMS]
)
def test_every_mechanism_masks_reproducibly(name: str, topics: Setting) -> None:
    """At the other ones the scheduled run looks.

    ``tests/contract``, ``tests/golden`` and ``tests/cli`` show what differs between them: their snapshots, messages and
    configurations.
    """
    check_mechanism(topics, configured(topics, name))


def test_three_attributes_are_masked_reproducibly(topics: Setting) -> None:
    """Transport masks two of them given the third one, the root of their star."""
    topics.data["attributes"]["third"] = {**topics.data["attributes"]["second"], "path": "third"}
    configuration = configured(topics, "semantic_transport")
    check_mechanism(topics, configuration)
    newest = max(versions(topics).values(), key=lambda message: message.version)
    star = newest.snapshot["statistics"]["model"]["star"]
    assert {star["root"], *(edge["child"] for edge in star["edges"])} == {"first", "second", "third"}


def test_records_with_a_context_are_masked_reproducibly(topics: Setting) -> None:
    """Codes that the records of a context do not have are not written for it; each context has a law in the model."""
    topics.data["fields"]["keep"].append("group")
    mechanism = {"name": "semantic_transport", "context": {"group": GROUPS}}
    configuration = topics.configuration(mechanism=mechanism, calibration=CALIBRATION)
    mask_under_two_versions(topics, configuration, produce_groups)
    check_messages(topics, configuration)
    masked = topics.read("output")
    assert len(masked) == FIRST + SECOND
    for record in masked:
        assert GROUPS.index(record.json["group"]) == CODES.index(record.json["first"]) % len(GROUPS)
    check_reproducible(configuration, topics.read("input"), masked, versions(topics))
    laws = max(versions(topics).items())[1].snapshot["statistics"]["model"]["laws"]
    assert {tuple(law["kinds"]) for law in laws} >= {(0,), (1,)}


def test_a_field_is_generalized_by_the_counts_of_the_window(topics: Setting) -> None:
    """No code is written that fewer records of the window share, also after new statistics."""
    topics.data["fields"]["generalize"] = {"third": {"ontology": "small", "records": 25}}
    configuration = configured(topics, "semantic_transport")
    mask_under_two_versions(topics, configuration, produce_rare_codes)
    check_messages(topics, configuration)
    masked, published = topics.read("output"), versions(topics)
    assert len(masked) == FIRST + SECOND
    window = Counter(rare_code(number) for number in range(FIRST))
    for record in masked:
        code, result = rare_code(record.json["id"]), record.json["third"]
        shared = published[int(record.headers["stream-masker-version"] or 0)].shared["third"].concepts
        assert result == next(one for one in (code, code[:2], "root") if one in shared)
    bootstrapped, *_, newest = sorted(published.values(), key=lambda message: message.version)
    assert bootstrapped.shared["third"].concepts
    assert set(newest.shared["third"].concepts) > {one for one, count in window.items() if count > 60}
    assert {len(record.json["third"]) for record in masked} >= {2, 3}
    check_reproducible(configuration, topics.read("input"), masked, published)


def check_mechanism(topics: Setting, configuration: Configuration) -> None:
    """Run a calibrator and a worker, and reproduce every outcome from what they published."""
    mask_under_two_versions(topics, configuration, produce)
    check_messages(topics, configuration)
    originals, masked, rejected = topics.read("input"), topics.read("output"), topics.read("rejected")
    check_all_accounted_for(originals, masked, rejected)
    check_masked(configuration, originals, masked)
    check_reproducible(configuration, originals, masked, versions(topics))


def mask_under_two_versions(
    topics: Setting, configuration: Configuration, publish: Callable[[Setting, range], None]
) -> None:
    """Mask the first records under the statistics of a sample, and the second ones under those of blocks."""
    warm_up(configuration)
    publish(topics, range(FIRST))
    with calibrating(configuration), running(configuration) as worker:
        worker.reaches(FIRST)
        worker.wait(lambda: any(message.blocks for message in versions(topics).values()), "statistics of blocks")
        newest = max(versions(topics))
        worker.wait(lambda: worker.metric("statistics_version") >= newest, "new statistics in the worker")
        publish(topics, range(FIRST, FIRST + SECOND))
        worker.reaches(FIRST + SECOND)


def check_messages(topics: Setting, configuration: Configuration) -> None:
    """Every published message matches its schema; blocks are encrypted."""
    for message in versions(topics).values():
        schema_validator("statistics").validate(orjson.loads(encode_statistics(message)))
    for record in topics.read("calibration"):
        schema_validator("calibration-block").validate(orjson.loads(opened(configuration, record)))
    for role, schema in (("drift", "drift"), ("rejected", "rejection")):
        for record in topics.read(role):
            schema_validator(schema).validate(record.json)


def check_all_accounted_for(originals: list[Record], masked: list[Record], rejected: list[Record]) -> None:
    ids = {(record.partition, record.offset): record.json["id"] for record in originals}
    reasons = {ids[partition, one.offset]: one.reason for _, partition, one in map(decode_rejected, rejected)}
    done = Counter(record.json["id"] for record in masked)
    assert done.keys() | reasons.keys() == set(range(FIRST + SECOND))
    assert (len(masked) + len(rejected), max(done.values())) == (FIRST + SECOND, 1)
    assert {number for number, reason in reasons.items() if reason == "unknown_code"} == set(
        range(0, FIRST + SECOND, BAD)
    )
    assert set(reasons.values()) <= {"unknown_code", "group_too_small"}
    assert len(masked) > 0.9 * (FIRST + SECOND)


def decode_rejected(record: Record) -> tuple[str, int, Any]:
    return decode_rejection(record.value or b"")


def check_masked(configuration: Configuration, originals: list[Record], masked: list[Record]) -> None:
    """Order and partition are kept; values are concepts and numbers, most of them changed."""
    before = {record.json["id"]: record for record in originals}
    locations = [(record.partition, before[record.json["id"]].offset) for record in masked]
    assert locations == sorted(locations)
    changed: Counter[str] = Counter()
    for record in masked:
        old, new = before[record.json["id"]].json, record.json
        assert record.timestamp == before[new["id"]].timestamp
        changed.update(attribute for attribute in configuration.attributes if old[attribute] != new[attribute])
        assert set(new) == {"id", *configuration.attributes} | {"patient"}
        if "age" in configuration.attributes:
            assert type(new["age"]) is int
            assert 0 <= new["age"] <= 120
    assert {attribute: share / len(masked) > 0.3 for attribute, share in changed.items()} == dict.fromkeys(
        configuration.attributes, True
    )


def check_reproducible(
    configuration: Configuration, originals: list[Record], masked: list[Record], published: dict[int, StatisticsMessage]
) -> None:
    """The published snapshots reproduce every masked record byte by byte."""
    assert len({record.headers["stream-masker-version"] for record in masked}) >= 2
    masking = identified(Masking(configuration), [configuration.topics.single])
    inputs = {(r.partition, r.offset): InputRecord(r.offset, r.value, timestamp=r.timestamp) for r in originals}
    locations = {record.json["id"]: (record.partition, record.offset) for record in originals}
    for (version, partition), records in by_version(masked).items():
        snapshot = published[version].snapshot
        masking.restore(decode_statistics(encode_statistics(published[version])))
        assert masking.mechanism.snapshot() == snapshot
        offsets = {locations[record.json["id"]][1]: record for record in records}
        runs = {group_of(record) for record in records} if masking.mechanism.needs_group else {tuple(sorted(offsets))}
        again = {
            outcome.offset: outcome
            for run in runs
            for outcome in masking.masker.mask(
                configuration.topics.input,
                partition,
                [inputs[partition, offset] for offset in run if (partition, offset) in inputs],
                statistics_version=version,
            ).outcomes
        }
        for offset, record in offsets.items():
            assert again[offset].value == record.value
            assert dict(again[offset].headers) == record.headers


def by_version(masked: list[Record]) -> dict[tuple[int, int], list[Record]]:
    found: dict[tuple[int, int], list[Record]] = defaultdict(list)
    for record in masked:
        found[int(record.headers["stream-masker-version"] or 0), record.partition].append(record)
    return found


GROUPING = {"name": "microaggregation", "k": 8}


GROUPS = ["even", "odd"]


def produce_groups(topics: Setting, numbers: range) -> None:
    """Write records whose group follows from the first code."""
    made = [event(i) for i in numbers]
    values = [orjson.dumps({**one, "group": GROUPS[CODES.index(one["first"]) % len(GROUPS)]}) for one in made]
    records = ({"value": v, "partition": i % PARTITIONS, "timestamp": START + i} for i, v in enumerate(values))
    write(topics.bootstrap, topics.topics["input"], records)


def rare_code(number: int) -> str:
    """The first code of a branch is frequent, and the others are rare."""
    chosen = number * 7919 % 1_000
    return CODES[chosen % 9 * 9] if chosen < 800 else CODES[chosen % len(CODES)]


def produce_rare_codes(topics: Setting, numbers: range) -> None:
    values = [orjson.dumps({**event(i), "third": rare_code(i)}) for i in numbers]
    records = ({"value": v, "partition": i % PARTITIONS, "timestamp": START + i} for i, v in enumerate(values))
    write(topics.bootstrap, topics.topics["input"], records)


def produce_codes(topics: Setting, numbers: range) -> None:
    records = ({"value": orjson.dumps({**event(i), "first": CODES[i % 9]}), "partition": 0} for i in numbers)
    write(topics.bootstrap, topics.topics["input"], records)


def small_groups(topics: Setting, short: str) -> Configuration:
    """Configure groups of 8 to 20 records, and publish statistics."""
    groups = {"records": 20, "delay": 0.5, "short": short}
    topics.data.update(mechanism=GROUPING, groups=groups)
    topics.publish(1)
    return topics.configuration()


def groups_of(topics: Setting) -> list[range]:
    return sorted({group_of(record) for record in topics.read("output")}, key=lambda group: group.start)


def stays_at(worker: Running, records: int) -> None:
    """Wait until this number of records is committed, and check that no more follow after the delay."""
    worker.reaches(records)
    time.sleep(2)
    assert worker.metric("records_in_total") == records


@pytest.mark.parametrize("short", ["hold", "merge"])
def test_short_group_waits_uncommitted_for_more_records(short: str, topics: Setting) -> None:
    configuration = small_groups(topics, short)
    produce_codes(topics, range(45))
    with running(configuration) as worker:
        stays_at(worker, 40)
        assert groups_of(topics) == [range(20), range(20, 40)]
    with running(topics.configuration(worker={"instance": "another", "batch_delay": 0.2})) as worker:
        produce_codes(topics, range(45, 48))
        worker.reaches(8)
        assert [len(group) for group in groups_of(topics)] == [20, 20, 8]
    assert [finding.matches for finding in audit(configuration, [RecordLocation(0, 47)])] == [True]
    assert [record.json["id"] for record in topics.read("output")] == list(range(48))
    assert topics.read("rejected") == []


def test_short_group_is_suppressed_after_its_delay(topics: Setting) -> None:
    configuration = small_groups(topics, "suppress")
    produce_codes(topics, range(45))
    with running(configuration) as worker:
        worker.reaches(45)
        assert worker.metric("records_rejected_total", reason="group_too_small") == 5
    assert [record.json["id"] for record in topics.read("output")] == list(range(40))


def test_rejected_records_do_not_count_for_a_group(topics: Setting) -> None:
    configuration = small_groups(topics, "hold")
    write(topics.bootstrap, topics.topics["input"], [{"value": b"no JSON", "partition": 0}] * 18)
    produce_codes(topics, range(7))
    with running(configuration) as worker:
        stays_at(worker, 0)
        produce_codes(topics, range(7, 8))
        worker.reaches(26)
    assert {group_of(record) for record in topics.read("output")} == {range(26)}
    assert len(topics.read("rejected")) == 18
