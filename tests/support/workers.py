"""Mask workers on a real broker: topics, a configuration with a small ontology, statistics, and worker threads."""

from __future__ import annotations

import json
import logging
import random
import re
import threading
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import yaml
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType
from kafka_records import QUIET, Record, read_all, write
from polling import wait
from processes import Processes
from prometheus_client import CollectorRegistry

from stream_masker.pipeline.messages import StatisticsMessage, encode_statistics, fingerprints
from stream_masker.service.configuration import Configuration, load_configuration
from stream_masker.service.configuration.secret import topic_seal
from stream_masker.service.masking import Masking
from stream_masker.service.observability.health import Health
from stream_masker.service.worker.run import run_worker

SECRET = b"a secret of the worker's tests"
START = time.time_ns() // 1_000_000 - 3_600_000
"""The timestamp of the first event, an hour ago: records older than a topic's retention are deleted."""

TIMES = {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 500}
"""Members learn of a rebalance by heartbeats; two per second keep the tests short."""

BRANCHES, LEAVES = 9, 9
CODES = [f"C{i}{j}" for i in range(BRANCHES) for j in range(LEAVES)]


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


@dataclass
class Setting:
    """The topics of one test and the configuration that names them."""

    bootstrap: str
    folder: Path
    data: dict[str, Any]
    file: str = "discharges.yaml"

    @property
    def path(self) -> Path:
        return self.folder / self.file

    @property
    def topics(self) -> Mapping[str, str]:
        return self.data["topics"]

    def configuration(self, **sections: Any) -> Configuration:
        """Write the configuration, with whole sections replaced, to ``path``, and load it."""
        self.path.write_text(yaml.safe_dump({**self.data, **sections}))
        return load_configuration(self.path, {})

    def create(self, partitions: int = 4, **others: int) -> None:
        """Create the worker's topics; ``others``: the number of partitions of single ones."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, **QUIET})
        counts = {"input": partitions, "output": partitions, "rejected": 1, "calibration": 1, "statistics": 1, **others}
        new = [NewTopic(self.topics[role], count) for role, count in counts.items() if count]
        for future in admin.create_topics(new).values():
            future.result(60)

    def alter(self, role: str, **config: str) -> None:
        """Set properties of a topic, written with underscores, and wait until the broker has applied them."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, **QUIET})
        wait(lambda: bool(self._properties(admin, role)), f"topic {role}")
        named = {name.replace("_", "."): setting for name, setting in config.items()}
        resource = ConfigResource(ResourceType.TOPIC, self.topics[role], set_config=named)
        for future in admin.alter_configs([resource]).values():
            future.result(60)
        wait(lambda: named.items() <= self._properties(admin, role).items(), f"{', '.join(named)} of {role}")

    def _properties(self, admin: AdminClient, role: str) -> dict[str, str]:
        """The properties of a topic; none while the broker that answers does not know the topic yet."""
        [future] = admin.describe_configs([ConfigResource(ResourceType.TOPIC, self.topics[role])]).values()
        try:
            return {name: entry.value for name, entry in future.result(60).items()}
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
            return {}

    def delete_records(self, partition: int, before: int) -> None:
        """Delete the records of an input partition before an offset, as its retention does."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, **QUIET})
        for future in admin.delete_records([TopicPartition(self.topics["input"], partition, before)]).values():
            future.result(60)

    def remove(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap, **QUIET})
        there = admin.list_topics(timeout=60).topics
        names = [name for name in self.topics.values() if name in there]
        for future in admin.delete_topics(names).values() if names else ():
            future.result(60)

    def produce(self, numbers: range, partitions: int = 4, **more: Any) -> None:
        """Publish events; each goes to the partition of its number modulo ``partitions``."""
        records = ({"value": value(i), "partition": i % partitions, "timestamp": START + i, **more} for i in numbers)
        write(self.bootstrap, self.topics["input"], records)

    def publish(self, version: int) -> None:
        """Publish the statistics of a sample of events."""
        write(self.bootstrap, self.topics["statistics"], [statistics_record(self.configuration(), version)])

    def read(self, role: str, isolation: str = "read_committed") -> list[Record]:
        return read_all(self.bootstrap, self.topics[role], isolation=isolation)

    def ended(self) -> int:
        """Return the number of records that are masked or rejected."""
        return len(self.read("output")) + len(self.read("rejected"))


def setting(bootstrap: str, folder: Path) -> Setting:
    """Return a setting with unique topic names; no topic is created yet."""
    (folder / "ontology.csv").write_text(ontology())
    (folder / "secret").write_bytes(SECRET)
    (folder / "secret").chmod(0o600)
    unique = uuid.uuid4().hex[:8]
    roles = ("input", "output", "rejected", "calibration", "statistics", "drift")
    attributes = {name: {"path": name, "ontology": "small"} for name in ("first", "second")}
    data = {
        "kafka": {"bootstrap_servers": bootstrap, "properties": dict(TIMES)},
        "topics": {role: f"{role}-{unique}" for role in roles},
        "ontologies": {"small": {"source": "ontology.csv"}},
        "attributes": attributes,
        "fields": {"keep": ["id"], "pseudonymize": ["patient.id"], "unlisted": "drop"},
        "noise_key": "position",
        "mechanism": {"reference": "mean"},
        "secret": {"file": "secret"},
        "http": {"port": 0},
        "worker": {"batch_delay": 0.2, "instance": f"one-{unique}"},
    }
    created = Setting(bootstrap, folder, data)
    created.configuration()
    return created


def statistics_record(configuration: Configuration, version: int) -> dict[str, bytes]:
    """Return the key and the sealed value of the statistics of a sample of events."""
    masking = Masking(configuration)
    counts = masking.masker_of("sample").count([value(number) for number in range(300)]).counts
    message = StatisticsMessage(
        version=version,
        mechanism=masking.mechanism.name,
        configuration=configuration.hash,
        published=time.time_ns() // 1_000_000,
        source="file",
        blocks=None,
        taxonomies=fingerprints(masking.taxonomies),
        baseline=1,
        snapshot=masking.mechanism.snapshot_of(masking.mechanism.compute(counts, version=version)),
    )
    seal = topic_seal(configuration, configuration.topics.statistics)
    return {"key": message.key, "value": seal.seal(message.key, encode_statistics(message))}


class Running:
    """A worker on its own thread."""

    def __init__(self, configuration: Configuration) -> None:
        self.registry = CollectorRegistry()
        self.health = Health()
        self.stop = threading.Event()
        self.failure: BaseException | None = None
        self.thread = threading.Thread(target=self._run, args=(configuration,), daemon=True)

    def _run(self, configuration: Configuration) -> None:
        try:
            run_worker(configuration, registry=self.registry, health=self.health, stop=self.stop)
        except BaseException as failure:
            logging.getLogger(__name__).exception("the worker failed")
            self.failure = failure

    def metric(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(f"stream_masker_{name}", labels) or 0.0

    def reaches(self, records: int) -> None:
        """Wait until this number of input records is committed; more is an error."""
        self.wait(lambda: self.metric("records_in_total") >= records, f"{records} records")
        assert self.metric("records_in_total") == records

    def wait(self, reached: Callable[[], bool], what: str) -> None:
        """Wait until ``reached()``; fail at once if the worker has failed."""
        wait(lambda: self.failure is not None or reached(), what)
        assert self.failure is None, self.failure

    def end(self) -> None:
        self.stop.set()
        self.thread.join(60)
        assert not self.thread.is_alive(), "the worker does not stop"


@contextmanager
def running(configuration: Configuration) -> Iterator[Running]:
    """Run a worker while the ``with`` block runs; it must stop in order."""
    worker = Running(configuration)
    worker.thread.start()
    try:
        yield worker
    finally:
        worker.end()
    assert worker.failure is None, worker.failure


def get(port: int, path: str) -> tuple[int, Any]:
    """Return the HTTP status and the JSON of a process's response."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def http_port(processes: Processes, name: str) -> int:
    """Return the HTTP port of a process, from its log."""
    wait(lambda: "http://127.0.0.1:" in processes.log(name), "the log line with the port")
    return int(re.search(r"http://127\.0\.0\.1:(\d+)", processes.log(name))[1])


def ids(records: list[Record]) -> list[int]:
    """Return the ids of the events, without tombstones."""
    return [record.json["id"] for record in records if record.value is not None]
