"""Loading of configuration files and overrides, and what a loaded configuration tells: its hash, and its text."""

from __future__ import annotations

import pytest

from stream_masker.errors import ConfigurationError
from stream_masker.service.configuration import load_configuration, parse_configuration
from stream_masker.service.configuration.model import REDACTED

SECRET = "hunter2hunter2hunter2"


def message(path):
    with pytest.raises(ConfigurationError) as raised:
        load_configuration(path, {})
    return str(raised.value)


def test_missing_file_is_an_error(tmp_path):
    assert message(tmp_path / "none.yaml").endswith("the configuration cannot be read: No such file or directory")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("# nothing but a comment\n", "the configuration is empty: use a mapping with at least ontologies"),
        (SECRET, "the configuration is not a mapping"),
        (b"a: \xff", "is not UTF-8 text (byte 3)"),
        ("kafka: {\n", "line 2, column 1"),
        ("kafka:\n  a: 1\n b: 2\n", "line 3, column 2"),
        ("a: 1\nb: 2\na: 3\n", "line 3, column 1: duplicate key a"),
        ("attributes: {x: {path: a, path: b}}", "line 1, column 27: duplicate key path"),
        ("[a]: b\n", "line 1, column 1: found unhashable key"),
        ("a: 1\n---\nb: 2\n", "line 2, column 1"),
        ("a: \x00", "not YAML"),
        ("a: " + "[" * 5000, "nested too deeply"),
        ("1: a\n", "1 is not allowed: use text as a key, in quotes"),
        *(
            (f"kafka: {{properties: {{sasl.password: {value}\n", ": line ")
            for value in (f"*{SECRET}", f"!{SECRET} x", f"!<{SECRET}> x", f"'{SECRET}", f'"{SECRET}\\q"', f"@{SECRET}")
        ),
    ],
)
def test_a_faulty_file_is_one_error_without_its_values(write, content, said):
    found = message(write(content))
    assert said in found
    assert SECRET not in found


def test_relative_names_resolve_against_the_file(write, example):
    path = write(example.read_text())
    assert load_configuration(path, {}).resolve("codes.csv") == path.parent / "codes.csv"
    assert str(load_configuration(path, {}).resolve("/etc/codes.csv")) == "/etc/codes.csv"


@pytest.mark.parametrize(
    ("given", "seconds"),
    [("24h", 86_400.0), ("500ms", 0.5), ("1.5s", 1.5), ("5m", 300.0), ("7d", 604_800.0), (60, 60.0)],
)
def test_durations_become_seconds(parse, given, seconds):
    assert parse(calibration={"window_age": given}).calibration.window_age == seconds


class TestOverrides:
    def parse(self, data, **variables):
        return parse_configuration(data, environ={f"STREAM_MASKER__{k}": v for k, v in variables.items()})

    @pytest.mark.parametrize(
        ("variable", "value", "read", "expected"),
        [
            ("HTTP__PORT", "9465", lambda c: c.http.port, 9465),
            ("HTTP", "{port: 1, host: a}", lambda c: (c.http.port, c.http.host), (1, "a")),
            ("TOPICS__INPUT", "7", lambda c: c.topics.input, "7"),
            ("WORKER__INSTANCE", "", lambda c: c.worker.instance, ""),
            ("MECHANISM__CORRELATED", "false", lambda c: c.mechanism.correlated, False),
            ("CALIBRATION__WINDOW_AGE", "12h", lambda c: c.calibration.window_age, 43_200.0),
            ("FIELDS__KEEP", "[age, sex]", lambda c: c.fields.keep, ("age", "sex")),
            ("ATTRIBUTES__PRINCIPAL__UNKNOWN", "suppress", lambda c: c.attributes["principal"].unknown, "suppress"),
            ("NOISE_KEY", "patient.id", lambda c: c.noise_key, "patient.id"),
            ("ONTOLOGIES__NEW__SOURCE", "a.csv", lambda c: c.ontologies["new"].source, "a.csv"),
            ("KAFKA__PROPERTIES__SASL_PASSWORD", "01", lambda c: c.kafka.properties, {"sasl.password": "01"}),
        ],
    )
    def test_values_become_what_the_key_needs(self, data, variable, value, read, expected):
        assert read(self.parse(data(), **{variable: value})) == expected

    def test_attribute_names_are_case_insensitive(self, data):
        given = data(attributes={"MainDiagnosis": {"path": "main", "ontology": "icd"}}, mechanism={"reference": "mean"})
        parsed = self.parse(given, ATTRIBUTES__MAINDIAGNOSIS__ALPHA="1")
        assert parsed.attributes["MainDiagnosis"].alpha == 1.0

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
            *(
                (key, value, "")
                for key, value in (
                    ("SECRET", SECRET),
                    ("SECRET__FILE__X", SECRET),
                    ("KAFKA__PROPERTIES", SECRET),
                    ("SECRET", f"'{SECRET}"),
                )
            ),
        ],
    )
    def test_errors_name_the_variable_and_no_secret(self, data, variable, value, said):
        with pytest.raises(ConfigurationError) as raised:
            self.parse(data(), **{variable: value})
        assert said in str(raised.value)
        assert SECRET not in str(raised.value)


class TestHash:
    @pytest.mark.parametrize(
        "change",
        [
            {"attributes": {"principal": {"alpha": 0.5}}},
            {"fields": {"unlisted": "keep"}},
            {"message": {"key": "drop"}},
            {"mechanism": {"candidates": "leaves"}},
            {"noise_key": "patient.id"},
            {"ontologies": {"other": {"source": "icd10cm"}}},
        ],
    )
    def test_hash_changes_with_masking_sections(self, parse, change):
        assert parse(**change).hash != parse().hash

    @pytest.mark.parametrize(
        "change",
        [
            {"kafka": {"properties": {"sasl.password": SECRET}}},
            {"secret": {"env": "A"}},
            {"topics": {"input": "admissions"}},
            {"worker": {"batch_records": 5}},
            {"attributes": {"principal": {"unknown": "reject"}}},
        ],
    )
    def test_hash_ignores_other_sections(self, parse, change):
        assert parse(**change).hash == parse().hash

    def test_hash_depends_on_the_order_of_attributes_and_of_the_context(self, data, parse):
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


class TestDisplay:
    def test_displayed_configuration_is_equivalent(self, example, write):
        configuration = load_configuration(example, {})
        again = load_configuration(write(configuration.shown_yaml()), {})
        assert again.model_dump() == configuration.model_dump()
        assert again.hash == configuration.hash

    @pytest.mark.parametrize("section", ["kafka", "registry"])
    def test_only_properties_that_are_known_to_be_no_secrets_are_shown(self, parse, section):
        given = {"properties": dict.fromkeys((*HIDDEN, *SHOWN), SECRET)}
        shown = parse(**{"kafka": given} if section == "kafka" else {"format": {"registry": given}}).shown()
        properties = (shown["kafka"] if section == "kafka" else shown["format"]["registry"])["properties"]
        assert properties == {**dict.fromkeys(HIDDEN, REDACTED), **dict.fromkeys(SHOWN, SECRET)}
