"""``stream-masker topics`` with a real broker."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from confluent_kafka.admin import ConfigResource
from kafka import KafkaAdminClient
from kafka.admin import NewTopic
from kafka_records import Topics
from support.small_configuration import small_configuration

from stream_masker.cli import main
from stream_masker.service.configuration import parse_configuration
from stream_masker.service.kafka.administration import connect_administration
from stream_masker.service.kafka.topics import BROKER_DEFAULT_REPLICATION, RequiredTopic, await_topics, create_topics

ROLES = ("input", "output", "rejected", "calibration", "statistics", "drift", "provenance")
Run = Callable[..., Result]


@pytest.fixture
def names(topics: Topics) -> dict[str, str]:
    return {role: topics.name(role) for role in ROLES}


@pytest.fixture
def run(kafka: str, names: dict[str, str], tmp_path: Path) -> Run:
    return runner(kafka, names, tmp_path)


def runner(bootstrap: str, names: dict[str, str], folder: Path) -> Run:
    """Return a function that runs ``stream-masker topics`` with these topic names."""
    config = folder / "config.yaml"
    config.write_text(
        f"kafka: {{bootstrap_servers: '{bootstrap}'}}\n"
        f"topics: {names}\n"
        "ontologies: {icd: {source: icd10cm}}\n"
        "attributes: {principal: {path: principal, ontology: icd}}\n"
        "mechanism: {reference: mean}\n"
        "fields: {unlisted: keep}\n"
        "noise_key: position\n"
    )
    return lambda *options: CliRunner().invoke(main, ["topics", "--config", str(config), *options])


def partitions(topics: Topics, name: str) -> int:
    return len(topics.admin.list_topics(name, timeout=60).topics[name].partitions)


def setting(topics: Topics, name: str, key: str) -> str:
    resource = ConfigResource(ConfigResource.Type.TOPIC, name)
    return topics.admin.describe_configs([resource])[resource].result(10)[key].value


def statuses(result: Result) -> dict[str, str]:
    """Return the status of each topic by name."""
    rows = (line.split() for line in result.output.splitlines() if not line.startswith("Error"))
    return {row[1]: row[0] for row in rows}


def test_topics_are_created_with_the_required_settings(run: Run, names: dict[str, str], topics: Topics) -> None:
    result = run("--partitions", "3")
    assert result.exit_code == 0, result.output
    assert statuses(result) == dict.fromkeys(names.values(), "created")
    counts = {role: partitions(topics, name) for role, name in names.items()}
    assert counts == {**dict.fromkeys(ROLES, 1), "input": 3, "output": 3, "rejected": 3}
    policies = {role: setting(topics, name, "cleanup.policy") for role, name in names.items()}
    assert policies == {**dict.fromkeys(ROLES, "delete"), "statistics": "compact"}
    assert int(setting(topics, names["calibration"], "retention.ms")) >= 2 * 24 * 3600 * 1000


def test_second_run_changes_nothing(run: Run, names: dict[str, str]) -> None:
    run()
    again = run()
    assert again.exit_code == 0, again.output
    assert statuses(again) == dict.fromkeys(names.values(), "exists")
    found = json.loads(run("--json").output)["topics"]
    assert {one["topic"]: one["status"] for one in found} == dict.fromkeys(names.values(), "exists")
    assert run("--quiet").output == ""


def test_dry_run_creates_nothing(run: Run, names: dict[str, str], topics: Topics) -> None:
    result = run("--dry-run")
    assert result.exit_code == 0
    assert statuses(result) == dict.fromkeys(names.values(), "create")
    assert not set(names.values()) & topics.admin.list_topics(timeout=60).topics.keys()


def test_output_has_the_partitions_of_an_existing_input(kafka: str, topics: Topics, tmp_path: Path) -> None:
    names = {role: topics.name(role) for role in ROLES} | {"input": topics("input", partitions=5)}
    result = runner(kafka, names, tmp_path)("--partitions", "2")
    assert statuses(result)[names["input"]] == "exists"
    assert partitions(topics, names["output"]) == 5


def test_wrong_topics_are_an_error(kafka: str, topics: Topics, tmp_path: Path) -> None:
    names = {role: topics.name(role) for role in ROLES} | {
        "input": topics("input", partitions=2),
        "output": topics("output", partitions=1),
        "calibration": topics("calibration", partitions=2),
        "statistics": topics("statistics"),
        "provenance": topics("provenance", config={"cleanup.policy": "compact"}),
    }
    result = runner(kafka, names, tmp_path)()
    assert result.exit_code == 1
    assert "4 of 7 topics" in result.output
    assert {role: statuses(result)[name] for role, name in names.items()} == {
        "input": "exists",
        "output": "wrong",
        "rejected": "create",
        "calibration": "wrong",
        "statistics": "wrong",
        "drift": "create",
        "provenance": "wrong",
    }
    assert names["drift"] not in topics.admin.list_topics(timeout=60).topics


def test_broker_error_names_the_topic(run: Run, names: dict[str, str]) -> None:
    result = run("--replication-factor", "7")
    assert result.exit_code == 1
    assert names["input"] in result.output
    assert "replication" in result.output.lower()


def test_each_topic_is_created_with_the_replication_of_the_broker(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """-1 selects ``default.replication.factor`` of the broker."""
    asked: list[int] = []
    create = KafkaAdminClient.create_topics

    def recorded(self: KafkaAdminClient, topics: list[NewTopic]) -> object:
        asked.extend(topic.replication_factor for topic in topics)
        return create(self, topics)

    monkeypatch.setattr(KafkaAdminClient, "create_topics", recorded)
    assert run().exit_code == 0
    assert asked == [-1] * len(ROLES)


def test_topics_created_by_another_process_are_skipped(kafka: str, topics: Topics) -> None:
    configuration = parse_configuration(
        small_configuration("principal", kafka={"bootstrap_servers": kafka}, mechanism={"reference": "mean"})
    )
    existing, new = topics("existing"), topics.name("new")
    with closing(connect_administration(configuration)) as admin:
        required = [RequiredTopic("drift", name, 1, {}) for name in (existing, new)]
        assert create_topics(admin, required, BROKER_DEFAULT_REPLICATION) == {new}
        assert await_topics(admin, [existing, new]).keys() == {existing, new}
