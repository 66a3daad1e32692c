"""Other clients as producers and consumers of events: kcat, Kafka's console tools and kafka-python."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka_broker import LOGGER, VERSION, find, jars
from service import Service, value

EVENTS = 25
"""The number of events of each producer."""

HEADERS = {"ce_specversion": "1.0", "ce_type": "discharge", "ce_subject": "a patient"}
KEPT = {"ce_specversion": b"1.0", "ce_type": b"discharge"}

Values = Sequence[bytes]
Produce = Callable[[str, str, Values], None]
Consume = Callable[[str, str, int], Values]


@pytest.fixture
def here(service: Service) -> Service:
    service.data["kafka"]["properties"]["compression.type"] = "gzip"
    service.data["message"] = {"headers": list(KEPT)}
    service.create(1)
    service.publish()
    return service


def kcat() -> str:
    found = shutil.which("kcat")
    if found is None:
        if os.environ.get("STREAM_MASKER_REQUIRE_KAFKA") == "1":
            pytest.fail("kcat is required: install the Debian package kcat", pytrace=False)
        pytest.skip("kcat is not installed: the Debian package kcat has it")
    return found


def console(main: str, *arguments: str, given: bytes = b"") -> bytes:
    """Run a main class of Kafka's tools."""
    tools = jars("kafka-tools", (("org.apache.kafka", "kafka-tools", VERSION), LOGGER))
    command = [find("java"), "-XX:TieredStopAtLevel=1", "-cp", f"{tools}/*", f"org.apache.kafka.tools.{main}"]
    return output([*command, *arguments], given)


def output(command: Sequence[str], given: bytes = b"") -> bytes:
    done = subprocess.run(command, input=given, capture_output=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def produce_by_kcat(server: str, topic: str, values: Values) -> None:
    headers = [word for name, text in HEADERS.items() for word in ("-H", f"{name}={text}")]
    output([kcat(), "-P", "-b", server, "-t", topic, *headers], b"\n".join(values))


def produce_by_console(server: str, topic: str, values: Values) -> None:
    headers = ",".join(f"{name}:{text}" for name, text in HEADERS.items()).encode()
    arguments = ("--bootstrap-server", server, "--topic", topic, "--property", "parse.headers=true")
    console("ConsoleProducer", *arguments, given=b"\n".join(headers + b"\t" + value for value in values))


def produce_by_kafka_python(server: str, topic: str, values: Values) -> None:
    producer = KafkaProducer(bootstrap_servers=server, compression_type="gzip")
    for one in values:
        producer.send(topic, one, headers=[(name, text.encode()) for name, text in HEADERS.items()])
    producer.close()


def consume_by_kcat(server: str, topic: str, count: int) -> Values:
    options = ("-o", "beginning", "-e", "-q", "-X", "isolation.level=read_committed")
    return output([kcat(), "-C", "-b", server, "-t", topic, *options]).splitlines()


def consume_by_console(server: str, topic: str, count: int) -> Values:
    options = ("--from-beginning", "--isolation-level", "read_committed", "--max-messages", str(count))
    return console("consumer.ConsoleConsumer", "--bootstrap-server", server, "--topic", topic, *options).splitlines()


def consume_by_kafka_python(server: str, topic: str, count: int) -> Values:
    consumer = KafkaConsumer(bootstrap_servers=server, isolation_level="read_committed", consumer_timeout_ms=30_000)
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    found = [record.value for record, _ in zip(consumer, range(count), strict=False)]
    consumer.close()
    return found


PRODUCERS: tuple[Produce, ...] = (produce_by_kcat, produce_by_console, produce_by_kafka_python)
CONSUMERS: tuple[Consume, ...] = (consume_by_kcat, consume_by_console, consume_by_kafka_python)


def test_every_client_reads_the_masked_events_of_every_client(here: Service) -> None:
    count, threads = EVENTS * len(PRODUCERS), ThreadPoolExecutor()
    with here.running() as worker:
        given = [[value(EVENTS * number + k) for k in range(EVENTS)] for number in range(len(PRODUCERS))]
        write = lambda produce, values: produce(here.bootstrap, here.topics["input"], values)  # noqa: E731
        list(threads.map(write, PRODUCERS, given))
        worker.reaches(count)
    masked = here.read("output")
    assert sorted(record.json["id"] for record in masked) == list(range(count))
    for record in masked:
        assert {name: record.headers.get(name) for name in HEADERS} == {**KEPT, "ce_subject": None}
    found = threads.map(lambda consume: consume(here.bootstrap, here.topics["output"], count), CONSUMERS)
    assert list(map(list, found)) == [[record.value for record in masked]] * len(CONSUMERS)
