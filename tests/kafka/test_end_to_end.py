"""End to end on a real Kafka: real discharges through two workers, while the calibrator recalibrates."""

from __future__ import annotations

import gzip
import secrets
from collections import Counter
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import yaml
from confluent_kafka import Consumer, TopicPartition
from kafka_records import read_all, reader_properties
from sealed_topics import opened, opened_version
from support.data import data_file
from support.processes import Processes, terminate
from support.small_configuration import write_secret

from stream_masker.pipeline.masker import RecordMasker
from stream_masker.pipeline.wire.blocks import decode_block
from stream_masker.pipeline.wire.reports import decode_drift, decode_rejection
from stream_masker.service.configuration import load_configuration
from stream_masker.service.configuration.build import build_mechanism, build_plan, build_taxonomies
from stream_masker.service.configuration.secret import masking_secret

DISCHARGES = 12_000
PAIRS = 11_922
"""Of the first discharges, those with both diagnoses."""
WINDOW = 4_000


@pytest.fixture
def config(tmp_path, kafka, topics):
    """The configuration file for both diagnoses of the real discharges, with rounding ``ceil``."""
    write_secret(tmp_path, content=secrets.token_bytes(32))
    names = ("input", "output", "rejected", "calibration", "statistics", "drift")
    attribute = {"ontology": "icd", "alpha": 0.3, "unknown": "ancestor"}
    content = {
        "kafka": {"bootstrap_servers": kafka},
        "topics": {name: topics.name(name) for name in names},
        "ontologies": {"icd": {"source": str(data_file("icd9cm-diagnoses.csv.gz"))}},
        "attributes": {"principal": {"path": "diag_1", **attribute}, "secondary": {"path": "diag_2", **attribute}},
        "fields": {"keep": ["encounter_id", "age"], "pseudonymize": ["patient_nbr"], "unlisted": "drop"},
        "noise_key": "position",
        "mechanism": {"reference": "pair", "rounding": "ceil"},
        "calibration": {
            "window_records": WINDOW,
            "every_records": WINDOW // 2,
            "every_seconds": 2,
            "min_records": 1_000,
        }
        | {"sampling": False, "core_share": 1},
        "worker": {"batch_records": 1_500},
        "produce": {"key": "patient_nbr", "null_values": ["?"]},
        "secret": {"file": "secret"},
        "http": {"port": 0},
    }
    path = tmp_path / "stream-masker.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def test_real_discharges_are_masked_exactly_once_under_published_statistics(tmp_path: Path, config, kafka) -> None:
    configuration = load_configuration(config, {})
    names = configuration.topics
    with Processes(tmp_path) as processes:
        option = ("--config", str(config))
        processes.run("prepare", *option)
        processes.run("topics", *option, "--partitions", "4")
        children = [
            processes.start(name, name.split("-")[0], *option) for name in ("calibrator", "worker-1", "worker-2")
        ]
        with gzip.open(data_file("uci-discharges.csv.gz"), "rb") as lines:
            (tmp_path / "first.csv").write_bytes(b"".join(islice(lines, 1 + DISCHARGES)))
        produced = processes.run("produce", *option, str(tmp_path / "first.csv"))
        assert f"{DISCHARGES:,}" in produced.stderr + produced.stdout
        outcomes = OutcomeCounter(kafka, names.output, names.rejected)
        processes.wait(lambda: outcomes.records() >= DISCHARGES, "outcome of every record")
        outcomes.close()
        settled = lambda: decode_last(kafka, configuration).blocks is not None  # noqa: E731
        processes.wait(settled, "statistics from blocks")
        assert [terminate(child) for child in children] == [0, 0, 0], processes.logs()
        check_logs(processes)
    originals = read_all(kafka, names.input)
    masked, rejected = read_all(kafka, names.output), read_all(kafka, names.rejected)
    check_exactly_once(originals, masked, rejected)
    check_order_and_time(originals, masked)
    check_no_original_code_remains(configuration, originals, masked)
    versions = check_versions(kafka, configuration, masked)
    check_statistics(configuration, kafka, originals, versions)


class OutcomeCounter:
    """Counts the committed records of several topics by reading them."""

    def __init__(self, bootstrap: str, *topics: str) -> None:
        self.bootstrap = bootstrap
        self.topics = topics
        self.consumer = Consumer(reader_properties(bootstrap, "read_committed"))
        self.seen = 0
        parts = [
            TopicPartition(topic, partition, 0)
            for topic in topics
            for partition in self.consumer.list_topics(topic, timeout=60).topics[topic].partitions
        ]
        self.consumer.assign(parts)

    def records(self) -> int:
        while batch := [m for m in self.consumer.consume(20_000, 0.2) if m.error() is None]:
            self.seen += len(batch)
        return self.seen

    def close(self) -> None:
        self.consumer.close()


