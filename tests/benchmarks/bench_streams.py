"""A worker on a real broker: its rate beside other stream frameworks, and the latency of its masks.

``python tests/benchmarks/bench_streams.py [--records 200000] [--only NAME ...] [--load RATE]`` starts a broker, writes
synthetic events to four partitions, runs each program, a single process, over all of them, and prints the table. The
worker masks; the others blank one field. Another program runs in an environment of its own, which the command creates
in the cache folder, from pinned versions; its script is in ``peers``. Kafka Streams needs Java 17 and Maven. On a
machine that does other work, rates are too low and ratios uncertain; processor times change least. Variables such as
``STREAM_MASKER__MECHANISM__NAME=semantic_transport`` change the worker's configuration.

With ``--load``, the command ``produce`` then publishes this many events a second for ``--seconds``. The latency of an
event is the time from its publication until a reader of committed records receives its masked record. The first half of
those received does not count: after the start of a broker, the median is up to twice as high for about eight seconds.
p99 includes the pauses of the broker, whose collections of garbage take tens of milliseconds.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import secrets
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from confluent_kafka.admin import AdminClient, NewTopic
from measuring import COMMAND, NESTED, Peer, arguments, table
from support.kafka_broker import JVM, LOGGER, VERSION, find, jars, running
from support.kafka_records import done, reader

from stream_masker.service.configuration import Configuration, load_configuration
from stream_masker.service.kafka.topics import prepare_topics

PARTITIONS = 4
SAMPLE = 20_000
"""The events whose statistics are published."""

ORJSON = "orjson==3.11.4"
PEERS = {
    "loop": ("a loop by hand, in transactions", Peer("streams", ("confluent-kafka==2.12.2", ORJSON))),
    "bytewax": ("Bytewax, without transactions", Peer("streams", ("bytewax[kafka]==0.21.1", ORJSON))),
    "quix": ("Quix Streams, exactly once", Peer("streams", ("quixstreams==3.28.1",))),
}
KAFKA_STREAMS = (("org.apache.kafka", "kafka-streams", VERSION), LOGGER)
NAMES = ("worker", *PEERS, "kafka-streams")
OPTIONS = {
    "--records": 200_000,
    "--batch": {"type": int, "default": 10_000, "help": "records a transaction"},
    "--only": {"nargs": "+", "choices": NAMES, "default": NAMES, "help": "the programs to measure"},
    "--load": {"type": int, "help": "measure the latency, too, at this number of events a second"},
    "--seconds": 40,
}
QUANTILES = (0.5, 0.99, 0.999)


class Measured(NamedTuple):
    """Records per second, and processor time per record in µs."""

    rate: float
    processor: float


def main() -> None:
    options = arguments(__doc__, OPTIONS)
    gc.disable()
    with stream(options) as configuration:
        measured = dict(contest(configuration, options))
        table("Streams", ("", "records/s", "of the loop", "processor, µs a record"), compared(measured))
        if options.load:
            head = ("load", *(f"p{100 * q:g}, ms" for q in QUANTILES))
            table("Latency", head, [latency(configuration, options)])


def compared(measured: dict[str, Measured]) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table; without the loop, nothing is compared with it."""
    base = next((one.rate for name, one in measured.items() if name.startswith(PEERS["loop"][0])), None)
    for name, (rate, processor) in measured.items():
        yield name, f"{rate:,.0f}", f"{rate / base:.2f}" if base else "–", f"{processor:.1f}"


@contextlib.contextmanager
def stream(options: argparse.Namespace) -> Iterator[Configuration]:
    """Run a broker with a stream: its topics, ``options.records`` events in its input, and statistics of a sample."""
    with tempfile.TemporaryDirectory() as name, running(Path(name), heap="1g") as cluster:
        given = {"KAFKA__BOOTSTRAP_SERVERS": cluster.bootstrap, "WORKER__BATCH_RECORDS": options.batch}
        os.environ |= {f"STREAM_MASKER__{key}": str(value) for key, value in given.items()}
        os.environ["STREAM_MASKER_CONFIG"] = str(NESTED)
        configuration, sample = load_configuration(NESTED, os.environ), str(Path(name) / "sample.jsonl")
        prepare_topics(configuration, partitions=PARTITIONS)
        for command in (
            ("produce", "--synthetic", str(SAMPLE), "--out", sample),
            ("calibrate", "--publish", sample),
            ("produce", "--synthetic", str(options.records)),
        ):
            subprocess.run([*COMMAND, *command, "--quiet"], check=True)
        yield configuration


