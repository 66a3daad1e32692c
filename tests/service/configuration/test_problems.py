"""Configuration errors: location, given value and allowed values, without secrets."""

from __future__ import annotations

import pytest

from stream_masker.errors import ConfigurationError
from stream_masker.service.configuration import parse_configuration

SECRET = "hunter2hunter2hunter2"
NAME = "use a name of at most 100 letters, digits, - and _ that starts with a letter or _"
DURATION = "use a duration above 0 such as 500ms, 60s, 5m, 24h or 7d, or seconds"
TOPIC = "use a topic name of at most 249 letters, digits, ., - and _"


@pytest.mark.parametrize(
    ("sections", "lines"),
    [
        (
            {"attributes": {"principal": {"unknown": "rejct"}}},
            [
                "attributes.principal.unknown: 'rejct' is not allowed: use reject, ancestor or suppress"
                "; did you mean 'reject'?"
            ],
        ),
        (
            {"topics": {"inptu": "a"}},
            [
                "topics.inptu: unknown key: use input, output, rejected, calibration, statistics or drift"
                "; did you mean 'input'?"
            ],
        ),
        ({"topics": {"drift": "a b"}}, [f"topics.drift: 'a b' is not allowed: {TOPIC}"]),
        ({"http": {"port": 70000}}, ["http.port: 70000 is not allowed: use a number of at most 65535"]),
        ({"http": {"port": "x"}}, ["http.port: 'x' is not allowed: use a whole number"]),
        ({"http": {"host": 12}}, ["http.host: 12 is not allowed: use text; quotes make it text"]),
        ({"worker": None}, ["worker: nothing is not allowed: use a mapping"]),
        ({"worker": {"batch_delay": "24 h"}}, [f"worker.batch_delay: '24 h' is not allowed: {DURATION}"]),
        ({"worker": {"batch_delay": "0s"}}, [f"worker.batch_delay: '0s' is not allowed: {DURATION}"]),
        ({"worker": {"batch_records": 5.5}}, ["worker.batch_records: 5.5 is not allowed: use a whole number"]),
        (
            {"calibration": {"keep_versions": 0}},
            ["calibration.keep_versions: 0 is not allowed: use a number of at least 1"],
        ),
        ({"fields": {"keep": "age"}}, ["fields.keep: 'age' is not allowed: use a list"]),
        ({"fields": {"keep": ["age", 3]}}, ["fields.keep[1]: 3 is not allowed: use text; quotes make it text"]),
        (
            {"fields": {"generalize": {"age": {"date": "week"}}}},
            ["fields.generalize.age.date: 'week' is not allowed: use month, year or decade"],
        ),
        (
            {"ontologies": {"my icd": {"sourc": "icd10cm", "source": "a"}}},
            [
                f"ontologies.my icd: the key is not allowed: {NAME}",
                "ontologies.my icd.sourc: unknown key: use source; did you mean 'source'?",
            ],
        ),
        (
            {"mechanism": {"reference": "median"}},
            ["mechanism.reference: 'median' is not allowed: use mean, pair or root; did you mean 'mean'?"],
        ),
        (
            {"mechanism": {"name": "rank_swapping", "k": 1, "reference": "mean"}},
            [
                "mechanism.k: 1 is not allowed: use a number of at least 2",
                "mechanism.reference: unknown key: use name, k, multivariate, intervals or distance",
            ],
        ),
    ],
)
def test_errors_give_location_value_and_allowed_values(problems, sections, lines):
    assert problems(**sections) == lines


@pytest.mark.parametrize("alpha", [0, -1, 10.5, "x", [0.3], float("inf"), None])
def test_alpha_out_of_range_is_one_problem(problems, alpha):
    (line,) = problems(attributes={"principal": {"alpha": alpha}})
    assert line.startswith("attributes.principal.alpha: ")


def test_missing_required_keys_are_listed_with_their_meaning():
    with pytest.raises(ConfigurationError) as raised:
        parse_configuration({"attributes": {"a": {}}, "fields": {}})
    head, *lines = str(raised.value).splitlines()
    assert head == "configuration: the configuration has 5 problems"
    assert lines[:4] == [
        "  ontologies: required: the ontologies by name; at least one",
        "  attributes.a.path: required: the path of the code",
        "  attributes.a.ontology: required: the attribute's ontology: one of the names in `ontologies`",
        "  fields.unlisted: required: the treatment of fields that the configuration does not name",
    ]
    assert lines[4].startswith("  noise_key: required: the key that determines the noise of a value")


@pytest.mark.parametrize("section", ["attributes", "ontologies"])
def test_empty_sections_are_errors(data, section):
    given = data()
    given[section] = {}
    with pytest.raises(ConfigurationError, match=f"{section}: a mapping of 0 is not allowed: use at least 1 item"):
        parse_configuration(given)


def test_one_message_reports_all_problems(data):
    given = {"http": {"port": -1}, **data(topics={"input": "", "x": 1}), "foo": 1}
    with pytest.raises(ConfigurationError) as raised:
        parse_configuration(given, name="c.yaml")
    head, *lines = str(raised.value).splitlines()
    assert head == "c.yaml: the configuration has 4 problems"
    assert [line.split(":")[0].strip() for line in lines] == ["topics.input", "topics.x", "http.port", "foo"]


def test_long_values_are_truncated(problems):
    (line,) = problems(http={"port": "x" * 500})
    assert len(line) < 150


@pytest.mark.parametrize(
    "sections",
    [
        {"secret": SECRET},
        {"secret": {"file": [SECRET]}},
        {"secret": {SECRET: None}},
        {"secret": {"value": SECRET}},
        {"secret": {"file": {SECRET: SECRET}}},
        {"http": {"token": SECRET}},
        {"internal_topics": {"previous_secrets": [SECRET]}},
        {"kafka": SECRET},
        {"kafka": {"properties": f"sasl.password={SECRET}"}},
        {"kafka": {"properties": {"sasl.password": [SECRET]}}},
        {"kafka": {"properties": {"sasl.password": {SECRET: SECRET}}}},
        {"kafka": {"password": SECRET}},
    ],
)
def test_errors_never_contain_secrets(problems, sections):
    assert SECRET not in "\n".join(problems(**sections))
