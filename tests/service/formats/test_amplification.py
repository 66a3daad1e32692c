"""Small records that claim to be large: bounded before and after decoding, and while they are validated."""

from __future__ import annotations

import json

import orjson
import pytest

pytest.importorskip("confluent_kafka.schema_registry.avro", reason="pip install 'stream-masker[registry]'")

from fastavro import parse_schema
from schema_registry import avro_values, json_values, mock_client, register

from stream_masker.errors import ParameterError
from stream_masker.pipeline.reasons import RecordRejectedError
from stream_masker.service.formats.bounded_avro import FREE_ITEMS, has_items_without_bytes
from stream_masker.service.formats.bounded_json_schema import StepBudget, bounded_validator
from stream_masker.service.formats.confluent import ConfluentFormat, SchemaLookup

EMPTY = {"type": "record", "name": "Empty", "fields": [{"name": "a_rather_long_name", "type": "null"}]}


def record(*types: object, name: str = "Event") -> dict[str, object]:
    return {"type": "record", "name": name, "fields": [{"name": f"f{i}", "type": t} for i, t in enumerate(types)]}


def array(items: object) -> dict[str, object]:
    return {"type": "array", "items": items}


def varint(number: int) -> bytes:
    """An Avro long."""
    number, encoded = number << 1, b""
    while number >= 128:
        encoded += bytes([number & 127 | 128])
        number >>= 7
    return encoded + bytes([number])


def reason(call, *arguments) -> str:
    with pytest.raises(RecordRejectedError) as caught:
        call(*arguments)
    return caught.value.reason.value


@pytest.mark.parametrize("items", ["null", EMPTY, {"type": "fixed", "name": "Nothing", "size": 0}])
def test_an_array_of_nothing_has_no_more_items_than_the_record_has_bytes(items):
    client, schema = mock_client(), record(array(items))
    (value,) = avro_values(client, "in", schema, [{"f0": []}])
    wire = ConfluentFormat(SchemaLookup(client, "mock://"))
    claim = lambda number: value[:5] + varint(number) + b"\x00"  # noqa: E731
    assert reason(wire.decode, claim(300_000_000)) == "too_large"
    assert reason(wire.decode, claim(2**61)) == "too_large"
    document, _ = wire.decode(claim(FREE_ITEMS // 2))
    assert len(orjson.loads(document)["f0"]) == FREE_ITEMS // 2


def test_arrays_in_arrays_of_nothing_share_the_bound():
    client = mock_client()
    (value,) = avro_values(client, "in", record(array(array("null"))), [{"f0": []}])
    inner = varint(FREE_ITEMS // 2) + b"\x00"
    wire = ConfluentFormat(SchemaLookup(client, "mock://"))
    assert reason(wire.decode, value[:5] + varint(3) + 3 * inner + b"\x00") == "too_large"


def test_a_record_that_never_ends_is_rejected():
    client = mock_client()
    (value,) = avro_values(client, "in", record("string"), [{"f0": ""}])
    endless = register(client, "endless", record("Event"))
    frame = value[:1] + endless.to_bytes(4, "big")
    wire = ConfluentFormat(SchemaLookup(client, "mock://"))
    assert reason(wire.decode, frame + b"\x00") in ("too_deep", "unknown_schema")


@pytest.mark.parametrize(
    ("schema", "bounded"),
    [
        (record(array("null")), True),
        (record({"type": "map", "values": array(EMPTY)}), True),
        (record(["null", array(EMPTY)]), True),
        (record("Event"), True),
        (record(array("string"), {"type": "map", "values": "null"}), False),
        (record(array(["null", "string"]), array({"type": "enum", "name": "E", "symbols": ["A"]})), False),
        (record(["null", "Event"], array("Event")), False),
        (record(array(record("null", "int", name="Inner")), "null", EMPTY), False),
        ("null", False),
    ],
)
def test_schemas_whose_arrays_may_have_any_number_of_items_are_recognised(schema, bounded):
    named = {}
    assert has_items_without_bytes(parse_schema(schema, named), named) is bounded


def test_records_are_bounded_before_and_after_decoding():
    client, symbol = mock_client(), "S" * 100
    enum = {"type": "enum", "name": "Symbol", "symbols": [symbol]}
    small, large = avro_values(client, "in", record(array(enum)), [{"f0": [symbol] * number} for number in (10, 1_000)])
    wire = ConfluentFormat(SchemaLookup(client, "mock://"), limit=2_000)
    wire.decode(small)
    assert reason(wire.decode, large) == "too_large", "a byte of Avro is a hundred of JSON"
    assert reason(wire.decode, small + b"x" * 2_000) == "too_large"
    with pytest.raises(ParameterError, match="at least 1 byte"):
        ConfluentFormat(SchemaLookup(client, "mock://"), limit=0)


NESTED = {
    "type": "object",
    "properties": {"below": {"anyOf": [{"$ref": "#"}, {"$ref": "#", "required": ["never"]}]}},
    "additionalProperties": {"type": "integer"},
}


def test_a_schema_that_contains_itself_twice_takes_a_bounded_number_of_steps():
    client = mock_client()
    (value,) = json_values(client, "in", {**NESTED, "title": "Event"}, [{}])
    _, encode = ConfluentFormat(SchemaLookup(client, "mock://")).decode(value)
    deep = json.loads('{"below":' * 40 + '{"wrong":"text"}' + "}" * 40)
    assert reason(encode, orjson.dumps(deep)) == "schema_mismatch"
    assert encode(b'{"below":{"below":{"right":1}}}')


@pytest.mark.parametrize(
    ("items", "unique"),
    [
        ([1, "1", True, None, [], {}], True),
        ([1, 1.0], False),
        ([True, 1, 0, False], True),
        ([{"a": [1]}, {"a": [1.0]}], False),
        ([[1, 2], [2, 1]], True),
        ([{"i": i} for i in range(20_000)], True),
    ],
)
def test_unique_items_are_those_of_json_schema(items, unique):
    from jsonschema import Draft202012Validator

    validator = bounded_validator(Draft202012Validator, StepBudget())({"uniqueItems": True})
    assert validator.is_valid(items) is unique
    if len(items) < 100:
        assert Draft202012Validator({"uniqueItems": True}).is_valid(items) is unique
