"""Records per second through a real Kafka: a plain copy and the mask worker, on the same topic with the same client.

Run by hand: ``python tests/benchmarks/bench_kafka.py [--shape nested|flat] [--others] [--records 500000] [--batch
10000]``.

Starts a broker, writes synthetic discharges to four partitions, and runs each contender, a single process, over all of
them in transactions of the same size. The copy runs with the worker's settings, with the three headers that a masked
record has, and with the client's long default pause between fetches when its queue is full. A contender's rate is
measured from its first committed records to its last, and its processor time, without that of the brokers, until nine
tenths of them. A second worker masks the input again and writes provenance events. Then a calibrator reads the first
worker's blocks, until the version by which workers count a sample, and a third worker masks the input again under that
version. ``--others`` adds a copy by kafka-python, MirrorMaker 2 with MaskField, and a Faust agent that forwards events
(on a tenth of the records). Prints a Markdown table of rates, of their ratios to the copy's, and of processor times.
For two workers see ``bench_scaling.py``, for a calibrator beside workers ``bench_system.py``.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import orjson
import yaml

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "support")]

import contenders
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import NewTopic
from kafka_broker import running
from kafka_records import Topics, read_all, write
from measuring import processor_seconds
from sealed_topics import opened_version
from support.documentation import blocks

from stream_masker.service.configuration import Configuration, load_configuration
from stream_masker.service.events.synthetic import synthetic_discharges
from stream_masker.service.kafka.clients import FETCH_BACKOFF_MS
from stream_masker.service.kafka.topics import prepare_topics
from stream_masker.service.runtime.warmup import warm_up

PARTITIONS = 4
CLIENT_S_OWN_MS = 1_000
SAMPLING_SECONDS = 60.0
CLI = (sys.executable, "-P", "-m", "stream_masker")
SHAPES = {"nested": "A nested event", "flat": "A flat event"}
HEADERS = [("stream-masker-version", b"1"), ("stream-masker-mechanism", b"semantic_noise")]
HEADERS.append(("stream-masker-configuration", b"0123456789abcdef"))
"""Headers of the size of those of a masked record."""


class Measured(NamedTuple):
    """Records per second, and processor time per record in µs, NaN if it was not measured."""

    rate: float
    processor: float = float("nan")


def main() -> None:
    options = arguments()
    if options.copy:
        copy(*options.copy, options)
        return
    with tempfile.TemporaryDirectory() as name, running(Path(name), brokers=1, heap="1g") as cluster:
        contest(Path(name), cluster.bootstrap, options)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=500_000)
    parser.add_argument("--batch", type=int, default=10_000)
    parser.add_argument("--shape", choices=SHAPES, default="nested", help="the documentation's event and configuration")
    parser.add_argument("--others", action="store_true", help="also run the other contenders")
    parser.add_argument("--pause", type=int, default=FETCH_BACKOFF_MS, help=argparse.SUPPRESS)
    parser.add_argument("--headers", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--copy", nargs=3, metavar=("BOOTSTRAP", "FROM", "TO"), help=argparse.SUPPRESS)
    return parser.parse_args()


def contest(folder: Path, bootstrap: str, options: argparse.Namespace) -> None:
    records, batch = options.records, options.batch
    configuration = prepared(folder, bootstrap, batch, options.shape)
    size = fill(configuration, records)
    config = ("--config", str(folder / "stream-masker.yaml"))
    calibrate(folder, folder / "stream-masker.yaml")
    topics = configuration.topics
    made, own = Topics(bootstrap), [sys.executable, __file__, "--records", str(records), "--batch", str(batch)]
    copied, again, headed = (made(f"copied-{number}", partitions=PARTITIONS) for number in range(3))
    outcomes = [topics.output, topics.rejected]
    rates = {
        "copy": timed([*own, "--copy", bootstrap, topics.input, copied], bootstrap, [copied], records),
        "copy with three headers": timed(
            [*own, "--headers", "--copy", bootstrap, topics.input, headed], bootstrap, [headed], records
        ),
        "copy with the client's default fetch.queue.backoff.ms": timed(
            [*own, "--pause", str(CLIENT_S_OWN_MS), "--copy", bootstrap, topics.input, again],
            bootstrap,
            [again],
            records,
        ),
        "worker": timed([*CLI, "worker", *config, "--http-port", "0"], bootstrap, outcomes, records),
        "worker that writes provenance events": masked_again(folder, records, "provenance", provenance="events"),
    }
    calibrator = [*CLI, "calibrator", *config, "--http-port", "0"]
    await_sampling(calibrator, configuration)
    rates["worker that counts a sample"] = masked_again(folder, records, "sampling")
    if options.others:
        rates |= others(folder, configuration, records, batch)
    report(rates, records, size, batch)


def masked_again(folder: Path, records: int, name: str, **topics: str) -> Measured:
    """Return the rates of a worker that masks the same input under the same statistics, into other topics."""
    path, configuration = with_own_topics(folder, name, ("output", "rejected", "calibration"), topics=topics)
    outcomes = [configuration.topics.output, configuration.topics.rejected]
    worker = [*CLI, "worker", "--config", str(path), "--http-port", "0"]
    return timed(worker, configuration.kafka.bootstrap_servers, outcomes, records)


def others(folder: Path, configuration: Configuration, records: int, batch: int) -> dict[str, Measured]:
    """Return the rates of the contenders that copy the input to another topic."""
    bootstrap, source = configuration.kafka.bootstrap_servers, configuration.topics.input
    made, rates = Topics(bootstrap), {}
    target = made("by-kafka-python", partitions=PARTITIONS)
    command = contenders.command("kafka-python", bootstrap, source, target, batch)
    rates["kafka-python, copying in transactions"] = timed(command, bootstrap, [target], records)
    target = contenders.MIRRORED.format(topic=source)
    made.admin.create_topics([NewTopic(target, PARTITIONS)])[target].result(30)
    made.wait(target, PARTITIONS)
    command = contenders.mirrormaker(folder, bootstrap, source)
    rates["MirrorMaker 2 with MaskField, blanking"] = timed(command, bootstrap, [target], records)
    target = made("by-faust", partitions=PARTITIONS)
    command = contenders.command("faust", bootstrap, source, target, batch)
    rates["Faust agent, passing through"] = timed(command, bootstrap, [target], records // 10)
    return rates


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


def prepared(folder: Path, bootstrap: str, batch: int, shape: str) -> Configuration:
    """Write the configuration and a sample of events, warm up, and create the topics."""
    configuration = configured(folder, bootstrap, batch, SHAPES[shape])
    warm_up(configuration)
    prepare_topics(configuration, partitions=PARTITIONS)
    config = ("--config", str(folder / "stream-masker.yaml"))
    run(*CLI, "simulate", *config, "--records", "20000", "--out", str(folder / "sample.jsonl"))
    return configuration


def calibrate(folder: Path, path: Path) -> None:
    """Publish the statistics of the sample for the configuration at a path."""
    run(*CLI, "calibrate", "--config", str(path), "--publish", str(folder / "sample.jsonl"))


def with_own_topics(
    folder: Path, name: str, roles: Iterable[str], **sections: Mapping[str, object]
) -> tuple[Path, Configuration]:
    """Write a configuration with topics and a consumer group of its own, and other ``sections``; create the topics."""
    content = yaml.safe_load((folder / "stream-masker.yaml").read_text())
    content["topics"] = content.get("topics", {}) | {role: f"{role}-{name}" for role in roles}
    content["kafka"]["properties"] = {"group.id": name}
    for section, values in sections.items():
        content[section] = content.get(section, {}) | values
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(content))
    configuration = load_configuration(path, {})
    prepare_topics(configuration, partitions=PARTITIONS)
    return path, configuration


def configured(folder: Path, bootstrap: str, batch: int, section: str) -> Configuration:
    """Return the configuration below a heading of the documentation."""
    (folder / "secret").write_bytes(secrets.token_bytes(32))
    (folder / "secret").chmod(0o600)
    content = yaml.safe_load(blocks("yaml", section)[0].text)
    content |= {"kafka": {"bootstrap_servers": bootstrap}, "worker": {"batch_records": batch}}
    (folder / "stream-masker.yaml").write_text(yaml.safe_dump(content))
    return load_configuration(folder / "stream-masker.yaml", {})


def fill(configuration: Configuration, records: int) -> float:
    """Write synthetic events and return their mean size in bytes."""
    values = [orjson.dumps(event) for event in synthetic_discharges(configuration, seed=1).events(records)]
    rows = ({"value": value, "key": str(k % 997), "partition": k % PARTITIONS} for k, value in enumerate(values))
    write(configuration.kafka.bootstrap_servers, configuration.topics.input, rows)
    return sum(map(len, values)) / len(values)


def timed(command: list[str], bootstrap: str, topics: list[str], records: int) -> Measured:
    """Measure a child process from its first to its last committed records."""
    with child(command) as process, contextlib.closing(Watch(bootstrap, topics)) as watch:
        first = watch.until(1, process)
        start, busy = time.perf_counter(), processor_seconds(process.pid)
        most = watch.until(9 * records // 10, process)
        processor = 1e6 * (processor_seconds(process.pid) - busy) / (most - first)
        watch.until(records, process)
        return Measured((records - first) / (time.perf_counter() - start), processor)


class Watch:
    """Counts committed records of topics by reading them, with little processor time."""

    def __init__(self, bootstrap: str, topics: list[str]) -> None:
        gc.disable()
        settings = {"bootstrap.servers": bootstrap, "group.id": secrets.token_hex(4), "enable.auto.commit": False}
        self.consumer = Consumer({**settings, "isolation.level": "read_committed"})
        parts = [TopicPartition(t, p, 0) for t in topics for p in self.consumer.list_topics(t).topics[t].partitions]
        self.consumer.assign(parts)
        self.seen = 0

    def until(self, records: int, process: subprocess.Popen[bytes]) -> int:
        """Wait for this number of records; return the number read."""
        while self.seen < records:
            assert process.poll() in (None, 0), "the contender failed"
            self.seen += sum(message.error() is None for message in self.consumer.consume(20_000, 0.05))
        return self.seen

    def close(self) -> None:
        self.consumer.close()


def await_sampling(command: list[str], configuration: Configuration) -> None:
    """Run a calibrator until it has published a version by which workers count a sample."""
    with child(command) as process:
        deadline = time.monotonic() + SAMPLING_SECONDS
        while not samples(configuration):
            assert process.poll() is None, "the calibrator failed"
            assert time.monotonic() < deadline, "no version counts a sample: the records must overflow the window"
            time.sleep(0.5)


def samples(configuration: Configuration) -> bool:
    """Whether a version on the statistics topic has workers count a sample."""
    records = read_all(configuration.kafka.bootstrap_servers, configuration.topics.statistics)
    return any(opened_version(configuration, record).sampling for record in records if record.value)


@contextlib.contextmanager
def child(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def copy(bootstrap: str, source: str, target: str, options: argparse.Namespace) -> None:
    """Copy a topic with the worker's client, transactions and settings, without changing the bytes."""
    records, batch, headers = options.records, options.batch, HEADERS if options.headers else []
    settings = {"bootstrap.servers": bootstrap, "isolation.level": "read_committed", "enable.auto.commit": False}
    fetching = {"auto.offset.reset": "earliest", "fetch.queue.backoff.ms": options.pause}
    consumer = Consumer({**settings, **fetching, "group.id": f"copy to {target}"})
    consumer.subscribe([source])
    queue = {"queue.buffering.max.messages": 4 * batch, "linger.ms": 5, "compression.type": "lz4"}
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"copy to {target}", **queue})
    producer.init_transactions()
    done = 0
    while done < records:
        done += copy_batch(consumer, producer, target, gathered(consumer, min(batch, records - done)), headers)


