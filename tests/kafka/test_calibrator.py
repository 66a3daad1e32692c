"""The calibrator on a real Kafka: committed blocks only, recovery after a crash, one active member."""

from __future__ import annotations

import json
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
import yaml
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka_records import Topics, read_all
from polling import attempts
from sealed_topics import opened, opened_version, sealed_block
from support.processes import Processes, terminate
from support.small_configuration import write_secret, write_small

from stream_masker.core.batch import Batch, Column, Distortion
from stream_masker.core.statistics.counts import Counts, count_batch
from stream_masker.core.statistics.summary import Statistics
from stream_masker.pipeline.calibration.window import Window, WindowLog, window_of
from stream_masker.pipeline.records import Block
from stream_masker.pipeline.wire.blocks import decode_block
from stream_masker.pipeline.wire.reports import decode_drift
from stream_masker.pipeline.wire.statistics import StatisticsMessage
from stream_masker.service.calibrator.bootstrap import publish_snapshot
from stream_masker.service.calibrator.components import build_settings, build_subject
from stream_masker.service.configuration import Configuration, load_configuration
from stream_masker.service.configuration.build import build_mechanism

ONTOLOGY = "concept,parent\na,\nb,a\nc,a\nd,b\ne,b\nf,c\ng,c\nh,d\ni,d\n"
CONCEPTS = 9
RECORDS = 100
"""The number of records in a block."""


@dataclass
class Setting:
    """A configuration with its own topics, and the processes that use it."""

    path: Path
    bootstrap: str
    processes: Processes

    @property
    def configuration(self) -> Configuration:
        return load_configuration(self.path, {})

    def start(self, name: str) -> Calibrator:
        port = free_port()
        path = changed(self.path, name, {"http": {"port": port}})
        return Calibrator(name, port, self.processes.start(name, "calibrator", "--config", str(path)), self)

    def versions(self) -> list[StatisticsMessage]:
        records = read_all(self.bootstrap, self.configuration.topics.statistics)
        return [opened_version(self.configuration, record) for record in records if record.value is not None]

    def removed_versions(self) -> list[int]:
        records = read_all(self.bootstrap, self.configuration.topics.statistics)
        return [int(record.key) for record in records if record.value is None]

    def blocks(self) -> list[tuple[int, int, Block]]:
        """Return every committed block with its offset and timestamp."""
        taxonomies = build_subject(self.configuration).taxonomies
        records = read_all(self.bootstrap, self.configuration.topics.calibration)
        return [(r.offset, r.timestamp, decode_block(opened(self.configuration, r), taxonomies)) for r in records]

    def wait(self, reached: Callable[[], bool], what: str, timeout: float = 240.0) -> None:
        for _ in attempts(timeout):
            if reached():
                return
            failed = [process.args for process in self.processes.running if (process.poll() or 0) > 0]
            assert not failed, f"ended while waiting for {what}: {failed}\n{self.processes.logs()}"
        raise AssertionError(f"no {what} after {timeout} s\n{self.processes.logs()}")

    def wait_for_version(self, version: int) -> StatisticsMessage:
        self.wait(lambda: any(v.version == version for v in self.versions()), f"version {version}")
        return next(v for v in self.versions() if v.version == version)


@dataclass
class Calibrator:
    """A running calibrator and its HTTP endpoints."""

    name: str
    port: int
    process: Any
    setting: Setting

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def ready(self) -> dict[str, Any]:
        status, body = self.get("/readyz")
        return {"status": status, **(json.loads(body) if body else {})}

    def wait_until_ready(self) -> None:
        self.setting.wait(lambda: self.ready()["status"] == 200, f"readiness of {self.name}")

    def is_standby(self) -> bool:
        return any("standby" in note for note in self.ready().get("notes", ()))

    def metric(self, name: str) -> float:
        lines = self.get("/metrics")[1].splitlines()
        return next((float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(f"{name} ")), float("nan"))

    def exports(self, name: str) -> bool:
        return f"\n{name}" in self.get("/metrics")[1]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class Worker:
    """Writes blocks in transactions, like a worker."""

    def __init__(self, setting: Setting, seed: int = 1) -> None:
        configuration = setting.configuration
        self.configuration = configuration
        self.topic = configuration.topics.calibration
        self.taxonomies = build_subject(configuration).taxonomies
        self.random = np.random.default_rng(seed)
        self.next = 0
        self.producer = Producer(
            {"bootstrap.servers": setting.bootstrap, "transactional.id": f"{self.topic}-{seed}", "log_level": 0}
        )
        self.producer.init_transactions(30)

    def write(self, blocks: int, *, commit: bool = True) -> None:
        """Write one transaction with this number of blocks."""
        self.begin(blocks)
        (self.producer.commit_transaction if commit else self.producer.abort_transaction)(30)

    def begin(self, blocks: int) -> None:
        self.producer.begin_transaction()
        for _ in range(blocks):
            block = self.block()
            self.producer.produce(self.topic, **sealed_block(self.configuration, block, self.taxonomies), partition=0)
        self.producer.flush(30)

    def block(self) -> Block:
        first = self.next
        self.next += RECORDS
        counts, masked = self.counts(), self.counts()
        distortions = (Distortion(RECORDS, 5.0, 4.0), Distortion(RECORDS, 6.0, 5.0))
        now = int(time.time() * 1000)
        return Block("discharges", 0, first, first + RECORDS - 1, now, 1, counts, masked, distortions, {})

    def counts(self) -> Counts:
        skewed = self.random.dirichlet(np.ones(CONCEPTS))
        columns = tuple(
            Column(self.random.choice(CONCEPTS, RECORDS, p=skewed).astype(np.int32)) for _ in self.taxonomies
        )
        return count_batch(Batch(RECORDS, columns), (CONCEPTS, CONCEPTS))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def changed(path: Path, name: str, changes: dict[str, dict[str, Any]]) -> Path:
    """Write a copy of a configuration file with changed values."""
    content = yaml.safe_load(path.read_text())
    for section, values in changes.items():
        content[section] = {**content.get(section, {}), **values}
    other = path.with_name(f"{name}.yaml")
    other.write_text(yaml.safe_dump(content))
    return other


