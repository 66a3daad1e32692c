"""Configuration errors: location, given value and allowed values, all at once and without secrets."""

from __future__ import annotations

import pytest

from stream_masker.errors import ConfigurationError
from stream_masker.service.configuration import parse_configuration
from stream_masker.service.configuration.checks import RESERVED_PROPERTIES

SECRET = "hunter2hunter2hunter2"
NAME = "use a name of at most 100 letters, digits, - and _ that starts with a letter or _"
DURATION = "use a duration above 0 such as 500ms, 60s, 5m, 24h or 7d, or seconds"
TOPIC = "use a topic name of at most 249 letters, digits, ., - and _"
GROUPING = {"name": "microaggregation"}


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
        ({"topics": {"output": ".."}}, [f"topics.output: '..' is not allowed: {TOPIC}"]),
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
        ({"http": {"token": {}}}, ["http.token: is no source of a secret: use exactly one of file and env"]),
        (
            {"secret": {"file": "a", "env": "B"}},
            ["secret: is no source of a secret: use exactly one of file and env"],
        ),
        (
            {"topics": {"output": "discharges"}},
            ["topics.output: 'discharges' is also topics.input: all topics must differ"],
        ),
        (
            {"topics": {"input": "a", "statistics": "a.masked"}, "calibration": {"window_records": 1}},
            [
                "calibration.min_records: 1000 is greater than window_records: use at most 1",
                "topics.statistics: 'a.masked' is also topics.output: all topics must differ",
            ],
        ),
        (
            {"attributes": {"principal": {"ontology": "icb"}}},
            ["attributes.principal.ontology: 'icb' is not in ontologies: use icd; did you mean 'icd'?"],
        ),
        (
            {"worker": {"static_member": True}},
            ["worker.static_member: needs worker.instance, a name that is unique to each worker"],
        ),
        *(
            ({"kafka": {"properties": {name: "x"}}}, [f"kafka.properties.{name}: cannot be set: {remedy}"])
            for name, remedy in RESERVED_PROPERTIES.items()
        ),
        (
            {"groups": {"unit": "patient.id"}},
            ["groups.unit: semantic_noise does not count units: remove it, or use microaggregation"],
        ),
        (
            {"mechanism": GROUPING, "attributes": {"principal": {"alpha": 0.5}}},
            ["attributes.principal.alpha: microaggregation has no noise level: remove it"],
        ),
        (
            {"fields": {"drop": ["diagnoses.principal.code"]}},
            [
                "fields.drop[0]: 'diagnoses.principal.code' contains attributes.principal.path, which is masked: list "
                "only the fields beside it"
            ],
        ),
    ],
)
def test_errors_give_location_value_and_allowed_values(problems, sections, lines):
    assert problems(**sections) == lines


@pytest.mark.parametrize("alpha", [0, -1, 10.5, "x", [0.3], float("inf")])
def test_alpha_out_of_range_is_one_problem(problems, alpha):
    (line,) = problems(attributes={"principal": {"alpha": alpha}})
    assert line.startswith("attributes.principal.alpha: ")


@pytest.mark.parametrize("name", [7, [], "x"])
def test_an_unknown_mechanism_is_an_error(problems, name):
    (line,) = problems(mechanism={"name": name})
    assert line.startswith("mechanism.name: ")
    assert "is not allowed: use semantic_noise, " in line


def test_missing_required_keys_are_listed_with_their_meaning(problems_of):
    lines = problems_of({"attributes": {"a": {}}, "fields": {}})
    assert lines[:4] == [
        "ontologies: required: the ontologies by name; at least one",
        "attributes.a.path: required: the path of the code",
        "attributes.a.ontology: required: the attribute's ontology: one of the names in `ontologies`",
        "fields.unlisted: required: the treatment of fields that the configuration does not name",
    ]
    assert lines[4].startswith("noise_key: required: the key that determines the noise of a value")


@pytest.mark.parametrize("section", ["attributes", "ontologies"])
def test_empty_sections_are_errors(data, problems_of, section):
    said = f"{section}: a mapping of 0 is not allowed: use at least 1 item"
    assert problems_of({**data(), section: {}}) == [said]


def test_one_message_reports_all_problems(data):
    given = {**data(http={"port": "x" * 500}, topics={"input": "", "x": 1}), "foo": 1}
    with pytest.raises(ConfigurationError) as raised:
        parse_configuration(given, name="c.yaml")
    head, *lines = str(raised.value).splitlines()
    assert head == "c.yaml: the configuration has 4 problems"
    assert [line.split(":")[0].strip() for line in lines] == ["topics.input", "topics.x", "http.port", "foo"]
    assert max(map(len, lines[:3])) < 150


def test_all_invalid_paths_are_named(problems):
    lines = problems(
        attributes={"principal": {"path": "a..b", "label": "[", "copies": ["x", "a[?b]"]}},
        fields={"keep": ["ok", "a["]},
        noise_key="patient.",
    )
    assert {line.split(":")[0] for line in lines} == {
        "attributes.principal.path",
        "attributes.principal.label",
        "attributes.principal.copies[1]",
        "fields.keep[1]",
        "noise_key",
    }


@pytest.mark.parametrize(
    "kept", ["diagnoses", "diagnoses.principal", "diagnoses.principal.code", "diagnoses.principal.display", "billing"]
)
def test_kept_field_must_not_contain_a_masked_one(problems, kept):
    written = {"label": "diagnoses.principal.display", "copies": ["billing.code"]}
    (line,) = problems(attributes={"principal": written}, fields={"keep": [kept]})
    assert line.startswith(f"fields.keep[0]: {kept!r} contains attributes.principal.")


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
        {"internal_topics": {"previous_secrets": SECRET}},
        {"kafka": SECRET},
        {"kafka": {"properties": f"sasl.password={SECRET}"}},
        {"kafka": {"properties": {"sasl.password": [SECRET]}}},
        {"kafka": {"properties": {"sasl.password": {SECRET: SECRET}}}},
        {"kafka": {"password": SECRET}},
        {"format": {"registry": {"url": f"http://user:{SECRET}@registry"}}},
        {"format": {"registry": {"properties": {"basic.auth.user.info": [SECRET]}}}},
    ],
)
def test_errors_never_contain_secrets(problems, sections):
    assert SECRET not in "\n".join(problems(**sections))
