"""Throughput and latency of the mask worker through a real Kafka, by transaction size (``worker.batch_*``).

Run by hand: ``python tests/benchmarks/bench_latency.py [--sizes 500 2000 10000] [--delays 0.01] [--lingers 5]
[--load 2000] [--rounds 3] [--records 100000] [--seconds 8] [--shape nested|flat] [--code FOLDER ...]``.

Starts a broker with synthetic discharges in four partitions. For each setting, a worker process masks all of them; its
rate is measured from its first committed records to its last. Then events are published at half that rate, or at
``--load``; the latency of an event is the time from its due time until a reader of committed records receives its
masked record. ``--code`` names folders with other versions of the package, which are measured in turn, ``--rounds``
times, so that a slow change of the machine's speed concerns all alike. What is not given is the configuration's
default. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle, islice, product
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).parent)]

from bench_kafka import CLI, PARTITIONS, SHAPES, calibrate, fill, prepared, with_own_topics
from bench_scaling import ROLES
from confluent_kafka import Consumer, Producer, TopicPartition
from kafka_broker import running

from stream_masker.service.configuration import Configuration

QUANTILES = (0.5, 0.99, 0.999)
MAX_IN_FLIGHT = 5
"""The publisher's requests on their way. More of them, with a record or two each, would keep a busy broker behind."""
TICK = 0.002
"""The poll interval of the publisher and of the reader, in seconds."""


def main() -> None:
    options = arguments()
    if options.publish:
        publish(*options.publish)
        return
    with tempfile.TemporaryDirectory() as name, running(Path(name), brokers=1, heap="1g") as cluster:
        measure(Path(name), cluster.bootstrap, options)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000], help="worker.batch_records")
    parser.add_argument("--delays", type=float, nargs="+", default=[None], help="worker.batch_delay in seconds")
    parser.add_argument("--lingers", type=float, nargs="+", default=[None], help="the producer's linger.ms")
    parser.add_argument("--load", type=float, help="events a second; default: half of the highest rate")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=8.0, help="how long events are published at half load")
    parser.add_argument("--shape", choices=SHAPES, default="nested", help="the documentation's event and configuration")
    parser.add_argument("--code", nargs="+", default=[""], help="folders with the package; default: this one")
    parser.add_argument("--publish", nargs=5, help=argparse.SUPPRESS)
    return parser.parse_args()


@dataclass(frozen=True)
class Setting:
    """The settings of one row."""

    code: str
    size: int
    delay: float | None
    linger: float | None

    def configuration(self, folder: Path) -> tuple[Path, Configuration]:
        """Write a configuration with its own topics and consumer group; the statistics are shared."""
        name = secrets.token_hex(4)
        properties = {"group.id": name, **_given("linger.ms", self.linger)}
        worker = {"batch_records": self.size, **_given("batch_delay", self.delay)}
        return with_own_topics(folder, name, ROLES, kafka={"properties": properties}, worker=worker)


def measure(folder: Path, bootstrap: str, options: argparse.Namespace) -> None:
    prepared(folder, bootstrap, max(options.sizes), options.shape)
    calibrate(folder, folder / "stream-masker.yaml")
    quantiles = " | ".join(f"p{100 * quantile:g}" for quantile in QUANTILES)
    print(f"| code | transaction | delay | linger | records/s | load | {quantiles} |\n{'| --- ' * 9}|")
    for size, delay, linger in product(options.sizes, options.delays, options.lingers):
        for code in options.code * options.rounds:
            row(Setting(code, size, delay, linger), folder, options)


