"""Streams of synthetic events on a broker: their configurations and topics, and the processes that read them."""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import secrets
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import yaml
from confluent_kafka import Consumer, TopicPartition
from measuring import arguments, processor_seconds
from support.documentation import blocks
from support.kafka_broker import Cluster, running
from support.kafka_records import Topics, write
from support.small_configuration import write_secret

from stream_masker.pipeline.records import Inputs
from stream_masker.service.configuration import Configuration, load_configuration
from stream_masker.service.events.synthetic import SyntheticDischarges
from stream_masker.service.kafka.topics import prepare_topics

PARTITIONS = 4
SAMPLE = 20_000
"""The events whose statistics are published."""

CLI = (sys.executable, "-P", "-m", "stream_masker")
HEADERS = {
    "stream-masker-version": "1",
    "stream-masker-mechanism": "semantic_noise",
    "stream-masker-configuration": "0123456789abcdef",
}
"""Headers of the size of those of a masked record."""

SHAPES = {"nested": "A nested event", "flat": "A flat event"}
"""The headings of the documentation above a configuration."""


STREAM_OPTIONS = {
    "--records": 500_000,
    "--batch": {"type": int, "default": 10_000, "help": "records a transaction"},
    "--shape": {"choices": SHAPES, "default": "nested", "help": "the documentation's event and configuration"},
}
"""The options of every benchmark of a stream."""


def stream_arguments(text: str | None, options: Mapping[str, Any] = {}) -> argparse.Namespace:
    """Parse the command line of a benchmark of a stream; ``options``: further ones, or other defaults."""
    return arguments(text, STREAM_OPTIONS | dict(options))


@contextlib.contextmanager
def broker(**settings: object) -> Iterator[tuple[Path, Cluster]]:
    """A folder and a broker; ``settings``: further ones of the broker."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    with tempfile.TemporaryDirectory() as name, running(Path(name), heap="1g", more=lambda _: named) as cluster:
        yield Path(name), cluster


def configured(folder: Path, bootstrap: str, batch: int, shape: str, **sections: object) -> Configuration:
    """Write the documentation's configuration of a shape of events to ``stream-masker.yaml``."""
    write_secret(folder, content=secrets.token_bytes(32))
    content = yaml.safe_load(blocks("yaml", SHAPES[shape])[0].text)
    content |= {"kafka": {"bootstrap_servers": bootstrap}, "worker": {"batch_records": batch}, **sections}
    (folder / "stream-masker.yaml").write_text(yaml.safe_dump(content))
    return load_configuration(folder / "stream-masker.yaml", {})


def inputs(values: list[bytes], start: int) -> Inputs:
    """Return the records of a partition from an offset on, with the offsets as keys."""
    size = len(values)
    keys = [b"%d" % offset for offset in range(start, start + size)]
    return Inputs(offsets=range(start, start + size), values=values, keys=keys, timestamps=[10**12] * size)


@dataclass(frozen=True)
class Stream:
    """A configuration at a path, with its topics."""

    path: Path
    configuration: Configuration

    @classmethod
    def prepared(
        cls, folder: Path, bootstrap: str, options: argparse.Namespace, sample: int = SAMPLE, **sections: object
    ) -> Stream:
        """Write a configuration and a sample of its events, and create its topics."""
        configuration = configured(folder, bootstrap, options.batch, options.shape, **sections)
        prepare_topics(configuration, partitions=PARTITIONS)
        made = cls(folder / "stream-masker.yaml", configuration)
        made.run("produce", "--synthetic", str(sample), "--out", str(folder / "sample.jsonl"))
        return made

    @property
    def bootstrap(self) -> str:
        return self.configuration.kafka.bootstrap_servers

    @property
    def outcomes(self) -> list[str]:
        """The topics of masked and of rejected records."""
        return [self.configuration.topics.output, self.configuration.topics.rejected]

    def with_topics(
        self, roles: Iterable[str], name: str = "", properties: Mapping[str, object] = {}, **sections: dict[str, Any]
    ) -> Stream:
        """The stream with topics and a consumer group of its own, properties of its clients, and changed sections."""
        name = name or secrets.token_hex(4)
        content = yaml.safe_load(self.path.read_text())
        sections["topics"] = {role: f"{role}-{name}" for role in roles} | sections.get("topics", {})
        sections["kafka"] = {"properties": {"group.id": name, **properties}}
        for section, values in sections.items():
            content[section] = content.get(section, {}) | values
        path = self.path.with_name(f"{name}.yaml")
        path.write_text(yaml.safe_dump(content))
        configuration = load_configuration(path, {})
        prepare_topics(configuration, partitions=PARTITIONS)
        return Stream(path, configuration)

    def fill(self, records: int) -> float:
        """Write the synthetic events that follow those of a sample to the input; return their mean size in bytes."""
        following = islice(SyntheticDischarges(self.configuration).events(SAMPLE + records), SAMPLE, None)
        values = [orjson.dumps(event) for event in following]
        rows = ({"value": value, "key": str(k % 997), "partition": k % PARTITIONS} for k, value in enumerate(values))
        write(self.bootstrap, self.configuration.topics.input, rows)
        return sum(map(len, values)) / len(values)

    def calibrate(self) -> None:
        """Publish the statistics of the sample."""
        self.run("calibrate", "--publish", str(self.path.with_name("sample.jsonl")))

    def command(self, name: str, *arguments: str, port: int = 0) -> list[str]:
        """The command of a worker or of a calibrator."""
        return [*CLI, name, "--config", str(self.path), "--http-port", str(port), *arguments]

    def run(self, name: str, *arguments: str) -> float:
        """Run a command that ends; return its seconds."""
        start = time.perf_counter()
        subprocess.run([*CLI, name, "--config", str(self.path), *arguments], check=True, capture_output=True)
        return time.perf_counter() - start

    def masked(self, records: int) -> Measured:
        """Measure a worker."""
        return timed(self.command("worker"), self.bootstrap, self.outcomes, records)

    def copied(self, command: Sequence[str], batch: int, records: int, **settings: object) -> Measured:
        """Measure a program that copies the input, or does the job of the peers; ``settings``: others of the job."""
        target = Topics(self.bootstrap)("copied", partitions=PARTITIONS)
        source = self.configuration.topics.input
        given = {"bootstrap": self.bootstrap, "source": source, "target": target, "batch": batch, **settings}
        return timed([*command, json.dumps(given)], self.bootstrap, [target], records)


class Measured(NamedTuple):
    """Records per second, and processor time per record in µs, NaN if it was not measured."""

    rate: float
    processor: float = float("nan")


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
def child(command: Sequence[str], core: int | None = None, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process without output, bound to a core if one is given, and terminate it in the end."""
    pinned = () if core is None else ("taskset", "--cpu-list", str(core))
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen([*pinned, *command], **(quiet | options))
    try:
        yield process
    finally:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        process.wait()


def responded(port: int, path: str) -> tuple[int, str]:
    """Return the status and the text of a page of a process; 0 and no text while it does not respond."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return int(answer.status), answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""
    except OSError:
        return 0, ""


def metrics(port: int) -> dict[str, float]:
    """Return the samples without labels that a process exports; none while it does not respond."""
    lines = responded(port, "/metrics")[1].splitlines()
    rows = (line.split(" ") for line in lines if not line.startswith("#") and "{" not in line)
    return {name: float(value) for name, value in rows}


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
