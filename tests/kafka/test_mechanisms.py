"""Mechanisms on a real Kafka, with calibrator and worker; every outcome is reproduced from published data."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import orjson
import pytest
from kafka_records import Record, write
from service import CODES, CONCEPTS, START, Process, Service, event

FIRST, SECOND = 500, 300
"""The numbers of records before and after the first statistics from blocks."""

PARTITIONS = 2
BAD = 50
"""One in this number of records has an unknown code."""

GROUPS = {"records": 50, "delay": 60}
CALIBRATION = {"window_records": 5_000, "every_records": 200, "every_seconds": 1, "min_records": 200, "core_share": 1}
SINGLE: dict[str, dict[str, Any]] = {
    "semantic_noise": {"reference": "mean"},
    "semantic_transport": {},
    "pram": {},
    "exponential": {"epsilon": 2.0},
}
GROUPED: dict[str, dict[str, Any]] = {"microaggregation": {"k": 5}, "rank_swapping": {"k": 5}}


@pytest.fixture
def service(service: Service) -> Service:
    service.create(PARTITIONS)
    service.data["calibration"] = CALIBRATION
    return service


def produce(service: Service, numbers: range) -> None:
    made = [{**event(i), **({"first": "nothing"} if i % BAD == 0 else {})} for i in numbers]
    records = (
        {"value": orjson.dumps(one), "partition": one["id"] % PARTITIONS, "timestamp": START + one["id"]}
        for one in made
    )
    write(service.bootstrap, service.topics["input"], records)


@pytest.mark.parametrize(
    "name",
    [
        "semantic_noise",
        "semantic_transport",
        "microaggregation",
        *(pytest.param(name, marks=pytest.mark.scheduled) for name in ("pram", "exponential", "rank_swapping")),
    ],
)
def test_every_outcome_is_reproduced_from_the_topics(name: str, service: Service) -> None:
    """Some records are masked under the statistics of a sample, and some under those of blocks."""
    service.data["mechanism"] = {"name": name, **(SINGLE | GROUPED)[name]}
    service.data["groups"] = GROUPS
    produce(service, range(FIRST))
    with service.running("calibrator"), service.running() as worker:
        worker.reaches(FIRST)
        worker.wait(lambda: worker.metric("statistics_version") >= 2, "statistics of blocks")
        produce(service, range(FIRST, FIRST + SECOND))
        worker.reaches(FIRST + SECOND)
    masked = service.read("output")
    check_outcomes(service, masked)
    assert len({record.headers["stream-masker-version"] for record in masked}) >= 2
    assert sum(record.json["first"] != event(record.json["id"])["first"] for record in masked) > len(masked) / 5
    offsets = [word for offset in range(0, (FIRST + SECOND) // PARTITIONS, 90) for word in ("--offset", f"0:{offset}")]
    audited = service.command("audit", *offsets).output.splitlines()
    assert len(audited) == len(offsets) // 2
    assert all(": matches: " in line for line in audited)


def check_outcomes(service: Service, masked: list[Record]) -> None:
    """Each record is masked or rejected once, in order; masks are concepts."""
    rejected = [record.json for record in service.read("rejected")]
    done = Counter(record.json["id"] for record in masked)
    done.update(PARTITIONS * each["offset"] + each["partition"] for each in rejected)
    assert done == Counter(range(FIRST + SECOND))
    assert Counter(each["reason"] for each in rejected)["unknown_code"] == len(range(0, FIRST + SECOND, BAD))
    assert {each["reason"] for each in rejected} <= {"unknown_code", "group_too_small"}
    assert len(masked) > 0.9 * (FIRST + SECOND)
    for partition in range(PARTITIONS):
        numbers = [record.json["id"] for record in masked if record.partition == partition]
        assert numbers == sorted(numbers)
    assert all({record.json["first"], record.json["second"]} <= CONCEPTS for record in masked)


def produce_codes(service: Service, numbers: range) -> None:
    records = ({"value": orjson.dumps({**event(i), "first": CODES[i % 9]}), "partition": 0} for i in numbers)
    write(service.bootstrap, service.topics["input"], records)


def small_groups(service: Service) -> Service:
    """Configure groups of 8 to 20 records, and publish statistics."""
    service.data["mechanism"] = {"name": "microaggregation", "k": 8}
    service.data["groups"] = {"records": 20, "delay": 0.5}
    service.publish()
    return service


def groups_of(service: Service) -> list[tuple[int, int]]:
    """Return the first and the last offset of each group."""
    found = {record.headers["stream-masker-group"] for record in service.read("output")}
    return sorted((int(first), int(last)) for first, last in (group.split(b"-") for group in found))


def stays_at(worker: Process, records: int) -> None:
    """Wait until this number of records is committed, and check that no more follow after the delay of 0.5 s."""
    worker.reaches(records)
    time.sleep(1)
    assert worker.metric("records_in_total") == records


def test_a_short_group_waits_uncommitted_for_more_records(service: Service) -> None:
    small_groups(service)
    produce_codes(service, range(45))
    with service.running() as worker:
        stays_at(worker, 40)
        assert groups_of(service) == [(0, 19), (20, 39)]
    with service.running(name="another") as worker:
        produce_codes(service, range(45, 48))
        worker.reaches(8)
    assert groups_of(service) == [(0, 19), (20, 39), (40, 47)]
    assert [record.json["id"] for record in service.read("output")] == list(range(48))
    assert service.read("rejected") == []


@pytest.fixture
def masked(service: Service) -> Service:
    """Records of two partitions masked under version 1, with a rejection and a tombstone that share a timestamp."""
    service.publish()
    service.produce(range(60), partitions=PARTITIONS)
    more = [{"value": b'{"id": 7, "first": "Z99", "second": "C11"}'}, {"value": None, "key": b"k"}]
    write(service.bootstrap, service.topics["input"], [{"partition": 0, "timestamp": START, **each} for each in more])
    with service.running() as worker:
        worker.reaches(62)
    return service


def audit(service: Service, *locations: str, code: int = 0) -> str:
    return str(service.command("audit", *(word for at in locations for word in ("--offset", at)), code=code).output)


def test_an_audit_tells_what_the_service_wrote_and_what_it_did_not(masked: Service) -> None:
    told = audit(masked, "0:0", "1:17", "0:30", "0:31")
    first, second, third, fourth = told.splitlines()
    assert first.startswith("partition 0, offset 0: matches: masked under statistics version 1")
    assert second.startswith("partition 1, offset 17: matches: masked under statistics version 1")
    assert third == "partition 0, offset 30: matches: rejected (unknown_code)"
    assert "matches: masked" in fourth
    assert not [code for code in (*CODES, "Z99") if code in told]
    assert "use PARTITION:OFFSET" in audit(masked, "1:2:3", code=1)
    assert "has no record at partition 0, offset 999999" in audit(masked, "0:999999", code=1)
    masked.produce(range(60, 62), partitions=PARTITIONS)
    assert "neither masked nor rejected" in audit(masked, "1:30", code=1)
    (masked.folder / "other").write_bytes(bytes(range(32)))
    (masked.folder / "other").chmod(0o600)
    masked.data |= {"secret": {"file": "other"}, "previous_secrets": [{"file": "secret"}]}
    assert "DOES NOT MATCH" in audit(masked, "1:0", code=1)
    write(masked.bootstrap, masked.topics["statistics"], [{"key": b"1", "value": None}])
    assert "statistics version 1 is not on" in audit(masked, "0:0", code=1)
