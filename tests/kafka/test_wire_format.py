"""A worker on records in the Confluent wire format: exactly once, held without a registry, nothing disclosed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kafka_records import read_all, write
from schema_registry import AVRO_EVENT, JSON_EVENT, RegistryServer, avro_values, documents, json_values, registry_server
from service import START, Service, event, wait

CANARY = "canary-of-the-wire-format"
KEY = {"type": "record", "name": "Key", "fields": [{"name": "patient", "type": "string"}]}
EVENTS = 20


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with registry_server() as server:
        server.login = "masker:" + CANARY
        yield server


@pytest.fixture
def here(service: Service, registry: RegistryServer) -> Service:
    access = {"url": registry.url, "properties": {"basic.auth.user.info": registry.login}}
    service.data["format"] = {"value": "confluent", "registry": access}
    service.create(1)
    service.publish()
    return service


def send(here: Service, values: list[bytes]) -> None:
    write(here.bootstrap, here.topics["input"], ({"value": v, "partition": 0, "timestamp": START} for v in values))


def avro_events(here: Service, registry: RegistryServer) -> list[bytes]:
    return avro_values(registry.client, here.topics["input"], AVRO_EVENT, [event(number) for number in range(EVENTS)])


def bomb(registry: RegistryServer, topic: str) -> bytes:
    """Return a record of some bytes that claims an array of 300 million nulls, which take no bytes."""
    fields = [*AVRO_EVENT["fields"], {"name": "nothing", "type": {"type": "array", "items": "null"}, "default": []}]
    [harmless] = avro_values(registry.client, topic, {**AVRO_EVENT, "fields": fields}, [{**event(0), "nothing": []}])
    assert harmless.endswith(b"\x00")
    return harmless[:-1] + b"\x80\x8c\x8d\x9e\x02" + b"\x00"


def every_kind(registry: RegistryServer, topic: str) -> list[dict[str, Any]]:
    """Records by Avro and JSON Schema, a tombstone, and malformed ones, as arguments of ``write``."""
    events = [{**event(number), "note": CANARY} for number in range(EVENTS)]
    values = avro_values(registry.client, topic, AVRO_EVENT, events) + json_values(
        registry.client, topic, JSON_EVENT, [{**one, "id": one["id"] + EVENTS} for one in events]
    )
    [unknown_code] = avro_values(registry.client, topic, AVRO_EVENT, [{**events[0], "first": CANARY}])
    unknown_schema = b"\x00\x00\x00\x13\x37" + CANARY.encode()
    malformed = [CANARY.encode(), values[0][:9], bomb(registry, topic), unknown_schema, unknown_code]
    [key] = avro_values(registry.client, topic, KEY, [{"patient": CANARY}], "key")
    sent = [*values, None, *malformed]
    return [{"value": value, "key": key, "partition": 0, "timestamp": START} for value in sent]


def test_records_are_masked_in_the_schema_that_they_came_with_and_nothing_is_disclosed(
    here: Service, registry: RegistryServer
) -> None:
    sent = every_kind(registry, here.topics["input"])
    write(here.bootstrap, here.topics["input"], sent)
    with here.running("worker", None, "--log-level", "debug") as worker:
        worker.reaches(len(sent))
    *masked, tombstone = here.read("output")
    found = documents(registry.client, [record.value for record in masked])
    assert [one["id"] for one in found] == list(range(2 * EVENTS))
    assert [record.value[:5] for record in masked] == [one["value"][:5] for one in sent[: 2 * EVENTS]]
    patients = {event(number)["patient"]["id"] for number in range(EVENTS)}
    assert all(one.get("note") is None and one["patient"]["id"] not in patients for one in found)
    assert tombstone.value is None
    [key] = {record.key for record in [*masked, tombstone]}
    assert len(key) == 32
    rejected = [record.json for record in here.read("rejected")]
    assert [(one["reason"], one.get("field"), one["offset"] - 2 * EVENTS) for one in rejected] == [
        ("not_in_format", None, 1),
        ("not_in_format", None, 2),
        ("not_in_format", None, 3),
        ("unknown_schema", None, 4),
        ("unknown_code", "first", 5),
    ]
    audited = [word for offset in (0, EVENTS, 2 * EVENTS + 4) for word in ("--offset", f"0:{offset}")]
    outputs = [here.command("audit", *audited).output.encode(), here.logs().encode()]
    for role in ("output", "rejected", "calibration", "statistics"):
        records = read_all(here.bootstrap, here.topics[role], isolation="read_uncommitted")
        outputs += [(record.key or b"") + (record.value or b"") for record in records]
    assert not [content for content in outputs if b"canary" in content]


def test_a_worker_holds_its_input_while_the_registry_is_down_and_loses_nothing(
    here: Service, registry: RegistryServer
) -> None:
    """A proxy whose registry is away answers with a page of its own, and not with the error of an unknown schema."""
    values = avro_events(here, registry)
    registry.stop()
    send(here, values)
    with here.running() as worker:
        reason = f"the schema registry at {registry.url} cannot be reached"
        worker.wait(lambda: worker.says(reason), "the reason")
        assert not worker.ready()
        assert here.outcomes() == 0
        registry.status = 404
        registry.start()
        worker.wait(lambda: worker.says("fails (404)"), "the answer of a proxy")
        registry.status = None
        worker.reaches(EVENTS)
        worker.wait(worker.ready, "readiness")
        assert not worker.says("registry")
    found = documents(registry.client, [record.value for record in here.read("output")])
    assert [one["id"] for one in found] == list(range(EVENTS))
    assert not here.read("rejected")


def test_the_calibrator_samples_the_input_and_waits_for_the_registry(
    service: Service, registry: RegistryServer
) -> None:
    registry.login = None
    service.data["format"] = {"value": "confluent", "registry": {"url": registry.url}}
    service.data["calibration"] = {"min_records": EVENTS}
    service.create(1)
    send(service, avro_events(service, registry))
    registry.status = 503
    with service.running("calibrator") as calibrator:
        wait(lambda: len(registry.requests) > 1, "a second request")
        assert not service.read("statistics")
        registry.status = None
        calibrator.wait(lambda: bool(service.read("statistics")), "the version of the sample")
