"""The access that each role needs, as ``topics --acls`` prints it."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner
from support.small_configuration import write_small

from stream_masker.cli import main
from stream_masker.service.configuration import load_configuration
from stream_masker.service.worker.run import transactional_id


def test_each_role_has_the_access_that_it_needs_and_no_other(tmp_path: Path) -> None:
    """Only the calibrator writes statistics, and nobody of the service reads masked records."""
    path = write_small(tmp_path, "a", rows="concept,parent\nroot,\nx,root\n")
    command, configuration = ["topics", "--config", str(path), "--acls"], load_configuration(path, {})
    lines = CliRunner().invoke(main, command).stdout.splitlines()
    rules = json.loads(CliRunner().invoke(main, [*command, "--json"]).stdout)["access"]
    assert [line.split() for line in lines] == [" ".join(rule.values()).split() for rule in rules]
    assert {"role": "worker", "resource": "topic", "name": "discharges", "operations": "Read"} in rules
    for topic, operation, role in (("statistics", "Write", "calibrator"), ("output", "Read", "reader")):
        name = getattr(configuration.topics, topic)
        of_topic = (one for one in rules if one["name"] == name and operation in one["operations"].split())
        assert {one["role"] for one in of_topic} == {role}
    of_worker = [one for one in rules if one["role"] == "worker"]
    [prefix] = [one["name"] for one in of_worker if one["resource"] == "transactional-id"]
    assert prefix.endswith("*")
    assert transactional_id(configuration).startswith(prefix.removesuffix("*"))
