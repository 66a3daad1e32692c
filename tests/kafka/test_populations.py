"""Topics with attributes of their own in one deployment, on a real Apache Kafka."""

from __future__ import annotations

import random
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from confluent_kafka.admin import AdminClient
from kafka_records import QUIET, Record, read_all, write
from processes import Processes, terminate
from sealed_topics import opened, opened_version
from workers import CODES, START, Setting, event, get, http_port, ids, setting, value, wait

from stream_masker.service.configuration import Configuration, load_configuration

PARTITIONS = 2
VISITS = 1_000
"""The records that the statistics of the visits need. The topics have fewer, so that there are none until some are
published."""


def visit(number: int) -> dict[str, Any]:
    """Return an event of an emergency department; its id is its number."""
    return {"visit": {"id": number}, "triage": {"complaint": random.Random(number).choice(CODES)}, "name": "a person"}


@pytest.fixture
def here(kafka: str, tmp_path: Path) -> Iterator[Setting]:
    made = setting(kafka, tmp_path)
    unique = made.topics["input"].removeprefix("input-")
    made.data |= {
        "topics": {**made.topics, "input": f"discharges-{unique}", "output": "{topic}.masked"},
        "calibration": {"min_records": 100, "every_records": 100, "every_seconds": 1},
        "worker": {"batch_delay": 0.2},
        "populations": {
            "emergency": {
                "topics": {"input": [f"emergency-{unique}", f"walk-in-{unique}"], "rejected": f"refused-{unique}"},
                "attributes": {"complaint": {"path": "triage.complaint", "ontology": "small"}},
                "fields": {"keep": ["visit.id"], "unlisted": "drop"},
                "calibration": {"min_records": VISITS},
            }
        },
    }
    made.configuration()
    yield made
    admin = AdminClient({"bootstrap.servers": kafka, **QUIET})
    names = [name for name in admin.list_topics(timeout=10).topics if unique in name]
    for future in admin.delete_topics(names).values():
        future.result(30)


def populations(here: Setting) -> tuple[Configuration, Configuration]:
    configurations = load_configuration(here.path, {}).by_population
    return configurations[""], configurations["emergency"]


def fill(here: Setting, topic: str, numbers: range, make: Any) -> None:
    records = ({"value": make(i), "partition": i % PARTITIONS, "timestamp": START + i} for i in numbers)
    write(here.bootstrap, topic, records)


def visit_value(number: int) -> bytes:
    return orjson.dumps(visit(number))


def masked(here: Setting, topic: str) -> list[Record]:
    return read_all(here.bootstrap, f"{topic}.masked")


def visit_ids(records: list[Record]) -> list[int]:
    return [record.json["visit"]["id"] for record in records]


def in_order(records: list[Record], numbers: list[int]) -> bool:
    """Whether the numbers of each partition ascend."""
    by_partition = [[n for r, n in zip(records, numbers, strict=True) if r.partition == p] for p in range(PARTITIONS)]
    return all(part == sorted(part) for part in by_partition)


def test_populations_are_masked_by_their_own_attributes_and_statistics(here: Setting, tmp_path: Path) -> None:
    own, other = populations(here)
    discharges, (emergency, walk_in) = own.topics.single, other.topics.names
    option = ("--config", str(here.path))
    with Processes(tmp_path) as processes:
        processes.run("topics", *option, "--partitions", str(PARTITIONS))
        for topic, numbers in ((emergency, range(300)), (walk_in, range(300, 400))):
            fill(here, topic, numbers, visit_value)
        write(here.bootstrap, walk_in, [{"value": value(1), "partition": 0}])
        fill(here, discharges, range(300), value)
        calibrator = processes.start("calibrator", "calibrator", *option, "--http-port", "0")
        first = processes.start("one", "worker", *option, "--http-port", "0")
        second = processes.start("two", "worker", *option, "--http-port", "0")
        processes.wait(lambda: len(masked(here, discharges)) >= 300, "the masked discharges")

        port = http_port(processes, "one")
        assert get(port, "/readyz")[1]["notes"] == ["population emergency: no statistics yet: none are published"]
        assert not masked(here, emergency)
        assert "population emergency: " in processes.log("one")

        (tmp_path / "visits.jsonl").write_bytes(b"\n".join(map(visit_value, range(VISITS))))
        processes.run("calibrate", *option, "--topic", emergency, "--publish", str(tmp_path / "visits.jsonl"))
        visits = lambda: len(masked(here, emergency)) + len(masked(here, walk_in))  # noqa: E731
        processes.wait(lambda: visits() >= 400, "the masked visits")
        wait(lambda: get(port, "/readyz")[0] == 200, "readiness")

        processes.running.remove(second)
        second.send_signal(signal.SIGKILL)
        second.wait(30)
        fill(here, discharges, range(300, 600), value)
        fill(here, emergency, range(400, 700), visit_value)
        processes.wait(lambda: len(masked(here, discharges)) >= 600, "the other discharges")
        processes.wait(lambda: visits() >= 700, "the other visits")

        metrics = text(port, "/metrics")
        assert 'stream_masker_records_in_total{population="emergency"}' in metrics
        assert 'stream_masker_alpha{attribute="complaint",population="emergency"} 0.3' in metrics
        assert 'stream_masker_alpha{attribute="first"} 0.3' in metrics
        assert metrics.count("# TYPE stream_masker_held gauge") == 1
        assert "emergency" in text(http_port(processes, "calibrator"), "/populations/emergency")
        assert (terminate(first), terminate(calibrator)) == (0, 0), processes.logs()
        assert "Traceback" not in processes.logs()

    check_discharges(masked(here, discharges))
    check_visits(here, {emergency: [*range(300), *range(400, 700)], walk_in: [*range(300, 400)]})
    (refused,) = read_all(here.bootstrap, other.topics.rejected)
    assert refused.json["topic"] == walk_in
    assert not read_all(here.bootstrap, own.topics.rejected)
    check_internal_topics(here, own, {discharges})
    check_internal_topics(here, other, {emergency, walk_in})


def check_discharges(discharged: list[Record]) -> None:
    assert sorted(ids(discharged)) == list(range(600))
    assert in_order(discharged, ids(discharged))
    assert all(record.json.keys() == {"id", "patient", "first", "second"} for record in discharged)
    assert any(record.json["first"] != event(record.json["id"])["first"] for record in discharged)


def check_visits(here: Setting, expected: dict[str, list[int]]) -> None:
    for topic, numbers in expected.items():
        records = masked(here, topic)
        assert sorted(visit_ids(records)) == numbers
        assert in_order(records, visit_ids(records))
        assert all(record.json.keys() == {"visit", "triage"} for record in records)
        assert any(r.json["triage"] != visit(i)["triage"] for r, i in zip(records, visit_ids(records), strict=True))


def check_internal_topics(here: Setting, configuration: Configuration, inputs: set[str]) -> None:
    """A population's topics have only statistics of its attributes, and only blocks of its input topics."""
    versions = read_all(here.bootstrap, configuration.topics.statistics)
    statistics = [opened_version(configuration, record) for record in versions]
    assert {version.configuration for version in statistics} == {configuration.hash}
    assert all(version.taxonomies.keys() == configuration.attributes.keys() for version in statistics)
    blocks = read_all(here.bootstrap, configuration.topics.calibration)
    assert {orjson.loads(opened(configuration, block))["topic"] for block in blocks} == inputs


def text(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
        return str(answer.read().decode())
