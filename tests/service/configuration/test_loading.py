"""Loading of configuration files, and the errors in a file."""

from __future__ import annotations

import pytest

from stream_masker.errors import ConfigurationError
from stream_masker.service.configuration import load_configuration, parse_configuration

SECRET = "hunter2hunter2hunter2"


def message(path, environ=None):
    with pytest.raises(ConfigurationError) as raised:
        load_configuration(path, environ or {})
    return str(raised.value)


def test_missing_file_is_an_error(tmp_path):
    assert message(tmp_path / "none.yaml").endswith(
        "none.yaml: the configuration cannot be read: No such file or directory"
    )


@pytest.mark.parametrize("text", ["", "# nothing but a comment\n", "---\n"])
def test_empty_file_is_an_error(write, text):
    assert "the configuration is empty: use a mapping with at least ontologies" in message(write(text))


@pytest.mark.parametrize("text", ["[1, 2]", SECRET, "3"])
def test_file_must_be_a_mapping(write, text):
    said = message(write(text))
    assert "the configuration is not a mapping" in said
    assert SECRET not in said


def test_file_must_be_utf8(write):
    assert "is not UTF-8 text (byte 3)" in message(write(b"a: \xff"))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("kafka: {\n", "line 2, column 1"),
        ("kafka:\n  a: 1\n b: 2\n", "line 3, column 2"),
        ("a: 1\nb: 2\na: 3\n", "line 3, column 1: duplicate key a"),
        ("attributes: {x: {path: a, path: b}}", "line 1, column 27: duplicate key path"),
        ("[a]: b\n", "line 1, column 1: found unhashable key"),
        ("a: 1\n---\nb: 2\n", "line 2, column 1"),
        ("a: \x00", "not YAML"),
        ("a: " + "[" * 5000, "nested too deeply"),
    ],
)
def test_yaml_error_has_its_position(write, text, place):
    assert place in message(write(text))


@pytest.mark.parametrize(
    "value", [f"*{SECRET}", f"!{SECRET} x", f"!<{SECRET}> x", f"'{SECRET}", f'"{SECRET}\\q"', f"@{SECRET}"]
)
def test_yaml_error_never_quotes_values(write, value):
    assert SECRET not in message(write(f"kafka:\n  properties:\n    sasl.password: {value}\n"))


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


class TestHash:
    @pytest.mark.parametrize(
        "change",
        [
            {"attributes": {"principal": {"alpha": 0.5}}},
            {"attributes": {"principal": {"missing": "keep"}}},
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
            {"calibration": {"window_records": 5000}},
            {"worker": {"batch_records": 5}},
            {"attributes": {"principal": {"unknown": "reject"}}},
        ],
    )
    def test_hash_ignores_other_sections(self, parse, change):
        assert parse(**change).hash == parse().hash

    def test_hash_depends_on_attribute_order(self, data, parse):
        given = data()
        given["attributes"] = dict(reversed(given["attributes"].items()))
        assert parse_configuration(given).hash != parse().hash
