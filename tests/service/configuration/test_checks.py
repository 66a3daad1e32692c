"""Consistency checks between the values of a configuration."""

from __future__ import annotations

import pytest

from stream_masker.service.configuration import parse_configuration
from stream_masker.service.configuration.checks import RESERVED_PROPERTIES


def attribute(path="x", ontology="icd", **more):
    return {"path": path, "ontology": ontology, **more}


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


class TestPairs:
    def test_single_attribute_has_no_pair(self, data, problems_of):
        given = data(mechanism={"reference": "pair"})
        del given["attributes"]["secondary"]
        (line,) = problems_of(given)
        assert line.startswith("mechanism.reference: pair needs every attribute in exactly one pair")
        assert line.endswith("use correlated: false and reference: mean (2017: Table 9, Uncorrelated-Algorithm1)")

    def test_three_attributes_have_no_default_pair(self, problems):
        (line,) = problems(attributes={"third": attribute()}, mechanism={"reference": "pair"})
        assert line.startswith("mechanism.reference: pair needs every attribute in exactly one pair")
        assert "reference: mean to keep the sMean (2017: Table 9, Correlated-Algorithm1)" in line
        assert "reference: root to keep the sdCor (Correlated-Algorithm3)" in line

    @pytest.mark.parametrize(
        "changes",
        [
            {"ontologies": {"other": {"source": "other.csv"}}, "attributes": {"secondary": {"ontology": "other"}}},
            {"attributes": {"secondary": {"root": "A00-B99"}}},
        ],
    )
    def test_pair_needs_one_taxonomy(self, problems, changes):
        (line,) = problems(**changes, mechanism={"reference": "pair"})
        assert line.startswith("mechanism.reference: pair needs one taxonomy, but principal and secondary have two: ")
        assert "2017: Table 9, Correlated-Algorithm1" in line
        assert "Correlated-Algorithm3" in line

    @pytest.mark.parametrize(
        "given", [[], [["principal", "principal"]], [["principal", "secondary"], ["secondary", "principal"]]]
    )
    def test_pairs_must_be_disjoint_and_cover_all_attributes(self, problems, given):
        (line,) = problems(mechanism={"pairs": given})
        assert line.startswith("mechanism.pairs: pair needs every attribute in exactly one pair")

    def test_pair_with_unknown_attribute_is_an_error(self, problems):
        lines = problems(mechanism={"pairs": [["principal", "other"]]})
        assert "mechanism.pairs[0][1]: 'other' is not an attribute: use principal, secondary" in lines

    def test_pairs_need_reference_pair(self, problems):
        assert problems(mechanism={"reference": "root", "pairs": [["principal", "secondary"]]}) == [
            "mechanism.pairs: only reference pair uses pairs: remove them"
        ]


ARRAYS = {"principal": {"path": "other[*].code"}}


class TestArrays:
    def test_correlated_noise_allows_one_array(self, problems):
        (line,) = problems(attributes=ARRAYS, mechanism={"correlated": True})
        assert line.startswith("mechanism.correlated: true allows one array attribute, but principal, secondary are")


class TestPaths:
    def test_invalid_paths_are_errors(self, problems):
        lines = problems(
            attributes={
                "principal": {"path": "a..b", "label": "[", "copies": ["x", "a[?b]"]},
            },
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


class TestAlpha:
    def test_alpha_is_at_least_the_configured_minimum(self, parse, problems):
        least = {"min_alpha": 0.3}
        assert parse(risk=least, attributes={"principal": {"alpha": 0.3}})
        noise = {"name": "semantic_noise"}
        for alpha in (0.2,):
            attributes = {name: {"alpha": alpha} for name in ("principal", "secondary")}
            (line, _) = problems(risk=least, attributes=attributes, mechanism=noise)
            assert line == "attributes.principal.alpha: 0.2 is below risk.min_alpha, 0.3: use a higher one"

    @pytest.mark.parametrize("alpha", [0.2, {"principal": 0.2, "secondary": 0.5}])
    def test_alpha_of_a_transport_is_at_least_the_configured_minimum(self, problems, alpha):
        mechanism = {"name": "semantic_transport", "alpha": alpha}
        assert problems(risk={"min_alpha": 0.3}, mechanism=mechanism) == [
            "mechanism.alpha: 0.2 is below risk.min_alpha, 0.3: use a higher one"
        ]


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
