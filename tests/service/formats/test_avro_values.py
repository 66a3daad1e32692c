"""Avro records of every type and logical type come back as the same bytes."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from uuid import UUID

import pytest

pytest.importorskip("confluent_kafka.schema_registry.avro", reason="pip install '.[registry]'")

from schema_registry import avro_values, mock_client

from stream_masker.pipeline.paths import compile_path
from stream_masker.pipeline.transforms import DateShift, DateUnit, NumberBands, Pseudonyms, key_text
from stream_masker.service.formats import ConfluentFormat

INSTANT = datetime(2021, 3, 4, 5, 6, 7, 89_000, tzinfo=UTC)
PSEUDONYMS = Pseudonyms(b"a secret of the tests")


def logical(kind: str, meaning: str, **more):
    return {"type": kind, "logicalType": meaning, **more}


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("boolean", True),
        ("long", 2**62),
        ("float", 0.5),
        ("string", "é"),
        ("bytes", b"\x00\xff"),
        ({"type": "fixed", "name": "F", "size": 3}, b"\x00\xffa"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B"),
        ({"type": "array", "items": "int"}, [1, 2]),
        ({"type": "map", "values": "long"}, {"k": 1}),
        (logical("int", "date"), date(2021, 3, 4)),
        (logical("int", "time-millis"), time(5, 6, 7, 89_000)),
        (logical("long", "timestamp-millis"), INSTANT),
        (logical("long", "local-timestamp-micros"), INSTANT.replace(tzinfo=None)),
        (logical("string", "uuid"), UUID(int=7)),
        (logical("bytes", "decimal", precision=6, scale=2), Decimal("-12.50")),
        (["null", "string"], None),
        (["null", "long", "string"], "5"),
    ],
    ids=str,
)
def test_a_value_comes_back_as_the_same_bytes(kind, value):
    client = mock_client()
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": kind}]}
    (record,) = avro_values(client, "in", schema, [{"a": value}])
    document, encode = ConfluentFormat(client, "mock://").decode(record)
    assert document == {"a": value}
    assert encode(document) == record


def test_dates_numbers_and_ids_of_avro_are_transformed_like_texts():
    shift = DateShift(30, compile_path("patient"))
    days = timedelta(shift.offset(b"p1", PSEUDONYMS))
    assert shift.of_value(INSTANT, PSEUDONYMS, b"p1") == INSTANT + days
    assert shift.of_value(date(2021, 3, 4), PSEUDONYMS, b"p1") == date(2021, 3, 4) + days
    assert DateUnit("month").of_value(INSTANT, PSEUDONYMS) == "2021-03"
    assert NumberBands(10).of_value(Decimal("12.50"), PSEUDONYMS) == "10-19"
    assert key_text(UUID(int=7)) == str(UUID(int=7)).encode()
    assert PSEUDONYMS.of_value(UUID(int=7)) == PSEUDONYMS.of_value(str(UUID(int=7)))
    assert PSEUDONYMS.of_value(b"7") == PSEUDONYMS.of_value(7)