def row(setting: Setting, folder: Path, options: argparse.Namespace) -> None:
    path, configuration = setting.configuration(folder)
    fill(configuration, options.records)
    bootstrap, topic = configuration.kafka.bootstrap_servers, configuration.topics.input
    with worker(path, setting.code, folder), contextlib.closing(Reader(configuration)) as reader:
        rate = reader.rate(options.records)
        load = options.load or rate / 2
        command = (sys.executable, __file__, "--publish", bootstrap, topic, folder, str(load), str(options.seconds))
        with subprocess.Popen(command) as publisher:
            times = reader.latencies(int(load * options.seconds))
            assert publisher.wait() == 0
    times = times[len(times) // 4 :]
    found = " | ".join(f"{1000 * float(value):.0f} ms" for value in np.quantile(times, QUANTILES))
    name = Path(setting.code).name or "this"
    delay, linger = (f"{value:g}" if value else "default" for value in (setting.delay, setting.linger))
    print(f"| {name} | {setting.size:,} | {delay} | {linger} | {rate:,.0f} | {load:,.0f} | {found} |", flush=True)


def _given(name: str, value: float | None) -> dict[str, float]:
    return {} if value is None else {name: value}


@contextlib.contextmanager
def worker(path: Path, code: str, folder: Path) -> Iterator[None]:
    environ = {**os.environ, **({"PYTHONPATH": code} if code else {})}
    command = [*CLI, "worker", "--config", str(path), "--http-port", "0"]
    with (folder / "worker.log").open("wb") as log:
        process = subprocess.Popen(command, env=environ, cwd=folder, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        assert process.wait() == 0, (folder / "worker.log").read_text()[-2000:]


class Reader:
    """A reader of the worker's committed records."""

    def __init__(self, configuration: Configuration) -> None:
        topics = configuration.topics
        settings = {"bootstrap.servers": configuration.kafka.bootstrap_servers, "group.id": secrets.token_hex(4)}
        self.consumer = Consumer(
            {**settings, "enable.auto.commit": False, "isolation.level": "read_committed", "fetch.wait.max.ms": 100}
        )
        self.consumer.assign(
            [TopicPartition(topic, p, 0) for topic in (topics.output, topics.rejected) for p in range(PARTITIONS)]
        )

    def read(self, timeout: float) -> list:
        return [message for message in self.consumer.consume(20_000, timeout) if message.error() is None]

    def rate(self, records: int) -> float:
        """Return the records per second from the first committed records to the last of ``records``."""
        while not (seen := len(self.read(0.05))):
            pass
        first, start = seen, time.perf_counter()
        while seen < records:
            seen += len(self.read(0.05))
        return (records - first) / (time.perf_counter() - start)

    def latencies(self, records: int) -> np.ndarray:
        """Return the latencies of ``records`` events in seconds, in order of arrival."""
        times: list[float] = []
        while len(times) < records:
            messages, now = self.read(TICK), time.time()
            times += [now - message.timestamp()[1] / 1000 for message in messages if message.timestamp()[1]]
        return np.array(times)

    def close(self) -> None:
        self.consumer.close()


def publish(bootstrap: str, topic: str, folder: str, rate: str, seconds: str) -> None:
    """Publish events at a rate; each timestamp is the time when the event was due."""
    count = int(float(rate) * float(seconds))
    events = synthetic_events(folder, min(count, 20_000))
    limits = {"linger.ms": 1, "max.in.flight": MAX_IN_FLIGHT, "queue.buffering.max.messages": 1_000_000}
    producer = Producer({"bootstrap.servers": bootstrap, **limits})
    start = time.time()
    stream = enumerate(islice(cycle(events), count))
    for number, value in stream:
        due = start + number / float(rate)
        if (ahead := due - time.time()) > 0:
            producer.poll(0)
            time.sleep(max(TICK, ahead))
        producer.produce(topic, value, partition=number % PARTITIONS, timestamp=int(1000 * due))
    assert producer.flush(60) == 0


def synthetic_events(folder: str, count: int) -> list[bytes]:
    with Path(folder, "sample.jsonl").open("rb") as lines:
        return [line.rstrip() for line in islice(lines, count)]


if __name__ == "__main__":
    main()
