"""``stream-masker topics`` with a real broker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka.admin import ConfigResource, NewTopic, ResourceType
from kafka_broker import Cluster
from service import Service, service, wait

ROLES = ("input", "output", "rejected", "calibration", "statistics", "drift")


def statuses(service: Service, *options: str, code: int = 0) -> dict[str, str]:
    """Run the command; return the status of the topic of each role."""
    lines = service.command("topics", *options, code=code).output.splitlines()
    found = {line.split()[1]: line.split()[0] for line in lines if not line.startswith("Error")}
    return {role: found[name] for role, name in service.topics.items()}


def partitions(service: Service) -> dict[str, int]:
    there = service.admin.list_topics(timeout=60).topics
    return {role: len(there[name].partitions) for role, name in service.topics.items() if name in there}


def setting(service: Service, role: str, name: str) -> str:
    [described] = service.admin.describe_configs([ConfigResource(ResourceType.TOPIC, service.topics[role])]).values()
    return str(described.result(60)[name].value)


def create(service: Service, role: str, count: int = 1, **config: str) -> None:
    """Create a topic without the command, with properties written with underscores."""
    named = {key.replace("_", "."): text for key, text in config.items()}
    for future in service.admin.create_topics([NewTopic(service.topics[role], count, config=named)]).values():
        future.result(60)
    wait(lambda: partitions(service).get(role) == count, f"topic {role}")


def test_topics_are_created_with_the_required_settings(service: Service) -> None:
    assert statuses(service, "--partitions", "3") == dict.fromkeys(ROLES, "created")
    assert partitions(service) == {**dict.fromkeys(ROLES, 1), "input": 3, "output": 3, "rejected": 3}
    policies = {role: setting(service, role, "cleanup.policy") for role in ROLES}
    assert policies == {**dict.fromkeys(ROLES, "delete"), "statistics": "compact"}
    assert int(setting(service, "calibration", "retention.ms")) >= 2 * 24 * 3600 * 1000


def test_second_run_changes_nothing(service: Service) -> None:
    service.create()
    assert statuses(service) == dict.fromkeys(ROLES, "exists")
    found = json.loads(service.command("topics", "--json").output)["topics"]
    assert {one["topic"]: one["status"] for one in found} == dict.fromkeys(service.topics.values(), "exists")
    assert service.command("topics", "--quiet").output == ""


def test_dry_run_creates_nothing(service: Service) -> None:
    assert statuses(service, "--dry-run") == dict.fromkeys(ROLES, "create")
    assert partitions(service) == {}


def test_output_has_the_partitions_of_an_existing_input(service: Service) -> None:
    create(service, "input", 5)
    assert statuses(service, "--partitions", "2") == {**dict.fromkeys(ROLES, "created"), "input": "exists"}
    assert partitions(service)["output"] == 5


def test_wrong_topics_are_an_error(service: Service) -> None:
    create(service, "input", 2)
    create(service, "output")
    create(service, "calibration", 2, cleanup_policy="compact")
    create(service, "statistics")
    wrong = dict.fromkeys(("output", "calibration", "statistics"), "wrong")
    assert statuses(service, code=1) == {"input": "exists", "rejected": "create", "drift": "create", **wrong}
    said = service.command("topics", code=1).output
    assert "3 of 6 topics" in said
    assert "cleanup.policy=compact" in said
    assert partitions(service).keys() == {"input", *wrong}


def test_broker_error_names_the_topic(service: Service) -> None:
    said = service.command("topics", "--replication-factor", "7", code=1).output
    assert service.topics["input"] in said
    assert "replication" in said.lower()


@pytest.mark.exhaustive
def test_each_topic_is_created_with_the_replication_of_the_broker(kafka_cluster: Cluster, tmp_path: Path) -> None:
    """``default.replication.factor`` of the three brokers is 3."""
    here = service(kafka_cluster.bootstrap, tmp_path)
    here.create()
    there = here.admin.list_topics(timeout=60).topics
    replicas = {len(one.replicas) for name in here.topics.values() for one in there[name].partitions.values()}
    assert replicas == {3}
    here.end()


def test_commands_that_create_the_topics_at_the_same_time_all_succeed(service: Service) -> None:
    several = [service.start("topics", f"number-{number}") for number in range(3)]
    for one in several:
        one.process.join(120)
        assert one.process.exitcode == 0, one.log
    assert partitions(service).keys() == {*ROLES}
