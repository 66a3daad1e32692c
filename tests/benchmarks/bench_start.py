"""Cold start: seconds from the start of ``stream-masker worker`` until it is ready, and to the first masked record.

Run by hand: ``python tests/benchmarks/bench_start.py [--quick] [--runs 5] [--broker-defaults]``.

Starts a broker, prepares a configuration (``stream-masker prepare``), publishes statistics, and writes records to the
input topic. Then it starts a worker several times, each in a new consumer group that reads everything. Prints a
Markdown table of medians; all times count from the start of the process:

* serving: /readyz responds;
* ready: /readyz reports ready: the worker has its ontologies, a producer, and statistics;
* first record: a reader of committed records has received one. The worker waits up to ``worker.batch_delay`` (0.5 s)
  for a full batch, and the broker delays a group's first member by ``group.initial.rebalance.delay.ms``: 3 s by
  default, with ``--broker-defaults``, otherwise 0;
* CPU: the processor time of the process until then, including all threads.
"""

from __future__ import annotations

import argparse
import contextlib
import secrets
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import orjson
import yaml

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "support")]

from confluent_kafka import Consumer, TopicPartition
from kafka_broker import Cluster, build, free_ports
from kafka_records import write
from measuring import SNOMED_CONCEPTS, processor_seconds, table
from processes import terminate
from support.snomed import write_release

from stream_masker.service.configuration import load_configuration
from stream_masker.service.events.synthetic import synthetic_discharges
from stream_masker.service.kafka.topics import prepare_topics

CLI = (sys.executable, "-P", "-m", "stream_masker")
ROLES = ("input", "output", "rejected", "calibration", "statistics", "drift")
RECORDS = 5_000
PARTITIONS = 4
LIMIT = 60.0
DEFAULT_DELAY = 3_000
HEAD = ["ontology", "prepare again, s", "serving, s", "ready, s", "first record, s", "CPU until then, s", "MB resident"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smaller synthetic release of SNOMED CT")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--broker-defaults", action="store_true", help="keep the broker's default rebalance delay")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, broker(Path(name), delays=given.broker_defaults) as cluster:
        release = write_release(Path(name, "release"), concepts=50_000 if given.quick else SNOMED_CONCEPTS, seed=1)
        sources = {"ICD-10-CM": "icd10cm", "RF2": str(release)}
        given_rows = (
            [label, *Contest(Path(name), cluster, source).run(given.runs)] for label, source in sources.items()
        )
        table("Cold start of a worker", HEAD, given_rows)


@contextlib.contextmanager
def broker(folder: Path, *, delays: bool) -> Iterator[Cluster]:
    delay = {"group.initial.rebalance.delay.ms": DEFAULT_DELAY if delays else 0}
    cluster = build(folder, brokers=1, heap="512m", more=lambda _: delay)
    try:
        cluster.create()
        yield cluster
    finally:
        cluster.destroy()


class Contest:
    """Starts workers with one ontology; each run has its own output topic and consumer group."""

    def __init__(self, folder: Path, cluster: Cluster, source: str) -> None:
        self.bootstrap = cluster.bootstrap
        self.source = source
        self.name = secrets.token_hex(4)
        self.folder = folder / self.name
        self.folder.mkdir()
        (self.folder / "secret").write_bytes(secrets.token_bytes(32))
        (self.folder / "secret").chmod(0o600)

    def run(self, runs: int) -> list[float]:
        """Return the row of the table: medians over ``runs`` starts."""
        self.prepare()
        again = self.prepare()
        self.fill()
        starts = [self.start(number) for number in range(runs)]
        return [again, *(median(column) for column in zip(*starts, strict=True))]

    def prepare(self) -> float:
        return self.command("prepare", "--config", self.configured("prepare"))

    def command(self, *arguments: object) -> float:
        """Return the duration of a command in seconds."""
        start = time.perf_counter()
        subprocess.run([*CLI, *map(str, arguments)], check=True, capture_output=True)
        return time.perf_counter() - start

    def configured(self, group: str) -> Path:
        names = {role: f"{role}-{self.name}" for role in ROLES} | {"output": f"output-{self.name}-{group}"}
        content = {
            "kafka": {"bootstrap_servers": self.bootstrap, "properties": {"group.id": f"{self.name}-{group}"}},
            "topics": names,
            "ontologies": {"icd": {"source": self.source}},
            "attributes": {name: {"path": name, "ontology": "icd"} for name in ("principal", "secondary")},
            "fields": {"keep": ["encounter_id"], "pseudonymize": ["patient.id"], "unlisted": "drop"},
            "noise_key": "position",
            "secret": {"file": "secret"},
        }
        path = self.folder / f"{group}.yaml"
        path.write_text(yaml.safe_dump(content))
        return path

    def fill(self) -> None:
        """Write records to the input topic, and publish their statistics."""
        configuration = load_configuration(self.configured("prepare"), {})
        prepare_topics(configuration, partitions=PARTITIONS)
        values = [orjson.dumps(event) for event in synthetic_discharges(configuration, seed=1).events(RECORDS)]
        rows = ({"value": value, "partition": k % PARTITIONS} for k, value in enumerate(values))
        write(self.bootstrap, configuration.topics.input, rows)
        (self.folder / "sample").write_bytes(b"\n".join(values))
        self.command("calibrate", "--config", self.folder / "prepare.yaml", "--publish", self.folder / "sample")

    def start(self, number: int) -> list[float]:
        """Return the seconds until a worker serves, is ready, has written a record; its CPU seconds and megabytes."""
        path = self.configured(str(number))
        configuration = load_configuration(path, {})
        prepare_topics(configuration, partitions=PARTITIONS)
        with reader(self.bootstrap, configuration.topics.output) as records:
            port = free_ports(1)[0]
            begun = time.perf_counter()
            process = subprocess.Popen(
                [*CLI, "worker", "--config", str(path), "--http-port", str(port)],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            try:
                times = list(milestones(process, port, records, begun))
                return [*times, processor_seconds(process.pid), resident(process.pid)]
            finally:
                terminate(process)


def milestones(process: subprocess.Popen[bytes], port: int, records: Consumer, begun: float) -> Iterator[float]:
    for reached in (
        lambda: status(port) != 0,
        lambda: status(port) == 200,
        lambda: any(message.error() is None for message in records.consume(1, 0.002)),
    ):
        while not reached():
            assert process.poll() is None, "the worker ended"
            assert time.perf_counter() - begun < LIMIT, "the worker does not come up"
            time.sleep(0.005)
        yield time.perf_counter() - begun


def status(port: int) -> int:
    """Return the status of /readyz; 0 while nothing responds."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


@contextlib.contextmanager
def reader(bootstrap: str, topic: str) -> Iterator[Consumer]:
    settings = {"bootstrap.servers": bootstrap, "group.id": secrets.token_hex(4), "isolation.level": "read_committed"}
    consumer = Consumer({**settings, "fetch.wait.max.ms": 10})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    try:
        yield consumer
    finally:
        consumer.close()


def resident(pid: int) -> float:
    """Return the resident memory of a process in megabytes, including shared pages."""
    return int(Path(f"/proc/{pid}/status").read_text().split("VmRSS:")[1].split()[0]) / 1024


if __name__ == "__main__":
    main()
