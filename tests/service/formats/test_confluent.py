"""The Confluent wire format with the client's own serdes and mock registry."""

from __future__ import annotations

import time
from types import SimpleNamespace

import orjson
import pytest

pytest.importorskip("confluent_kafka.schema_registry.avro", reason="pip install '.[registry]'")

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

from stream_masker.pipeline.formats import FormatUnavailableError
from stream_masker.pipeline.reasons import RecordRejectedError
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


@pytest.mark.parametrize("value", [b"", b"\x00", b"\x00\x00\x00\x00\x01", b"\x01\x00\x00\x00\x01canary", b'{"a": 1}'])
def test_a_value_without_a_schema_id_is_not_in_the_format(value):
    assert rejection(ConfluentFormat(mock_client(), "mock://").decode, value) == ("not_in_format", None)


@pytest.mark.parametrize("end", [7, 0])
def test_a_malformed_avro_value_is_not_in_the_format(end):
    client = mock_client()
    (value,) = avro_values(client, "in", AVRO_EVENT, [EVENT])
    malformed = value[: 5 + end] + (b"" if end else b"\xff" * 20)
    assert rejection(ConfluentFormat(client, "mock://").decode, malformed) == ("not_in_format", None)


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
