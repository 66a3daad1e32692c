"""The JSON Schemas: valid, strict and described, generated from the model, and matched by encoded messages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from calibration_bench import ONTOLOGY, CalibrationBench, array_block, block
from jsonschema import Draft202012Validator
from support.schemas import load_schema, schema_names, schema_validator
from support.small_configuration import write_small

from stream_masker.core.context import Context
from stream_masker.pipeline.masker import stamp
from stream_masker.pipeline.messages import encode_block, encode_rejection, encode_statistics
from stream_masker.pipeline.records import Reason, Rejected
from stream_masker.service.calibrator.bootstrap import build_components
from stream_masker.service.configuration import configuration_schema, load_configuration

ROOT = Path(__file__).parents[1]


def test_configuration_schema_is_generated_from_the_model():
    committed = json.loads((ROOT / "schemas" / "configuration.schema.json").read_text())
    assert committed == configuration_schema(), (
        "run: python -m stream_masker.service.configuration > schemas/configuration.schema.json"
    )


@pytest.mark.parametrize("name", schema_names())
def test_schemas_are_valid_strict_and_described(name):
    schema = load_schema(name)
    Draft202012Validator.check_schema(schema)
    assert schema["$id"] == f"urn:stream-masker:schema:{name}"
    for place, part in parts(schema):
        if part.get("type") == "object":
            assert "additionalProperties" in part, place
            unclear = [key for key, value in part.get("properties", {}).items() if not described(value, schema)]
            assert unclear == [], place


def parts(schema: Any, place: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(schema, dict):
        yield place, schema
    children = schema.items() if isinstance(schema, dict) else enumerate(schema) if isinstance(schema, list) else ()
    for key, value in children:
        yield from parts(value, f"{place}.{key}")


def described(value: dict[str, Any], root: dict[str, Any]) -> bool:
    reference = value.get("$ref", "").removeprefix("#/$defs/")
    return bool(value.get("description") or (reference and reference in root["$defs"]))


@pytest.fixture(scope="module")
def messages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[bytes]]:
    """Messages of a calibrator and of its workers, by schema."""
    section = {"window_records": 100, "every_records": 10, "min_records": 10}
    given = {"calibration": section, "secret": b"the secret of all processes"}
    path = write_small(tmp_path_factory.mktemp("small"), "one", "two", rows=ONTOLOGY, **given)
    bench = CalibrationBench(build_components(load_configuration(path, {})))
    taxonomies, one = bench.components.subject.mechanism.taxonomies, block(0)
    for number in range(3):
        bench.deliver(number, block(10 * number))
        bench.advance(1_000.0 * number)
    first = bench.messages[0]
    model = {"statistics": {**first.snapshot["statistics"], "model": {"values": "eJwDAAAAAAE="}}}
    of_a_file = replace(first, blocks=None, source="file", snapshot={**first.snapshot, **model})
    contextual = replace(one, original=replace(one.original, contexts={1: one.original}))
    return {
        "rejection": [
            encode_rejection(Rejected("unknown_code", "a.b"), topic="discharges", partition=0, offset=3),
            encode_rejection(Rejected("not_json"), topic="discharges", partition=0, offset=3),
        ],
        "calibration-block": [
            encode_block(array_block(5, [0, 3, 1]), taxonomies),
            encode_block(contextual, taxonomies, Context.of({"sex": ["f", "m"]})),
        ],
        "statistics": [*map(encode_statistics, (*bench.messages, of_a_file))],
        "drift": [orjson.dumps(each.report) for each in bench.publisher.published],
    }


@pytest.mark.parametrize("name", ["rejection", "calibration-block", "statistics", "drift"])
def test_encoded_messages_are_valid(name, messages):
    assert len(messages[name]) >= 2
    for message in messages[name]:
        assert schema_validator(name).is_valid(orjson.loads(message))


def test_schemas_list_all_reasons():
    assert load_schema("rejection")["properties"]["reason"]["enum"] == [str(reason) for reason in Reason]


@pytest.mark.parametrize("value", [{}, None])
def test_masked_events_are_valid(value):
    stamped = {name: text.decode() for name, text in stamp(1, "semantic_noise", "0123456789abcdef")}
    headers = {"content-type": "application/json", **stamped}
    event = {"partition": 0, "timestamp": 1, "key": None, "headers": headers, "value": value}
    assert schema_validator("masked-event").is_valid(event)
