"""Populations: the whole configuration of each, and what they may not have in common."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from stream_masker.errors import ConfigurationError
from stream_masker.service.configuration import Configuration, load_configuration, parse_configuration
from stream_masker.service.configuration.display import redacted_yaml
from stream_masker.service.configuration.mutable_settings import mutable_settings, with_settings
from stream_masker.service.configuration.reload import ConfigurationFile
from stream_masker.service.kafka.names import calibrator_group, consumer_group_id, publisher_id, transactional_id_prefix

LABS = {
    "topics": {"input": "labs"},
    "attributes": {"test": {"path": "test", "ontology": "icd"}},
    "fields": {"keep": ["sample"], "unlisted": "drop"},
}
Parse = Callable[..., Configuration]
Problems = Callable[..., list[str]]


def test_a_population_has_the_sections_of_the_file_except_its_own(parse: Parse) -> None:
    whole = parse(
        calibration={"min_records": 200, "window_age": "7d"},
        ontologies={"own": {"values": ["x", "y"]}},
        populations={
            "labs": {**LABS, "calibration": {"min_records": 50}, "ontologies": {"more": {"values": ["a", "b"]}}}
        },
    )
    own, labs = whole.by_population.values()
    assert list(whole.by_population) == ["", "labs"]
    assert (own.population, labs.population) == ("", "labs")
    assert (own.populations, labs.populations) == ({}, {})
    assert [*own.attributes] == ["principal", "secondary"]
    assert [*labs.attributes] == ["test"]
    assert labs.fields.keep == ("sample",)
    assert (labs.calibration.min_records, labs.calibration.window_age) == (50, 7 * 86_400)
    assert own.calibration.min_records == 200
    assert [*labs.ontologies] == ["icd", "own", "more"]
    assert own.hash == parse(ontologies={"own": {"values": ["x", "y"]}}).hash != labs.hash


def test_the_topics_of_a_population_derive_from_those_of_the_file(parse: Parse) -> None:
    topics = {"output": "masked.{topic}", "rejected": "rejections", "statistics": "numbers"}
    whole = parse(topics=topics, populations={"labs": {**LABS, "topics": {"input": ["a", "b"], "drift": "changes"}}})
    own, labs = (one.topics for one in whole.by_population.values())
    assert own.output == "masked.discharges"
    assert [labs.of(name).output for name in labs.names] == ["masked.a", "masked.b"]
    assert (labs.rejected, own.rejected) == ("rejections", "rejections")
    assert labs.internal == {
        "calibration": "stream-masker.calibration.labs",
        "statistics": "numbers.labs",
        "drift": "changes",
    }


def test_each_population_has_groups_and_transactional_ids_of_its_own(parse: Parse) -> None:
    for properties in ({}, {"group.id": "masking"}):
        found = parse(kafka={"properties": properties}, populations={"labs": LABS, "two": {"topics": {"input": "b"}}})
        every = [*found.by_population.values()]
        for name in (consumer_group_id, transactional_id_prefix, calibrator_group):
            assert len({name(one) for one in every}) == 3
        assert len({publisher_id(one.topics) for one in every}) == 3
    assert [consumer_group_id(one) for one in every] == ["masking", "masking.labs", "masking.two"]


def test_the_default_mechanism_is_that_of_the_attributes_of_the_population(parse: Parse) -> None:
    number = {"age": {"path": "age", "numeric": {"minimum": 0, "maximum": 9}}, **LABS["attributes"]}
    found = parse(
        attributes={"secondary": {"path": "diagnoses.second.code"}},
        populations={
            "labs": LABS,
            "numbers": {**LABS, "topics": {"input": "n"}, "attributes": number},
            "given": {**LABS, "topics": {"input": "g"}, "mechanism": {"reference": "root"}},
        },
    ).by_population
    names = {name: one.mechanism.name for name, one in found.items()}
    assert names == {
        "": "semantic_transport",
        "labs": "semantic_transport",
        "numbers": "semantic_noise",
        "given": "semantic_noise",
    }
    assert "masks no numbers" in (found["numbers"].default_reason or "")


def test_a_topic_determines_the_population(parse: Parse) -> None:
    whole = parse(populations={"labs": {**LABS, "topics": {"input": ["a", "b"]}}})
    found = whole.for_topic("b")
    assert (found.population, found.topics.single, found.topics.output) == ("labs", "b", "b.masked")
    assert whole.for_topic("discharges").population == ""
    with pytest.raises(ConfigurationError, match="'c' is none of the input topics"):
        whole.for_topic("c")
    with pytest.raises(ConfigurationError, match="populations: there are several: choose one by its input topic"):
        _ = whole.single_population
    assert whole.by_population["labs"].single_population.population == "labs"


def test_problems_name_the_population(parse: Parse, data: Callable[..., dict[str, Any]]) -> None:
    broken = {**LABS, "attributes": {"test": {"path": "test", "ontology": "icdd"}}}
    with pytest.raises(ConfigurationError) as caught:
        parse(populations={"labs": broken})
    assert str(caught.value).splitlines() == [
        "configuration, population labs: the configuration has 1 problem",
        "  attributes.test.ontology: 'icdd' is not in ontologies: use icd; did you mean 'icd'?",
    ]
    variable = {"STREAM_MASKER__POPULATIONS__LABS__CALIBRATION__MIN_RECORDS": "1000000"}
    with pytest.raises(ConfigurationError, match=r"calibration\.min_records \(from STREAM_MASKER__POPULATIONS__LABS"):
        parse_configuration(data(populations={"labs": LABS}), environ=variable)


@pytest.mark.parametrize(
    ("sections", "problem"),
    [
        ({"attributes": LABS["attributes"]}, "populations.labs.topics: required"),
        ({"topics": {}}, "populations.labs.topics.input: required"),
        ({**LABS, "kafka": {}}, "populations.labs.kafka: unknown key"),
        ({**LABS, "mechanism": {"name": "pramm"}}, "populations.labs.mechanism.name: 'pramm' is not allowed"),
        ({**LABS, "attributes": {}}, "populations.labs.attributes: empty"),
        ("labs", "populations.labs: 'labs' is not allowed"),
    ],
)
def test_sections_of_another_shape_are_refused(problems: Problems, sections: Any, problem: str) -> None:
    found = problems(populations={"labs": sections})
    assert any(line.startswith(problem) for line in found), found


def test_the_shown_configuration_is_equivalent(parse: Parse) -> None:
    whole = parse(populations={"labs": LABS})
    again = parse_configuration(yaml.safe_load(redacted_yaml(whole)))
    for name, one in whole.by_population.items():
        assert again.by_population[name].model_dump() == one.model_dump()
    assert yaml.safe_load(redacted_yaml(whole.by_population["labs"]))["populations"] == {}


def test_settings_keep_the_population(parse: Parse) -> None:
    labs = parse(populations={"labs": LABS}).by_population["labs"]
    changed = with_settings(labs, {**mutable_settings(labs), "fields": {"unlisted": "drop"}})
    assert changed.population == "labs"
    assert consumer_group_id(changed) == consumer_group_id(labs)
    assert changed.hash != labs.hash


def test_a_watched_file_is_that_of_one_population(tmp_path: Path, data: Callable[..., dict[str, Any]]) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(yaml.safe_dump(data(populations={"labs": LABS})))
    own, labs = (ConfigurationFile(path, {}, population=name) for name in ("", "labs"))
    path.write_text(yaml.safe_dump(data(populations={"labs": {**LABS, "fields": {"unlisted": "drop"}}})))
    assert labs.reload_if_changed()
    assert not own.reload_if_changed()
    assert (labs.current.fields.keep, labs.current.population) == ((), "labs")
    path.write_text(yaml.safe_dump(data()))
    assert not labs.reload_if_changed()
    assert "populations.labs: missing" in (labs.refused or "")
    assert own.refused is None


def test_the_complete_example_shows_a_valid_population(tmp_path: Path, example: Path) -> None:
    lines = example.read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("# populations:"))
    end = lines.index("", start)
    shown = "\n".join([*lines[:start], *(line.removeprefix("# ") for line in lines[start:end]), *lines[end:]])
    data = yaml.safe_load(shown)
    data["topics"].update(output="{topic}.masked", rejected="{topic}.rejected")
    for section in ("attributes", "mechanism"):
        data["populations"]["emergency"].setdefault(section, data[section])
    path = tmp_path / "c.yaml"
    path.write_text(yaml.safe_dump(data, sort_keys=False))
    assert list(load_configuration(path, {}).by_population) == ["", "emergency"]
