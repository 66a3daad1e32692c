"""A worker on records in the Confluent wire format: exactly once, held without a registry, nothing disclosed."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from kafka_records import read_all, write
from schema_registry import AVRO_EVENT, JSON_EVENT, RegistryServer, avro_values, json_values, register, registry_server
from workers import START, Setting, event, running, wait

from stream_masker.pipeline.codec.formatted import FormatUnavailableError
from stream_masker.service.audit import RecordLocation, audit
from stream_masker.service.calibrator.bootstrap import Sampler
from stream_masker.service.events.publishing import produce
from stream_masker.service.formats.wire_format import wire_format

CANARY = "canary-of-the-wire-format"
KEY = {"type": "record", "name": "Key", "fields": [{"name": "patient", "type": "string"}]}
EVENTS = 20


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with registry_server() as server:
        yield server


@pytest.fixture
def here(here: Setting, tmp_path: Path, registry: RegistryServer) -> Setting:
    registry.login = "masker:" + CANARY
    (tmp_path / "login").write_text(registry.login)
    (tmp_path / "login").chmod(0o600)
    access = {"url": registry.url, "credentials": {"file": "login"}}
    here.data["format"] = {"value": "confluent", "key": "confluent", "registry": access}
    here.configuration()
    here.create(1)
    here.publish(1)
    return here


def documents(here: Setting, values: list[bytes]) -> list[Any]:
    """The JSON of values in the wire format."""
    decode = wire_format(here.configuration()).decode
    return [orjson.loads(decode(value)[0]) for value in values]


def records(registry: RegistryServer, topic: str) -> list[dict[str, Any]]:
    """Records by Avro and JSON Schema, a tombstone, and malformed ones, as arguments of ``write``."""
    events = [{**event(number), "note": CANARY} for number in range(EVENTS)]
    values = avro_values(registry.client, topic, AVRO_EVENT, events) + json_values(
        registry.client, topic, JSON_EVENT, [{**one, "id": one["id"] + EVENTS} for one in events]
    )
    (unknown_code,) = avro_values(registry.client, topic, AVRO_EVENT, [{**events[0], "first": CANARY}])
    malformed = [CANARY.encode(), values[0][:9], b"\x00\x00\x00\x13\x37" + CANARY.encode(), unknown_code]
    (key,) = avro_values(registry.client, topic, KEY, [{"patient": CANARY}], "key")
    sent = [{"value": value, "key": key} for value in [*values, None, *malformed]]
    bad_key = {"value": values[0], "key": CANARY.encode()}
    return [{**one, "partition": 0, "timestamp": START} for one in [*sent, bad_key]]


def test_records_are_masked_in_the_schema_that_they_came_with_and_nothing_is_disclosed(
    here: Setting, registry: RegistryServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    sent = records(registry, here.topics["input"])
    write(here.bootstrap, here.topics["input"], sent)
    with running(here.configuration()) as worker:
        worker.reaches(len(sent))
    *masked, tombstone = here.read("output")
    found = documents(here, [record.value for record in masked])
    assert [one["id"] for one in found] == list(range(2 * EVENTS))
    assert [record.value[:5] for record in masked] == [one["value"][:5] for one in sent[: 2 * EVENTS]]
    assert all(one.get("note") is None and one["patient"]["id"] != event(0)["patient"]["id"] for one in found)
    assert tombstone.value is None
    (key,) = documents(here, list({record.key for record in [*masked, tombstone]}))
    assert len(key["patient"]) == 32
    rejected = [record.json for record in here.read("rejected")]
    assert [(one["reason"], one.get("field"), one["offset"] - 2 * EVENTS) for one in rejected] == [
        ("not_in_format", None, 1),
        ("not_in_format", None, 2),
        ("unknown_schema", None, 3),
        ("unknown_code", "first", 4),
        ("not_in_format", "message.key", 5),
    ]
    audited = audit(here.configuration(), [RecordLocation(0, offset) for offset in (0, EVENTS, 2 * EVENTS + 3)])
    assert all(finding.matches for finding in audited)
    outputs = [caplog.text.encode()]
    for role in ("output", "rejected", "calibration", "statistics"):
        outputs += [
            (record.key or b"") + (record.value or b"") for record in read_all(here.bootstrap, here.topics[role])
        ]
    assert not [content for content in outputs if CANARY.encode() in content]
    assert not [content for content in outputs if b"canary" in content]


def test_a_worker_holds_its_input_while_the_registry_is_down_and_loses_nothing(
    here: Setting, registry: RegistryServer
) -> None:
    topic = here.topics["input"]
    values = avro_values(registry.client, topic, AVRO_EVENT, [event(number) for number in range(EVENTS)])
    registry.stop()
    write(here.bootstrap, topic, [{"value": value, "partition": 0, "timestamp": START} for value in values])
    with running(here.configuration()) as worker:
        reason = f"the schema registry at {registry.url} cannot be reached (ConnectError)"
        worker.wait(lambda: reason in worker.health.reasons, "reason against readiness")
        assert worker.metric("held_because", reason="format_unavailable") == 1
        assert not here.read("rejected")
        registry.start()
        worker.reaches(EVENTS)
        assert reason not in worker.health.reasons
        assert worker.metric("held") == 0
    assert [one["id"] for one in documents(here, [record.value for record in here.read("output")])] == list(
        range(EVENTS)
    )


def test_a_404_of_a_proxy_before_the_registry_rejects_nothing(here: Setting, registry: RegistryServer) -> None:
    """A proxy whose registry is away answers 404 with a page of its own, which was taken for an unknown schema."""
    topic = here.topics["input"]
    values = avro_values(registry.client, topic, AVRO_EVENT, [event(number) for number in range(EVENTS)])
    registry.status = 404
    write(here.bootstrap, topic, [{"value": value, "partition": 0, "timestamp": START} for value in values])
    with running(here.configuration()) as worker:
        worker.wait(lambda: "answers 404" in " ".join(worker.health.reasons), "reason against readiness")
        registry.status = None
        worker.reaches(EVENTS)
        assert worker.metric("records_masked_total") == EVENTS
    assert not here.read("rejected")


def test_masked_records_that_need_another_schema_are_written_with_the_outputs(
    here: Setting, registry: RegistryServer
) -> None:
    topic = here.topics["input"]
    here.data["fields"] = {"keep": ["id"], "unlisted": "drop"}
    values = avro_values(registry.client, topic, AVRO_EVENT, [event(number) for number in range(EVENTS)])
    write(here.bootstrap, topic, [{"value": value, "partition": 0, "timestamp": START} for value in values])
    with running(here.configuration()) as worker:
        worker.reaches(EVENTS)
    assert {(record.json["reason"], record.json["field"]) for record in here.read("rejected")} == {
        ("schema_mismatch", "patient")
    }
    fields = [field for field in AVRO_EVENT["fields"] if field["name"] != "patient"]
    number = register(registry.client, f"{here.topics['output']}-value", {**AVRO_EVENT, "fields": fields})
    here.data["format"] = {**here.data["format"], "write": "latest"}
    write(here.bootstrap, topic, [{"value": value, "partition": 0, "timestamp": START} for value in values])
    with running(here.configuration()) as worker:
        worker.reaches(EVENTS)
    masked = here.read("output")
    assert {record.value[:5] for record in masked} == {b"\x00" + number.to_bytes(4, "big")}
    assert [one["id"] for one in documents(here, [record.value for record in masked])] == list(range(EVENTS))


def test_produced_events_are_encoded_with_the_schema_of_the_input(
    here: Setting, registry: RegistryServer, tmp_path: Path
) -> None:
    topic, source = here.topics["input"], tmp_path / "events.jsonl"
    here.data["produce"] = {"key": "patient.id"}
    events = [event(number) for number in range(EVENTS)]
    source.write_bytes(b"\n".join(map(orjson.dumps, [*events, {"id": CANARY}])))
    with pytest.raises(FormatUnavailableError, match=f"no usable schema of the subject {topic}-"):
        produce(here.configuration(), source, stream=io.StringIO())
    register(registry.client, f"{topic}-value", AVRO_EVENT)
    register(registry.client, f"{topic}-key", "string")
    summary = produce(here.configuration(), source, stream=io.StringIO())
    assert (summary.delivered, summary.failed) == (EVENTS, {"schema_mismatch": 1})
    found = here.read("input")
    decode = wire_format(here.configuration()).decode_key
    assert [orjson.loads(decode(record.key)[0]) for record in found] == [one["patient"]["id"] for one in events]
    assert [one["id"] for one in documents(here, [record.value for record in found])] == list(range(EVENTS))


def test_the_calibrator_samples_the_input_and_waits_for_the_registry(
    here: Setting, registry: RegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stream_masker.service.calibrator.bootstrap.SAMPLE_RETRY_SECONDS", 0.2)
    topic = here.topics["input"]
    values = avro_values(registry.client, topic, AVRO_EVENT, [event(number) for number in range(EVENTS)])
    write(here.bootstrap, topic, [{"value": value, "partition": 0, "timestamp": START} for value in values])
    registry.status = 503
    sampler = Sampler(here.configuration(calibration={"min_records": EVENTS}))
    sampler.start()
    wait(lambda: len(registry.requests) > 1, "retry")
    assert sampler.result() is None
    registry.status = None
    wait(lambda: sampler.result() is not None, "sample")
    assert sampler.result().counts.records == EVENTS


def test_a_record_that_claims_to_be_large_is_rejected_and_the_next_ones_are_masked(
    here: Setting, registry: RegistryServer
) -> None:
    """An array of 300 million nulls in 16 bytes ended the process."""
    topic = here.topics["input"]
    fields = [*AVRO_EVENT["fields"], {"name": "nothing", "type": {"type": "array", "items": "null"}, "default": []}]
    schema = {**AVRO_EVENT, "fields": fields}
    (before, after) = avro_values(registry.client, topic, schema, [{**event(i), "nothing": []} for i in range(2)])
    assert before.endswith(b"\x00")
    bomb = before[:-1] + b"\x80\x8c\x8d\x9e\x02" + b"\x00"
    sent = [{"value": value, "partition": 0, "timestamp": START} for value in (before, bomb, after)]
    write(here.bootstrap, topic, sent)
    with running(here.configuration()) as worker:
        worker.reaches(3)
    assert [one["id"] for one in documents(here, [record.value for record in here.read("output")])] == [0, 1]
    assert [(record.json["reason"], record.json["offset"]) for record in here.read("rejected")] == [("too_large", 1)]
