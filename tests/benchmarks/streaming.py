"""Streams of synthetic events on a broker: their configurations and topics, and the processes that read them."""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import yaml
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from measuring import processor_seconds
from support.documentation import blocks
from support.kafka_broker import running
from support.kafka_records import done, write
from support.small_configuration import write_secret

from stream_masker.pipeline.records import Inputs
from stream_masker.service.configuration import Configuration, load_configuration
from stream_masker.service.events.synthetic import SyntheticDischarges
from stream_masker.service.kafka.topics import prepare_topics

PARTITIONS = 4
SAMPLE = 20_000
"""The events whose statistics are published."""

CLI = (sys.executable, "-P", "-m", "stream_masker")
STREAM_OPTIONS = {
    "--records": 500_000,
    "--batch": {"type": int, "default": 10_000, "help": "records a transaction"},
}
"""The options of every benchmark of a stream."""


def configured(folder: Path, bootstrap: str, batch: int) -> Configuration:
    """Write the documentation's configuration of nested events to ``stream-masker.yaml``."""
    write_secret(folder, content=secrets.token_bytes(32))
    content = yaml.safe_load(blocks("yaml", "A nested event")[0].text)
    content |= {"kafka": {"bootstrap_servers": bootstrap}, "worker": {"batch_records": batch}}
    (folder / "stream-masker.yaml").write_text(yaml.safe_dump(content))
    return load_configuration(folder / "stream-masker.yaml", {})


def inputs(values: list[bytes], start: int) -> Inputs:
    """Return the records of a partition from an offset on, with the offsets as keys."""
    offsets = range(start, start + len(values))
    keys = [b"%d" % offset for offset in offsets]
    return Inputs(offsets=offsets, values=values, keys=keys, timestamps=[10**12] * len(values))


@dataclass(frozen=True)
class Stream:
    """A configuration in a folder, with its topics and published statistics."""

    folder: Path
    configuration: Configuration

    @property
    def bootstrap(self) -> str:
        return self.configuration.kafka.bootstrap_servers

    @property
    def outcomes(self) -> list[str]:
        """The topics of masked and of rejected records."""
        return [self.configuration.topics.output, self.configuration.topics.rejected]

    @property
    def worker(self) -> list[str]:
        return self.command("worker", "--http-port", "0")

    def command(self, name: str, *arguments: str) -> list[str]:
        return [*CLI, name, "--config", str(self.folder / "stream-masker.yaml"), *arguments]

    def run(self, name: str, *arguments: str) -> None:
        """Run a command that ends by itself."""
        subprocess.run(self.command(name, *arguments), check=True, capture_output=True)

    def fill(self, records: int) -> None:
        """Write the synthetic events that follow those of the sample to the input."""
        following = islice(SyntheticDischarges(self.configuration).events(SAMPLE + records), SAMPLE, None)
        rows = (
            {"value": orjson.dumps(event), "key": str(k % 997), "partition": k % PARTITIONS}
            for k, event in enumerate(following)
        )
        write(self.bootstrap, self.configuration.topics.input, rows)

    def masked(self, records: int) -> Measured:
        """Measure a worker."""
        return timed(self.worker, self.bootstrap, self.outcomes, records)

    def copied(self, command: Sequence[str], batch: int, records: int) -> Measured:
        """Measure a program that does the job of the peers."""
        source, target = self.configuration.topics.input, f"copied-{secrets.token_hex(4)}"
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        done(admin.create_topics([NewTopic(target, PARTITIONS)]))
        given = {"bootstrap": self.bootstrap, "source": source, "target": target, "batch": batch}
        return timed([*command, json.dumps(given)], self.bootstrap, [target], records)


@contextlib.contextmanager
def stream(options: argparse.Namespace) -> Iterator[Stream]:
    """Run a broker with a stream: its topics, ``options.records`` events in its input, and statistics of a sample."""
    with tempfile.TemporaryDirectory() as name, running(Path(name), heap="1g") as cluster:
        configuration = configured(Path(name), cluster.bootstrap, options.batch)
        prepare_topics(configuration, partitions=PARTITIONS)
        made, sample = Stream(Path(name), configuration), str(Path(name) / "sample.jsonl")
        made.run("produce", "--synthetic", str(SAMPLE), "--out", sample)
        made.run("calibrate", "--publish", sample)
        made.fill(options.records)
        yield made


class Measured(NamedTuple):
    """Records per second, and processor time per record in µs."""

    rate: float
    processor: float


def timed(command: Sequence[str], bootstrap: str, topics: list[str], records: int) -> Measured:
    """Measure a process from its first to its last committed records; its processor time until nine tenths of them."""
    with child(command) as process, contextlib.closing(Watch(bootstrap, topics)) as watch:
        first = watch.until(1, process)
        start, busy = time.perf_counter(), processor_seconds(process.pid)
        most = watch.until(9 * records // 10, process)
        processor = 1e6 * (processor_seconds(process.pid) - busy) / (most - first)
        watch.until(records, process)
        return Measured((records - first) / (time.perf_counter() - start), processor)


@contextlib.contextmanager
def child(command: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process without output, and terminate it in the end."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


class Watch:
    """Reads the committed records of topics, with little processor time."""

    def __init__(self, bootstrap: str, topics: Iterable[str], **settings: object) -> None:
        gc.disable()
        reading = {"isolation.level": "read_committed", "enable.auto.commit": False, "group.id": secrets.token_hex(4)}
        self.consumer = Consumer({"bootstrap.servers": bootstrap, **reading, **settings})
        parts = [TopicPartition(t, p, 0) for t in topics for p in self.consumer.list_topics(t).topics[t].partitions]
        self.consumer.assign(parts)
        self.seen = 0

    def read(self, timeout: float = 0.05) -> list[Any]:
        """The messages of the next ``timeout`` seconds."""
        messages = [message for message in self.consumer.consume(20_000, timeout) if message.error() is None]
        self.seen += len(messages)
        return messages

    def until(self, records: int, process: subprocess.Popen[bytes]) -> int:
        """Wait for this number of records; return the number read."""
        while self.seen < records:
            assert process.poll() in (None, 0), "the contender failed"
            self.read()
        return self.seen

    def close(self) -> None:
        self.consumer.close()
