"""Loading of configuration files and overrides, what a loaded configuration tells, and the complete example."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from stream_masker.core.mechanisms import MECHANISMS
from stream_masker.errors import ConfigurationError
from stream_masker.service.configuration import configuration_schema, load_configuration, parse_configuration
from stream_masker.service.configuration.model import REDACTED

SECRET = "hunter2hunter2hunter2"
EXAMPLE = Path(__file__).parent / "example.yaml"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "the configuration cannot be read: No such file or directory"),
        ("# nothing but a comment\n", "is empty or no mapping: use a mapping with at least ontologies"),
        (SECRET, "the configuration is empty or no mapping"),
        (b"a: \xff", "is not UTF-8 text (byte 3)"),
        ("kafka: {\n", "line 2, column 1"),
        ("a: 1\nb: 2\na: 3\n", "line 3, column 1: duplicate key a"),
        ("attributes: {x: {path: a, path: b}}", "line 1, column 27: duplicate key path"),
        ("[a]: b\n", "line 1, column 1: found unhashable key"),
        ("a: 1\n---\nb: 2\n", "line 2, column 1"),
        ("a: \x00", "not YAML"),
        ("a: " + "[" * 500, "nested too deeply"),
        ("1: a\n", "1 is not allowed: use text as a key, in quotes"),
        *(
            (f"kafka: {{properties: {{sasl.password: {value}\n", ": line ")
            for value in (f"*{SECRET}", f"!{SECRET} x", f"!<{SECRET}> x", f"'{SECRET}", f'"{SECRET}\\q"', f"@{SECRET}")
        ),
    ],
)
def test_a_faulty_file_is_one_error_without_its_values(tmp_path, content, said):
    path = tmp_path / "c.yaml"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ConfigurationError) as raised:
        load_configuration(path, {})
    assert said in str(raised.value)
    assert SECRET not in str(raised.value)


def overridden(data, **variables):
    return parse_configuration(data, environ={f"STREAM_MASKER__{k}": v for k, v in variables.items()})


@pytest.mark.parametrize(
    ("variable", "value", "read", "expected"),
    [
        ("HTTP__PORT", "9465", lambda c: c.http.port, 9465),
        ("HTTP", "{port: 1, host: a}", lambda c: (c.http.port, c.http.host), (1, "a")),
        ("TOPICS__INPUT", "7", lambda c: (c.topics.input, c.topics.rejected), ("7", "7.rejected")),
        ("WORKER__INSTANCE", "", lambda c: c.worker.instance, ""),
        ("MECHANISM__CORRELATED", "false", lambda c: c.mechanism.correlated, False),
        ("FIELDS__KEEP", "[age, sex]", lambda c: c.fields.keep, ("age", "sex")),
        ("ATTRIBUTES__MAINDIAGNOSIS__ALPHA", "1", lambda c: c.attributes["MainDiagnosis"].alpha, 1.0),
        ("ONTOLOGIES__NEW__SOURCE", "a.csv", lambda c: c.ontologies["new"].source, "a.csv"),
        ("KAFKA__PROPERTIES__SASL_PASSWORD", "01", lambda c: c.kafka.properties, {"sasl.password": "01"}),
        *(
            ("CALIBRATION__WINDOW_AGE", given, lambda c: c.calibration.window_age, seconds)
            for given, seconds in (("24h", 86_400.0), ("500ms", 0.5), ("1.5s", 1.5), ("7d", 604_800.0), ("60", 60.0))
        ),
    ],
)
def test_overrides_become_what_the_key_needs(data, variable, value, read, expected):
    given = data(attributes={"MainDiagnosis": {"path": "main", "ontology": "icd"}}, mechanism={"reference": "mean"})
    assert read(overridden(given, **{variable: value})) == expected


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("TOPICS__INPTU", "a", "topics.inptu (from STREAM_MASKER__TOPICS__INPTU): unknown key: use input, output,"),
        ("TOPICS__INPTU", "a", "did you mean 'input'?"),
        ("FOO", "a", "foo (from STREAM_MASKER__FOO): unknown key: use kafka, topics"),
        ("HTTP__PORT__X", "1", "http.port (from STREAM_MASKER__HTTP__PORT__X): a mapping of 1 is not allowed"),
        ("HTTP__", "1", "(from STREAM_MASKER__HTTP__): unknown key: use host, port"),
        ("ATTRIBUTES__", "1", "(from STREAM_MASKER__ATTRIBUTES__): the key is not allowed"),
        ("HTTP", "{", "http (from STREAM_MASKER__HTTP): '{' is not allowed: use a mapping"),
        ("HTTP__PORT", "70000", "http.port (from STREAM_MASKER__HTTP__PORT): '70000' is not allowed"),
        ("NOISE_KEY__X", "a", "STREAM_MASKER__NOISE_KEY__X: noise_key is not a mapping"),
        *((key, SECRET, "") for key in ("SECRET", "SECRET__FILE__X", "KAFKA__PROPERTIES")),
    ],
)
def test_errors_of_overrides_name_the_variable_and_no_secret(data, variable, value, said):
    with pytest.raises(ConfigurationError) as raised:
        overridden(data(), **{variable: value})
    assert said in str(raised.value)
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize(
    ("change", "is_other"),
    [
        ({"attributes": {"principal": {"alpha": 0.5}}}, True),
        ({"fields": {"unlisted": "keep"}}, True),
        ({"message": {"key": "drop"}}, True),
        ({"mechanism": {"candidates": "leaves"}}, True),
        ({"noise_key": "patient.id"}, True),
        ({"ontologies": {"other": {"source": "icd10cm"}}}, True),
        ({"kafka": {"properties": {"sasl.password": SECRET}}}, False),
        ({"secret": {"env": "A"}}, False),
        ({"topics": {"input": "admissions"}}, False),
        ({"worker": {"batch_records": 5}}, False),
        ({"attributes": {"principal": {"unknown": "reject"}}}, False),
    ],
)
def test_the_hash_changes_with_what_determines_masks(parse, change, is_other):
    assert (parse(**change).hash != parse().hash) is is_other


def test_the_hash_depends_on_the_order_of_attributes_and_of_the_context(data, parse):
    given = data()
    given["attributes"] = dict(reversed(given["attributes"].items()))
    kinds = {"sex": ["F", "M"], "age": [18, 65]}
    contexts = [kinds, dict(reversed(kinds.items())), {"sex": ["F", "M"]}]
    transport = {"name": "semantic_transport"}
    made = [parse(mechanism={**transport, "context": context}, fields={"keep": ["sex"]}) for context in contexts]
    hashes = {each.hash for each in (parse_configuration(given), parse(), parse(mechanism=transport), *made)}
    assert len(hashes) == 6


HIDDEN = ("sasl.password", "sasl.jaas.config", "ssl.key.pem", "a.property.of.a.later.release")
SHOWN = ("security.protocol", "sasl.mechanism", "sasl.username", "ssl.ca.location", "linger.ms", "group.id")


def test_only_properties_that_are_known_to_be_no_secrets_are_shown(parse):
    given = {"properties": dict.fromkeys((*HIDDEN, *SHOWN), SECRET)}
    shown = parse(kafka=given, format={"registry": given}).shown()
    for section in (shown["kafka"], shown["format"]["registry"]):
        assert section["properties"] == {**dict.fromkeys(HIDDEN, REDACTED), **dict.fromkeys(SHOWN, SECRET)}


EXAMPLES = {"ontologies", "attributes", "fields", "mechanism", "noise_key", "csv", "secret"}
"""Sections without defaults, or whose defaults depend on others; the example has its own values."""


def test_the_example_has_every_key_with_its_default_and_what_is_shown_of_it_is_equivalent(parse, tmp_path):
    text, schema = EXAMPLE.read_text(), configuration_schema()
    keys = {key for part in [schema, *schema["$defs"].values()] for key in part["properties"]}
    assert [key for key in sorted(keys) if not re.search(rf"(^|[ {{]){key}:", text, re.MULTILINE)] == []
    configuration = load_configuration(EXAMPLE, {})
    shown, defaults = configuration.model_dump(exclude=EXAMPLES), parse().model_dump(exclude=EXAMPLES)
    shown["kafka"]["properties"], shown["message"]["headers"] = {}, ()
    assert shown == defaults
    again = tmp_path / "again.yaml"
    again.write_text(configuration.shown_yaml())
    loaded = load_configuration(again, {})
    assert (loaded.model_dump(), loaded.hash) == (configuration.model_dump(), configuration.hash)
    assert loaded.resolve("codes.csv") == tmp_path / "codes.csv"
    assert str(loaded.resolve("/etc/codes.csv")) == "/etc/codes.csv"


def test_the_mechanisms_in_comments_of_the_example_are_complete_and_valid():
    shown = []
    for line in EXAMPLE.read_text().splitlines():
        if line.startswith("# mechanism: "):
            data = yaml.safe_load(EXAMPLE.read_text())
            for attribute in data["attributes"].values():
                attribute.pop("alpha", None)
            shown.append(parse_configuration({**data, **yaml.safe_load(line.removeprefix("# "))}).mechanism.name)
    assert list(dict.fromkeys(shown)) == list(MECHANISMS)