def write_configuration(folder: Path, bootstrap: str, names: dict[str, str]) -> Path:
    write_secret(folder, content=b"a secret of the calibrator's tests")
    window = {"window_records": 1000, "every_records": 300, "every_seconds": 3600, "min_records": 200}
    return write_small(
        folder,
        *("one", "two"),
        rows=ONTOLOGY,
        kafka={"bootstrap_servers": bootstrap},
        topics=names,
        internal_topics={"secret": {"file": "secret"}},
        calibration={**window, "keep_versions": 3, "core_share": 1},
    )


@pytest.fixture
def setting(tmp_path: Path, kafka: str, topics: Topics) -> Any:
    compacted = {"cleanup.policy": "compact"}
    names = {
        "input": topics("input", partitions=2),
        "calibration": topics("calibration"),
        "statistics": topics("statistics", config=compacted),
        "drift": topics("drift"),
    }
    with Processes(tmp_path) as processes:
        yield Setting(write_configuration(tmp_path, kafka, names), kafka, processes)


def uninterrupted(setting: Setting) -> list[Window]:
    """Return the windows that an uninterrupted calibrator would publish."""
    log = WindowLog(build_settings(setting.configuration))
    cuts = [log.on_block(*written) for written in setting.blocks()]
    return [cut for cut in cuts if cut is not None]


def recomputed(setting: Setting, windows: Sequence[Window]) -> list[Statistics]:
    """Return the statistics of the windows, each recomputed from the blocks on the topic."""
    mechanism, bounds = build_mechanism(setting.configuration), build_settings(setting.configuration)
    topic, done = setting.blocks(), list[Statistics]()
    for version, window in enumerate(windows, start=1):
        done.append(mechanism.compute(window_of(topic, bounds, window.range).original, version=version))
        mechanism.restore(mechanism.snapshot_of(done[-1]))
    return done


def test_restarted_calibrator_publishes_the_same_statistics_as_an_uninterrupted_one(setting: Setting) -> None:
    worker = Worker(setting)
    first = setting.start("first")
    for _ in range(4):
        worker.write(2)
    setting.wait_for_version(2)
    first.kill()
    for _ in range(3):
        worker.write(2)
    second = setting.start("second")
    setting.wait_for_version(4)
    worker.write(4)
    setting.wait_for_version(6)
    assert terminate(second.process) == 0, setting.processes.logs()
    windows, versions = uninterrupted(setting), setting.versions()
    assert [v.version for v in versions] == [1, 2, 3, 4, 5, 6]
    assert [v.blocks for v in versions] == [w.range for w in windows]
    assert [v.statistics.to_dict() for v in versions] == [s.to_dict() for s in recomputed(setting, windows)]
    assert {v.source for v in versions} == {"blocks"}
    assert [v.baseline for v in versions] == [1] * 6
    check_drift_reports(setting, versions)
    assert setting.removed_versions() == [2, 3]
    assert "Traceback" not in setting.processes.logs()


def check_drift_reports(setting: Setting, versions: list[StatisticsMessage]) -> None:
    """Check one report per version, with drift from previous and baseline, and the utility of the masked window."""
    records = read_all(setting.bootstrap, setting.configuration.topics.drift)
    reports = [decode_drift(record.value) for record in records]
    assert [r.version for r in reports] == [v.version for v in versions]
    assert [(r.previous or {}).get("since") for r in reports] == [None, 1, 2, 3, 4, 5]
    assert [(r.baseline or {}).get("since") for r in reports] == [None, 1, 1, 1, 1, 1]
    assert all(r.utility["attributes"]["one"]["rmse_actual"] == pytest.approx(0.05**0.5, abs=0.01) for r in reports)
    assert [r.records for r in reports] == [v.statistics.records for v in versions]


