"""End to end on a real Kafka: real discharges through two workers, while the calibrator recalibrates."""

from __future__ import annotations

from collections import Counter

import orjson
from kafka_records import Record, write
from service import Service, wait
from support.data import data_file, discharges

DISCHARGES = 12_000
PAIRS = 11_922
"""Of the first discharges, those with both diagnoses."""
ATTRIBUTE = {"ontology": "icd", "alpha": 0.3, "unknown": "ancestor"}
CONFIGURATION = {
    "ontologies": {"icd": {"source": str(data_file("icd9cm-diagnoses.csv.gz"))}},
    "attributes": {"principal": {"path": "diag_1", **ATTRIBUTE}, "secondary": {"path": "diag_2", **ATTRIBUTE}},
    "fields": {"keep": ["encounter_id", "age"], "pseudonymize": ["patient_nbr"], "unlisted": "drop"},
    "mechanism": {"name": "semantic_noise", "reference": "pair", "rounding": "ceil", "candidates": "all"},
    "calibration": {"window_records": 4_000, "every_records": 2_000, "every_seconds": 2, "min_records": 1_000},
}
SMALL_BATCHES = {"worker": {"batch_records": 1_500}}


def test_real_discharges_are_masked_exactly_once_under_published_statistics(service: Service) -> None:
    service.data |= CONFIGURATION
    service.create()
    with (
        service.running("calibrator") as calibrator,
        service.running(name="one", **SMALL_BATCHES),
        service.running(name="two", **SMALL_BATCHES),
    ):
        write(service.bootstrap, service.topics["input"], map(discharge, discharges()[:DISCHARGES]))
        wait(lambda: service.outcomes() >= DISCHARGES, "an outcome of every record")
        calibrator.wait(lambda: calibrator.metric("statistics_version") >= 2, "statistics from blocks")
    assert "250.83" not in service.logs(), "a frequent code"
    assert "Traceback" not in service.logs()
    originals, masked = service.read("input"), service.read("output")
    check_exactly_once(originals, masked, [record.json for record in service.read("rejected")])
    check_order_and_time(originals, masked)
    check_fields(originals, masked)
    published = {record.key for record in service.read("statistics") if record.value is not None}
    assert {record.headers["stream-masker-version"] for record in masked} <= published
    assert len({record.headers["stream-masker-configuration"] for record in masked}) == 1


def discharge(row: dict[str, str]) -> dict[str, bytes]:
    """Return the record of a discharge, with its patient as key and without cells that stand for nothing."""
    event = {name: cell for name, cell in row.items() if cell not in ("", "?")}
    return {"value": orjson.dumps(event), "key": row["patient_nbr"].encode()}


def check_exactly_once(originals: list[Record], masked: list[Record], rejected: list[dict]) -> None:
    assert len(originals) == DISCHARGES
    by_location = {(record.partition, record.offset): record.json["encounter_id"] for record in originals}
    done = Counter(record.json["encounter_id"] for record in masked)
    done.update(by_location[each["partition"], each["offset"]] for each in rejected)
    assert done == Counter(by_location.values())
    assert len(rejected) == DISCHARGES - PAIRS
    assert {each["reason"] for each in rejected} == {"missing"}


def check_order_and_time(originals: list[Record], masked: list[Record]) -> None:
    before = {record.json["encounter_id"]: record for record in originals}
    matched = [(record, before[record.json["encounter_id"]]) for record in masked]
    assert all((after.partition, after.timestamp) == (one.partition, one.timestamp) for after, one in matched)
    offsets = [(one.partition, one.offset) for _, one in matched]
    assert offsets == sorted(offsets)
    assert len({record.partition for record in masked}) == 4


def check_fields(originals: list[Record], masked: list[Record]) -> None:
    """Rounding ``ceil`` keeps no code, and only configured fields are kept."""
    before = {record.json["encounter_id"]: record for record in originals}
    for record in masked:
        after, original = record.json, before[record.json["encounter_id"]]
        assert set(after) == {"encounter_id", "age", "patient_nbr", "diag_1", "diag_2"}
        assert after["patient_nbr"] != original.json["patient_nbr"]
        assert record.key != original.key
        assert all(after[name] != original.json[name] for name in ("diag_1", "diag_2"))
