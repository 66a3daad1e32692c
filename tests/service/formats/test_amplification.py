"""Small records that claim to be large: bounded before and after decoding, and while they are validated."""

from __future__ import annotations

import json
import sys
import time

import orjson
import pytest

pytest.importorskip("confluent_kafka.schema_registry.avro", reason="pip install '.[registry]'")

from schema_registry import avro_values, json_values, mock_client

from stream_masker.pipeline.formats import record_form
from stream_masker.pipeline.reasons import RecordRejectedError
from stream_masker.service import formats
from stream_masker.service.formats import ConfluentFormat

HUGE, SMALL = b"\x80" * 8 + b"\x40", b"\x90\x4e"
"""The Avro longs 2**61 and 5,000."""
EMPTY = {"type": "record", "name": "Empty", "fields": [{"name": "a_rather_long_name", "type": "null"}]}


def record(*types: object, name: str = "Event") -> dict[str, object]:
    return {"type": "record", "name": name, "fields": [{"name": f"f{i}", "type": t} for i, t in enumerate(types)]}


def reason(call, *arguments) -> str:
    with pytest.raises(RecordRejectedError) as caught:
        call(*arguments)
    return caught.value.reason.value


@pytest.mark.parametrize("items", ["null", EMPTY, {"type": "fixed", "name": "Nothing", "size": 0}])
def test_an_array_of_nothing_ends_at_the_time_limit(monkeypatch, items):
    monkeypatch.setattr(formats, "RECORD_SECONDS", 0.1)
    client, schema = mock_client(), record({"type": "array", "items": items})
    (value,) = avro_values(client, "in", schema, [{"f0": []}])
    wire = ConfluentFormat(client, "mock://")
    assert reason(wire.decode, value[:5] + HUGE + b"\x00") == "not_in_format"
    assert len(wire.decode(value[:5] + SMALL + b"\x00")[0]["f0"]) == 5_000


def test_records_are_bounded_before_they_are_decoded():
    client = mock_client()
    small, large = avro_values(client, "in", record("string"), [{"f0": "x" * number} for number in (10, 2_000)])
    open_record = record_form(ConfluentFormat(client, "mock://"), 1_000)
    open_record(small)
    assert reason(open_record, large) == "too_large"


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
    return ConfluentFormat(client, "mock://").decode(value)[1]


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
    monkeypatch.setattr(formats, "RECORD_SECONDS", 0.1)
    # The limit may come within a destructor, whose errors Python only shows; it would interrupt the hook of pytest too.
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    encode, started = in_registry(schema), time.process_time()
    assert reason(encode, hostile) == "schema_mismatch"
    assert time.process_time() - started < 2
    assert encode(harmless)[5:] == orjson.dumps(harmless)
    until = time.process_time() + 0.2
    while time.process_time() < until:
        """Work for longer than the limit, which has ended with the record."""
