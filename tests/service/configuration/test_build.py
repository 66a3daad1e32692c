"""What is built from a configuration, taxonomies, plan and mechanism; and what only building finds to be wrong."""

from __future__ import annotations

import pytest
import yaml
from golden import examples

from stream_masker.errors import ConfigurationError
from stream_masker.pipeline.paths import compile_path
from stream_masker.service.configuration import parse_configuration
from stream_masker.service.configuration.build import build_plan, build_taxonomies

FILES = {
    "diseases.csv": "concept,parent,label\nDisease,,Disease\nInfection,Disease,Infection\nCholera,Infection,Cholera\n"
    "Typhoid,Infection,Typhoid fever\nInjury,Disease,Injury\n",
    "bare.csv": "concept,parent\nA,\nB,A\n",
    "local.csv": "value,concept\nC,Cholera\n",
    "wrong.csv": "value,concept\nC,Nothing\n",
}


@pytest.fixture
def build(data, tmp_path):
    """Parse the minimal configuration with a small ontology, keys of its first attribute, and sections."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)

    def built(principal=None, **sections):
        given = {"ontologies": {"icd": {"source": "diseases.csv"}}, "mechanism": {"reference": "mean"}, **sections}
        return parse_configuration(data(**given, attributes={"principal": principal or {}}), folder=tmp_path)

    return built


def test_attributes_with_equal_roots_share_a_taxonomy_and_a_root_restricts_it(build):
    taxonomies = build_taxonomies(build())
    assert taxonomies["principal"] is taxonomies["secondary"]
    taxonomies = build_taxonomies(build({"root": "Infection"}))
    assert {name: len(taxonomy) for name, taxonomy in taxonomies.items()} == {"principal": 3, "secondary": 5}


def test_the_plan_has_attributes_message_key_and_limits(build):
    given = {"path": "p.code", "label": "p.label", "copies": ["q"], "missing": "keep", "unknown": "suppress"}
    message = {"key": "drop", "headers": ["a"]}
    configuration = build(
        {**given, "mapping": "local.csv"}, message=message, noise_key="patient.id", limits={"record_bytes": 9}
    )
    plan = build_plan(configuration)
    first, second = plan.attributes
    assert first.places == ((compile_path("p.code"), compile_path("p.label"), (compile_path("q"),)),)
    assert (first.name, first.missing, first.concepts.unknown) == ("principal", "keep", "suppress")
    assert first.concepts.taxonomy.ids[first.concepts.find("C").position] == "Cholera"
    assert (second.name, second.is_array, second.missing, second.places[0].label) == ("secondary", True, "reject", None)
    assert (plan.configuration, plan.record_bytes) == (configuration.hash, 9)
    assert (plan.key, plan.headers) == ("drop", ("a",))
    assert plan.noise_key == compile_path("patient.id")


@pytest.mark.parametrize(
    ("principal", "sections", "said"),
    [
        *(
            ({}, {"ontologies": {"icd": {"source": source}}}, r"^ontologies\.icd\.source: ")
            for source in ("nowhere.csv", "icd11", "local.csv")
        ),
        *(
            ({"mapping": name}, {}, r"^attributes\.principal\.mapping: ")
            for name in ("no.csv", "wrong.csv", "bare.csv")
        ),
        ({"root": "Nothing"}, {}, r"^attributes\.principal\.root: root='Nothing' is not a concept of the ontology"),
        (
            {"label": "p.label"},
            {"ontologies": {"icd": {"source": "bare.csv"}}},
            r"attributes\.principal\.label: the ontology icd has no labels",
        ),
        ({"path": "after.codes[*] | before.code"}, {}, r"'before.code' both need a \[\*\], or none"),
        ({"path": "coding[?system=icd]"}, {}, "ends with a filter"),
        ({"label": "labels[*]"}, {}, r"must have a \[\*\] exactly where"),
        ({"path": "diagnoses.secondary"}, {}, "can select the same value"),
        ({}, {"noise_key": "ids[*]"}, r"noise_key: path 'ids\[\*\]' has a \[\*\]; it must select one value"),
        ({}, {"message": {"headers": ["stream-masker-version"]}}, "is set by stream-masker itself"),
    ],
)
def test_the_plan_refuses_what_it_cannot_mask_by(build, principal, sections, said):
    with pytest.raises(ConfigurationError, match=said):
        build_plan(build(principal, **sections))


def fhir_bundle():
    return yaml.safe_load((examples.FOLDER / "fhir-bundle" / "stream-masker.yaml").read_text())


def test_the_plan_of_fhir_messages_lists_the_types_and_keeps_them():
    plan = build_plan(parse_configuration(fhir_bundle()))
    assert plan.fhir is not None
    assert plan.fhir == {"Patient", "Encounter", "Condition", "Claim", "ExplanationOfBenefit"}
    assert plan.noise_key == compile_path("patient")
    (attribute,) = plan.attributes
    types = [place.path.text.split(".")[0] for place in attribute.places]
    assert types == ["Condition", "Encounter", "Claim", "ExplanationOfBenefit"]
    assert all(place.label.steps[:-1] == place.path.steps[:-1] for place in attribute.places)


TYPELESS = "with records: fhir, a path starts with Bundle or a type"


@pytest.mark.parametrize(
    ("section", "changes", "said"),
    [
        ("fields", {"keep": ["status"]}, f"fields.keep[0]: path 'status': {TYPELESS}"),
        ("fields", {"references": ["status"]}, f"fields.references[0]: path 'status': {TYPELESS}"),
        (None, {"noise_key": "subject.reference"}, f"noise_key: path 'subject.reference': {TYPELESS}"),
        ("attributes", {"label": "Condition.code.text"}, "is the label of one path: use a name beside each code"),
        ("attributes", {"label": ".display[0]"}, "'.display[0]' is not allowed: use names, as in .display"),
        (
            "fields",
            {"drop": ["Condition.subject.display"], "references": ["Condition.id", "Condition.subject"]},
            "fields.drop[0]: 'Condition.subject.display' is inside fields.references[1] 'Condition.subject', of which",
        ),
    ],
)
def test_unclear_paths_of_fhir_messages_are_refused(section, changes, said):
    content = fhir_bundle()
    changed = content["attributes"]["diagnosis"] if section == "attributes" else content.get(section, content)
    changed.update(changes)
    with pytest.raises(ConfigurationError) as error:
        parse_configuration(content)
    assert said in str(error.value)
