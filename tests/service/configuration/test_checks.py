"""Consistency checks between the values of a configuration."""

from __future__ import annotations

import pytest

from stream_masker.errors import ConfigurationError
from stream_masker.service.configuration import parse_configuration
from stream_masker.service.configuration.build import build_plan
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
        ("sections", "said"),
        [
            ({"attributes": {"principal": {"path": "coding[?system=icd]"}}}, "ends with a filter"),
            ({"attributes": {"principal": {"label": "labels[*]"}}}, r"must have a \[\*\] exactly where"),
            ({"attributes": {"secondary": {"path": "diagnoses.principal"}}}, "can select the same value"),
            ({"fields": {"keep": ["age"], "drop": ["age"]}}, "'age' is in keep and in drop"),
            ({"noise_key": "ids[*]"}, r"noise_key: path 'ids\[\*\]' has a \[\*\]; it must select one value"),
            ({"message": {"headers": ["stream-masker-version"]}}, "is set by stream-masker itself"),
        ],
    )
    def test_the_plan_refuses_paths_that_it_cannot_mask_by(self, parse, sections, said):
        with pytest.raises(ConfigurationError, match=said):
            build_plan(parse(**sections))

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


@pytest.mark.parametrize("secret", [{}, {"file": "a", "env": "B"}])
def test_secret_has_exactly_one_source(problems, secret):
    said = f"secret: a mapping of {len(secret)} is not allowed: use exactly one of file and env"
    assert problems(secret=secret) == [said]


def test_all_inconsistencies_are_reported(problems):
    assert len(problems(topics={"output": "discharges"}, calibration={"window_records": 1})) == 2


def test_a_unit_needs_a_mechanism_that_counts_units(problems, data):
    assert problems(groups={"unit": "patient.id"}) == [
        "groups.unit: semantic_noise does not count units: remove it, or use microaggregation"
    ]
    grouping = {"mechanism": {"name": "microaggregation"}}
    assert parse_configuration(data(**grouping, groups={"unit": "patient.id"})).groups.unit == "patient.id"
