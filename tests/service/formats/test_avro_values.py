"""Avro values as JSON and back: every type and logical type, unions, and what does not fit."""

from __future__ import annotations

import io
from datetime import UTC, date, datetime, time
from decimal import Decimal
from uuid import UUID

import orjson
import pytest

fastavro = pytest.importorskip("fastavro", reason="pip install '.[registry]'")

from stream_masker.pipeline.reasons import RecordRejectedError  # noqa: E402
from stream_masker.service.formats.avro_values import avro_document, avro_value  # noqa: E402


def parsed(kind):
    named = {}
    schema = fastavro.parse_schema({"type": "record", "name": "R", "fields": [{"name": "a", "type": kind}]}, named)
    return schema, lambda value: avro_value(value, schema, named)


def encoded(schema, datum) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, schema, datum)
    return stream.getvalue()


def decoded(schema, data: bytes):
    return fastavro.schemaless_reader(io.BytesIO(data), schema, None)


def logical(kind: str, meaning: str, **more):
    return {"type": kind, "logicalType": meaning, **more}


INSTANT = datetime(2021, 3, 4, 5, 6, 7, 89_000, tzinfo=UTC)
FIXED = {"type": "fixed", "name": "F", "size": 3}
SAME_FIELDS = [
    {"type": "record", "name": "One", "fields": [{"name": "x", "type": "string"}]},
    {"type": "record", "name": "Two", "fields": [{"name": "x", "type": "string"}, {"name": "y", "type": "int"}]},
]

VALUES = [
    ("null", None, None),
    ("boolean", True, True),
    ("int", -5, -5),
    ("long", 2**62, 2**62),
    ("float", 0.5, 0.5),
    ("double", 1e300, 1e300),
    ("string", "é", "é"),
    ("bytes", b"\x00\xff", "\x00ÿ"),
    (FIXED, b"\x00\xffa", "\x00ÿa"),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "B"),
    ({"type": "array", "items": "int"}, [1, 2], [1, 2]),
    ({"type": "map", "values": "long"}, {"k": 1}, {"k": 1}),
    (logical("int", "date"), date(2021, 3, 4), "2021-03-04"),
    (logical("int", "time-millis"), time(5, 6, 7, 89_000), "05:06:07.089000"),
    (logical("long", "time-micros"), time(5, 6, 7, 89_001), "05:06:07.089001"),
    (logical("long", "timestamp-millis"), INSTANT, "2021-03-04T05:06:07.089000Z"),
    (logical("long", "timestamp-micros"), INSTANT.replace(microsecond=1), "2021-03-04T05:06:07.000001Z"),
    (logical("long", "local-timestamp-millis"), INSTANT.replace(tzinfo=None), "2021-03-04T05:06:07.089000"),
    (logical("string", "uuid"), UUID(int=7), str(UUID(int=7))),
    (logical("bytes", "decimal", precision=6, scale=2), Decimal("-12.50"), "-12.50"),
    (logical("fixed", "decimal", name="D", size=4, precision=6, scale=2), Decimal("1.00"), "1.00"),
    (logical("long", "of-tomorrow"), 5, 5),
    (["null", "string"], None, None),
    (["null", "string"], "t", "t"),
    (["double", "long"], ("long", 5), 5),
    (["double", "long"], 5.0, 5.0),
    (["null", "long", "string"], "5", "5"),
    (["string", {"type": "array", "items": "string"}], ["a"], ["a"]),
    (SAME_FIELDS, {"x": "a"}, {"x": "a"}),
    (SAME_FIELDS, {"x": "a", "y": 1}, {"x": "a", "y": 1}),
]


@pytest.mark.parametrize(("kind", "datum", "document"), VALUES, ids=str)
def test_each_value_has_a_document_and_comes_back_as_the_same_bytes(kind, datum, document):
    schema, convert = parsed(kind)
    data = encoded(schema, {"a": datum})
    text = avro_document(decoded(schema, data))
    assert orjson.loads(text) == {"a": document}
    assert type(orjson.loads(text)["a"]) is type(document)
    again = encoded(schema, convert(orjson.loads(text)))
    assert again == data


MISFITS = [
    ("int", 2**31),
    ("long", 2**63),
    ("int", True),
    ("long", 1.0),
    ("boolean", 1),
    ("string", None),
    ("string", 5),
    ("bytes", "€"),
    (FIXED, "ab"),
    ({"type": "enum", "name": "E", "symbols": ["A"]}, "B"),
    ({"type": "array", "items": "int"}, {"x": 1}),
    ({"type": "map", "values": "int"}, [1]),
    (logical("int", "date"), "2021"),
    (logical("long", "timestamp-millis"), "2021-03-04T05:06:07"),
    (logical("long", "local-timestamp-millis"), "2021-03-04T05:06:07Z"),
    (logical("string", "uuid"), "canary"),
    (logical("bytes", "decimal", precision=6, scale=2), "NaN"),
    (["null", "int"], "canary"),
    (SAME_FIELDS, {"y": 1}),
]


@pytest.mark.parametrize(("kind", "document"), MISFITS, ids=str)
def test_what_does_not_fit_is_rejected_with_its_field_and_without_its_value(kind, document):
    _, convert = parsed(kind)
    with pytest.raises(RecordRejectedError) as caught:
        convert({"a": document})
    assert (str(caught.value), caught.value.field) == ("schema_mismatch", "a")
    assert caught.value.__cause__ is None


def test_a_field_that_is_left_out_needs_a_default_or_null():
    schema, convert = parsed("string")
    with pytest.raises(RecordRejectedError) as caught:
        convert({})
    assert caught.value.field == "a"
    schema, convert = parsed(["null", "string"])
    assert decoded(schema, encoded(schema, convert({}))) == {"a": None}


def test_fields_inside_of_lists_are_named():
    items = {"type": "record", "name": "Item", "fields": [{"name": "code", "type": "string"}]}
    _, convert = parsed({"type": "array", "items": items})
    with pytest.raises(RecordRejectedError) as caught:
        convert({"a": [{"code": "x"}, {"code": 5}]})
    assert caught.value.field == "a[*].code"


def test_the_keys_of_maps_are_not_named():
    _, convert = parsed({"type": "map", "values": "int"})
    with pytest.raises(RecordRejectedError) as caught:
        convert({"a": {"canary": "x"}})
    assert caught.value.field == "a.*"


def test_a_type_may_contain_itself():
    tree = {"type": "record", "name": "Tree", "fields": [{"name": "below", "type": ["null", "Tree"]}]}
    schema, convert = parsed(tree)
    value = {"a": {"below": {"below": {"below": None}}}}
    assert decoded(schema, encoded(schema, convert(value))) == value


def test_the_first_of_the_branches_that_fit_is_written():
    fields = [{"name": "x", "type": "int"}, {"name": "below", "type": ["null", "One"]}]
    two = {"type": "record", "name": "Two", "fields": fields}
    one = {"type": "record", "name": "One", "fields": [*fields, {"name": "y", "type": ["null", two]}]}
    schema, convert = parsed(["null", one, "Two"])
    value = {"a": {"x": 1, "below": {"x": 1, "below": None, "y": None}}}
    assert decoded(schema, encoded(schema, convert(value))) == {"a": {**value["a"], "y": None}}
