"""Construction of ontologies, taxonomies, plan and mechanism from a configuration."""

from __future__ import annotations

import pytest
import yaml
from support import examples

from stream_masker.errors import ConfigurationError
from stream_masker.pipeline.paths import compile_path
from stream_masker.pipeline.plan import MessagePolicy
from stream_masker.service.configuration import parse_configuration
from stream_masker.service.configuration.build import build_mechanism, build_plan, build_taxonomies, load_ontologies

EDGES = """concept,parent,label
Disease,,Disease
Infection,Disease,Infection
Cholera,Infection,Cholera
Typhoid,Infection,Typhoid fever
Injury,Disease,Injury
"""


@pytest.fixture
def build(data, tmp_path):
    """Parse a configuration with a small ontology in a file; ``given`` is merged into the minimal one."""
    (tmp_path / "diseases.csv").write_text(EDGES)
    (tmp_path / "bare.csv").write_text("concept,parent\nA,\nB,A\n")
    (tmp_path / "local.csv").write_text("value,concept\nC,Cholera\n")
    (tmp_path / "wrong.csv").write_text("value,concept\nC,Nothing\n")

    def built(**given):
        merged = data(ontologies={"icd": {"source": "diseases.csv"}})
        for key, value in given.items():
            merged[key] = {**merged.get(key, {}), **value} if isinstance(value, dict) else value
        return parse_configuration(merged, folder=tmp_path)

    return built


def attributes(**principal):
    return {
        "principal": {"path": "p.code", "ontology": "icd", **principal},
        "secondary": {"path": "s[*].code", "ontology": "icd"},
    }


class TestOntologies:
    def test_attributes_with_equal_roots_share_a_taxonomy(self, build):
        taxonomies = build_taxonomies(build())
        assert taxonomies["principal"] is taxonomies["secondary"]
        assert list(taxonomies) == ["principal", "secondary"]

    def test_root_restricts_the_taxonomy(self, build):
        given = attributes(root="Infection")
        taxonomies = build_taxonomies(build(attributes=given, mechanism={"reference": "mean"}))
        assert {name: len(taxonomy) for name, taxonomy in taxonomies.items()} == {"principal": 3, "secondary": 5}

    def test_unknown_root_is_an_error(self, build):
        given = build(attributes=attributes(root="Nothing"), mechanism={"reference": "mean"})
        with pytest.raises(
            ConfigurationError, match=r"attributes\.principal\.root: 'Nothing' is not a concept of the ont"
        ):
            build_taxonomies(given)

    @pytest.mark.parametrize("source", ["nowhere.csv", "icd11", "local.csv"])
    def test_invalid_source_is_an_error(self, build, source):
        with pytest.raises(ConfigurationError, match=r"^ontologies\.icd\.source: "):
            load_ontologies(build(ontologies={"icd": {"source": source}}))


class TestPlan:
    def test_plan_has_the_attributes(self, build):
        given = attributes(label="p.label", copies=["q"], missing="keep", unknown="suppress", mapping="local.csv")
        plan = build_plan(build(attributes=given))
        first, second = plan.attributes
        assert first.places == ((compile_path("p.code"), compile_path("p.label"), (compile_path("q"),)),)
        assert (first.name, first.missing, first.concepts.unknown) == ("principal", "keep", "suppress")
        assert first.concepts.taxonomy.ids[first.concepts.find("C").position] == "Cholera"
        assert (second.name, second.is_array, second.missing) == ("secondary", True, "reject")
        assert [place.label for place in second.places] == [None]

    def test_plan_has_message_noise_key_and_limits(self, build):
        configuration = build(
            message={"key": "drop", "headers": ["a"]}, noise_key="patient.id", limits={"record_bytes": 9}
        )
        plan = build_plan(configuration)
        assert plan.configuration == configuration.hash
        assert plan.message == MessagePolicy(key="drop", headers=("a",))
        assert plan.noise_key == compile_path("patient.id")
        assert plan.record_bytes == 9

    def test_label_requires_labels_in_the_ontology(self, build):
        given = build(ontologies={"icd": {"source": "bare.csv"}}, attributes=attributes(label="p.label"))
        with pytest.raises(ConfigurationError, match=r"attributes\.principal\.label: the ontology icd has no labels"):
            build_plan(given)

    @pytest.mark.parametrize("mapping", ["nowhere.csv", "wrong.csv", "diseases.csv"])
    def test_invalid_mapping_is_an_error(self, build, mapping):
        with pytest.raises(ConfigurationError, match=r"^attributes\.principal\.mapping: "):
            build_plan(build(attributes=attributes(mapping=mapping)))


RECORDS = [{"principal": p, "secondary": [s]} for p in ("Cholera", "Injury") for s in ("Typhoid", "Infection")] * 5


class TestMechanism:
    def masked(self, configuration, secret):
        built = build_mechanism(configuration, secret)
        built.learn_many(RECORDS, time=0.0)
        built.calibrate()
        return built.mask_many(RECORDS, keys=[bytes([i]) for i in range(len(RECORDS))])

    def test_secret_determines_the_noise(self, build):
        once, again, other = (self.masked(build(), secret * 16) for secret in (b"a", b"a", b"b"))
        assert once == again
        assert once != other

    def test_noise_is_random_without_a_secret(self, build):
        assert self.masked(build(), None) != self.masked(build(), None)


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"path": "after.codes[*] | before.codes[*]"}, "list its further paths in also"),
        ({"path": "after.code", "also": ["before.code"]}, "also needs a path with"),
    ],
)
def test_several_paths_are_of_one_code_or_of_an_array(build, changed, problem):
    with pytest.raises(ConfigurationError, match=problem):
        build_plan(build(attributes=attributes(**changed)))


def test_a_code_may_have_several_paths(build):
    (principal, _) = build_plan(build(attributes=attributes(path="after.code | before.code", label=".text"))).attributes
    assert [path.text for path in principal.written] == [
        "after.code",
        ".text beside after.code",
        "before.code",
        ".text beside before.code",
    ]


def test_the_plan_of_fhir_messages_lists_the_types_and_keeps_them():
    plan = build_plan(parse_configuration(fhir_bundle()))
    assert plan.fhir is not None
    assert plan.fhir.listed == {"Patient", "Encounter", "Condition", "Claim", "ExplanationOfBenefit"}
    assert not plan.fhir.keeps_others
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
        (
            "attributes",
            {"label": "Condition.code.text"},
            "is the label of one path: use a name beside each code, as .text",
        ),
        ("attributes", {"label": ".display[0]"}, "'.display[0]' is not allowed: use names, as in .display"),
        (
            "fields",
            {"drop": ["Condition.subject.display"], "references": ["Condition.id", "Condition.subject"]},
            "fields.drop[0]: 'Condition.subject.display' is inside fields.references[1] 'Condition.subject', of which "
            "reference and type are left",
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


def fhir_bundle():
    return yaml.safe_load((examples.FOLDER / "fhir-bundle" / "stream-masker.yaml").read_text())
