"""Paths of FHIR messages in a configuration: types, labels beside codes, and further places of codes."""

from __future__ import annotations

import pytest
import yaml
from support import examples

from stream_masker.errors import ConfigurationError
from stream_masker.pipeline.paths import compile_path
from stream_masker.service.configuration import parse_configuration
from stream_masker.service.configuration.build import build_plan

FILE = examples.FOLDER / "fhir-bundle" / "stream-masker.yaml"


@pytest.fixture
def content():
    return yaml.safe_load(FILE.read_text())


def problem(content):
    with pytest.raises(ConfigurationError) as error:
        parse_configuration(content)
    return str(error.value)


def test_the_plan_lists_the_types_and_keeps_them(content):
    plan = build_plan(parse_configuration(content))
    assert plan.fhir is not None
    assert plan.fhir.listed == {"Patient", "Encounter", "Condition", "Claim", "ExplanationOfBenefit"}
    assert not plan.fhir.keeps_others
    assert plan.noise_key == compile_path("patient")
    (attribute,) = plan.attributes
    assert [place.path.text.split(".")[0] for place in attribute.places] == [
        "Condition",
        "Encounter",
        "Claim",
        "ExplanationOfBenefit",
    ]
    assert all(place.label.steps[:-1] == place.path.steps[:-1] for place in attribute.places)


@pytest.mark.parametrize("kind", ["keep", "drop", "references"])
def test_a_path_without_a_type_is_refused(content, kind):
    content["fields"][kind] = ["status"]
    assert f"fields.{kind}[0]: path 'status': with records: fhir, a path starts with Bundle or a type" in problem(
        content
    )


def test_a_noise_key_without_a_type_is_refused(content):
    content["noise_key"] = "subject.reference"
    assert "noise_key: path 'subject.reference': with records: fhir, a path starts with" in problem(content)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"label": "Condition.code.text"}, "is the label of one path: use a name beside each code, as .text"),
        ({"label": ".display[0]"}, "'.display[0]' is not allowed: use names, as in .display"),
    ],
)
def test_unclear_places_are_refused(content, changes, message):
    content["attributes"]["diagnosis"].update(changes)
    assert message in problem(content)


@pytest.mark.parametrize("inside", ["Condition.subject.display", "Condition.subject.identifier.value"])
def test_a_field_inside_a_reference_is_refused(content, inside):
    content["fields"]["drop"] = [inside]
    content["fields"]["references"] = ["Condition.id", "Condition.subject"]
    message = f"{inside!r} is inside fields.references[1] 'Condition.subject', of which reference and type are left"
    assert f"fields.drop[0]: {message}" in problem(content)
