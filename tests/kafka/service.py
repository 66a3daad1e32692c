"""The service as its users see it: commands as processes, topics, and HTTP.

Nothing here knows the package beyond its command line, its configuration file, its topics and its metrics, so the tests
that use it judge any implementation.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import re
import signal
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

import orjson
import yaml
from click.testing import CliRunner, Result
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourceType,
)
from kafka_records import QUIET, Record, delete_topics, done, read_all, write
from polling import attempts, resident, wait
from prometheus_client.parser import text_string_to_metric_families

from stream_masker.cli import main

SECRET = b"a secret of the service's tests, 32 bytes"
START = time.time_ns() // 1_000_000 - 3_600_000
"""The timestamp of the first event, an hour ago: records older than a topic's retention are deleted."""

TIMES = {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 500, "transaction.timeout.ms": 10_000}
"""Short: members learn of a rebalance by heartbeats, and readers wait for the transaction of a killed worker."""

BRANCHES, LEAVES = 9, 9
CODES = [f"C{i}{j}" for i in range(BRANCHES) for j in range(LEAVES)]
CONCEPTS = {"root", *CODES, *(code[:2] for code in CODES)}

STOPPED_IN_TIME = 30.0
"""Seconds in which a process has to end after SIGTERM."""

_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(["stream_masker.cli", "confluent_kafka", "numba", "prometheus_client", "pydantic"])


def ontology() -> str:
    """Return the CSV of a tree of three levels: root, C0 … C8, C00 … C88."""
    branches = [f"C{i},root,branch {i}" for i in range(BRANCHES)]
    return "\n".join(["concept,parent,label", "root,,all", *branches, *(f"{c},{c[:2]},leaf {c[1:]}" for c in CODES)])


def event(number: int, seed: int = 1) -> dict[str, Any]:
    """Return a discharge event; its id is its number."""
    rng = random.Random(seed * 1_000_003 + number)
    first, second = rng.choice(CODES), rng.choice(CODES)
    return {"id": number, "patient": {"id": f"p{number % 7}"}, "first": first, "second": second}


def value(number: int) -> bytes:
    return orjson.dumps(event(number))


def ids(records: list[Record]) -> list[int]:
    """Return the ids of the events, without tombstones."""
    return [record.json["id"] for record in records if record.value is not None]


def run_command(log: str, arguments: tuple[str, ...]) -> None:
    """Run ``stream-masker ARGUMENTS…`` in this process, with its output in a file."""
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(output, stream)
    sys.argv = ["stream-masker", *arguments]
    main()