def decode_last(kafka, configuration):
    records = read_all(kafka, configuration.topics.statistics)
    messages = [opened_version(configuration, record) for record in records if record.value]
    return max(messages, key=lambda message: message.version)


def check_logs(processes: Processes) -> None:
    """No log line contains a value, checked with a frequent code."""
    for name in ("calibrator", "worker-1", "worker-2"):
        assert "250.83" not in processes.log(name)
        assert "Traceback" not in processes.log(name)


def check_exactly_once(originals, masked, rejected) -> None:
    assert len(originals) == DISCHARGES
    by_location = {(record.partition, record.offset): record.json["encounter_id"] for record in originals}
    blamed = [decode_rejection(record.value) for record in rejected]
    done = Counter(record.json["encounter_id"] for record in masked)
    done.update(by_location[partition, one.offset] for _, partition, one in blamed)
    assert done == Counter(by_location.values())
    assert len(rejected) == DISCHARGES - PAIRS
    assert {one.reason for _, _, one in blamed} == {"missing"}


def check_order_and_time(originals, masked) -> None:
    originals_by_id = {record.json["encounter_id"]: record for record in originals}
    matched = [(record, originals_by_id[record.json["encounter_id"]]) for record in masked]
    assert all(after.partition == before.partition for after, before in matched)
    assert all(after.timestamp == before.timestamp for after, before in matched)
    offsets = [(before.partition, before.offset) for _, before in matched]
    assert offsets == sorted(offsets)
    assert len({record.partition for record in masked}) == 4


def check_no_original_code_remains(configuration, originals, masked) -> None:
    """Rounding ``ceil`` never keeps a concept, and only configured fields are kept."""
    plan = build_plan(configuration)
    before = {record.json["encounter_id"]: record for record in originals}
    for record in masked:
        after, original = record.json, before[record.json["encounter_id"]]
        assert set(after) == {"encounter_id", "age", "patient_nbr", "diag_1", "diag_2"}
        assert after["patient_nbr"] != original.json["patient_nbr"]
        assert record.key != original.key
        for attribute, field in zip(plan.attributes, ("diag_1", "diag_2"), strict=True):
            find = attribute.concepts.resolve
            assert find(after[field])[0] != find(original.json[field])[0]


def check_versions(kafka, configuration, masked):
    """Every masked record names a published version of this configuration; versions follow the first one."""
    published = {
        message.version: message
        for record in read_all(kafka, configuration.topics.statistics)
        if record.value and (message := opened_version(configuration, record))
    }
    used = Counter(int(record.headers["stream-masker-version"]) for record in masked)
    assert set(used) <= set(published)
    assert len(published) >= 2
    hashes = {record.headers["stream-masker-configuration"].decode() for record in masked}
    assert hashes == {configuration.hash} == {message.configuration for message in published.values()}
    drifts = [decode_drift(record.value) for record in read_all(kafka, configuration.topics.drift)]
    assert {report.version for report in drifts} == set(published)
    return published


def check_statistics(configuration, kafka, originals, versions) -> None:
    """Each version from blocks equals the statistics computed in one process from the records of its block range."""
    mechanism = build_mechanism(configuration)
    masker = RecordMasker(
        build_plan(configuration), mechanism, masking_secret(configuration, configuration.topics.single)
    )
    taxonomies = build_taxonomies(configuration)
    blocks = {
        record.offset: decode_block(opened(configuration, record), taxonomies)
        for record in read_all(kafka, configuration.topics.calibration)
    }
    assert sum(block.original.records for block in blocks.values()) == PAIRS
    values = {(record.partition, record.offset): record.value for record in originals}
    for message in versions.values():
        if message.blocks is None:
            assert (message.version, message.source) == (1, "bootstrap")
            continue
        window = [blocks[o] for o in sorted(blocks) if message.blocks.first <= o <= message.blocks.last]
        assert len(window) == message.blocks.count
        locations = [(b.partition, o) for b in window for o in range(b.first_offset, b.last_offset + 1)]
        expected = mechanism.compute(
            masker.count([values[location] for location in locations]).counts, version=message.version
        )
        assert WINDOW // 2 < message.statistics.records == expected.records <= WINDOW or message.version < 4
        assert message.statistics.mean == expected.mean
        assert message.statistics.variance == expected.variance
        np.testing.assert_array_equal(message.statistics.covariance, expected.covariance)
        np.testing.assert_array_equal(message.statistics.correlation, expected.correlation)
