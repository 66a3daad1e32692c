"""The complete examples in the folder ``examples``: flat, nested and FHIR events, FHIR Bundles, and changes of rows.

Each folder has a configuration, generated events, and what masking makes of them. ``PYTHONPATH=tests python -m
support.examples`` writes the files again; ``python -m golden update`` does too. The configuration and the first event
are those of ``docs/events.md``.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import orjson
import yaml
from click.testing import CliRunner
from support import synthea
from support.documentation import ROOT, blocks

from stream_masker.cli import main
from stream_masker.service.configuration import parse_configuration
from stream_masker.service.events.synthetic import SyntheticDischarges

FOLDER = ROOT / "examples"
HEADINGS = {
    "flat": "A flat event",
    "nested": "A nested event",
    "fhir": "A FHIR R4 Encounter",
    "fhir-bundle": "FHIR Bundles",
    "debezium": "A change event of Debezium",
}
PAGE = "docs/events.md"
RECORDS = {"flat": 2_000, "nested": 2_000, "fhir": 2_000, "fhir-bundle": 300, "debezium": 2_000}
SECRET_VARIABLE = "STREAM_MASKER_SECRET"
SECRET = "an example, not a secret"

ICD = "http://hl7.org/fhir/sid/icd-10-cm"
SNOMED = "http://snomed.info/sct"
ACT = "http://terminology.hl7.org/CodeSystem/v3-ActCode"

COMMENT = "# The configuration of docs/events.md ({heading}), with the secret from an environment variable.\n"


def documented_event(name: str) -> dict[str, Any]:
    """The event of the documentation."""
    (block,) = blocks("json", HEADINGS[name], PAGE)
    return orjson.loads(block.text)


def documented_configuration(name: str) -> dict[str, Any]:
    """The configuration of the documentation, without what only Kafka needs."""
    (block,) = blocks("yaml", HEADINGS[name], PAGE)
    return {key: value for key, value in yaml.safe_load(block.text).items() if key != "kafka"}


def events(name: str) -> Iterator[dict[str, Any]]:
    """The events of an example: the documented one, then generated ones."""
    yield documented_event(name)
    if name == "fhir-bundle":
        yield from synthea.bundles(RECORDS[name] - 1)
        return
    nested = parse_configuration(documented_configuration("nested"))
    generated = SyntheticDischarges(nested, seed=17).events(RECORDS[name] - 1)
    if name == "debezium":
        yield from map(_change, count(1), generated)
        return
    yield from map({"flat": _flat, "nested": dict, "fhir": _encounter}[name], generated)


def _flat(event: dict[str, Any]) -> dict[str, Any]:
    age = event["age"] // 10 * 10
    first = next(iter(event["diagnoses"]["secondary"]), event["diagnoses"]["principal"])
    return {
        "encounter_id": int(event["encounter_id"].rpartition("-")[2]) + 18,
        "patient_nbr": event["patient"]["id"],
        "age": f"[{age}-{age + 10})",
        "diag_1": event["diagnoses"]["principal"]["code"],
        "diag_2": first["code"],
    }


def _change(number: int, event: dict[str, Any]) -> dict[str, Any]:
    """An insert, a read of a snapshot, an update, which removes the second diagnosis, or a delete."""
    flat = _flat(event)
    patient = {"patient_id": flat["patient_nbr"], "name": event["patient"]["name"]}
    row = {"visit_id": flat["encounter_id"], **patient, "main": flat["diag_1"], "second": flat["diag_2"]}
    op = "crud"[number % 4]
    return {
        "before": row if op in "ud" else None,
        "after": None if op == "d" else row | ({"second": None} if op == "u" else {}),
        "source": {"connector": "postgresql", "table": "visits", "ts_ms": 1772612100000 + number},
        "op": op,
        "ts_ms": 1772612100123 + number,
    }


def _encounter(event: dict[str, Any]) -> dict[str, Any]:
    principal = event["diagnoses"]["principal"]
    return {
        "resourceType": "Encounter",
        "id": event["encounter_id"],
        "status": "finished",
        "class": {"system": ACT, "code": "IMP"},
        "subject": {"reference": f"Patient/{event['patient']['id']}", "display": event["patient"]["name"]},
        "length": {"value": event["stay_days"], "unit": "d"},
        "reasonCode": [{"coding": [{"system": SNOMED, "code": "401314000"}, _coding(principal)], "text": "in words"}],
        "contained": [
            {"resourceType": "Condition", "id": f"c{k}", "code": {"coding": [_coding(one)]}}
            for k, one in enumerate(event["diagnoses"]["secondary"], start=1)
        ],
    }


def _coding(diagnosis: dict[str, Any]) -> dict[str, Any]:
    return {"system": ICD, "code": diagnosis["code"], "display": diagnosis["display"]}


def masked(name: str, target: Path, mechanism: str | None = None) -> bytes:
    """What the command of an example writes, and its exit code 0; ``mechanism``: another one than the default."""
    folder = FOLDER / name
    configuration = folder / "stream-masker.yaml"
    if mechanism is not None:
        content = {**yaml.safe_load(configuration.read_text()), "mechanism": {"name": mechanism}}
        configuration = target / "stream-masker.yaml"
        configuration.write_text(yaml.safe_dump(content))
    arguments = ["mask", "-c", configuration, "--rejected", target / "rejected.jsonl"]
    arguments += [folder / "events.jsonl.gz", target / "masked.jsonl"]
    done = CliRunner(env={SECRET_VARIABLE: SECRET}).invoke(main, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output
    return (target / "masked.jsonl").read_bytes()


def write() -> None:
    """Write the files of all examples."""
    for name, heading in HEADINGS.items():
        folder = FOLDER / name
        folder.mkdir(parents=True, exist_ok=True)
        content = documented_configuration(name) | {"secret": {"env": SECRET_VARIABLE}}
        text = yaml.safe_dump(content, sort_keys=False, width=120)
        (folder / "stream-masker.yaml").write_text(COMMENT.format(heading=heading) + text)
        packed(folder / "events.jsonl.gz", b"".join(orjson.dumps(one) + b"\n" for one in events(name)))
        output = folder / "output"
        output.mkdir(exist_ok=True)
        packed(folder / "expected.jsonl.gz", masked(name, output))
        for file in output.iterdir():
            file.unlink()
        output.rmdir()


def packed(path: Path, content: bytes) -> None:
    """Write a gzip file; equal content gives equal bytes."""
    path.write_bytes(gzip.compress(content, mtime=0))


if __name__ == "__main__":
    os.chdir(ROOT)
    write()
