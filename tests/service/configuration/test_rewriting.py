"""Configurations with another mechanism."""

from __future__ import annotations

from copy import deepcopy

import pytest
import yaml

from stream_masker.service.configuration import parse_configuration
from stream_masker.service.configuration.display import configuration_yaml, with_mechanism

FILE = {
    "ontologies": {"tree": {"source": "tree.csv"}},
    "attributes": {
        "a": {"path": "a", "ontology": "tree", "alpha": 0.2},
        "b": {"path": "b", "ontology": "tree"},
    },
    "fields": {"unlisted": "drop"},
    "noise_key": "position",
}
NOISE = ("semantic_noise", {"reference": "root", "alpha": 0.5})
DEFAULT = 0.3
PRAM = ("pram", {"retention": 0.25})


def loaded(data):
    return parse_configuration(yaml.safe_load(configuration_yaml(data, "a comment")))


@pytest.mark.parametrize("file_mechanism", [{}, {"mechanism": {"name": "semantic_noise"}}])
@pytest.mark.parametrize(("name", "options"), [NOISE, PRAM])
def test_a_file_gets_another_mechanism_and_its_noise_level(file_mechanism, name, options):
    configuration = loaded(with_mechanism({**FILE, **file_mechanism}, name, options))
    assert configuration.mechanism.name == name
    assert {attribute.alpha for attribute in configuration.attributes.values()} == {options.get("alpha", DEFAULT)}
    assert configuration.fields == loaded(FILE).fields


def test_a_level_of_the_records_keeps_its_path_and_gets_another_default():
    levels = {"path": "level", "default": 0.2}
    given = {**FILE, "attributes": {"a": {"path": "a", "ontology": "tree", "alpha": levels}}}
    assert with_mechanism(given, *NOISE)["attributes"]["a"]["alpha"] == {"path": "level", "default": 0.5}
    assert with_mechanism(given, *PRAM)["attributes"] == given["attributes"]


def test_attributes_of_the_environment_stay_there():
    given = {section: value for section, value in FILE.items() if section != "attributes"}
    assert set(with_mechanism(given, *NOISE)) == {*given, "mechanism"}


def test_the_given_data_stay_as_they_are_and_sections_are_written_in_full():
    given = deepcopy(FILE)
    assert "&id" not in configuration_yaml(with_mechanism(given, *NOISE), "")
    assert given == FILE
