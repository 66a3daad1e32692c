"""The complete example: it contains every key, and its values are the defaults."""

from __future__ import annotations

import re

import yaml

from stream_masker.core.mechanisms import MECHANISMS
from stream_masker.service.configuration import Configuration, configuration_schema, load_configuration

EXAMPLES = {"ontologies", "attributes", "fields", "mechanism", "noise_key", "produce", "secret"}
"""Sections without defaults, or whose defaults depend on others; the example has its own values."""


def test_example_is_valid(example):
    configuration = load_configuration(example, {})
    assert list(configuration.attributes) == ["principal", "secondary"]
    assert configuration.resolve("a") == example.parent / "a"


def test_example_contains_every_key(example):
    text = example.read_text()
    schema = configuration_schema()
    keys = {key for part in [schema, *schema["$defs"].values()] for key in part["properties"]}
    assert [key for key in sorted(keys) if not re.search(rf"(^|[ {{]){key}:", text, re.MULTILINE)] == []


def test_example_shows_the_defaults(example):
    configuration = load_configuration(example, {})
    bare = Configuration.model_validate(
        {"ontologies": {"icd": {"source": "icd10cm"}}, "attributes": {"a": {"path": "a", "ontology": "icd"}}}
        | {"fields": {"unlisted": "drop"}, "noise_key": "patient.id"}
    )
    shown, defaults = configuration.model_dump(), bare.model_dump()
    shown["kafka"]["properties"], shown["message"]["headers"] = {}, ()
    assert {k: v for k, v in shown.items() if k not in EXAMPLES} == {
        k: v for k, v in defaults.items() if k not in EXAMPLES
    }


def alternatives(example):
    """Return the commented lines with other mechanisms."""
    return [line.removeprefix("# ") for line in example.read_text().splitlines() if line.startswith("# mechanism: ")]


def test_commented_mechanisms_are_complete_and_valid(example, write):
    shown = []
    for line in alternatives(example):
        data = yaml.safe_load(example.read_text())
        for attribute in data["attributes"].values():
            attribute.pop("alpha", None)
        configuration = load_configuration(write(yaml.safe_dump({**data, **yaml.safe_load(line)})), {})
        shown.append(configuration.mechanism.name)
    assert list(dict.fromkeys(shown)) == list(MECHANISMS)
