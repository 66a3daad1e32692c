"""Small records that claim to be large: bounded before and after decoding, and while they are validated."""

from __future__ import annotations

import json
import time

import orjson
import pytest

pytest.importorskip("confluent_kafka.schema_registry.avro", reason="pip install '.[registry]'")

from fastavro import parse_schema
from schema_registry import avro_values, json_values, mock_client, register

from stream_masker.errors import ParameterError
from stream_masker.pipeline.reasons import RecordRejectedError
from stream_masker.service.formats import limits
from stream_masker.service.formats.limits import FREE_ITEMS, is_unbounded
from stream_masker.service.formats.registry import SchemaLookup
from stream_masker.service.formats.wire_format import ConfluentFormat

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
        (record(["null", "Event"], array("Event")), True),
        (record(record("int", name="Inner"), array("Inner")), False),
        (record(array(record("null", "int", name="Inner")), "null", EMPTY), False),
        ("null", False),
    ],
)
def test_schemas_of_which_a_few_bytes_may_claim_any_size_are_recognised(schema, bounded):
    named = {}
    assert is_unbounded(parse_schema(schema, named), named) is bounded


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
DEEP = json.loads('{"below":' * 40 + '{"wrong":"text"}' + "}" * 40)
"""What takes twice the time at each level."""

AMBIGUOUS, EVIL = r"^(a|aa)+$", "a" * 100 + "b"


def in_registry(schema: dict[str, object]):
    """The encoder of records of a schema."""
    client = mock_client()
    (value,) = json_values(client, "in", {"title": "Event", "type": "object", **schema}, [{}])
    return ConfluentFormat(SchemaLookup(client, "mock://")).decode(value)[1]


@pytest.mark.parametrize(
    ("schema", "hostile", "harmless"),
    [
        (NESTED, DEEP, {"below": {"below": {"right": 1}}}),
        ({"properties": {"code": {"pattern": AMBIGUOUS}}}, {"code": EVIL}, {"code": "aaa"}),
        ({"patternProperties": {AMBIGUOUS: {}}, "additionalProperties": False}, {EVIL: 1}, {"aaa": 1}),
    ],
    ids=["nested", "pattern", "names"],
)
def test_validation_that_takes_too_long_rejects_the_record(monkeypatch, schema, hostile, harmless):
    monkeypatch.setattr(limits.time_limit.__wrapped__, "__defaults__", (0.2,))
    encode, started = in_registry(schema), time.process_time()
    assert reason(encode, orjson.dumps(hostile)) == "schema_mismatch"
    assert time.process_time() - started < 2
    assert encode(orjson.dumps(harmless))[5:] == orjson.dumps(harmless)


def test_the_time_limit_ends_with_its_block():
    def work(seconds: float) -> None:
        until = time.process_time() + seconds
        while time.process_time() < until:
            pass

    with pytest.raises(limits.TimeLimitError), limits.time_limit(0.05):
        work(5)
    with limits.time_limit(0.3):
        pass
    work(0.5)
