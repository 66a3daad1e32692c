"""The sections of the mechanisms: their parameters, defaults and errors."""

from __future__ import annotations

from inspect import signature
from typing import get_args

import pytest
import yaml
from support.schemas import load_schema

from stream_masker.core.mechanisms import MECHANISMS
from stream_masker.errors import ConfigurationError
from stream_masker.service.configuration import parse_configuration
from stream_masker.service.configuration.build import build_mechanism, noise_levels
from stream_masker.service.configuration.display import redacted_yaml
from stream_masker.service.configuration.mechanisms import MechanismSection, MechanismSettings

FROM_ELSEWHERE = {
    "parameters",
    "taxonomies",
    "alpha",
    "group_records",
    "window",
    "window_age",
    "rollup_depth",
    "seed",
}
"""Constructor parameters that come from other sections of the configuration."""

SECTIONS: dict[str, type[MechanismSection]] = {
    option.model_fields["name"].annotation.__args__[0]: option for option in get_args(get_args(MechanismSettings)[0])
}


def test_every_mechanism_has_a_section():
    assert SECTIONS.keys() == MECHANISMS.keys()


@pytest.mark.parametrize("name", SECTIONS)
def test_section_matches_the_constructor(name):
    wanted = {key: p.default for key, p in signature(MECHANISMS[name]).parameters.items() if key not in FROM_ELSEWHERE}
    section = SECTIONS[name].model_fields
    assert [key for key in section if key not in ("name", "alpha")] == list(wanted)
    for key, default in wanted.items():
        by_attributes = name == "semantic_noise" and key in {"correlated", "reference"}
        assert (None if by_attributes else section[key].default) == default, key


@pytest.mark.parametrize("name", SECTIONS)
def test_name_alone_builds_the_mechanism(name, parse):
    made = build_mechanism(parse(mechanism={"name": name}), bytes(16))
    assert (made.name, made.attributes) == (name, ("principal", "secondary"))


def test_message_schemas_list_every_mechanism():
    version = load_schema("statistics")["properties"]
    headers = load_schema("masked-event")["properties"]["headers"]["properties"]
    enumerations = [
        version["mechanism"]["enum"],
        version["snapshot"]["properties"]["mechanism"]["enum"],
        headers["stream-masker-mechanism"]["enum"],
    ]
    assert [sorted(names) for names in enumerations] == [sorted(MECHANISMS)] * 3


def test_hash_covers_the_context_and_its_order(parse):
    def hash_of(**given: object) -> str:
        fields = {"fields": {"keep": ["sex", "age"]}}
        return parse(mechanism={"name": "semantic_transport", **given}, **fields).hash

    kinds = {"sex": ["F", "M"], "age": [18, 65]}
    given = [{}, {"context": kinds}, {"context": dict(reversed(kinds.items()))}, {"context": {"sex": ["F", "M"]}}]
    assert len({hash_of(**each) for each in given}) == len(given)
    assert hash_of(certainty=0.5) == hash_of() != hash_of(certainty=0.4)


def test_only_noise_is_to_increase_the_variance(parse):
    """Semantic transport keeps sVar, and α is only its distance."""
    transport = parse(mechanism={"name": "semantic_transport"})
    assert noise_levels(transport) == {"principal": 0.0, "secondary": 0.0}
    noise = parse(mechanism={"name": "semantic_noise"})
    assert noise_levels(noise) == {"principal": 1.0, "secondary": 1.0}


class TestProblems:
    @pytest.mark.parametrize("name", [7, [], "x"])
    def test_invalid_name_is_an_error(self, problems, name):
        (problem,) = problems(mechanism={"name": name})
        assert problem.startswith("mechanism.name: ")
        assert "is not allowed: use semantic_noise, " in problem

    def test_key_of_another_mechanism_is_an_error(self, problems):
        assert problems(mechanism={"name": "rank_swapping", "correlated": True}) == [
            "mechanism.correlated: unknown key: use name, k, multivariate, intervals or distance"
        ]
        assert problems(mechanism={"multivariate": True})[0].startswith(
            "mechanism.multivariate: unknown key: use name, preset, correlated"
        )

    def test_noise_level_for_a_mechanism_without_noise_is_an_error(self, problems):
        assert problems(mechanism={"name": "rank_swapping"}, attributes={"principal": {"alpha": 0.5}}) == [
            "attributes.principal.alpha: rank_swapping has no noise level: remove it"
        ]

    @pytest.mark.parametrize("name", SECTIONS)
    def test_displayed_configuration_can_be_parsed_again(self, name, parse):
        configuration = parse(mechanism={"name": name})
        assert parse_configuration(yaml.safe_load(redacted_yaml(configuration))) == configuration

    def test_parameter_that_the_constructor_rejects_is_an_error(self, parse):
        with pytest.raises(ConfigurationError, match=r"^mechanism: .*k"):
            build_mechanism(parse(mechanism={"name": "microaggregation", "k": 500_000}), bytes(16))
