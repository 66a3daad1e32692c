"""Several input topics in one deployment, on a real Apache Kafka."""

from __future__ import annotations

from collections import Counter

import pytest
from kafka_records import Record, read_all, write
from service import START, Service, event, ids, value, wait

PARTITIONS = 2
MISSING = b'{"id": 1, "second": "C11"}'


@pytest.fixture
def here(service: Service) -> Service:
    """The service with the input topics ``ward-….a`` and ``ward-….b``; no topic is created yet."""
    inputs = [name(service, letter) for letter in "ab"]
    service.data["topics"] |= {"input": inputs, "output": "{topic}.masked"}
    return service


def name(here: Service, letter: str, end: str = "") -> str:
    return f"ward-{here.unique}.{letter}{end}"


def publish(here: Service) -> None:
    here.publish(range(300), "--topic", name(here, "a"))


def fill(here: Service, letter: str, numbers: range) -> None:
    records = ({"value": value(i), "partition": i % PARTITIONS, "timestamp": START + i} for i in numbers)
    write(here.bootstrap, name(here, letter), records)


def masked(here: Service, letter: str) -> list[Record]:
    return read_all(here.bootstrap, name(here, letter, ".masked"))


def test_two_workers_mask_each_record_of_two_topics_once(here: Service) -> None:
    lines = here.command("topics", "--partitions", str(PARTITIONS)).output.splitlines()
    assert Counter(line.split()[0] for line in lines) == {"created": 8}
    publish(here)
    fill(here, "a", range(200))
    fill(here, "b", range(100))
    write(here.bootstrap, name(here, "b"), [{"value": MISSING, "partition": 1}])
    with here.running(name="one") as one, here.running(name="two") as two:
        wait(lambda: one.metric("records_in_total") + two.metric("records_in_total") == 301, "all records")
        wait(lambda: two.metric("assigned_partitions") == 2, "a share for each")
        assert two.stop() == 0
        fill(here, "a", range(200, 300))
        fill(here, "b", range(100, 200))
        wait(lambda: one.metric("assigned_partitions") == 2 * PARTITIONS, "the other's share")
        wait(lambda: len(masked(here, "a")) + len(masked(here, "b")) >= 500, "all records")
        of_a = ("topic", name(here, "a"))
        one.wait(lambda: any(of_a in labels for labels in one.metrics("consumer_lag")), "the lag")
    for letter, records in (("a", 300), ("b", 200)):
        found = masked(here, letter)
        by_partition = [[record for record in found if record.partition == p] for p in range(PARTITIONS)]
        assert [ids(part) for part in by_partition] == [list(range(p, records, PARTITIONS)) for p in range(PARTITIONS)]
    [rejected] = here.read("rejected")
    assert rejected.json["topic"] == name(here, "b")
    with here.running("calibrator") as calibrator:
        calibrator.wait(lambda: calibrator.metric("window_records") == 500, "a window with the records of both topics")


def test_the_topics_of_a_deployment_have_different_pseudonyms_and_noise(here: Service) -> None:
    here.data["noise_key"] = "patient.id"
    here.create(PARTITIONS)
    publish(here)
    for letter in "ab":
        fill(here, letter, range(60))
    with here.running() as worker:
        worker.reaches(120)
    one, other = ({record.json["id"]: record.json for record in masked(here, letter)} for letter in "ab")
    assert all(one[i]["patient"] != other[i]["patient"] for i in one)
    changed = [i for i in one if event(i)["first"] != one[i]["first"]]
    assert any(one[i]["first"] != other[i]["first"] for i in changed)
    for letter in "ab":
        here.command("audit", "--topic", name(here, letter), "--offset", "1:3")


def test_a_first_version_comes_from_the_records_of_all_topics(here: Service) -> None:
    here.data["calibration"] = {"min_records": 100}
    here.create(PARTITIONS)
    fill(here, "a", range(40))
    fill(here, "b", range(40, 100))
    with here.running("calibrator") as calibrator:
        calibrator.wait(lambda: bool(here.read("statistics")), "a version of all 100 records")
