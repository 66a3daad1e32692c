"""Wrong configurations: errors give location, given value and allowed values, all at once and without secrets."""

from __future__ import annotations

import pytest
from support.small_configuration import merged, small_configuration

from stream_masker.errors import ConfigurationError
from stream_masker.service.configuration import parse_configuration

SECRET = "hunter2hunter2hunter2"
NAME = "use a name of at most 100 letters, digits, - and _ that starts with a letter or _"
USE, DURATION = "is not allowed: use", "a duration above 0 such as 500ms, 60s, 5m, 24h or 7d, or seconds"
TOPIC, ALPHA = "a topic name of at most 249 letters, digits, ., - and _", "attributes.principal.alpha"
RESERVED = {"transactional.id": "use worker.instance", "isolation.level": "only committed records are read"}


def problems(given=None, **sections):
    """The problems of a configuration, by default of a minimal one with sections merged into it."""
    with pytest.raises(ConfigurationError) as raised:
        parse_configuration(minimal(**sections) if given is None else given)
    head, *lines = str(raised.value).splitlines()
    assert head.startswith("configuration: the configuration has ")
    return [line.strip() for line in lines]


def minimal(**sections):
    return merged(small_configuration("principal", "secondary"), sections)


def nested(path, value):
    for key in reversed(path.split(".")):
        value = {key: value}
    return value


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (
            "attributes.principal.unknown",
            "rejct",
            f"'rejct' {USE} reject, ancestor or suppress; did you mean 'reject'?",
        ),
        ("topics.drft", "a", "unknown key: use input, output, rejected, calibration, statistics or drift"),
        ("topics.drift", "a b", f"'a b' {USE} {TOPIC}"),
        ("topics.drift", "..", f"'..' {USE} {TOPIC}"),
        ("http.port", 70000, f"70000 {USE} a number of at most 65535"),
        ("http.port", "x", f"'x' {USE} a whole number"),
        ("http.host", 12, f"12 {USE} text; quotes make it text"),
        ("worker", None, f"no value (null) {USE} a mapping"),
        ("csv.encoding", None, f"no value (null) {USE} text; quotes make it text"),
        ("worker.batch_delay", "24 h", f"'24 h' {USE} {DURATION}"),
        ("worker.batch_delay", "0s", f"'0s' {USE} {DURATION}"),
        ("worker.batch_records", 5.5, f"5.5 {USE} a whole number"),
        ("fields.keep", "age", f"'age' {USE} a list"),
        ("fields.generalize.age.date", "week", f"'week' {USE} month or year"),
        ("fields.generalize.age", {}, f"a mapping of 0 {USE} exactly one of width, date and characters"),
        ("fields.generalize.age", {"width": 5, "date": "year"}, f"a mapping of 2 {USE} exactly one of width, date"),
        ("fields.generalize.age", {"date": "year", "top": 90}, f"a mapping of 2 {USE} top only with width"),
        (
            "fields.shift.born",
            {"days": 30},
            "noise_key is position, so the dates of a person would move apart: use key,",
        ),
        ("mechanism.reference", "median", f"'median' {USE} mean, pair or root; did you mean 'mean'?"),
        *(("mechanism.name", name, f"{name!r} {USE} semantic_noise, ") for name in (7, "x")),
        (ALPHA, 0, f"0 {USE} a number of at least 0.01"),
        (ALPHA, 10.5, f"10.5 {USE} a number of at most 10"),
        (ALPHA, [0.3], f"a list of 1 {USE} a number"),
        (ALPHA, float("inf"), f"inf {USE} a "),
        *(
            ("secret", given, "is no source of a secret: use exactly one of file and env")
            for given in ({}, {"file": "a", "env": "B"}, {"file": ""}, {"env": 7})
        ),
        ("topics.output", "discharges", "'discharges' is also topics.input: all topics must differ"),
        ("calibration.min_records", 200_000, "200000 is greater than window_records: use at most 100000"),
        ("attributes.principal.ontology", "smal", "'smal' is not in ontologies: use small; did you mean 'small'?"),
    ],
)
def test_an_error_gives_location_value_and_allowed_values(path, value, said):
    (line,) = problems(**nested(path, value))
    assert line.startswith(f"{path}: {said}")


