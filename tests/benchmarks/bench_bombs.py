"""The peak memory of a worker and a calibrator under records that are made to take much of it.

``python tests/benchmarks/bench_bombs.py [--only CASE]``. Starts a broker and a schema registry. Each case has topics
and processes of its own, which mask codes of ICD-10-CM: a worker that takes the chart's limit for that of its
container, and a calibrator that begins without statistics and so samples the input. After the bombs, all plain records
must have been masked. Prints the peak of each process (``VmHWM``) and the chart's limit in MiB; fails if one is
exceeded.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import yaml
from confluent_kafka import Producer
from measuring import CODES, arguments, peak, table
from support.kafka_broker import running
from support.kafka_records import QUIET, write
from support.processes import Processes
from support.schema_registry import AVRO_EVENT, RegistryServer, avro_values, register, registry_server
from support.workers import START, Setting, setting

from stream_masker.service.kafka.topics import prepare_topics

CHART = Path(__file__).parents[2] / "deploy" / "chart" / "values.yaml"
PLAIN = 2_000
"""Plain records before and after the bombs."""

PARTITIONS = 4
BLANKS = 60 * 2**20
BEYOND = 101_000_000
"""Bytes of one record that are more than the client decompresses."""

NULLS = {"type": "record", "name": "Nulls", "fields": [{"name": "nulls", "type": {"type": "array", "items": "null"}}]}
MANY_NULLS = b"\x80\x8c\x8d\x9e\x02\x00"
"""An Avro array of 300 million nulls."""

ANY_LIMIT = """\
from stream_masker.cli import main
from stream_masker.service.worker import client_properties
client_properties.memory_limit = lambda: {limit}
main(prog_name="stream-masker")
"""
"""The command line of a process in a container with a limit."""


def main() -> None:
    only = arguments(__doc__, {"--only": {"choices": BOMBS}}).only
    limits = chart_limits()
    with tempfile.TemporaryDirectory() as name, running(Path(name) / "kafka", heap="1g") as cluster:
        rows = []
        for number, case in enumerate(BOMBS if only is None else [only]):
            folder = Path(name) / str(number)
            folder.mkdir()
            rows.append([case, *measured(cluster.bootstrap, folder, case, limits["worker"])])
    table("Peak memory in MiB", ("records", *limits), [*rows, ["the chart's limit", *limits.values()]])
    if any(peak > limit for _, *peaks in rows for peak, limit in zip(peaks, limits.values(), strict=True)):
        sys.exit("a process exceeds its limit")


def chart_limits() -> dict[str, int]:
    """Return the memory limits of the chart in MiB."""
    values, units = yaml.safe_load(CHART.read_text()), {"Mi": 1, "Gi": 1024}
    limits = {role: values[role]["resources"]["limits"]["memory"] for role in ("worker", "calibrator")}
    return {role: int(limit[:-2]) * units[limit[-2:]] for role, limit in limits.items()}


def measured(bootstrap: str, folder: Path, case: str, limit: int) -> tuple[int, int]:
    """Return the peaks of a worker and a calibrator."""
    with registry_server() as registry, Processes(folder, ("-P", "-c", ANY_LIMIT.format(limit=limit * 2**20))) as both:
        here = configured(bootstrap, folder, registry, wire=case in OF_THE_WIRE)
        send_plain(here, registry, 0)
        BOMBS[case](here, registry)
        send_plain(here, registry, PLAIN)
        pids = [both.start(role, role, "--config", str(here.path)).pid for role in ("worker", "calibrator")]
        both.wait(lambda: len(here.read("output")) >= 2 * PLAIN, "masked records", 300)
        both.wait(lambda: len(here.read("drift")) > 1, "statistics from blocks", 120)
        worker, calibrator = map(peak, pids)
        here.remove()
    return worker, calibrator


def configured(bootstrap: str, folder: Path, registry: RegistryServer, *, wire: bool) -> Setting:
    here = setting(bootstrap, folder)
    here.data["ontologies"] = {"small": {"source": "icd10cm"}}
    here.data["calibration"] = {"every_seconds": 1, "every_records": 1_000}
    if wire:
        here.data["message"] = {"key": "pseudonymize"}
        here.data["format"] = {"value": "confluent", "key": "confluent", "registry": {"url": registry.url}}
    prepare_topics(here.configuration(), partitions=PARTITIONS)
    return here


def event(number: int) -> dict[str, object]:
    first, second = CODES[number % len(CODES)], CODES[number // len(CODES) % len(CODES)]
    return {"id": number, "patient": {"id": f"p{number}"}, "first": first, "second": second}


def send_plain(here: Setting, registry: RegistryServer, first: int) -> None:
    events = [event(number) for number in range(first, first + PLAIN)]
    wire = "format" in here.data
    topic = here.topics["input"]
    send(here, avro_values(registry.client, topic, AVRO_EVENT, events) if wire else map(orjson.dumps, events))


def send(here: Setting, values: Iterator[bytes] | list[bytes], **more: object) -> None:
    records = ({"value": v, "partition": n % PARTITIONS, "timestamp": START, **more} for n, v in enumerate(values))
    write(here.bootstrap, here.topics["input"], records)


def compressed(here: Setting, content: bytes, count: int) -> int:
    """Publish batches of one compressed record; return how many the broker accepts."""
    limits = {"message.max.bytes": 2 * len(content), "queue.buffering.max.kbytes": 2**21}
    properties = {"compression.type": "zstd", **limits}
    producer, errors = Producer({"bootstrap.servers": here.bootstrap, **properties, **QUIET}), []
    for number in range(count):
        report = lambda error, _: errors.append(error) if error else None  # noqa: E731
        producer.produce(here.topics["input"], content, partition=number % PARTITIONS, on_delivery=report)
        producer.flush(60)
    return count - len(errors)


def blanks(here: Setting, registry: RegistryServer) -> None:
    assert compressed(here, b" " * BLANKS, 16) == 0, "the broker accepts bombs"


def refused_timestamps(here: Setting, registry: RegistryServer) -> None:
    here.alter("output", message_timestamp_before_max_ms=str(30 * 24 * 3_600_000))
    events = ({"value": orjson.dumps(event(n)), "partition": 0, "timestamp": 1} for n in range(20))
    write(here.bootstrap, here.topics["input"], events)


def arrays_of_nulls(here: Setting, registry: RegistryServer) -> None:
    schema = register(registry.client, "nulls", NULLS)
    send(here, [b"\x00" + schema.to_bytes(4, "big") + MANY_NULLS] * 1_000)


def large_keys(here: Setting, registry: RegistryServer) -> None:
    schema = {"type": "record", "name": "Key", "fields": [{"name": "patient", "type": "string"}]}
    topic = here.topics["input"]
    (value,) = avro_values(registry.client, topic, AVRO_EVENT, [event(0)])
    for number in range(600):
        (key,) = avro_values(registry.client, topic, schema, [{"patient": f"{number}" + "x" * 900_000}], "key")
        send(here, [value], key=key)


def large_headers(here: Setting, registry: RegistryServer) -> None:
    for number in range(600):
        send(here, [orjson.dumps(event(number))], headers=[("note", b"x" * 900_000)])


def garbage(here: Setting, registry: RegistryServer) -> None:
    for role in ("statistics", "calibration"):
        write(here.bootstrap, here.topics[role], ({"key": b"garbage", "value": b"%d" % n} for n in range(200_000)))


def large_records(here: Setting, registry: RegistryServer) -> None:
    """Records of 1 MB: a code, an array, and nesting."""
    texts = [b"C" * 900_000, b"[" + b"1," * 450_000 + b"1]", b"[" * 450_000 + b"]" * 450_000]
    values = [text if text.startswith(b"[") else b'"%s"' % text for text in texts]
    send(here, [b'{"id": 1, "first": %s, "second": "I10"}' % value for value in 200 * values])


Bomb = Callable[[Setting, RegistryServer], None]
BOMBS: dict[str, Bomb] = {
    "plain ones": lambda here, registry: None,
    "16 of 60 MiB of blanks, compressed": blanks,
    "600 of 1 MB: codes, arrays, nesting": large_records,
    "20 whose timestamp the output refuses": refused_timestamps,
    "1,000 Avro arrays of 300 million nulls": arrays_of_nulls,
    "600 with keys of 900 kB in the wire format": large_keys,
    "600 with headers of 900 kB": large_headers,
    "200,000 of garbage on both internal topics": garbage,
}
"""What is sent among plain records, by case."""

OF_THE_WIRE = ("1,000 Avro arrays of 300 million nulls", "600 with keys of 900 kB in the wire format")


if __name__ == "__main__":
    main()
