"""Consistency checks between the values of a configuration."""

from __future__ import annotations

import pytest

from stream_masker.service.configuration import parse_configuration
from stream_masker.service.configuration.checks import RESERVED_PROPERTIES


class TestTopics:
    def test_output_must_differ_from_input(self, problems):
        assert problems(topics={"output": "discharges"}) == [
            "topics.output: 'discharges' is also topics.input: all topics must differ"
        ]

    def test_all_topics_must_differ(self, problems):
        lines = problems(topics={"drift": "a", "statistics": "a", "calibration": "a"})
        assert [line.split(":")[0] for line in lines] == ["topics.statistics", "topics.drift"]


class TestOntologies:
    def test_ontology_must_be_defined(self, problems):
        assert problems(attributes={"principal": {"ontology": "icb"}}, mechanism={"reference": "mean"}) == [
            "attributes.principal.ontology: 'icb' is not in ontologies: use icd; did you mean 'icd'?"
        ]


class TestPaths:
    def test_invalid_paths_are_errors(self, problems):
        lines = problems(
            attributes={"principal": {"path": "a..b", "label": "[", "copies": ["x", "a[?b]"]}},
            fields={"keep": ["ok", "a["]},
            noise_key="patient.",
        )
        assert [line.split(":")[0] for line in lines] == [
            "attributes.principal.path",
            "attributes.principal.label",
            "attributes.principal.copies[1]",
            "fields.keep[1]",
            "noise_key",
        ]

    @pytest.mark.parametrize(
        ("changes", "place", "said"),
        [
            ({"path": "coding[?system=icd]"}, "path", "ends with a filter"),
            ({"label": "labels[*]"}, "label", "must have a [*] exactly where the attribute's path"),
            ({"copies": ["labels[*]"]}, "copies[0]", "must have a [*] exactly where the attribute's path"),
        ],
    )
    def test_arrays_and_filters_in_masked_paths_are_restricted(self, problems, changes, place, said):
        lines = problems(attributes={"principal": changes}, mechanism={"reference": "mean", "correlated": False})
        assert lines[0].startswith(f"attributes.principal.{place}: ")
        assert said in lines[0]

    def test_noise_key_selects_one_value(self, problems):
        assert problems(noise_key="ids[*]") == [
            "noise_key: 'ids[*]' is not allowed: use a path without [*], so that it selects one value"
        ]

    @pytest.mark.parametrize("other", ["diagnoses.principal.code", "diagnoses.principal", "diagnoses.principal.code.x"])
    def test_attributes_must_not_overlap(self, problems, other):
        lines = problems(attributes={"secondary": {"path": other}})
        assert lines == [
            f"attributes.secondary.path: {other!r} may select the same value as "
            "attributes.principal.path 'diagnoses.principal.code': use another path"
        ]

    def test_field_in_two_lists_is_an_error(self, problems):
        assert problems(fields={"keep": ["age", "['age']"], "drop": ["age"]}) == [
            "fields.keep[1]: \"['age']\" is also fields.keep[0]: list it once",
            "fields.drop[0]: 'age' is also fields.keep[0]: list it once",
        ]

    @pytest.mark.parametrize(
        "kept",
        ["diagnoses", "diagnoses.principal", "diagnoses.principal.code", "diagnoses.principal.display", "billing"],
    )
    def test_kept_field_must_not_contain_a_masked_one(self, problems, kept):
        written = {"label": "diagnoses.principal.display", "copies": ["billing.code"]}
        (line,) = problems(attributes={"principal": written}, fields={"keep": [kept]})
        assert line.startswith(f"fields.keep[0]: {kept!r} contains attributes.principal.")

    @pytest.mark.parametrize("kind", ["drop", "pseudonymize"])
    def test_masked_field_cannot_be_dropped_or_pseudonymized(self, problems, kind):
        assert len(problems(fields={kind: ["diagnoses.principal.code"]})) == 1


@pytest.mark.parametrize("name", sorted(RESERVED_PROPERTIES))
def test_reserved_kafka_properties_cannot_be_set(problems, name):
    assert problems(kafka={"properties": {name: "x"}}) == [
        f"kafka.properties.{name}: cannot be set: {RESERVED_PROPERTIES[name]}"
    ]


def test_window_must_hold_min_records(problems):
    assert problems(calibration={"min_records": 11, "window_records": 10}) == [
        "calibration.min_records: 11 is greater than window_records: use at most 10"
    ]


def test_reserved_headers_cannot_be_kept(problems):
    assert problems(message={"headers": ["a", "Stream-Masker-Version"]}) == [
        "message.headers[1]: names starting with stream-masker- are set by stream-masker"
    ]


@pytest.mark.parametrize("secret", [{}, {"file": "a", "env": "B"}])
def test_secret_has_exactly_one_source(problems, secret):
    assert problems(secret=secret) == ["secret: use exactly one of file and env"]


def test_all_inconsistencies_are_reported(problems):
    assert len(problems(topics={"output": "discharges"}, secret={}, calibration={"window_records": 1})) == 3


def test_a_unit_needs_a_mechanism_that_counts_units(problems, data):
    assert problems(groups={"unit": "patient.id"}) == [
        "groups.unit: semantic_noise does not count units: remove it, or use microaggregation"
    ]
    grouping = {"mechanism": {"name": "microaggregation"}}
    assert problems(**grouping, groups={"unit": "patients[*].id"}) == [
        "groups.unit: 'patients[*].id' is not allowed: use a path without [*], so that it selects one value"
    ]
    assert parse_configuration(data(**grouping, groups={"unit": "patient.id"})).groups.unit == "patient.id"