@pytest.mark.parametrize(
    ("sections", "lines"),
    [
        ({"fields": {"keep": ["age", 3]}}, [f"fields.keep[1]: 3 {USE} text; quotes make it text"]),
        (
            {"ontologies": {"my icd": {"sourc": "icd10cm", "source": "a"}}},
            [
                f"ontologies.my icd: the key is not allowed: {NAME}",
                "ontologies.my icd.sourc: unknown key: use source; did you mean 'source'?",
            ],
        ),
        (
            {"mechanism": {"name": "rank_swapping", "k": 1, "reference": "mean"}},
            [
                f"mechanism.k: 1 {USE} a number of at least 2",
                "mechanism.reference: unknown key: use name, k, algorithm or distance",
            ],
        ),
        (
            {"mechanism": {"name": "semantic_transport", "sensitive": {"ours": {"limt": 0.3, "roots": []}}}},
            [
                "mechanism.sensitive.ours.limit: required: the greatest probability of the group given any masked "
                "record; from 0.01 to 1",
                f"mechanism.sensitive.ours.roots: a list of 0 {USE} at least 1 item",
                "mechanism.sensitive.ours.limt: unknown key: use limit or roots; did you mean 'limit'?",
            ],
        ),
        *(
            ({"kafka": {"properties": {name: "x"}}}, [f"kafka.properties.{name}: cannot be set: {remedy}"])
            for name, remedy in RESERVED.items()
        ),
        (
            {"mechanism": {"name": "microaggregation"}, "attributes": {"principal": {"alpha": 0.5}}},
            [f"{ALPHA}: microaggregation has no noise level: remove it"],
        ),
    ],
)
def test_all_errors_are_given(sections, lines):
    assert problems(**sections) == lines


def test_missing_required_keys_are_listed_with_their_meaning():
    lines = problems({"ontologies": {}, "attributes": {"a": {}}, "fields": {}})
    assert lines[:4] == [
        "ontologies: a mapping of 0 is not allowed: use at least 1 item",
        "attributes.a.path: required: the path of the code",
        "attributes.a.ontology: required: the attribute's ontology: one of the names in `ontologies`",
        "fields.unlisted: required: the treatment of fields that the configuration does not name",
    ]
    assert lines[4].startswith("noise_key: required: the key that determines the noise of a value")


def test_one_message_reports_all_problems():
    given = {**minimal(http={"port": "x" * 500}, topics={"input": "", "x": 1}), "foo": 1}
    with pytest.raises(ConfigurationError) as raised:
        parse_configuration(given, name="c.yaml")
    head, *lines = str(raised.value).splitlines()
    assert head == "c.yaml: the configuration has 4 problems"
    assert [line.split(":")[0].strip() for line in lines] == ["topics.input", "topics.x", "http.port", "foo"]
    assert max(map(len, lines[:3])) < 150


def test_all_invalid_paths_are_named():
    wrong = {"path": "a..b", "label": "[", "copies": ["x", "a[?b]"]}
    lines = problems(attributes={"principal": wrong}, fields={"keep": ["ok", "a["]}, noise_key="patient.")
    of_the_attribute = {f"attributes.principal.{key}" for key in ("path", "label", "copies[1]")}
    assert {line.split(":")[0] for line in lines} == {*of_the_attribute, "fields.keep[1]", "noise_key"}


@pytest.mark.parametrize(
    "kept", ["diagnoses", "diagnoses.principal", "diagnoses.principal.code", "diagnoses.principal.display", "billing"]
)
def test_kept_field_must_not_contain_a_masked_one(kept):
    written = {"path": "diagnoses.principal.code", "label": "diagnoses.principal.display", "copies": ["billing.code"]}
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
        {"previous_secrets": [SECRET]},
        {"previous_secrets": SECRET},
        {"kafka": SECRET},
        {"kafka": {"properties": f"sasl.password={SECRET}"}},
        {"kafka": {"properties": {"sasl.password": [SECRET]}}},
        {"kafka": {"properties": {"sasl.password": {SECRET: SECRET}}}},
        {"kafka": {"password": SECRET}},
        {"format": {"registry": {"url": f"http://user:{SECRET}@registry"}}},
        {"format": {"registry": {"properties": {"basic.auth.user.info": [SECRET]}}}},
    ],
)
def test_errors_never_contain_secrets(sections):
    assert SECRET not in "\n".join(problems(**sections))
