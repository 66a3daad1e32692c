"""Loosening: settings that let more through than a process's own file are found and refused."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st
from support.small_configuration import small_configuration, write_secret

from stream_masker.core.ontology import ConceptMap, Ontology
from stream_masker.errors import ConfigurationError
from stream_masker.pipeline.fields import field_treatment
from stream_masker.pipeline.paths import compile_path
from stream_masker.pipeline.plan import AttributePlan, FieldPolicy, Plan
from stream_masker.pipeline.pseudonyms import Pseudonyms
from stream_masker.pipeline.transforms import NumberBands
from stream_masker.service.configuration import load_configuration
from stream_masker.service.configuration.fields.sections import FieldsSection
from stream_masker.service.configuration.mutable_settings import (
    check_not_looser,
    loosened_fields,
    loosened_keys,
    mutable_settings,
)
from stream_masker.service.configuration.reload import ConfigurationFile
from stream_masker.service.masking import Masking

OWN = {"keep": ["age", "stay"], "drop": ["stay.ward"], "pseudonymize": ["patient.id"], "unlisted": "drop"}


def policy_of(section: FieldsSection) -> FieldPolicy:
    paths = {kind: tuple(map(compile_path, getattr(section, kind))) for kind in ("keep", "drop", "pseudonymize")}
    return FieldPolicy(unlisted=section.unlisted, **paths)


def looser_keys(own: FieldsSection, other: FieldsSection) -> list[str]:
    return list(loosened_fields(policy_of(own), policy_of(other)))


@pytest.mark.parametrize(
    ("own", "other", "looser"),
    [
        (OWN, OWN, False),
        (OWN, {**OWN, "unlisted": "keep"}, True),
        (OWN, {**OWN, "keep": ["age", "stay", "patient.name"]}, True),
        (OWN, {**OWN, "keep": ["age", "patient.id", "stay"], "pseudonymize": []}, True),
        (OWN, {**OWN, "drop": []}, True),
        (OWN, {**OWN, "pseudonymize": ["patient.id", "stay.ward"], "drop": []}, True),
        (OWN, {**OWN, "keep": ["age"]}, False),
        (OWN, {**OWN, "keep": ["age", "stay.days"]}, False),
        (OWN, {**OWN, "pseudonymize": [], "drop": ["stay.ward", "patient.id"]}, False),
        (OWN, {"unlisted": "drop"}, False),
        ({"unlisted": "keep", "drop": ["name"]}, {"unlisted": "drop", "keep": ["age"]}, False),
        ({"unlisted": "keep", "drop": ["name"]}, {"unlisted": "keep"}, True),
        ({"unlisted": "keep", "drop": ["a.b"]}, {"unlisted": "keep", "drop": ["a.b"], "keep": ["a[*]"]}, True),
        ({"unlisted": "keep", "drop": ["a.b"]}, {"unlisted": "keep", "drop": ["a.b", "a[0]"]}, True),
        ({"unlisted": "keep", "drop": ["a[*].b"]}, {"unlisted": "keep", "drop": ["a[*].b", "a.c"]}, True),
        ({"unlisted": "keep"}, {"unlisted": "keep", "drop": ["a"], "keep": ["a.b"]}, False),
        ({"unlisted": "drop", "keep": ["a[*].b"]}, {"unlisted": "drop", "keep": ["a[*].b", "a[0].b"]}, True),
        (
            {"unlisted": "keep", "keep": ["a[0].b"], "drop": ["a[*][0]"]},
            {"unlisted": "keep", "keep": ["a[0].b", "a[*].c"], "drop": ["a[*][0]"]},
            True,
        ),
    ],
)
def test_looser_fields_are_found(own: dict[str, Any], other: dict[str, Any], looser: bool) -> None:
    found = looser_keys(FieldsSection.model_validate(own), FieldsSection.model_validate(other))
    assert bool(found) == looser


@pytest.mark.parametrize(
    ("own", "other", "keys"),
    [
        ({}, {"key": "drop"}, []),
        ({}, {"key": "keep"}, ["message.key"]),
        ({"key": "drop"}, {"key": "pseudonymize"}, ["message.key"]),
        ({"headers": ["trace"]}, {"headers": []}, []),
        ({"headers": ["trace"]}, {"headers": ["trace", "user"]}, ["message.headers"]),
    ],
)
def test_looser_messages_are_found(parse, own, other, keys) -> None:
    assert loosened_keys(parse(message=own), parse(message=other)) == keys


NAMES = st.sampled_from(["a", "b"])
STEPS = st.sampled_from([".a", ".b", "[*]", "[0]", "[1]", "[?a=1]", "[?b=2]"])


@st.composite
def texts(draw: st.DrawFn) -> str:
    return draw(NAMES) + "".join(draw(st.lists(STEPS, max_size=3)))


@st.composite
def sections(draw: st.DrawFn) -> FieldsSection:
    listed = draw(st.lists(texts(), max_size=5, unique_by=compile_path))
    kinds = [draw(st.sampled_from(["keep", "drop", "pseudonymize"])) for _ in listed]
    chosen = {kind: [path for path, of in zip(listed, kinds, strict=True) if of == kind] for kind in kinds}
    return FieldsSection(**chosen, unlisted=draw(st.sampled_from(["keep", "drop"])))


@st.composite
def changed(draw: st.DrawFn, own: FieldsSection) -> FieldsSection:
    """Return another policy: a new one, or the same with a few paths moved, added or left out."""
    if draw(st.booleans()):
        return draw(sections())
    data = {kind: list(getattr(own, kind)) for kind in ("keep", "drop", "pseudonymize")}
    for kind, listed in list(data.items()):
        for path in list(listed):
            target = draw(st.sampled_from([kind, kind, "drop", "keep", "nowhere"]))
            listed.remove(path)
            data.setdefault(target, []).append(path)
    data.pop("nowhere", None)
    extra = draw(st.lists(texts(), max_size=2))
    data[draw(st.sampled_from(["keep", "drop", "pseudonymize"]))] += extra
    paths = [compile_path(path) for kind in data for path in data[kind]]
    assume(len(set(paths)) == len(paths))
    return FieldsSection(**data, unlisted=draw(st.sampled_from([own.unlisted, "drop", "keep"])))


LEAVES = st.just("leaf")
RECORDS = st.dictionaries(
    NAMES,
    st.recursive(
        LEAVES | st.sampled_from([1, 2]),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=2),
        max_leaves=8,
    ),
    max_size=2,
)
PSEUDONYMS = Pseudonyms(b"secret")
LETTERS = Ontology.from_edges([("b", "a")])
CODE = AttributePlan(
    name="code", path=compile_path("code"), concepts=ConceptMap(LETTERS.taxonomy(), unknown="reject", ontology=LETTERS)
)


def numbered(value: Any, found: list[str]) -> Any:
    """Return the value with a text of its own for each leaf; the texts are added to ``found``."""
    if isinstance(value, dict):
        return {key: numbered(member, found) for key, member in value.items()}
    if isinstance(value, list):
        return [numbered(element, found) for element in value]
    if isinstance(value, str):
        found.append(f"leaf {len(found)}")
        return found[-1]
    return value


def treated(section: FieldsSection, record: Any, leaves: list[str]) -> dict[str, int]:
    """Return what a policy does with each leaf: 1 keep, 2 pseudonymize, 3 drop."""
    plan = Plan(attributes=(CODE,), fields=policy_of(section), configuration="0")
    left = str(field_treatment(plan, PSEUDONYMS)(numbered(record, [])))
    return {leaf: 1 if f"'{leaf}'" in left else 2 if PSEUDONYMS.of_value(leaf) in left else 3 for leaf in leaves}


@given(data=st.data(), own=sections(), record=RECORDS)
def test_settings_that_pass_never_let_more_through(data: st.DataObject, own: FieldsSection, record: Any) -> None:
    other = data.draw(changed(own))
    if looser_keys(own, other):
        return
    leaves: list[str] = []
    numbered(record, leaves)
    before, after = treated(own, record, leaves), treated(other, record, leaves)
    assert all(after[leaf] >= before[leaf] for leaf in leaves), (own, other, record)


@given(own=sections())
def test_a_policy_is_not_looser_than_itself(own: FieldsSection) -> None:
    assert looser_keys(own, own) == []


def written(folder, content: dict[str, Any]):
    path = folder / "stream-masker.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


@pytest.fixture
def content(tmp_path) -> dict[str, Any]:
    (tmp_path / "ontology.csv").write_text("concept,parent\na,\nb,a\nc,a\n")
    write_secret(tmp_path)
    fields = {"keep": ["age"], "unlisted": "drop"}
    more = {"mechanism": {"reference": "mean"}, "fields": fields, "secret": {"file": "secret"}}
    return small_configuration("one", source="ontology.csv", **more)


def test_a_version_cannot_loosen_the_settings_of_a_worker(content, tmp_path) -> None:
    own = load_configuration(written(tmp_path, content), {})
    looser = load_configuration(written(tmp_path, {**content, "fields": {"unlisted": "keep"}}), {})
    tighter = load_configuration(written(tmp_path, {**content, "fields": {"unlisted": "drop"}}), {})
    masking = Masking(own)
    with pytest.raises(ConfigurationError, match=r"settings: fields\.unlisted.* would let more through"):
        masking.under(mutable_settings(looser))
    tightened = masking.under(mutable_settings(tighter))
    assert tightened.configuration == tighter
    assert tightened.under(mutable_settings(own)).configuration == own, "back to the worker's own file"
    with pytest.raises(ConfigurationError, match="would let more through"):
        tightened.under(mutable_settings(looser))
    check_not_looser(looser, own)


def test_a_version_cannot_go_below_the_least_noise_of_a_worker(content, tmp_path) -> None:
    own = load_configuration(written(tmp_path, {**content, "risk": {"min_alpha": 0.2}}), {})
    content["attributes"]["one"]["alpha"] = 0.1
    less = load_configuration(written(tmp_path, content), {})
    with pytest.raises(ConfigurationError, match=r"attributes\.one\.alpha: 0\.1 is below risk\.min_alpha, 0\.2"):
        Masking(own).under(mutable_settings(less))


def test_a_running_calibrator_refuses_a_file_that_loosens(content, tmp_path) -> None:
    file = ConfigurationFile(written(tmp_path, content), {})
    written(tmp_path, {**content, "fields": {"unlisted": "drop"}})
    assert file.reload_if_changed()
    written(tmp_path, content)
    assert file.reload_if_changed(), "back to the file it started with"
    written(tmp_path, {**content, "message": {"key": "keep"}})
    assert not file.reload_if_changed()
    assert "message.key" in (file.refused or "")
    assert file.current.message.key == "pseudonymize"


@pytest.mark.parametrize("coarser", [5, 20])
def test_every_change_of_a_transform_counts_as_looser(coarser: int) -> None:
    bands = {width: {"generalize": {compile_path("age"): NumberBands(width)}} for width in (10, coarser)}
    own = FieldPolicy(unlisted="drop", transforms=bands[10])
    assert list(loosened_fields(own, FieldPolicy(unlisted="drop", transforms=bands[10]))) == []
    assert list(loosened_fields(own, FieldPolicy(unlisted="drop", transforms=bands[coarser]))) == ["fields.generalize"]
    assert "fields.generalize" in loosened_fields(own, FieldPolicy(unlisted="drop", keep=(compile_path("age"),)))
