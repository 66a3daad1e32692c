"""No output contains a value of an event: topics, logs, metrics, health, summaries, audits and error messages."""

from __future__ import annotations

from canaries import ATTRIBUTES, CANARIES, events, found_in, masked_values
from kafka_records import write
from service import Service, wait

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