def gathered(consumer: Consumer, size: int) -> list:
    messages = []
    deadline = time.monotonic() + 0.5
    while len(messages) < size and time.monotonic() < deadline:
        messages += [m for m in consumer.consume(size - len(messages), 0.1) if m.error() is None]
    return messages


def copy_batch(consumer: Consumer, producer: Producer, target: str, messages: list, headers: list) -> int:
    if not messages:
        return 0
    producer.begin_transaction()
    for m in messages:
        send(producer, target, m, headers)
    ends = {(m.topic(), m.partition()): m.offset() + 1 for m in messages}
    offsets = [TopicPartition(topic, partition, offset) for (topic, partition), offset in ends.items()]
    producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
    producer.commit_transaction()
    return len(messages)


def send(producer: Producer, target: str, m, headers: list) -> None:
    while True:
        try:
            producer.produce(target, m.value(), m.key(), m.partition(), None, None, m.timestamp()[1], headers)
        except BufferError:
            producer.poll(0.1)
        except KafkaException as error:
            raise SystemExit(str(error)) from None
        else:
            return


def report(rates: dict[str, Measured], records: int, size: float, batch: int) -> None:
    print(f"{records:,} events of {size:.0f} bytes, four partitions, transactions of {batch:,} records\n")
    print("| | records/s | of the copy's | processor, µs a record |\n| --- | --- | --- | --- |")
    for name, (rate, processor) in rates.items():
        print(f"| {name} | {rate:,.0f} | {rate / rates['copy'].rate:.2f} | {processor:.1f} |")


if __name__ == "__main__":
    main()
