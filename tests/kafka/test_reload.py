"""Configuration reload on a real Apache Kafka: every worker applies changed settings with the same version."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from kafka_records import Record
from processes import Processes
from sealed_topics import opened_version
from workers import Setting, get, http_port, wait

from stream_masker.service.configuration import load_configuration

STEP = 400
TIGHTER = {"keep": ["id"], "unlisted": "drop"}


@pytest.fixture
def here(here: Setting) -> Setting:
    calibration = {"min_records": 100, "window_records": 300, "every_records": 100_000, "every_seconds": 3600}
    here.data |= {"calibration": calibration, "worker": {"batch_delay": 0.2}}
    here.configuration()
    here.create(2, drift=1)
    return here


def changed(here: Setting, **sections: Any) -> str:
    """Change the file and return the hash of its configuration."""
    here.path.write_text(yaml.safe_dump({**here.data, **sections}))
    return load_configuration(here.path, {}).hash


def masked(here: Setting, records: int) -> list[Record]:
    wait(lambda: len(here.read("output")) >= records, f"{records} masked records")
    return here.read("output")


def masked_under(record: Record) -> tuple[int, str]:
    """Return the version and the configuration hash from a record's headers."""
    version = int(record.headers["stream-masker-version"] or 0)
    return version, (record.headers["stream-masker-configuration"] or b"").decode()


def versions(here: Setting) -> list[int]:
    found = [record for record in here.read("statistics") if record.value]
    return [opened_version(load_configuration(here.path, {}), record).version for record in found]


def test_workers_apply_valid_settings_with_the_next_version(here: Setting) -> None:
    first = changed(here)
    here.produce(range(STEP), partitions=2)
    with Processes(here.folder) as processes:
        for name in ("calibrator", "worker-1", "worker-2"):
            processes.start(name, name.split("-")[0], "--config", str(here.path), "--http-port", "0")
        port = http_port(processes, "calibrator")
        assert {masked_under(record) for record in masked(here, STEP)} == {(1, first)}

        attributes = {name: {"path": name, "ontology": "small", "alpha": 5.0} for name in ("first", "second")}
        sections = {"attributes": attributes, "mechanism": {"reference": "root"}, "fields": TIGHTER}
        second = changed(here, **sections)
        wait(lambda: versions(here) == [1, 2], "a version with the new settings")
        wait(lambda: all("version 2 in force" in processes.log(f"worker-{i}") for i in (1, 2)), "both workers' change")
        here.produce(range(STEP, 2 * STEP), partitions=2)
        later = [record for record in masked(here, 2 * STEP) if record.json["id"] >= STEP]
        assert {masked_under(record) for record in later} == {(2, second)}
        assert not any("patient" in record.json for record in later), "the field is dropped now"

        changed(here, **{**sections, "fields": {"unlisted": "keep"}})
        wait(lambda: "would let more through" in str(get(port, "/readyz")), "the refusal of a file that loosens")
        assert versions(here) == [1, 2]

        changed(here, **sections, noise_key="patient.id")
        wait(lambda: "needs a restart" in str(get(port, "/readyz")), "the refusal")
        here.produce(range(2 * STEP, 3 * STEP), partitions=2)
        last = [record for record in masked(here, 3 * STEP) if record.json["id"] >= 2 * STEP]
        assert {masked_under(record) for record in last} == {(2, second)}
        assert versions(here) == [1, 2]

        here.path.write_text("attributes: [")
        processes.start("worker-3", "worker", "--config", str(here.path)).wait(60)
        changed(here, **sections)
        for offset in (0, 2 * STEP // 2, 3 * STEP // 2 - 1):
            processes.run("audit", "--config", str(here.path), "--offset", f"0:{offset}", "--offset", f"1:{offset}")
