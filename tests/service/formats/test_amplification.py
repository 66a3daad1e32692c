"""Small records that claim to be large: bounded before and after decoding, and while they are validated."""

from __future__ import annotations

import json

import orjson
import pytest

pytest.importorskip("confluent_kafka.schema_registry.avro", reason="pip install '.[registry]'")

from fastavro import parse_schema
from schema_registry import avro_values, json_values, mock_client, register

from stream_masker.errors import ParameterError
from stream_masker.pipeline.reasons import RecordRejectedError
from stream_masker.service.formats.json_schema import StepBudget, bounded_validator
from stream_masker.service.formats.serdes import FREE_ITEMS, has_items_without_bytes
from stream_masker.service.formats.wire_format import ConfluentFormat, SchemaLookup

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


BASE64 = r"^(\s*([0-9a-zA-Z\+\/=]){4}\s*)+$"
"""The pattern of FHIR's base64Binary."""
AMBIGUOUS, EVIL = r"^(a|aa)+$", "a" * 100 + "b"


def in_registry(schema: dict[str, object]):
    """The encoder of records of a schema."""
    client = mock_client()
    (value,) = json_values(client, "in", {"title": "Event", "type": "object", **schema}, [{}])
    return ConfluentFormat(SchemaLookup(client, "mock://")).decode(value)[1]


@pytest.mark.parametrize(
    "draft", ["http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema"]
)
@pytest.mark.parametrize(
    ("schema", "record", "fits"),
    [
        ({"properties": {"code": {"pattern": AMBIGUOUS}}}, {"code": EVIL}, False),
        ({"properties": {"code": {"pattern": BASE64}}}, {"code": "    " * 10_000 + "!"}, False),
        ({"properties": {"code": {"pattern": BASE64}}}, {"code": " abcd " * 10_000}, True),
        ({"patternProperties": {AMBIGUOUS: False}}, {EVIL: 1}, True),
        ({"patternProperties": {AMBIGUOUS: {}}, "additionalProperties": False}, {EVIL: 1}, False),
    ],
)
def test_patterns_take_linear_time(draft, schema, record, fits):
    encode, document = in_registry({"$schema": draft, **schema}), orjson.dumps(record)
    if fits:
        assert encode(document)[5:] == document
    else:
        assert reason(encode, document) == "schema_mismatch"


@pytest.mark.parametrize("draft", ["2019-09", "2020-12"])
def test_unevaluated_properties_are_found_in_linear_time(draft):
    rules = {"allOf": [{"patternProperties": {AMBIGUOUS: {}}}], "unevaluatedProperties": False}
    encode = in_registry({"$schema": f"https://json-schema.org/draft/{draft}/schema", **rules})
    assert reason(encode, orjson.dumps({EVIL: 1})) == "schema_mismatch"
    assert encode(b'{"aaa":1}')


def test_evaluated_properties_are_found_in_a_bounded_number_of_steps():
    """Each level of the schema has the next one twice."""
    levels = {
        f"l{i}": {"dependentSchemas": {name: {"$ref": f"#/$defs/l{i + 1}"} for name in ("a", "b")}} for i in range(40)
    }
    rules = {"$defs": {**levels, "l40": {}}, "$ref": "#/$defs/l0", "unevaluatedProperties": False}
    encode = in_registry({"$schema": "https://json-schema.org/draft/2020-12/schema", **rules})
    assert reason(encode, b'{"a":1,"b":2}') == "schema_mismatch"


def test_patterns_are_those_of_ecma():
    code = lambda pattern: in_registry({"properties": {"code": {"pattern": pattern}}})  # noqa: E731
    assert code(r"^[\u00c4-\u00dc]\/\\u00c4$")('{"code":"Ö/\\\\u00c4"}'.encode())
    assert reason(code(r"^\d$"), '{"code":"٣"}'.encode()) == "schema_mismatch"
    assert reason(code("^a$"), b'{"code":"a\\n"}') == "schema_mismatch"
    assert code("^a$")(b'{"code":"a"}')


@pytest.mark.parametrize("pattern", [r"^(?!\s*$)", r"(a)\1", "(((a{999}){999}){999}){999}", "x{2000}"])
def test_a_pattern_without_a_bound_rejects_what_it_applies_to(pattern, caplog):
    encode = in_registry({"properties": {"code": {"pattern": pattern}}})
    assert reason(encode, b'{"code":"a"}') == "schema_mismatch"
    assert encode(b'{"other":"a"}')
    assert "RE2 does not support its pattern" in caplog.text


def test_a_large_pattern_takes_more_steps_for_a_long_text():
    encode = in_registry({"properties": {"code": {"pattern": "^([a-z]{0,90}-){0,10}$"}}})
    assert encode(b'{"code":"abc-"}')
    assert reason(encode, orjson.dumps({"code": "a" * 100_000})) == "schema_mismatch"


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
