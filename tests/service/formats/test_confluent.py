"""Records of schemas in the Confluent wire format, with the client's own serdes and mock registry.

They come back as the same bytes; what does not fit is rejected without its value; small records that claim to be large
are bounded before and after decoding, and while they are validated.
"""

from __future__ import annotations

import json
import sys
import time
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock
from decimal import Decimal
from functools import partial
from types import SimpleNamespace
from uuid import UUID

import orjson
import pytest
from confluent_kafka.schema_registry import Rule, RuleKind, RuleMode, RuleSet, SchemaReference, SchemaRegistryClient
from schema_registry import (
    AVRO_EVENT,
    JSON_EVENT,
    RegistryServer,
    avro_values,
    json_values,
    mock_client,
    register,
    registry_server,
)

from stream_masker.pipeline.formats import FormatUnavailableError, record_form
from stream_masker.pipeline.paths import compile_path
from stream_masker.pipeline.records import RecordRejectedError
from stream_masker.pipeline.transforms import DateShift, DateUnit, NumberBands, Pseudonym, Pseudonyms, key_text
from stream_masker.service import formats
from stream_masker.service.formats import CONFIRM_SECONDS, ConfluentFormat

EVENT = {"id": 7, "patient": {"id": "canary"}, "first": "C00", "second": "C11", "note": "canary"}
WRITERS = {"avro": (avro_values, AVRO_EVENT), "json": (json_values, JSON_EVENT)}


@pytest.fixture(params=WRITERS)
def written(request):
    """A mock registry, the format, and a record of each kind of schema."""
    client = mock_client()
    write, schema = WRITERS[request.param]
    (value,) = write(client, "in", schema, [EVENT])
    return SimpleNamespace(client=client, value=value, format=ConfluentFormat(client, "mock://"))


def decoded(wire, value):
    content, encode = wire.decode(value)
    return orjson.loads(content) if isinstance(content, bytes) else content, encode