def contest(configuration: Configuration, options: argparse.Namespace) -> Iterator[tuple[str, Measured]]:
    """Yield the figures of each program, under its name in the table."""
    bootstrap, topics = configuration.kafka.bootstrap_servers, configuration.topics
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for name in options.only:
        if name == "worker":
            yield "stream-masker", timed(worker(), bootstrap, outcomes(configuration), options.records)
            continue
        target = f"copied-{secrets.token_hex(4)}"
        done(admin.create_topics([NewTopic(target, PARTITIONS)]))
        given = {"bootstrap": bootstrap, "source": topics.input, "target": target, "batch": options.batch}
        title, command = f"Kafka Streams {VERSION}, exactly once", kafka_streams
        if name in PEERS:
            how, peer = PEERS[name]
            title, command = f"{how} ({peer.title})", lambda peer=peer: peer.command
        yield title, timed([*command(), json.dumps(given)], bootstrap, [target], options.records)


def worker() -> list[str]:
    return [*COMMAND, "worker", "--http-port", "0"]


def kafka_streams() -> list[str]:
    """The command of the Java program, which Java compiles when it starts."""
    program = Path(__file__).with_name("peers") / "KafkaStreams.java"
    return [find("java"), "-Xmx1g", *JVM[:1], "-cp", f"{jars('kafka-streams', KAFKA_STREAMS)}/*", str(program)]


def outcomes(configuration: Configuration) -> list[str]:
    """The topics of masked and of rejected records."""
    return [configuration.topics.output, configuration.topics.rejected]


def timed(command: Sequence[str], bootstrap: str, topics: list[str], records: int) -> Measured:
    """Measure a process from its first to its last committed records; its processor time until nine tenths of them."""
    with child(command) as process, contextlib.closing(Watch(bootstrap, topics)) as watch:
        first = watch.until(1, process)
        start, busy = time.perf_counter(), processor_seconds(process.pid)
        most = watch.until(9 * records // 10, process)
        processor = 1e6 * (processor_seconds(process.pid) - busy) / (most - first)
        watch.until(records, process)
        return Measured((records - first) / (time.perf_counter() - start), processor)


def latency(configuration: Configuration, options: argparse.Namespace) -> list[float]:
    """Return the load, and the quantiles of the latency in milliseconds."""
    records = options.load * options.seconds
    publish = [*COMMAND, "produce", "--quiet", "--synthetic", str(records), "--rate", str(options.load)]
    watch, times = Watch(configuration.kafka.bootstrap_servers, outcomes(configuration)), list[float]()
    with contextlib.closing(watch), child(worker()) as process:
        watch.until(options.records, process)
        with child(publish, STREAM_MASKER__KAFKA__PROPERTIES__LINGER_MS="1") as publisher:
            while len(times) < records:
                assert not any(one.poll() for one in (process, publisher)), "the worker or the publisher failed"
                messages, now = watch.read(0.002), 1000 * time.time()
                times += [now - message.timestamp()[1] for message in messages]
    return [options.load, *np.quantile(times[len(times) // 2 :], QUANTILES)]


@contextlib.contextmanager
def child(command: Sequence[str], **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process without output, with more variables of the environment, and terminate it in the end."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, env=os.environ | variables, **quiet)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def processor_seconds(pid: int) -> float:
    """Return the processor time of all threads of a process, including system time."""
    ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


class Watch:
    """Reads the committed records of topics, with little processor time."""

    def __init__(self, bootstrap: str, topics: Sequence[str]) -> None:
        self.consumer, self.seen = reader(bootstrap, *topics), 0
        self.close = self.consumer.close

    def read(self, timeout: float) -> list[Any]:
        """The messages of the next ``timeout`` seconds."""
        messages = [message for message in self.consumer.consume(20_000, timeout) if message.error() is None]
        self.seen += len(messages)
        return messages

    def until(self, records: int, process: subprocess.Popen[bytes]) -> int:
        """Wait for this number of records; return the number read."""
        while self.seen < records:
            assert process.poll() in (None, 0), "the program failed"
            self.read(0.05)
        return self.seen


if __name__ == "__main__":
    main()
