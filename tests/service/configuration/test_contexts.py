"""The context of a configuration: what is built of it, and the messages of its problems."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from stream_masker.core.context import MAX_CONTEXTS
from stream_masker.pipeline.masker import RecordMasker
from stream_masker.pipeline.transforms import NumberBands
from stream_masker.service.configuration import parse_configuration
from stream_masker.service.configuration.build import build_mechanism, build_plan
from stream_masker.service.configuration.parameters.defaults import mechanism_line

FLAT = {
    "ontologies": {"flat": {"values": ["a", "b", "c"]}},
    "attributes": {"principal": {"path": "code", "ontology": "flat"}, "secondary": {"ontology": "flat"}},
}


def given(context: Any, fields: dict[str, Any] | None = None, **mechanism: Any) -> dict[str, Any]:
    kept = {"keep": ["sex"], "generalize": {"age": {"width": 10}}} if fields is None else fields
    return {**FLAT, "fields": kept, "mechanism": {"name": "semantic_transport", "context": context, **mechanism}}


def test_plan_and_mechanism_have_the_same_context(parse):
    configuration = parse(**given({"sex": ["F", "M"], "age": [18, 65]}, certainty=0.4))
    plan, mechanism = build_plan(configuration), build_mechanism(configuration, bytes(16))
    assert plan.contexts == mechanism.context
    assert [one.path.text for one in plan.context] == ["sex", "age"]
    assert [type(one.transform) for one in plan.context] == [type(None), NumberBands]
    assert mechanism_line(configuration).endswith("; context sex, age)")


def test_a_context_chooses_transport_for_arrays_too(parse):
    chosen = parse(mechanism={"context": {"sex": ["F", "M"]}}, fields={"keep": ["sex"]}).mechanism
    assert (chosen.name, dict(chosen.context)) == ("semantic_transport", {"sex": ("F", "M")})


def test_a_context_of_fhir_is_read_in_bundles_and_missing_in_others():
    condition = {"resourceType": "Condition", "code": {"coding": [{"system": "s", "code": "a"}]}}
    patients = [{"resourceType": "Patient", "gender": gender} for gender in ("male", "female")]
    bundles = [{"resourceType": "Bundle", "entry": [{"resource": r} for r in (one, condition)]} for one in patients]
    configuration = parse_configuration(
        {
            "ontologies": {"flat": {"values": ["a", "b"]}},
            "records": "fhir",
            "attributes": {"code": {"path": "Condition.code.coding[?system=s].code", "ontology": "flat"}},
            "fields": {"keep": ["Patient.gender"], "unlisted": "drop"},
            "mechanism": {"name": "semantic_transport", "context": {"Patient.gender": ["male", "female"]}},
            "noise_key": "position",
        }
    )
    masker = RecordMasker(build_plan(configuration), build_mechanism(configuration, bytes(16)), bytes(16))
    (batch,) = masker.encode(map(orjson.dumps, [*bundles, condition]))
    assert batch.context.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("context", "fields", "message"),
    [
        ({"sex": ["F"]}, {}, "mechanism.context.sex: 'sex' does not stay in the record (fields.unlisted): "),
        ({"sex": ["F"]}, {"drop": ["sex"]}, "mechanism.context.sex: 'sex' does not stay in the record (fields.drop): "),
        (
            {"patient.id": ["F"]},
            {"pseudonymize": ["patient.id"]},
            "mechanism.context.patient.id: 'patient.id' does not stay in the record (fields.pseudonymize): ",
        ),
        ({"code": ["a"]}, {}, "mechanism.context.code: 'code' is masked: a context is of fields that stay"),
        ({"sex[*]": ["F"]}, {"keep": ["sex"]}, "mechanism.context.sex[*]: 'sex[*]' is not allowed: use a path without"),
        ({"sex..": ["F"]}, {}, "mechanism.context.sex..: path 'sex..', character 5: a name is expected"),
        ({"sex": []}, None, "mechanism.context.sex: a list of 0 is not allowed: use "),
        ({"sex": ["F", 1]}, None, "mechanism.context.sex[1]: 1 is not allowed: use text"),
        ({"sex": ["F", "F"]}, None, "mechanism.context: context 'sex' has a text twice"),
        ({"age": [65, 18]}, None, "mechanism.context: context 'age': give the texts that can occur, or the ascending"),
        (
            {"age": list(range(MAX_CONTEXTS))},
            None,
            f"mechanism.context: there are {MAX_CONTEXTS + 2} contexts: at most",
        ),
    ],
)
def test_problems_name_the_field_and_what_is_allowed(problems, context, fields, message):
    (problem,) = problems(**given(context, fields))
    assert problem.startswith(message)


def test_a_context_needs_semantic_transport(problems):
    (problem,) = problems(mechanism={"name": "semantic_noise", "context": {"sex": ["F"]}})
    assert problem.startswith("mechanism.context: unknown key: use name, preset, ")
