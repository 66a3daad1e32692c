"""FHIR messages: single resources and Bundles in one form, their patient, and resources of other types."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pytest

from stream_masker.errors import ConfigurationError
from stream_masker.pipeline.fhir import FhirTypes, fhir_form, fhir_path
from stream_masker.pipeline.formats import record_form
from stream_masker.pipeline.paths import compile_path
from stream_masker.pipeline.reasons import RecordRejectedError

TYPES = FhirTypes(frozenset({"Encounter", "Condition"}), keeps_others=False)
KEEPING = FhirTypes(TYPES.listed, keeps_others=True)
PATIENT = compile_path("patient")


def encounter(reference="Patient/17", **more):
    return {"resourceType": "Encounter", "subject": {"reference": reference}, **more}


def bundle(*resources, urls=()):
    entries = [{"resource": resource} for resource in resources]
    for entry, url in zip(entries, urls, strict=False):
        entry["fullUrl"] = url
    return {"resourceType": "Bundle", "type": "batch", "entry": entries}


@pytest.fixture(scope="module")
def opened(bench):
    """Opens a document as a message; returns its Bundle, and what writes it."""
    plan = bench({"code": {"path": "code"}}).plan

    def opened(document, types=TYPES, **keys):
        form = fhir_form(replace(plan, fhir=types, **(keys or {"unit": PATIENT})), record_form(None, plan.record_bytes))
        return form(orjson.dumps(document))

    return opened


def test_a_single_resource_is_the_only_one_of_a_bundle(opened):
    message, write = opened(encounter())
    assert message["entry"] == [{"resource": encounter()}]
    assert orjson.loads(write(message)) == encounter()


def test_a_bundle_is_written_without_the_patient_key(opened):
    message, write = opened(bundle(encounter()))
    assert message["patient"] == "17"
    assert orjson.loads(write(message)) == bundle(encounter())


def test_a_patient_key_of_the_producer_is_removed(opened):
    message, _ = opened({**bundle(encounter(), encounter("Patient/18")), "patient": "a raw value"})
    assert "patient" not in message


def test_resources_of_other_types_are_removed_from_a_bundle(opened):
    other = {"resourceType": "Observation", "valueString": "secret"}
    message, _ = opened(bundle(encounter(), other, {"resourceType": 7}, "text", {"no": "type"}))
    assert message["entry"] == [{"resource": encounter()}]
    message, write = opened(bundle(other))
    assert orjson.loads(write(message)) == {"resourceType": "Bundle", "type": "batch"}


def test_resources_of_other_types_are_kept_if_the_policy_says_so(opened):
    other = {"resourceType": "Observation", "valueString": "a value"}
    for document in (bundle(other), other):
        assert opened(document, KEEPING)[0]["entry"] == [{"resource": other}]


@pytest.mark.parametrize("document", [{}, {"resourceType": "Observation"}, {"resourceType": 7}, {"resourceType": "X"}])
def test_an_object_that_is_no_listed_resource_is_rejected(opened, document):
    with pytest.raises(RecordRejectedError, match="unlisted_type"):
        opened(document)


@pytest.mark.parametrize("entries", [{}, "text", 3, [1], ["text"], [None], None])
def test_entries_that_are_no_objects_are_rejected(opened, entries):
    with pytest.raises(RecordRejectedError) as error:
        opened({"resourceType": "Bundle", "entry": entries})
    assert (error.value.reason, error.value.field) == ("wrong_shape", "Bundle.entry")


def test_a_bundle_of_several_patients_is_rejected_if_the_patient_keys_the_noise(opened):
    with pytest.raises(RecordRejectedError, match="several_patients"):
        opened(bundle(encounter(), encounter("Patient/18")), noise_key=PATIENT)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (encounter(), "17"),
        (encounter("https://fhir.example/Patient/17/_history/2"), "17"),
        ({"resourceType": "Condition", "patient": {"reference": "Patient/17"}}, "17"),
        (bundle(encounter(), encounter()), "17"),
        (bundle(encounter(), encounter("Patient/18")), None),
        (bundle({"resourceType": "Patient", "id": "17"}, encounter()), "17"),
        (bundle({"resourceType": "Patient", "id": "18"}, encounter()), None),
        (bundle({"resourceType": "Patient"}, encounter("urn:uuid:a"), urls=["urn:uuid:a"]), "a"),
        (bundle({"resourceType": "Patient", "id": "17"}, encounter("urn:uuid:a"), urls=["urn:uuid:a"]), "17"),
        (bundle({"resourceType": "Device"}, encounter("urn:uuid:a"), urls=["urn:uuid:a"]), None),
        (encounter("Group/17"), None),
        (encounter(7), None),
        ({"resourceType": "Encounter", "subject": [3]}, None),
        ({"resourceType": "Encounter"}, None),
        ({"resourceType": "Bundle"}, None),
    ],
)
def test_the_patient_that_a_message_is_about(opened, document, expected):
    assert opened(document)[0].get("patient") == expected


@pytest.mark.parametrize("text", ["status", "encounter.status", "Encounters.status", "Encounter", "x[0].status"])
def test_a_path_starts_with_a_type(text):
    with pytest.raises(ConfigurationError, match=r"path '.*': with records: fhir, a path starts with Bundle or a type"):
        fhir_path(compile_path(text))


def test_the_path_of_the_patient_is_that_of_a_key():
    assert fhir_path(compile_path("patient"), first=True) == compile_path("patient")
    with pytest.raises(ConfigurationError, match="a path starts with"):
        fhir_path(compile_path("patient"))