def rejection(call, *arguments) -> tuple[str, str | None]:
    with pytest.raises(RecordRejectedError) as caught:
        call(*arguments)
    assert "canary" not in repr(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__
    return caught.value.reason.value, caught.value.field


def test_a_record_is_decoded_and_written_with_the_schema_that_it_came_with(written):
    found, encode = decoded(written.format, written.value)
    assert {name: found[name] for name in EVENT} == EVENT
    assert encode(found) == written.value
    masked = encode({**found, "first": "C22"})
    assert masked[:5] == written.value[:5]
    assert decoded(written.format, masked)[0] == {**found, "first": "C22"}


def test_a_masked_record_that_does_not_fit_is_rejected(written):
    fields, encode = decoded(written.format, written.value)
    without = {name: value for name, value in fields.items() if name != "first"}
    for misfit in (without, {**fields, "id": "canary"}, {**fields, "patient": {"id": 5}}):
        assert rejection(encode, misfit) == ("schema_mismatch", None)


def test_a_malformed_value_and_one_without_a_schema_id_are_not_in_the_format():
    client = mock_client()
    (value,) = avro_values(client, "in", AVRO_EVENT, [EVENT])
    for wrong in (b"", b"\x00", value[:5], b"\x01" + value[1:], b'{"a": 1}', value[:12], value[:5] + b"\xff" * 20):
        assert rejection(ConfluentFormat(client, "mock://").decode, wrong) == ("not_in_format", None)


UNKNOWN = b"\x00\x00\x00\x00\x01canary"
"""A record with an id that an empty registry does not know."""


@pytest.fixture
def pauses(monkeypatch):
    """The pauses before a second question, which are not waited for."""
    pauses = []
    monkeypatch.setattr(formats, "time", SimpleNamespace(sleep=pauses.append))
    return pauses


def test_an_unknown_schema_rejects_and_is_looked_up_again_later(pauses, monkeypatch):
    monkeypatch.setattr(formats, "UNKNOWN_SECONDS", 0.3)
    with registry_server() as server:
        wire = ConfluentFormat(SchemaRegistryClient({"url": server.url}), server.url)
        assert rejection(wire.decode, UNKNOWN) == ("unknown_schema", None)
        assert rejection(wire.decode, UNKNOWN) == ("unknown_schema", None)
        assert (len(server.requests), pauses) == (2, [CONFIRM_SECONDS])
        (value,) = avro_values(server.client, "in", AVRO_EVENT, [EVENT])
        assert int.from_bytes(value[1:5], "big") == 1
        time.sleep(0.3)
        assert wire.decode(value)[0]["first"] == "C00"
        for _ in range(3):
            wire.decode(value)[1](wire.decode(value)[0])
        assert len(server.requests) == 3


def test_the_unknown_schemas_of_a_batch_share_one_pause(pauses):
    with registry_server() as server:
        wire = over_http(server)
        values = [b"\x00" + number.to_bytes(4, "big") + b"canary" for number in range(1, 21)]
        wire.prepare([*values, b"not in the format", b""])
        assert {rejection(wire.decode, value) for value in values} == {("unknown_schema", None)}
        assert (len(server.requests), pauses) == (40, [CONFIRM_SECONDS])


def unavailable(call, *arguments) -> str:
    with pytest.raises(FormatUnavailableError) as caught:
        call(*arguments)
    assert "canary" not in str(caught.value)
    return str(caught.value)


def over_http(server: RegistryServer, **properties: object) -> ConfluentFormat:
    properties = {"url": server.url, "max.retries": 0, **properties}
    return ConfluentFormat(SchemaRegistryClient(properties), server.url)


def test_a_registry_that_fails_rejects_nothing():
    """A proxy answers 404 without the registry's own code for an unknown id while the registry behind it is away."""
    with registry_server() as server:
        (value,) = avro_values(server.client, "in", AVRO_EVENT, [EVENT])
        wire = over_http(server)
        failures = [(404, code) for code in (None, -1, 404, 40401)]
        failures += [(status, 42201) for status in (400, 403, 410, 422, 429, 500, 503)]
        for server.status, server.code in failures:
            failed = f"the schema registry at {server.url} fails ({server.status}): check format.registry"
            assert unavailable(wire.decode, value).startswith(failed)
        server.status, server.login = None, "user:password"
        assert "fails (401): check format.registry" in unavailable(wire.decode, value)
        allowed = over_http(server, **{"basic.auth.user.info": "user:password"})
        assert allowed.decode(value)[0]["first"] == "C00", "at once, not after a minute"
        server.stop()
        assert unavailable(wire.decode, value).endswith("cannot be reached (ConnectError)")
        assert allowed.decode(value)[0]["first"] == "C00"


def test_schemas_that_refer_to_others_are_resolved_and_wait_for_them():
    patient = AVRO_EVENT["fields"][1]["type"]
    fields = [{"name": "patient", "type": "org.example.Patient"}, {"name": "first", "type": "string"}]
    whole = {"type": "record", "name": "Whole", "namespace": "org.example", "fields": fields}
    with registry_server() as server:
        register(server.client, "patients", {**patient, "namespace": "org.example"})
        reference = SchemaReference("org.example.Patient", "patients", 1)
        number = register(server.client, "wholes", whole, references=[reference])
        value = b"\x00" + number.to_bytes(4, "big") + b"\x0ccanary\x06C00"
        wire = over_http(server)
        assert wire.decode(value)[0] == {"patient": {"id": "canary"}, "first": "C00"}
        assert wire.decode(value)[1](wire.decode(value)[0]) == value


def test_schemas_with_rules_cannot_be_used():
    client = mock_client()
    encrypt = Rule("e", None, RuleKind.TRANSFORM, RuleMode.WRITEREAD, "ENCRYPT", ["PII"], None, None, None, None, False)
    number = register(client, "in-value", AVRO_EVENT, rule_set=RuleSet([], [encrypt]))
    wire = ConfluentFormat(client, "mock://")
    assert rejection(wire.decode, b"\x00" + number.to_bytes(4, "big") + b"canary") == ("unknown_schema", None)


def test_records_that_are_nested_too_deep_are_rejected():
    client, below = mock_client(), {"name": "below", "type": ["null", "Tree", "string"]}
    (value,) = avro_values(client, "in", {"type": "record", "name": "Tree", "fields": [below]}, [{"below": None}])
    wire, deep = ConfluentFormat(client, "mock://"), None
    for _ in range(500):
        deep = {"below": deep}
    assert rejection(wire.decode(value)[1], deep) == ("too_deep", None)
    assert rejection(wire.decode, value[:5] + b"\x02" * 100_000 + b"\x00") == ("too_deep", None)


INSTANT = datetime(2021, 3, 4, 5, 6, 7, 89_000, tzinfo=UTC)
PSEUDONYMS = Pseudonyms(b"a secret of the tests")


def record(field: object) -> dict[str, object]:
    """A schema of records with one field."""
    return {"type": "record", "name": "Event", "fields": [{"name": "f0", "type": field}]}


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
        (logical("int", "time-millis"), clock(5, 6, 7, 89_000)),
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
    (written,) = avro_values(client, "in", record(kind), [{"f0": value}])
    document, encode = ConfluentFormat(client, "mock://").decode(written)
    assert document == {"f0": value}
    assert encode(document) == written


def test_dates_numbers_and_ids_of_avro_are_transformed_like_texts():
    shift = DateShift(30, compile_path("patient"))
    days = timedelta(shift.offset(b"p1", PSEUDONYMS))
    assert shift.of_value(INSTANT, PSEUDONYMS, b"p1") == INSTANT + days
    assert shift.of_value(date(2021, 3, 4), PSEUDONYMS, b"p1") == date(2021, 3, 4) + days
    assert DateUnit("month").of_value(INSTANT, PSEUDONYMS) == "2021-03"
    assert NumberBands(10).of_value(Decimal("12.50"), PSEUDONYMS) == "10-19"
    assert key_text(UUID(int=7)) == str(UUID(int=7)).encode()
    pseudonym = partial(Pseudonym().of_value, pseudonyms=PSEUDONYMS)
    assert pseudonym(UUID(int=7)) == pseudonym(str(UUID(int=7)))
    assert pseudonym(b"7") == pseudonym(7)


HUGE, SMALL = b"\x80" * 8 + b"\x40", b"\x90\x4e"
"""The Avro longs 2**61 and 5,000."""
EMPTY = {"type": "record", "name": "Empty", "fields": [{"name": "a_rather_long_name", "type": "null"}]}


@pytest.mark.parametrize("items", ["null", EMPTY, {"type": "fixed", "name": "Nothing", "size": 0}])
def test_an_array_of_nothing_ends_at_the_time_limit(monkeypatch, items):
    monkeypatch.setattr(formats, "RECORD_SECONDS", 0.1)
    client, schema = mock_client(), record({"type": "array", "items": items})
    (value,) = avro_values(client, "in", schema, [{"f0": []}])
    wire = ConfluentFormat(client, "mock://")
    assert rejection(wire.decode, value[:5] + HUGE + b"\x00") == ("not_in_format", None)
    assert len(wire.decode(value[:5] + SMALL + b"\x00")[0]["f0"]) == 5_000


def test_records_are_bounded_before_they_are_decoded():
    client = mock_client()
    small, large = avro_values(client, "in", record("string"), [{"f0": "x" * number} for number in (10, 2_000)])
    open_record = record_form(ConfluentFormat(client, "mock://"), 1_000)
    open_record(small)
    assert rejection(open_record, large) == ("too_large", None)


NESTED = {
    "type": "object",
    "properties": {"below": {"anyOf": [{"$ref": "#"}, {"$ref": "#", "required": ["never"]}]}},
    "additionalProperties": {"type": "integer"},
}
DEEP = json.loads('{"below":' * 40 + '{"wrong":"text"}' + "}" * 40)
"""What takes twice the time at each level."""

AMBIGUOUS, EVIL = r"^(a|aa)+$", "a" * 100 + "b"


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
    client = mock_client()
    (value,) = json_values(client, "in", {"title": "Event", "type": "object", **schema}, [{}])
    (_, encode), started = ConfluentFormat(client, "mock://").decode(value), time.process_time()
    assert rejection(encode, hostile) == ("schema_mismatch", None)
    assert time.process_time() - started < 2
    assert encode(harmless)[5:] == orjson.dumps(harmless)
    until = time.process_time() + 0.2
    while time.process_time() < until:
        """Work for longer than the limit, which has ended with the record."""
