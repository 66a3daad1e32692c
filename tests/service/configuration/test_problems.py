"""Configuration errors: location, given value and allowed values, without secrets."""

from __future__ import annotations

import pytest

from stream_masker.errors import ConfigurationError
from stream_masker.service.configuration import parse_configuration

SECRET = "hunter2hunter2hunter2"
DURATION = "use a duration above 0 such as 500ms, 60s, 5m, 24h or 7d, or a number of seconds"
NAME = "use a name of at most 100 letters, digits, - and _ that starts with a letter or _"
TOPICS = "input, output, rejected, calibration, statistics, drift or provenance"
POLICIES = "use reject, ancestor or suppress"


@pytest.mark.parametrize(
    ("sections", "line"),
    [
        (
            {"attributes": {"principal": {"unknown": "foo"}}},
            "attributes.principal.unknown: 'foo' is not allowed: use reject, ancestor or suppress",
        ),
        (
            {"attributes": {"principal": {"unknown": "rejct"}}},
            f"attributes.principal.unknown: 'rejct' is not allowed: {POLICIES}; did you mean 'reject'?",
        ),
        (
            {"topics": {"inptu": "a"}},
            f"topics.inptu: unknown key: use {TOPICS}; did you mean 'input'?",
        ),
        (
            {"topics": {"drift": "a b"}},
            "topics.drift: 'a b' is not allowed: use a topic name of at most 249 letters, digits, ., - and _",
        ),
        ({"http": {"port": 70000}}, "http.port: 70000 is not allowed: use a whole number from 0 to 65535"),
        ({"http": {"port": "9464"}}, "http.port: '9464' is not allowed: use a whole number from 0 to 65535"),
        ({"http": {"port": True}}, "http.port: true is not allowed: use a whole number from 0 to 65535"),
        ({"http": {"host": 12}}, "http.host: 12 is not allowed: use text that is not empty; quotes make it text"),
        (
            {"worker": None},
            "worker: nothing is given: use a mapping with batch_records, batch_bytes, batch_delay, instance "
            "or static_member",
        ),
        (
            {"worker": {"batch_delay": "24 h"}},
            f"worker.batch_delay: '24 h' is not allowed: {DURATION}",
        ),
        (
            {"worker": {"batch_delay": "0s"}},
            f"worker.batch_delay: '0s' is not allowed: {DURATION}",
        ),
        ({"mechanism": {"correlated": "yes"}}, "mechanism.correlated: 'yes' is not allowed: use true or false"),
        (
            {"mechanism": {"reference": "median"}},
            "mechanism.reference: 'median' is not allowed: use mean, pair or root; did you mean 'mean'?",
        ),
        (
            {"calibration": {"baseline": 0}},
            "calibration.baseline: 0 is not allowed: use first or a whole number of at least 1",
        ),
        ({"fields": {"keep": "age"}}, "fields.keep: 'age' is not allowed: use a list of text that is not empty"),
        (
            {"fields": {"keep": ["age", 3]}},
            "fields.keep[1]: 3 is not allowed: use text that is not empty; quotes make it text",
        ),
        (
            {"ontologies": {"my icd": {"source": "icd10cm"}}},
            f"ontologies.my icd: the key is not allowed: {NAME}",
        ),
        (
            {"attributes": {"principal": {"alpha": {"path": "a", "defualt": 1}}}},
            "attributes.principal.alpha.defualt: unknown key: use path or default; did you mean 'default'?",
        ),
        (
            {"attributes": {"principal": {"alpha": {"header": "a", "default": 11}}}},
            "attributes.principal.alpha.default: 11 is not allowed: use a number from 0.01 to 10",
        ),
    ],
)
def test_errors_give_location_value_and_allowed_values(problems, sections, line):
    assert problems(**sections) == [line]


@pytest.mark.parametrize("alpha", [0, -1, 10.5, "0.3", [0.3], True, None])
def test_alpha_out_of_range_lists_all_forms(problems, alpha):
    (line,) = problems(attributes={"principal": {"alpha": alpha}})
    assert line.startswith("attributes.principal.alpha: ")
    assert "use a number from 0.01 to 10, a mapping with path or default or a mapping with header or default" in line


def test_missing_required_keys_are_listed():
    with pytest.raises(ConfigurationError) as raised:
        parse_configuration({"attributes": {"a": {}}, "fields": {}})
    assert str(raised.value).splitlines() == [
        "configuration: the configuration has 5 problems",
        "  attributes.a.path: required: use text that is not empty",
        f"  attributes.a.ontology: required: {NAME}",
        "  fields.unlisted: required: use keep or drop",
        "  ontologies: required: use a mapping",
        "  noise_key: required:",
        "    position: fresh noise for each record; repeated records of a person can be averaged",
        "    patient.id, or another field: one mask for equal codes of a person; averaging them gains nothing",
    ]


