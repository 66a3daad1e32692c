"""What is built from a configuration, taxonomies, plan and mechanism; and what only building finds to be wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from golden import examples
from support.schemas import load_schema
from support.small_configuration import small_configuration

from stream_masker.core.mechanisms import MECHANISMS
from stream_masker.core.mechanisms.parameters import own_first
from stream_masker.errors import ConfigurationError
from stream_masker.pipeline.paths import compile_path
from stream_masker.service.configuration import parse_configuration
from stream_masker.service.configuration.build import (
    build_mechanism,
    build_plan,
    build_taxonomies,
    mechanism_parameters,
    noise_levels,
)
from stream_masker.service.configuration.masking import ELSEWHERE, IN_PYTHON, SECTIONS

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
        ({"path": "diagnoses.secondary"}, {}, "can select the same value"),
    ],
)
def test_the_plan_refuses_what_it_cannot_mask_by(build, principal, sections, said):
    """``tests/pipeline/test_plan.py`` has what a plan refuses by itself."""
    with pytest.raises(ConfigurationError, match=said):
        build_plan(build(principal, **sections))


def fhir_bundle():
    return yaml.safe_load((examples.FOLDER / "fhir-bundle" / "stream-masker.yaml").read_text())


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


SECRET = bytes(range(32))
SCALAR, ANOTHER = {"path": "main"}, {"path": "side"}
ARRAY, SECOND_ARRAY = {"path": "others[*]"}, {"path": "more[*]"}


def parse_attributes(*attributes, **sections):
    named = {f"a{i}": {"ontology": "small", **attribute} for i, attribute in enumerate(attributes)}
    return parse_configuration(
        small_configuration(source="flat.csv", attributes=named, **sections), folder=Path(__file__).parent
    )


def test_every_mechanism_has_a_section_and_is_in_the_schemas_of_messages():
    version = load_schema("statistics")["properties"]
    headers = load_schema("masked-event")["properties"]["headers"]["properties"]
    enumerations = [
        SECTIONS,
        version["snapshot"]["properties"]["mechanism"]["enum"],
        headers["stream-masker-mechanism"]["enum"],
    ]
    assert [sorted(names) for names in enumerations] == [sorted(MECHANISMS)] * 3


@pytest.mark.parametrize("name", SECTIONS)
def test_a_section_has_the_parameters_of_the_constructor_and_its_name_is_enough(name, parse):
    elsewhere, given = ELSEWHERE | IN_PYTHON, own_first(MECHANISMS[name].parameters_type)
    wanted = {each.name: each.default for each in given if each.name not in elsewhere}
    section = dict(SECTIONS[name].model_fields)
    del section["name"]
    assert {key: field.default for key, field in section.items()} == wanted
    configuration = parse(mechanism={"name": name})
    assert parse_configuration(yaml.safe_load(configuration.shown_yaml())) == configuration
    made = build_mechanism(configuration, bytes(16))
    assert (made.name, made.attributes) == (name, ("principal", "secondary"))


DEFAULTS = {"rounding": "calibrated", "candidates": "observed", "alpha": 1.0}
PAPER, STRONG = {"rounding": "ceil", "candidates": "all"}, {"rounding": "ceil", "candidates": "leaves"}


@pytest.mark.parametrize(
    ("attributes", "mechanism", "expected"),
    [
        ([SCALAR], {}, {**DEFAULTS, "correlated": False, "reference": "mean"}),
        ([SCALAR, ANOTHER], {}, {**DEFAULTS, "correlated": True, "reference": "pair"}),
        ([SCALAR, ARRAY], {"distance": "log_taxonomic"}, {**DEFAULTS, "correlated": True, "reference": "pair"}),
        ([SCALAR, ANOTHER | {"root": "b"}], {}, {**DEFAULTS, "correlated": True, "reference": "mean"}),
        ([SCALAR, ARRAY, SECOND_ARRAY], {}, {**DEFAULTS, "correlated": False, "reference": "mean"}),
        ([SCALAR, ANOTHER], {"preset": "paper"}, {**PAPER, "alpha": 0.3, "reference": "pair"}),
        ([SCALAR, ANOTHER], {"preset": "strong"}, {**STRONG, "alpha": 1.0, "reference": "pair"}),
        ([SCALAR | {"alpha": 0.5}], {"preset": "paper"}, {**PAPER, "alpha": 0.5}),
    ],
)
def test_semantic_noise_is_the_default_and_depends_on_the_attributes_and_the_preset(attributes, mechanism, expected):
    configuration = parse_attributes(*attributes, **({"mechanism": mechanism} if mechanism else {}))
    chosen = mechanism_parameters(configuration)
    (chosen["alpha"],) = set(chosen["alpha"].values())
    assert {key: chosen[key] for key in expected} == expected
    assert build_mechanism(configuration, SECRET).name == "semantic_noise"


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"rounding": "ceil"}, "'ceil' is not allowed with candidates='observed': few concepts"),
        ({"name": "rank_swapping", "algorithm": "multivariate"}, "^mechanism: .*at least two attributes"),
    ],
)
def test_what_the_constructor_rejects_is_an_error(section, said):
    with pytest.raises(ConfigurationError, match=said):
        build_mechanism(parse_attributes(SCALAR, mechanism=section), SECRET)


@pytest.mark.parametrize(("name", "levels"), [("semantic_noise", [0.7, 1.0]), ("semantic_transport", [0.0, 0.0])])
def test_only_noise_increases_the_variance(name, levels):
    configuration = parse_attributes(SCALAR | {"alpha": 0.7}, ANOTHER, mechanism={"name": name})
    assert list(noise_levels(configuration).values()) == levels
