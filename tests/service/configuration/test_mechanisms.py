"""The sections of the mechanisms: their parameters, their defaults by the attributes, and what is said about them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from support.schemas import load_schema

from stream_masker.core.mechanisms import MECHANISMS
from stream_masker.core.mechanisms.parameters import own_first
from stream_masker.errors import ConfigurationError
from stream_masker.service.configuration import parse_configuration
from stream_masker.service.configuration.build import (
    build_mechanism,
    mechanism_parameters,
    noise_levels,
)
from stream_masker.service.configuration.masking import ELSEWHERE, IN_PYTHON, SECTIONS

SECRET = bytes(range(32))
SCALAR = {"path": "main", "ontology": "flat"}
ANOTHER = {"path": "side", "ontology": "flat"}
ARRAY = {"path": "others[*]", "ontology": "flat"}
SECOND_ARRAY = {"path": "more[*]", "ontology": "flat"}


def parse_attributes(*attributes, **sections):
    data = {
        "ontologies": {name: {"source": f"{name}.csv"} for name in {each["ontology"] for each in attributes}},
        "attributes": {f"a{i}": attribute for i, attribute in enumerate(attributes)},
        "fields": {"unlisted": "drop"},
        "noise_key": "position",
        **sections,
    }
    return parse_configuration(data, folder=Path(__file__).parent)


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