@dataclass
class Process:
    """A worker or calibrator that runs as a process of its own."""

    name: str
    log_file: Path
    process: Any
    ended: bool = False

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    @property
    def port(self) -> int:
        """The port of its HTTP server, from its log."""
        self.wait(lambda: "http://127.0.0.1:" in self.log, "log line with the port")
        return int(re.findall(r"http://127\.0\.0\.1:(\d+)", self.log)[0])

    @property
    def memory(self) -> int:
        """Its resident memory in bytes."""
        return resident(self.process.pid)

    def get(self, path: str) -> tuple[int, str]:
        """Return the HTTP status and the text of a response."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def samples(self, name: str, **labels: str) -> list[float]:
        """Return the samples of ``stream_masker_NAME`` that have these labels."""
        families, wanted = text_string_to_metric_families(self.get("/metrics")[1]), f"stream_masker_{name}"
        found = [sample for family in families for sample in family.samples if sample.name == wanted]
        return [sample.value for sample in found if labels.items() <= sample.labels.items()]

    def metric(self, name: str, **labels: str) -> float:
        """Return the sum of the samples; 0 without any."""
        return sum(self.samples(name, **labels))

    def has(self, name: str) -> bool:
        return bool(self.samples(name))

    def ready(self) -> bool:
        return self.get("/readyz")[0] == 200

    def says(self, text: str) -> bool:
        """Whether ``/readyz`` tells this, as a reason or a note."""
        return text in json.dumps(json.loads(self.get("/readyz")[1]), ensure_ascii=False)

    def wait(self, reached: Any, what: str, timeout: float = 240.0) -> None:
        """Wait until ``reached()``; fail at once if the process has ended."""
        for _ in attempts(timeout):
            if reached():
                return
            assert self.process.is_alive(), f"{self.name} ended while waiting for {what}:\n{self.log[-3000:]}"
        raise AssertionError(f"no {what} after {timeout} s\n{self.log[-3000:]}")

    def reaches(self, records: int) -> None:
        """Wait until this number of input records is committed; more is an error."""
        self.wait(lambda: self.metric("records_in_total") >= records, f"{records} records")
        assert self.metric("records_in_total") == records

    def signal(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
        self.ended = True

    def stop(self) -> int:
        """End the process in order, in time; return its exit code."""
        self.process.terminate()
        self.process.join(STOPPED_IN_TIME)
        assert not self.process.is_alive(), f"{self.name} does not stop\n{self.log[-3000:]}"
        self.ended = True
        return int(self.process.exitcode)


@dataclass
class Service:
    """The topics of one test, the configuration that names them, and the processes that run with it."""

    bootstrap: str
    folder: Path
    data: dict[str, Any]
    unique: str
    """A part of the names of all topics."""
    processes: list[Process] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=count)

    @property
    def topics(self) -> Mapping[str, str]:
        return self.data["topics"]

    @cached_property
    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, **QUIET})

    def write(self, name: str = "stream-masker", **sections: Any) -> Path:
        """Write the configuration with some keys of its sections replaced; return the file."""
        path = self.folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(merged(self.data, sections)))
        return path

    def command(self, *arguments: str, code: int = 0, **sections: Any) -> Result:
        """Run a command that ends by itself; it must end with this exit code."""
        done = CliRunner().invoke(main, [*arguments, "--config", str(self.write(**sections))])
        assert done.exit_code == code, f"{' '.join(arguments)}: exit {done.exit_code}\n{done.output}"
        return done

    def start(self, command: str, name: str | None = None, *options: str, **sections: Any) -> Process:
        """Start a worker or a calibrator; ``sections``: changes to its configuration."""
        name = name or command
        if command == "worker":
            sections = merged({"worker": {"instance": f"{name}-{self.unique}"}}, sections)
        path, log = self.write(name, **sections), self.folder / f"{name}-{next(self.numbers)}.log"
        arguments = (command, "--config", str(path), *options)
        process = _forks.Process(target=run_command, args=(str(log), arguments), daemon=True)
        process.start()
        self.processes.append(Process(name, log, process))
        return self.processes[-1]

    @contextmanager
    def running(
        self, command: str = "worker", name: str | None = None, *options: str, **sections: Any
    ) -> Iterator[Process]:
        """Run a process while the ``with`` block runs; it must stop in order."""
        process = self.start(command, name, *options, **sections)
        yield process
        if not process.ended:
            assert process.stop() == 0, process.log[-3000:]

    def logs(self) -> str:
        return "\n".join(process.log for process in self.processes)

    def end(self) -> None:
        """Kill what still runs, and delete the topics."""
        for process in self.processes:
            if process.process.is_alive():
                process.signal(signal.SIGCONT)
                process.kill()
        delete_topics(self.bootstrap, lambda name: self.unique in name)

    def create(self, partitions: int = 4) -> None:
        """Create all topics, with this number of partitions of the input."""
        self.command("topics", "--partitions", str(partitions))

    def alter(self, role: str, **properties: str) -> None:
        """Set properties of a topic, written with underscores, and wait until the broker has applied them."""
        named = {name.replace("_", "."): setting for name, setting in properties.items()}
        entries = [ConfigEntry(n, v, incremental_operation=AlterConfigOpType.SET) for n, v in named.items()]
        resource = ConfigResource(ResourceType.TOPIC, self.topics[role], incremental_configs=entries)
        done(self.admin.incremental_alter_configs([resource]))

        def applied() -> bool:
            found = self.admin.describe_configs([resource])[resource].result(60)
            return all(found[name].value == setting for name, setting in named.items())

        wait(applied, f"{', '.join(named)} of {role}")

    def grow(self, role: str, partitions: int) -> None:
        done(self.admin.create_partitions([NewPartitions(self.topics[role], partitions)]))

    def delete_records(self, partition: int, before: int) -> None:
        """Delete the records of an input partition before an offset, as its retention does."""
        done(self.admin.delete_records([TopicPartition(self.topics["input"], partition, before)]))

    def produce(self, numbers: range, partitions: int = 4, **more: Any) -> None:
        """Publish events; each goes to the partition of its number modulo ``partitions``."""
        records = ({"value": value(i), "partition": i % partitions, "timestamp": START + i, **more} for i in numbers)
        write(self.bootstrap, self.topics["input"], records)

    def publish(self, numbers: range = range(300), *options: str) -> None:
        """Publish the statistics of a sample of events as the next version."""
        sample = self.folder / f"sample-{next(self.numbers)}.jsonl"
        sample.write_bytes(b"\n".join(map(value, numbers)))
        self.command("calibrate", str(sample), "--publish", "--quiet", *options)

    def read(self, role: str, isolation: str = "read_committed") -> list[Record]:
        return read_all(self.bootstrap, self.topics[role], isolation=isolation)

    def outcomes(self) -> int:
        """Return the number of records that are masked or rejected."""
        return len(self.read("output")) + len(self.read("rejected"))

    @property
    def group(self) -> str:
        """The workers' group."""
        return f"stream-masker.{self.topics['input']}"


def merged(data: Mapping[str, Any], sections: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data with the given keys of sections replaced; a section that is None is left out."""
    both = {name: merged(data.get(name) or {}, new) if isinstance(new, dict) else new for name, new in sections.items()}
    return {name: section for name, section in {**data, **both}.items() if section is not None}


def service(bootstrap: str, folder: Path) -> Service:
    """Return a service with unique topic names; no topic is created yet."""
    (folder / "ontology.csv").write_text(ontology())
    (folder / "secret").write_bytes(SECRET)
    (folder / "secret").chmod(0o600)
    unique = uuid.uuid4().hex[:8]
    roles = ("input", "output", "rejected", "calibration", "statistics", "drift")
    data = {
        "kafka": {"bootstrap_servers": bootstrap, "properties": dict(TIMES)},
        "topics": {role: f"{role}-{unique}" for role in roles},
        "ontologies": {"small": {"source": "ontology.csv"}},
        "attributes": {name: {"path": name, "ontology": "small"} for name in ("first", "second")},
        "fields": {"keep": ["id"], "pseudonymize": ["patient.id"], "unlisted": "drop"},
        "noise_key": "position",
        "mechanism": {"name": "semantic_noise", "reference": "mean"},
        "calibration": {"min_records": 200},
        "secret": {"file": "secret"},
        "http": {"port": 0},
    }
    return Service(bootstrap, folder, data, unique)
