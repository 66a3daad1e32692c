"""The snippets of the documentation: configurations are valid, events are masked, messages fit, Python runs."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import orjson
import pytest
import yaml
from support.documentation import blocks, configuration_text
from support.documented import (
    InputRecord,
    Masked,
    RecordMasker,
    build_mechanism,
    build_plan,
    consumer_group_id,
    parse_configuration,
    required_topics,
    schema_validator,
)
from support.schemas import load_schema

SECRET = b"a secret of the tests"
EVENTS = ["A flat event", "A nested event", "A FHIR R4 Encounter", "A CloudEvent"]
CONFIGURATIONS = [block for block in blocks("yaml") if not block.title]
OTHER = {block.title: yaml.safe_load(block.text) for block in blocks("yaml") if block.title}
RELEASES = ("discharges.yaml", "emergency.yaml")
MESSAGES = [block for block in blocks("json") if block.title.endswith(".schema.json")]


@pytest.mark.parametrize("block", CONFIGURATIONS, ids=str)
def test_every_configuration_and_every_part_of_one_is_valid(block):
    given = yaml.safe_load(block.text)
    assert parse_configuration(given if is_whole(given) else completed(given))


def is_whole(given):
    return {"ontologies", "attributes", "fields"} <= given.keys()


def completed(part: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration of the documentation, overridden by a part of another one."""
    whole = overridden(yaml.safe_load(configuration_text()), part)
    attributes = {attribute["path"] for attribute in whole["attributes"].values()}
    whole["fields"]["keep"] = [path for path in whole["fields"]["keep"] if path not in attributes]
    return whole


def overridden(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    result = deepcopy(dict(base))
    for key, value in changes.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = overridden(result[key], value) if both else value
    return result


def test_the_readme_shows_the_configuration_of_getting_started():
    (shown,) = blocks("yaml", "Kafka in five minutes", "README.md")
    assert shown.text == configuration_text()


@pytest.mark.parametrize("event", EVENTS)
def test_every_example_is_masked_by_its_configuration(event):
    before = orjson.loads(blocks("json", event)[0].text)
    after = mask(before, blocks("yaml", event)[0].text)
    secrets = ["I21.4", "E11.9", "E119", "Ada Example", "4711", "8222157", "401314000", "NSTEMI"]
    masked = orjson.dumps(after).decode()
    assert [secret for secret in secrets if secret in masked] == []
    assert len(after) >= 3


def mask(event, text):
    """Mask an event by the rounding of the papers, which keeps no code, after calibration on it and on other events."""
    configuration = parse_configuration({**yaml.safe_load(text), "mechanism": {"preset": "paper"}})
    mechanism = build_mechanism(configuration, SECRET)
    masker = RecordMasker(build_plan(configuration), mechanism, SECRET)
    others = [orjson.dumps(event).replace(b"I21.4", code) for code in (b"J18.9", b"S72.001A", b"C50.911")]
    others += [other.replace(code, b"O80") for other in others for code in (b"E11.9", b"E119")]
    statistics = mechanism.compute(masker.count([orjson.dumps(event), *others]).counts, version=1)
    mechanism.restore(mechanism.snapshot_of(statistics))
    (outcome,) = masker.mask("t", 0, [InputRecord(0, orjson.dumps(event))], statistics_version=1).outcomes
    assert isinstance(outcome, Masked)
    return orjson.loads(outcome.value)


@pytest.mark.parametrize("block", MESSAGES, ids=str)
def test_every_message_fits_its_schema(block):
    name = block.title.removesuffix(".schema.json")
    assert load_schema(name)
    schema_validator(name).validate(orjson.loads(block.text))


def test_every_json_block_is_an_event_a_message_or_a_response():
    known = {*EVENTS, "FHIR Bundles", "Rejections"}
    assert {block.heading for block in blocks("json") if not block.title.startswith("/readyz")} == known


def test_the_response_of_readyz_has_its_keys():
    (shown,) = [block for block in blocks("json") if block.title.startswith("/readyz")]
    assert list(orjson.loads(shown.text)) == ["ready", "reasons", "notes"]


@pytest.mark.parametrize("block", blocks("python"), ids=str)
def test_every_python_example_runs(block, capsys):
    exec(compile(block.text, block.page, "exec"), {})
    assert capsys.readouterr().out


def test_the_titled_files_are_those_of_prometheus_and_of_the_chart():
    """``tests/deploy`` renders the chart with the files of values, and checks the alerts."""
    values = [
        "credentials.yaml",
        "keda.yaml",
        "monitoring.yaml",
        "network.yaml",
        "new-secret.yaml",
        "ontologies.yaml",
        "openshift.yaml",
        "registry.yaml",
        "values.yaml",
    ]
    assert sorted(OTHER) == sorted(["prometheus.yml", *values, "shared.yaml", *RELEASES])
    (job,) = OTHER["prometheus.yml"]["scrape_configs"]
    assert job["static_configs"] == [{"targets": ["localhost:9464", "localhost:9465"]}]


def test_the_two_releases_of_the_chart_share_no_topic_and_no_group():
    shared = OTHER["shared.yaml"]["configuration"]
    releases = [parse_configuration(overridden(shared, OTHER[name]["configuration"])) for name in RELEASES]
    topics = [{topic.name for topic in required_topics(release)} for release in releases]
    assert topics[0].isdisjoint(topics[1])
    assert len({consumer_group_id(release) for release in releases}) == 2
    assert len({tuple(release.attributes) for release in releases}) == 2


def test_prometheus_accepts_its_configuration(tmp_path):
    if shutil.which("promtool") is None:
        pytest.skip("install Prometheus (Debian package prometheus): no promtool")
    path = tmp_path / "file.yml"
    path.write_text(yaml.safe_dump(OTHER["prometheus.yml"]))
    done = subprocess.run(["promtool", "check", "config", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
