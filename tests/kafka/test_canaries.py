"""No output contains a value of an event: topics, logs, metrics, health, summaries, audits and error messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
from kafka_records import write
from service import CODES, Service, wait

TEXT = "zq7canary"
NUMBER = 7_313_377_313
CANARIES = (TEXT.encode(), str(NUMBER).encode())


def events() -> Iterator[dict[str, Any]]:
    """Records as arguments of ``kafka_records.write``: values with canaries, masked ones and rejected ones."""
    for value in (*masked_values(), *rejected_values()):
        headers = [(TEXT, TEXT.encode()), ("alpha", TEXT.encode()), ("trace", None)]
        yield {"value": value, "key": TEXT.encode(), "headers": headers}


def masked_values() -> Iterator[bytes]:
    """Values that can be masked, with canaries in fields that are removed or replaced."""
    for number in range(40):
        whole = {**event(number), "name": TEXT, "phone": NUMBER, TEXT: {TEXT: [TEXT, NUMBER]}, "notes": [TEXT, None]}
        yield orjson.dumps(whole)
        yield orjson.dumps(whole, option=orjson.OPT_INDENT_2)


def rejected_values() -> Iterator[bytes]:
    """Values that cannot be masked, for every kind of reason."""
    places: list[dict[str, Any]] = [
        {"first": TEXT},
        {"first": {TEXT: TEXT}},
        {"first": [TEXT]},
        {"first": NUMBER},
        {"first": f"{CODES[0]}{TEXT}"},
        {"first": None, "second": TEXT},
        {"others": [{"code": TEXT, "text": TEXT}]},
        {"others": [{"code": CODES[0], "text": {TEXT: NUMBER}}, TEXT]},
        {"others": TEXT},
        {"age": TEXT},
        {"age": NUMBER},
        {"age": {TEXT: NUMBER}},
        {"patient": TEXT},
        {"patient": {"id": {TEXT: TEXT}}},
        {"patient": {"id": [NUMBER, TEXT]}},
        {"alpha": TEXT},
        {"alpha": NUMBER},
        {"id": None, "first": TEXT},
    ]
    for number, place in enumerate(places):
        yield orjson.dumps({**event(number), **place})
    whole = orjson.dumps({**event(1), "name": TEXT})
    yield whole[:-1]
    yield whole + TEXT.encode()
    yield whole.replace(b'"name"', b'"first":"C00","name"')
    yield b'{"first": ' + str(NUMBER).encode() + b"e999}"
    yield b"\xff\xfe" + TEXT.encode()
    yield f'"{TEXT}"'.encode()
    yield f"[{NUMBER}]".encode()
    yield b'{"name": ' + b"[" * 3_000 + f'"{TEXT}"'.encode() + b"]" * 3_000 + b"}"
    yield orjson.dumps({**event(2), "name": TEXT * 30_000})


def event(number: int) -> dict[str, Any]:
    """An event with all attributes; its code and text are values of the ontology."""
    first, second = CODES[number % len(CODES)], CODES[7 * number % len(CODES)]
    return {
        "id": number,
        "patient": {"id": f"{TEXT}{number % 5}"},
        "first": first,
        "second": second,
        "others": [{"code": second, "text": f"{TEXT} in the event's own words"}],
        "age": 20 + number,
        "alpha": 0.5,
    }


ATTRIBUTES = {
    "first": {"path": "first", "ontology": "small"},
    "second": {"path": "second", "ontology": "small", "missing": "keep"},
    "others": {"path": "others[*].code", "label": "others[*].text", "ontology": "small", "missing": "keep"},
}


def found_in(content: bytes) -> list[bytes]:
    """The canaries in an output, in any case."""
    return [canary for canary in CANARIES if canary in content.lower()]


OUTPUTS = ("output", "rejected", "calibration", "statistics", "drift")
PAGES = ("/", "/metrics", "/readyz", "/healthz")
CHANGES = {
    "attributes": ATTRIBUTES,
    "message": {"key": "pseudonymize", "headers": ["trace"]},
    "limits": {"record_bytes": 100_000},
    "calibration": {"min_records": 20, "every_records": 20, "every_seconds": 1},
}


def test_no_output_contains_a_canary(service: Service) -> None:
    service.create(1)
    service.data |= CHANGES
    sent = list(events())
    write(service.bootstrap, service.topics["input"], sent)
    outputs: dict[str, bytes] = {}
    with service.running("calibrator") as calibrator, service.running("worker") as worker:
        worker.wait(lambda: service.outcomes() == len(sent), "an outcome of every record")
        wait(lambda: len(service.read("drift")) > 1, "statistics from blocks")
        for process in (calibrator, worker):
            outputs |= {f"{process.name} {page}": process.get(page)[1].encode() for page in PAGES}
        offsets = [word for at in (0, 80, 90, len(sent) - 2, len(sent) - 1) for word in ("--offset", f"0:{at}")]
        outputs["audit"] = service.command("audit", *offsets).output.encode()
    outputs["logs"] = service.logs().encode()
    outputs |= masked_files(service, [record["value"] for record in sent])
    for role in OUTPUTS:
        for record in service.read(role):
            headers = b"".join(name.encode() + (value or b"") for name, value in record.headers.items())
            outputs[f"{role} {record.offset}"] = b"".join([record.key or b"", record.value or b"", headers])
    assert {name: found_in(content) for name, content in outputs.items() if found_in(content)} == {}
    assert len([name for name in outputs if name.startswith("output ")]) >= len(list(masked_values()))
    assert len(outputs) > len(sent)


def masked_files(service: Service, values: list[bytes]) -> dict[str, bytes]:
    """Mask the same events from a file; return all that the command writes."""
    events, masked, rejected = (service.folder / f"{name}.jsonl" for name in ("events", "masked", "rejected"))
    events.write_bytes(b"\n".join(value for value in values if b"\n" not in value))
    done = service.command("mask", str(events), str(masked), "--rejected", str(rejected), code=1)
    return {"mask": done.output.encode(), "masked": masked.read_bytes(), "rejected file": rejected.read_bytes()}


def test_canaries_are_found() -> None:
    assert found_in(b"a log line with ZQ7Canary2") == [CANARIES[0]]
    assert all(found_in(record["value"]) for record in events())
