"""``stream-masker config``."""

from __future__ import annotations

import json
import re

import pytest
import yaml
from support.file_commands import run
from support.small_configuration import write_secret

pytestmark = pytest.mark.usefixtures("config")

CONFIGURATION = """
ontologies: {small: {source: small.csv}}
attributes:
  principal: {path: p.code, ontology: small}
  secondary: {path: "s[*].code", ontology: small}
fields: {unlisted: drop}
noise_key: position
kafka: {properties: {sasl.password: hunter2hunter2}}
secret: {file: secret}
"""


@pytest.fixture
def config(tmp_path, monkeypatch):
    """A valid configuration with the default name in the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.csv").write_text("concept,parent\na,\nb,a\nc,a\n")
    path = tmp_path / "stream-masker.yaml"
    path.write_text(CONFIGURATION)
    write_secret(tmp_path)
    return path


def test_unlisted_fields_and_objects_that_are_kept_whole_are_warned_about(config, tmp_path):
    kept = "{keep: [visit, 'notes[*]', ward.name, sizes], unlisted: drop}"
    config.write_text(CONFIGURATION.replace("{unlisted: drop}", kept))
    event = {"p": {"code": "b"}, "s": [{"code": "c"}], "ward": {"name": "canary"}, "sizes": [1, 2]}
    event |= {"visit": {"type": {"text": "canary"}}, "notes": [{"text": "canary"}, {"text": "canary"}]}
    (tmp_path / "events.jsonl").write_text(json.dumps(event) + "\n")
    result = run("config", "check", "--events", "events.jsonl")
    warned = [line.split()[1] for line in result.stdout.splitlines() if line.startswith("warning: ")]
    assert warned == ["visit", "notes[*]"]
    assert "canary" not in result.output
    config.write_text(CONFIGURATION.replace("unlisted: drop", "unlisted: keep"))
    warning = "warning: fields.unlisted is keep: whatever producers add to events is written"
    assert warning in run("config", "check").stderr


@pytest.mark.parametrize(
    ("least", "said"),
    [
        (60, r"Guessed right: \d+%(; with semantic_transport \d+%)?\. This is how often .*"),
        (61, r"Guessed right: not known, because 60 records are usable for statistics .*"),
    ],
)
def test_how_often_a_code_is_guessed_right_is_stated_for_a_sample(config, tmp_path, least, said):
    events = [{"p": {"code": "bc"[k % 2]}, "s": [{"code": "abc"[k % 3]}]} for k in range(60)]
    (tmp_path / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    config.write_text(f"{CONFIGURATION}calibration: {{min_records: {least}}}\n")
    result = run("config", "check", "--events", "events.jsonl")
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("Guessed right")]
    assert re.fullmatch(said, line)


def test_a_valid_configuration_is_described():
    result = run("config", "check")
    *attributes, secret, guessed, last = result.stdout.splitlines()
    assert result.stderr == ""
    assert guessed.startswith("Guessed right: not known without --events.")
    assert re.fullmatch("secret: id [0-9a-f]{16}", secret)
    assert attributes == [
        "principal: p.code masked within 3 concepts",
        "secondary: s[*].code masked within 3 concepts",
        "mechanism: semantic_noise (correlated, reference pair, rounding calibrated, candidates observed, alpha 1)",
    ]
    assert last.startswith("stream-masker.yaml: the configuration is valid (hash ")


def test_a_missing_secret_is_a_warning_and_a_typo_in_a_property_of_librdkafka_is_named(tmp_path):
    (tmp_path / "secret").unlink()
    assert run("config", "check").stderr.startswith("warning: secret.file: ")
    result = run("config", "check", env={"STREAM_MASKER__KAFKA__PROPERTIES__SASL_USERNME": "ada"}, code=2)
    assert 'kafka.properties cannot be used: No such configuration property: "sasl.usernme"' in result.stderr


def test_show_hides_passwords():
    result = run("config", "show", env={"STREAM_MASKER__HTTP__PORT": "9465"})
    shown = yaml.safe_load(result.stdout)
    assert "hunter2" not in result.output
    assert shown["kafka"] == {"bootstrap_servers": "localhost:9092", "properties": {"sasl.password": "********"}}
    assert shown["http"] == {"host": "127.0.0.1", "port": 9465}
