"""Processor time of masking a nested event, with each kind of treatment of its fields.

python tests/benchmarks/bench_fields.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import orjson
from measuring import once
from support.file_commands import write_secret

from stream_masker.service.configuration import parse_configuration
from stream_masker.service.events.simulate import SimulationOptions
from stream_masker.service.local.files import FileMasking

RECORDS, ROUNDS = 30_000, 4
KEPT = ["encounter_id", "sex", "stay_days"]
FIELDS: dict[str, dict[str, Any]] = {
    "keep, drop, pseudonymize": {"keep": [*KEPT, "age"], "pseudonymize": ["patient.id"]},
    "generalize": {"keep": KEPT, "pseudonymize": ["patient.id"], "generalize": {"age": {"width": 5, "top": 90}}},
    "constant": {"keep": KEPT, "pseudonymize": ["patient.id"], "constant": {"age": 0}},
    "encrypt": {"keep": [*KEPT, "age"], "pseudonymize": ["patient.id"], "encrypt": ["patient.name"]},
    "pseudonyms": {"keep": [*KEPT, "age"], "pseudonyms": {"patient.id": {"prefix": "p-"}}},
}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        maskings = {name: masking(Path(folder), fields) for name, fields in FIELDS.items()}
        events = SimulationOptions(records=RECORDS).events(configuration(FIELDS["constant"]))
        lines = [(number, orjson.dumps(event)) for number, event in enumerate(events, start=1)]
        for one in maskings.values():
            one.calibrate_on_first_window(lines)
        times = {name: [] for name in maskings}
        for _ in range(ROUNDS):
            for name, one in maskings.items():
                times[name].append(once(lambda one=one: run(one, lines)))
    least = min(times["keep, drop, pseudonymize"])
    for name, found in times.items():
        print(f"{name:26} {min(found) / RECORDS * 1e6:6.2f} µs per record, {min(found) / least:4.1f} times")


def configuration(fields: dict[str, Any], folder: Path | None = None) -> Any:
    return parse_configuration(
        {
            "ontologies": {"icd": {"source": "icd10cm"}},
            "attributes": {
                "principal": {"path": "diagnoses.principal.code", "label": ".display", "ontology": "icd"},
                "secondary": {"path": "diagnoses.secondary[0].code", "ontology": "icd"},
            },
            "fields": {**fields, "unlisted": "drop"},
            "noise_key": "patient.id",
            "mechanism": {"name": "semantic_noise"},
            "calibration": {"window_records": 20_000},
            "secret": {"file": "secret"},
            "encryption_secret": {"file": "encryption-secret"},
        },
        folder=folder,
    )


def masking(folder: Path, fields: dict[str, Any]) -> FileMasking:
    for name, content in {"secret": bytes(range(32)), "encryption-secret": bytes(range(1, 33))}.items():
        write_secret(folder, name, content)
    return FileMasking(configuration(fields, folder))


def run(one: FileMasking, lines: list[tuple[int, bytes]]) -> None:
    one.mask(iter(lines), source="events", version=1, write=ignore, reject=ignore)


def ignore(_: bytes) -> None:
    """Drop a line."""


if __name__ == "__main__":
    main()
