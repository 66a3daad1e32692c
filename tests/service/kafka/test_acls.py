"""The access that each role needs, as ``topics --acls`` prints it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.small_configuration import small_configuration, write_small

from stream_masker.cli import main
from stream_masker.service.configuration import Configuration, parse_configuration
from stream_masker.service.kafka.access import required_access
from stream_masker.service.worker.run import transactional_id


@pytest.fixture
def configuration() -> Configuration:
    return parse_configuration(small_configuration("a"))


def roles(configuration: Configuration, topic: str, operation: str) -> set[str]:
    rules = required_access(configuration)
    return {rule.role for rule in rules if rule.name == topic and operation in rule.operations.split()}


def test_only_the_calibrator_writes_statistics_and_nobody_of_the_service_reads_masked_records(
    configuration: Configuration,
) -> None:
    assert roles(configuration, configuration.topics.statistics, "Write") == {"calibrator"}
    assert roles(configuration, configuration.topics.output, "Read") == {"reader"}


def test_transactional_ids_of_workers_have_the_allowed_prefix(configuration: Configuration) -> None:
    rules = [rule for rule in required_access(configuration) if rule.resource == "transactional-id"]
    [name] = [rule.name for rule in rules if rule.role == "worker"]
    assert transactional_id(configuration).startswith(name.removesuffix("*"))
    assert name.endswith("*")


def test_the_command_prints_one_line_for_each_rule(tmp_path: Path) -> None:
    command = ["topics", "--config", str(write_small(tmp_path, "a", rows="concept,parent\nroot,\nx,root\n")), "--acls"]
    lines = CliRunner().invoke(main, command).stdout.splitlines()
    rules = json.loads(CliRunner().invoke(main, [*command, "--json"]).stdout)["access"]
    assert [line.split() for line in lines] == [" ".join(rule.values()).split() for rule in rules]
    assert {"role": "worker", "resource": "topic", "name": "discharges", "operations": "Read"} in rules
