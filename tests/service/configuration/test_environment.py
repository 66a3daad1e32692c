"""Environment overrides."""

from __future__ import annotations

import pytest

from stream_masker.errors import ConfigurationError
from stream_masker.service.configuration import parse_configuration

SECRET = "hunter2hunter2hunter2"


def parse_with(data, **variables):
    return parse_configuration(data, environ={f"STREAM_MASKER__{k}": v for k, v in variables.items()})


def error_message(data, **variables):
    with pytest.raises(ConfigurationError) as raised:
        parse_with(data, **variables)
    return str(raised.value)


@pytest.mark.parametrize(
    ("variable", "value", "read", "expected"),
    [
        ("HTTP__PORT", "9465", lambda c: c.http.port, 9465),
        ("HTTP", "{port: 1, host: a}", lambda c: (c.http.port, c.http.host), (1, "a")),
        ("KAFKA__BOOTSTRAP_SERVERS", "a:1,b:2", lambda c: c.kafka.bootstrap_servers, "a:1,b:2"),
        ("TOPICS__INPUT", "7", lambda c: c.topics.input, "7"),
        ("WORKER__INSTANCE", "", lambda c: c.worker.instance, ""),
        ("MECHANISM__CORRELATED", "false", lambda c: c.mechanism.correlated, False),
        ("CALIBRATION__WINDOW_AGE", "12h", lambda c: c.calibration.window_age, 43_200.0),
        ("CALIBRATION__KEEP_VERSIONS", "3", lambda c: c.calibration.keep_versions, 3),
        ("FIELDS__KEEP", "[age, sex]", lambda c: c.fields.keep, ("age", "sex")),
        ("ATTRIBUTES__PRINCIPAL__UNKNOWN", "suppress", lambda c: c.attributes["principal"].unknown, "suppress"),
        ("SECRET__ENV", "NAME", lambda c: c.secret.env, "NAME"),
        ("NOISE_KEY", "patient.id", lambda c: c.noise_key, "patient.id"),
        ("ONTOLOGIES__NEW__SOURCE", "a.csv", lambda c: c.ontologies["new"].source, "a.csv"),
    ],
)
def test_values_become_what_the_key_needs(data, variable, value, read, expected):
    assert read(parse_with(data(), **{variable: value})) == expected


def test_attribute_names_are_case_insensitive(data):
    given = data(attributes={"MainDiagnosis": {"path": "main", "ontology": "icd"}}, mechanism={"reference": "mean"})
    assert parse_with(given, ATTRIBUTES__MAINDIAGNOSIS__ALPHA="1").attributes["MainDiagnosis"].alpha == 1.0


def test_kafka_properties_get_dots_and_stay_text(data):
    properties = parse_with(
        data(), KAFKA__PROPERTIES__SASL_PASSWORD="0123", KAFKA__PROPERTIES__LINGER_MS="5"
    ).kafka.properties
    assert properties == {"sasl.password": "0123", "linger.ms": "5"}


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
    ],
)
def test_error_names_the_variable(data, variable, value, said):
    assert said in error_message(data(), **{variable: value})


def test_error_names_every_invalid_variable(data):
    assert len(error_message(data(), A="1", B="2", HTTP__PORT="1").splitlines()) == 3


def test_section_must_be_a_mapping(data):
    assert "STREAM_MASKER__HTTP__PORT: http is not a mapping" in error_message(data(http="x"), HTTP__PORT="1")


@pytest.mark.parametrize(
    "variables",
    [
        {"SECRET": SECRET},
        {"SECRET__FILE__X": SECRET},
        {"KAFKA__PROPERTIES": SECRET},
        {"SECRET": "'" + SECRET},
        {"SECRET": "*" + SECRET},
    ],
)
def test_errors_never_contain_secrets(data, variables):
    assert SECRET not in error_message(data(), **variables)
