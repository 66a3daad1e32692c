"""``stream-masker produce`` and ``simulate`` with a real broker, and with the real discharges if available."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from kafka_records import Topics, read_all
from support.data import data_file, discharges

from stream_masker.cli import main

Run = Callable[..., Result]

CONFIG = """
kafka: {{bootstrap_servers: "{bootstrap}"}}
topics: {{input: {topic}}}
ontologies: {{icd: {{source: icd10cm}}}}
attributes:
  principal: {{path: diagnoses.principal.code, ontology: icd}}
  secondary: {{path: "diagnoses.secondary[*].code", ontology: icd}}
fields: {{unlisted: drop}}
noise_key: position
produce:
  columns:
    encounter_id: encounter_id
    patient_nbr: patient.id
    time_in_hospital: stay
    diag_1: diagnoses.principal.code
    diag_2: "diagnoses.secondary[0].code"
    diag_3: "diagnoses.secondary[1].code"
  key: patient.id
  null_values: ["?", ""]
  numbers: [time_in_hospital]
"""


@pytest.fixture
def topic(topics: Topics) -> str:
    return topics("discharges", partitions=4)


@pytest.fixture
def run(kafka: str, topic: str, tmp_path: Path) -> Run:
    return runner(kafka, topic, tmp_path)


def runner(bootstrap: str, topic: str, folder: Path) -> Run:
    config = folder / "config.yaml"
    config.write_text(CONFIG.format(bootstrap=bootstrap, topic=topic))
    return lambda command, *options: CliRunner().invoke(main, [command, "--config", str(config), *map(str, options)])


def expected(row: dict[str, str]) -> dict[str, object]:
    secondary = [{"code": row[name]} for name in ("diag_2", "diag_3") if row[name] != "?"]
    principal = {} if row["diag_1"] == "?" else {"principal": {"code": row["diag_1"]}}
    return {
        "encounter_id": row["encounter_id"],
        "patient": {"id": row["patient_nbr"]},
        "stay": int(row["time_in_hospital"]),
        "diagnoses": {**principal, "secondary": secondary},
    }


def test_every_real_discharge_is_published_once_with_its_patient_as_key(run: Run, kafka: str, topic: str) -> None:
    rows = discharges()
    result = run("produce", data_file("uci-discharges.csv.gz"))
    assert result.exit_code == 0, result.output
    assert "produced 101,766 records" in result.output
    sent = {row["encounter_id"]: expected(row) for row in rows}
    records = read_all(kafka, topic)
    assert len(records) == 101_766
    assert {r.json["encounter_id"]: r.json for r in records} == sent
    assert all(r.key == r.json["patient"]["id"].encode() for r in records)
    assert len({(r.key, r.partition) for r in records}) == len({r.key for r in records})


def test_simulated_discharges_are_published(run: Run, kafka: str, topic: str) -> None:
    result = run("simulate", "--records", 5_000, "--seed", 3)
    assert result.exit_code == 0, result.output
    records = read_all(kafka, topic)
    assert len({r.json["encounter_id"] for r in records}) == len(records) == 5_000


@pytest.mark.parametrize("rate", [(), ("--rate", 2)], ids=["in one batch", "in batches of one"])
def test_undelivered_records_are_counted_and_exit_with_1(
    kafka: str, topics: Topics, tmp_path: Path, rate: tuple[object, ...]
) -> None:
    """A record that the topic refuses takes no other record of its batch with it."""
    topic, file = topics("small", config={"max.message.bytes": "2000"}), tmp_path / "events.jsonl"
    file.write_bytes(b'{"n": 1}\n{"n": "%s"}\n{"n": 2}\n' % (b"x" * 5_000))
    run = runner(kafka, topic, tmp_path)
    result = run("produce", *rate, file)
    assert result.exit_code == 1
    assert "produced 2 records" in result.output
    assert "1 not delivered (Broker: Message size too large)" in result.output
    assert sorted(r.json["n"] for r in read_all(kafka, topic)) == [1, 2]


@pytest.mark.skipif(
    "STREAM_MASKER_TEST_BOOTSTRAP" in os.environ, reason="the named broker may create topics automatically"
)
def test_missing_topic_is_an_error(kafka: str, topics: Topics, tmp_path: Path) -> None:
    topic = topics.name("absent")
    result = runner(kafka, topic, tmp_path)("simulate", "--records", 1)
    assert result.exit_code == 1
    assert f"topics do not exist: {topic}" in result.output
    assert "stream-masker topics" in result.output
