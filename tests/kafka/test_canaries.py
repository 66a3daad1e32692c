"""No output contains a value of an event: topics, logs, metrics, health, summaries, audits and error messages."""

from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path

from canaries import ATTRIBUTES, CANARIES, events, found_in, masked_values
from kafka_records import read_all, write
from support.processes import Processes, terminate
from workers import http_port, setting

OUTPUTS = ("output", "rejected", "calibration", "statistics", "drift", "provenance")


def response(port: int, path: str) -> bytes:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
            return bytes(answer.read())
    except urllib.error.HTTPError as error:
        return error.read()


def test_no_output_contains_a_canary(kafka: str, tmp_path: Path) -> None:
    here = setting(kafka, tmp_path)
    here.data |= {
        "attributes": ATTRIBUTES,
        "message": {"key": "pseudonymize", "headers": ["trace"]},
        "limits": {"record_bytes": 100_000},
        "calibration": {"min_records": 20, "every_records": 20, "every_seconds": 1},
    }
    here.data["topics"]["provenance"] = here.topics["drift"].replace("drift", "provenance")
    here.configuration()
    here.create(1, drift=1, provenance=1)
    sent = list(events())
    write(kafka, here.topics["input"], sent)
    option = ("--config", str(here.path))
    outputs: dict[str, bytes] = {}
    with Processes(tmp_path) as processes:
        roles = ("calibrator", "worker")
        children = {role: processes.start(role, role, *option, "--log-level", "debug") for role in roles}
        processes.wait(lambda: here.ended() == len(sent), "outcome of every record", 120)
        processes.wait(lambda: len(here.read("drift")) > 1, "statistics from blocks", 120)
        for role in roles:
            port = http_port(processes, role)
            outputs |= {f"{role} {path}": response(port, path) for path in ("/", "/metrics", "/readyz", "/healthz")}
        audited_offsets = (0, 80, 90, len(sent) - 2, len(sent) - 1)
        offsets = [word for offset in audited_offsets for word in ("--offset", f"0:{offset}")]
        audited = processes.run("audit", *option, *offsets)
        outputs["audit"] = (audited.stdout + audited.stderr).encode()
        assert [terminate(child) for child in children.values()] == [0, 0], processes.logs()
        outputs |= {f"{role}'s log": processes.log(role).encode() for role in roles}
        outputs |= masked_files(processes, tmp_path, option, [record["value"] for record in sent])
    for role in OUTPUTS:
        for record in read_all(kafka, here.topics[role]):
            headers = b"".join(name.encode() + (value or b"") for name, value in record.headers.items())
            outputs[f"{role} {record.offset}"] = b"".join([record.key or b"", record.value or b"", headers])
    here.remove()
    assert {name: found_in(content) for name, content in outputs.items() if found_in(content)} == {}
    assert len(here_masked(outputs)) >= len(list(masked_values()))
    assert any(name.startswith("provenance ") for name in outputs)
    assert len(outputs) > len(sent)


def here_masked(outputs: dict[str, bytes]) -> list[str]:
    return [name for name in outputs if name.startswith("output ")]


def masked_files(processes: Processes, folder: Path, option: tuple[str, str], values: list[bytes]) -> dict[str, bytes]:
    """Mask the same events from a file; return all that the command writes."""
    lines = [value for value in values if b"\n" not in value]
    (folder / "events.jsonl").write_bytes(b"\n".join(lines))
    paths = [str(folder / name) for name in ("events.jsonl", "masked.jsonl", "rejected.jsonl")]
    done = processes.run("mask", *option, *paths[:2], "--rejected", paths[2], code=1)
    return {
        "mask": (done.stdout + done.stderr).encode(),
        "masked.jsonl": Path(paths[1]).read_bytes(),
        "rejected.jsonl": Path(paths[2]).read_bytes(),
    }


def test_canaries_are_found() -> None:
    assert found_in(b"a log line with ZQ7Canary2") == [CANARIES[0]]
    assert all(found_in(record["value"]) for record in events())