@pytest.mark.parametrize("section", ["attributes", "ontologies"])
def test_empty_sections_are_errors(data, section):
    given = data()
    given[section] = {}
    with pytest.raises(ConfigurationError, match=f"{section}: empty: add at least one"):
        parse_configuration(given)


def test_one_message_reports_all_problems_in_file_order(data):
    given = {"http": {"port": -1}, **data(topics={"input": "", "x": 1}), "foo": 1}
    with pytest.raises(ConfigurationError) as raised:
        parse_configuration(given, name="c.yaml")
    head, *lines = str(raised.value).splitlines()
    assert head == "c.yaml: the configuration has 4 problems"
    assert [line.split(":")[0].strip() for line in lines] == ["http.port", "topics.input", "topics.x", "foo"]


def test_model_errors_read_like_schema_errors(problems):
    (line,) = problems(topics={"drift": "discharges\n"})
    assert line.startswith(r"topics.drift: 'discharges\n' is not allowed: use a topic name")


def test_long_values_are_truncated(problems):
    (line,) = problems(http={"port": "9" * 500})
    assert len(line) < 150


@pytest.mark.parametrize(
    "sections",
    [
        {"secret": SECRET},
        {"secret": {"file": [SECRET]}},
        {"secret": {"file": 3}},
        {"secret": {SECRET: None}},
        {"secret": {"value": SECRET}},
        {"secret": {"file": {SECRET: SECRET}}},
        {"kafka": SECRET},
        {"kafka": {"properties": SECRET}},
        {"kafka": {"properties": f"sasl.password={SECRET}"}},
        {"kafka": {"properties": {"sasl.password": [SECRET]}}},
        {"kafka": {"properties": {"sasl.password": {SECRET: SECRET}}}},
        {"kafka": {"password": SECRET}},
    ],
)
def test_errors_never_contain_secrets(problems, sections):
    assert SECRET not in "\n".join(problems(**sections))


@pytest.mark.parametrize(
    ("sections", "lines"),
    [
        (
            {"topics": {"input": ["a", "b c"]}},
            ["topics.input[1]: 'b c' is not allowed: use a topic name of at most 249 letters, digits, ., - and _"],
        ),
        ({"topics": {"input": "a b"}}, ["topics.input: 'a b' is not allowed: use a topic name of at most 249 letters"]),
        (
            {"topics": {"input": "a" * 249}},
            ["topics.output: the default is not allowed here", "topics.rejected: the default is not allowed here"],
        ),
        (
            {"ontologies": {"my icd": {"sourc": "icd10cm"}}},
            [
                f"ontologies.my icd: the key is not allowed: {NAME}",
                "ontologies.my icd.sourc: unknown key: use source; did you mean 'source'?",
                "ontologies.my icd.source: required: use text that is not empty",
            ],
        ),
        (
            {"ontologies": {"odor": {"values": [3]}}},
            [
                "ontologies.odor.values: a list of 1 is not allowed: use a list of text that is not empty",
                "ontologies.odor.values[0]: 3 is not allowed: use text that is not empty; quotes make it text",
            ],
        ),
        (
            {"mechanism": {"name": "rank_swapping", "k": 1}},
            ["mechanism.k: 1 is not allowed: use a whole number of at least 2"],
        ),
        (
            {"mechanism": {"name": "rank_swapping", "k": 1, "reference": "mean"}},
            [
                "mechanism.k: 1 is not allowed: use a whole number of at least 2",
                "mechanism.reference: unknown key: use name, k, multivariate, intervals or distance",
            ],
        ),
        (
            {"mechanism": {"name": "pramm"}},
            ["mechanism.name: 'pramm' is not allowed: use semantic_noise, microaggregation"],
        ),
        (
            {"attributes": {"principal": {"label": None}}},
            ["attributes.principal.label: nothing is given: use text that is not empty"],
        ),
        ({"worker": {"batch_records": 5.0}}, ["worker.batch_records: 5.0 is not allowed: use a whole number"]),
    ],
)
def test_errors_in_alternatives_name_the_nearest_one(data, sections, lines):
    given = {**data(), **sections} if "mechanism" in sections else data(**sections)
    with pytest.raises(ConfigurationError) as raised:
        parse_configuration(given)
    found = [line.strip() for line in str(raised.value).splitlines()[1:]]
    assert [text[: len(line)] for text, line in zip(found, lines, strict=True)] == lines
