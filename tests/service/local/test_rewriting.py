"""Configurations with another mechanism, of the file itself and of one of its populations."""

from __future__ import annotations

from copy import deepcopy

import pytest
import yaml

from stream_masker.errors import ConfigurationError
from stream_masker.service.configuration import parse_configuration
from stream_masker.service.local.rewriting import configuration_yaml, with_mechanism

FILE = {
    "ontologies": {"tree": {"source": "tree.csv"}},
    "attributes": {
        "a": {"path": "a", "ontology": "tree", "alpha": 0.2},
        "b": {"path": "b", "ontology": "tree"},
    },
    "fields": {"unlisted": "drop"},
    "noise_key": "position",
    "populations": {
        "emergency": {"topics": {"input": "visits"}},
        "ward": {
            "topics": {"input": "stays"},
            "attributes": {"why": {"path": "why", "ontology": "tree"}},
            "mechanism": {"name": "pram", "retention": 0.5},
        },
    },
}
NOISE = ("semantic_noise", {"reference": "root", "alpha": 0.5})
DEFAULT = 0.3
PRAM = ("pram", {"retention": 0.25})


def populations(data):
    return parse_configuration(yaml.safe_load(configuration_yaml(data, "a comment"))).by_population


@pytest.mark.parametrize("chosen", ["", "emergency", "ward"])
@pytest.mark.parametrize("file_mechanism", [{}, {"mechanism": {"name": "semantic_noise"}}])
@pytest.mark.parametrize(("name", "options"), [NOISE, PRAM])
def test_only_the_chosen_population_gets_another_mechanism(chosen, file_mechanism, name, options):
    given = {**FILE, **file_mechanism}
    before, after = populations(given), populations(with_mechanism(given, name, options, chosen))
    assert list(after) == list(before)
    for population, configuration in after.items():
        if population != chosen:
            assert configuration.masking_sections() == before[population].masking_sections()
            assert configuration.default_reason == before[population].default_reason
    assert after[chosen].mechanism.name == name
    assert {attribute.alpha for attribute in after[chosen].attributes.values()} == {options.get("alpha", DEFAULT)}


def test_a_file_without_populations_gets_none():
    given = {section: value for section, value in FILE.items() if section != "populations"}
    assert set(with_mechanism(given, *NOISE)) == {*given, "mechanism"}


def test_a_level_of_the_records_keeps_its_path_and_gets_another_default():
    levels = {"path": "level", "default": 0.2}
    given = {**FILE, "attributes": {"a": {"path": "a", "ontology": "tree", "alpha": levels}}}
    changed = with_mechanism(given, *NOISE, "emergency")
    assert changed["populations"]["emergency"]["attributes"]["a"]["alpha"] == {"path": "level", "default": 0.5}
    assert changed["attributes"] == given["attributes"]
    assert with_mechanism(given, *PRAM)["attributes"] == given["attributes"]


def test_the_given_data_stay_as_they_are_and_sections_are_written_in_full():
    given = deepcopy(FILE)
    for population in ("", "emergency"):
        assert "&id" not in configuration_yaml(with_mechanism(given, *NOISE, population), "")
    assert given == FILE


def test_a_population_of_the_environment_is_refused():
    with pytest.raises(ConfigurationError, match=r"^populations\.other: not in the file, only in the environment$"):
        with_mechanism(FILE, *NOISE, "other")
