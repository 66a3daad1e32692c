"""The access rules of a configuration, and the commands that add them."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from stream_masker.cli import main
from stream_masker.service.configuration import parse_configuration
from stream_masker.service.configuration.model import Configuration
from stream_masker.service.kafka.names import PrincipalRole, required_access
from stream_masker.service.worker.run import transactional_id

TEXT = """
ontologies: {icd: {source: icd10cm}}
attributes: {code: {path: code, ontology: icd}}
noise_key: position
mechanism: {reference: mean}
fields: {unlisted: drop}
"""


@pytest.fixture
def configuration() -> Configuration:
    return parse_configuration(yaml.safe_load(TEXT))


def allowed(configuration: Configuration, role: PrincipalRole) -> set[tuple[str, str, str]]:
    return {
        (rule.resource, rule.name, operation)
        for rule in required_access(configuration)
        if rule.role is role
        for operation in rule.operations
    }


def test_only_the_calibrator_writes_statistics_and_nobody_of_the_service_reads_masked_records(configuration) -> None:
    topics = configuration.topics
    writers = {role for role in PrincipalRole if ("topic", topics.statistics, "Write") in allowed(configuration, role)}
    readers = {role for role in PrincipalRole if ("topic", topics.output, "Read") in allowed(configuration, role)}
    assert (writers, readers) == ({PrincipalRole.CALIBRATOR}, {PrincipalRole.READER})


def test_transactional_ids_of_workers_have_the_allowed_prefix(configuration) -> None:
    (rule,) = [
        rule
        for rule in required_access(configuration)
        if rule.role is PrincipalRole.WORKER and rule.resource == "transactional-id"
    ]
    assert rule.prefixed
    assert transactional_id(configuration).startswith(rule.name)


def test_commands_are_quoted_for_a_shell(configuration) -> None:
    rule = required_access(configuration)[0]
    command = rule.command("broker:9092", "User:CN=a producer")
    assert "'User:CN=a producer'" in command
    assert shlex.split(command) == [
        *("kafka-acls.sh", "--bootstrap-server", "broker:9092", "--add", "--allow-principal", "User:CN=a producer"),
        *("--operation", "Write", "--topic", configuration.topics.input),
    ]


def test_the_command_prints_one_line_for_each_rule_with_the_named_principals(tmp_path: Path) -> None:
    path = tmp_path / "masker.yaml"
    path.write_text(TEXT)
    command = ["topics", "--config", str(path), "--acls", "--principal", "worker=User:masker"]
    done = CliRunner().invoke(main, command)
    assert json.loads(CliRunner().invoke(main, [*command, "--json"]).stdout)["commands"] == done.stdout.splitlines()
    assert done.exit_code == 0, done.output
    principals = [shlex.split(line)[5] for line in done.output.splitlines()]
    assert len(principals) == len(required_access(parse_configuration(yaml.safe_load(TEXT))))
    assert set(principals) == {
        "User:masker",
        *(f"User:stream-masker-{role}" for role in PrincipalRole if role is not PrincipalRole.WORKER),
    }


@pytest.mark.parametrize("given", ["masker=User:x", "worker", "worker=masker"])
def test_other_roles_and_principals_without_a_type_are_refused(tmp_path: Path, given: str) -> None:
    path = tmp_path / "masker.yaml"
    path.write_text(TEXT)
    done = CliRunner().invoke(main, ["topics", "--config", str(path), "--acls", "--principal", given])
    assert done.exit_code == 2
    assert "is not ROLE=PRINCIPAL with a role of producer, worker" in done.output.replace("\n", " ")
