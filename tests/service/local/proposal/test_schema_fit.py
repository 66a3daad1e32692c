"""Proposals for records in the Confluent wire format: what is written must fit the schema."""

from __future__ import annotations

import datetime

import pytest
import yaml
from support.schema_registry import avro_values, json_values, registry_server

from stream_masker.service.configuration import parse_configuration
from stream_masker.service.formats.wire_format import wire_format
from stream_masker.service.local.proposal import proposed_configuration
from stream_masker.service.local.sampling import NESTED_EVENTS

CODES = ["A10BA02", "M01AE01", "D07AC01", "S01ED01"]
NULLABLE_TIME = ["null", {"type": "long", "logicalType": "timestamp-millis"}]
AVRO = {
    "type": "record",
    "name": "Visit",
    "fields": [
        {"name": "patient_id", "type": "long"},
        {"name": "age", "type": "int"},
        {"name": "admitted", "type": {"type": "int", "logicalType": "date"}},
        {"name": "discharged", "type": NULLABLE_TIME, "default": None},
        {"name": "atc", "type": "string"},
        {"name": "sex", "type": "string"},
    ],
}
JSON = {
    "title": "Visit",
    "type": "object",
    "properties": {
        "patient_id": {"type": "integer"},
        "age": {"type": "integer"},
        "admitted": {"type": "string", "pattern": r"^\d{4}-\d\d-\d\d$"},
        "discharged": {"type": "string", "pattern": "T"},
        "atc": {"type": "string"},
        "sex": {"type": "string"},
    },
    "required": ["patient_id", "age", "admitted", "atc"],
}


def visit(k):
    day = datetime.datetime(2024, 3, 1 + k % 28, 10, tzinfo=datetime.UTC)
    person = {"patient_id": k % 60, "age": 20 + k % 70, "sex": "FM"[k % 2]}
    return person | {"admitted": day.date(), "discharged": day, "atc": CODES[k % 4]}


def json_visit(k):
    one = visit(k)
    return one | {name: one[name].isoformat() for name in ("admitted", "discharged")}


@pytest.mark.parametrize(("schema", "written", "event"), [(AVRO, avro_values, visit), (JSON, json_values, json_visit)])
def test_a_proposal_drops_what_does_not_fit_the_schema_and_keeps_what_it_requires_constant(
    tmp_path, schema, written, event
):
    (tmp_path / "atc.csv").write_text("code\n" + "".join(f"{code}\n{code[0]}\n" for code in CODES))
    with registry_server() as registry:
        records = written(registry.client, "visits", schema, [event(k) for k in range(240)])
        sections = {
            "topics": {"input": "visits", "output": "out", "rejected": "rejected"},
            "format": {"value": "confluent", "registry": {"url": registry.url}},
        }
        decode = wire_format(parse_configuration({**NESTED_EVENTS, **sections})).decode
        events = [decode(record)[0] for record in records]
        text = proposed_configuration(events, {"atc": str(tmp_path / "atc.csv")}, sections, records)
    fields = yaml.safe_load(text)["fields"]
    assert fields["constant"] == {"patient_id": 0, "age": 0, "admitted": "1970-01-01"}
    assert (fields["keep"], fields["drop"]) == (["sex"], ["discharged"])
    assert "# Of the sample, 240 are masked, rejected 0." in text
