"""``stream-masker produce`` with a real broker, and with the real discharges if available."""

from __future__ import annotations

import pytest
from service import Service
from support.data import data_file, discharges

SECTIONS = {
    "attributes": {
        "principal": {"path": "diag_1", "ontology": "small"},
        "secondary": {"path": "diag_2", "ontology": "small"},
    },
    "fields": {"unlisted": "drop"},
    "produce": {"key": "patient_nbr", "null_values": ["?", ""], "numbers": ["time_in_hospital"]},
}


@pytest.fixture
def here(service: Service) -> Service:
    service.data |= SECTIONS
    return service


def expected(row: dict[str, str]) -> dict[str, object]:
    present = {name: cell for name, cell in row.items() if cell not in ("?", "")}
    return {**present, "time_in_hospital": int(row["time_in_hospital"])}


def test_every_real_discharge_is_published_once_with_its_patient_as_key(here: Service) -> None:
    sent = {row["encounter_id"]: expected(row) for row in discharges()}
    here.create()
    done = here.command("produce", str(data_file("uci-discharges.csv.gz")))
    assert "produced 101,766 records" in done.output
    records = here.read("input")
    assert len(records) == 101_766
    assert {r.json["encounter_id"]: r.json for r in records} == sent
    assert all(r.key == r.json["patient_nbr"].encode() for r in records)
    assert len({(r.key, r.partition) for r in records}) == len({r.key for r in records})


def test_undelivered_records_are_counted_and_exit_with_1(here: Service) -> None:
    here.create()
    here.alter("input", max_message_bytes="2000")
    file = here.folder / "events.jsonl"
    file.write_bytes(b'{"n": 1}\n{"n": "%s"}\n{"n": 2}\n' % (b"x" * 5_000))
    done = here.command("produce", "--rate", "1", str(file), code=1)
    assert "produced 2 records" in done.output
    assert "1 not delivered (Broker: Message size too large)" in done.output
    assert sorted(r.json["n"] for r in here.read("input")) == [1, 2]