def test_blocks_of_aborted_transactions_are_ignored_and_the_offset_keeps_up_with_small_ones(setting: Setting) -> None:
    worker, other = Worker(setting), Worker(setting, seed=2)
    worker.write(1)
    worker.write(3, commit=False)
    running = setting.start("calibrator")
    running.wait_until_ready()
    other.begin(3)
    time.sleep(1.0)
    assert setting.versions() == []
    other.producer.abort_transaction(30)
    worker.write(3, commit=False)
    worker.write(1)
    version = setting.wait_for_version(1)
    assert version.statistics.records == 2 * RECORDS
    assert (version.blocks.count, version.blocks.last - version.blocks.first) > (2, 6)
    assert running.metric('stream_masker_blocks_read_total{outcome="merged"}') == 2
    assert len(setting.blocks()) == 2
    for _ in range(60):
        worker.write(1)
    topic = setting.configuration.topics.calibration
    reader = Consumer({"bootstrap.servers": setting.bootstrap, "group.id": f"{topic}.calibrator", "log_level": 0})
    end = reader.get_watermark_offsets(TopicPartition(topic, 0), 30)[1]
    setting.wait(lambda: reader.committed([TopicPartition(topic, 0)], 30)[0].offset >= end - 1, "committed offset")
    assert reader.committed([TopicPartition(topic, 0)], 30)[0].offset <= end
    reader.close()


def test_standby_takes_over(setting: Setting) -> None:
    worker = Worker(setting)
    first = setting.start("first")
    first.wait_until_ready()
    second = setting.start("second")
    setting.wait(lambda: first.is_standby() != second.is_standby() and second.ready()["status"] == 200, "one standby")
    active, standby = (second, first) if first.is_standby() else (first, second)
    worker.write(2)
    setting.wait_for_version(1)
    assert standby.metric('stream_masker_statistics_published_total{source="blocks"}') == 0
    assert active.exports("stream_masker_statistics_version")
    assert not standby.exports("stream_masker_statistics_version")
    active.kill()
    worker.write(3)
    assert setting.wait_for_version(2).blocks.first == setting.versions()[0].blocks.first
    assert not standby.is_standby()
    setting.wait(lambda: standby.metric("stream_masker_statistics_version") == 2, "the version of the new one")
    assert [v.version for v in setting.versions()] == [1, 2]
    assert terminate(standby.process) == 0


def test_sampled_statistics_are_replaced_by_blocks(setting: Setting) -> None:
    input_topic = setting.configuration.topics.input
    producer = Producer({"bootstrap.servers": setting.bootstrap})
    for i in range(1200):
        event = {"one": "abcdefghi"[i % 9], "two": "ihgfedcba"[i % 9]} if i % 6 else {"one": "SECRET", "two": "a"}
        producer.produce(input_topic, orjson.dumps(event), partition=i % 2)
    producer.flush(30)
    running = setting.start("calibrator")
    bootstrap = setting.wait_for_version(1)
    assert (bootstrap.source, bootstrap.blocks, bootstrap.statistics.records) == ("bootstrap", None, 1000)
    assert sampled_groups(setting.bootstrap, input_topic) == []
    worker = Worker(setting)
    worker.write(3)
    version = setting.wait_for_version(2)
    assert (version.source, version.statistics.records) == ("blocks", 300)
    assert publish_snapshot(setting.configuration, setting.versions()[0].snapshot) == 3
    worker.write(3)
    assert setting.wait_for_version(4).blocks.first == version.blocks.first
    assert [v.source for v in setting.versions()] == ["bootstrap", "blocks", "file", "blocks"]
    assert "SECRET" not in setting.processes.logs() + running.get("/metrics")[1]


def sampled_groups(bootstrap: str, topic: str) -> list[str]:
    """Return the consumer groups that have committed offsets of a topic."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    groups = [group.group_id for group in admin.list_consumer_groups().result(60).valid]
    return [group for group in groups if topic in committed_topics(admin, group)]


def committed_topics(admin: AdminClient, group: str) -> set[str]:
    from confluent_kafka import ConsumerGroupTopicPartitions

    answer = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(60)
    return {partition.topic for partition in answer.topic_partitions}


def test_missing_topic_exits_with_1(setting: Setting, topics: Topics) -> None:
    missing = topics.name("missing")
    path = changed(setting.path, "other", {"topics": {"calibration": missing}, "http": {"port": 0}})
    done = setting.processes.run("calibrator", "--config", str(path), code=1)
    assert f"topics do not exist: {missing}: `stream-masker topics`" in done.stderr
    assert "Traceback" not in done.stderr


def test_unreachable_broker_is_retried(setting: Setting) -> None:
    path = changed(setting.path, "alone", {"kafka": {"bootstrap_servers": f"127.0.0.1:{free_port()}"}})
    alone = Setting(path, setting.bootstrap, setting.processes).start("alone")
    setting.wait(lambda: "no broker answers" in alone.get("/readyz")[1], "message about the broker")
    assert terminate(alone.process) == 0
    assert "Traceback" not in setting.processes.log("alone")
