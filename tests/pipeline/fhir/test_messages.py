"""FHIR messages: single resources and Bundles in one form, their patient, and resources of other types."""

from __future__ import annotations

import orjson
import pytest

from stream_masker.errors import ConfigurationError
from stream_masker.pipeline.fhir.messages import FhirMessage, FhirTypes, fhir_path
from stream_masker.pipeline.paths import compile_path
from stream_masker.pipeline.reasons import RecordRejectedError

TYPES = FhirTypes(frozenset({"Encounter", "Condition"}), keeps_others=False)
KEEPING = FhirTypes(TYPES.listed, keeps_others=True)


def encounter(reference="Patient/17", **more):
    return {"resourceType": "Encounter", "subject": {"reference": reference}, **more}


def bundle(*resources, urls=()):
    entries = [{"resource": resource} for resource in resources]
    for entry, url in zip(entries, urls, strict=False):
        entry["fullUrl"] = url
    return {"resourceType": "Bundle", "type": "batch", "entry": entries}


def patient_of(document):
    return FhirMessage.of(orjson.loads(orjson.dumps(document)), TYPES).bundle.get("patient")


def test_a_single_resource_is_the_only_one_of_a_bundle():
    message = FhirMessage.of(encounter(), TYPES)
    assert message.is_single
    assert message.bundle["entry"] == [{"resource": encounter()}]
    assert message.written(message.bundle) == encounter()


def test_a_bundle_is_written_without_the_patient_key():
    message = FhirMessage.of(bundle(encounter()), TYPES)
    assert not message.is_single
    assert (message.bundle["patient"], message.patients) == ("17", 1)
    assert message.written(message.bundle) == bundle(encounter())


def test_a_patient_key_of_the_producer_is_removed():
    message = FhirMessage.of({**bundle(encounter(), encounter("Patient/18")), "patient": "a raw value"}, TYPES)
    assert "patient" not in message.bundle


def test_resources_of_other_types_are_removed_from_a_bundle():
    other = {"resourceType": "Observation", "valueString": "secret"}
    given = bundle(encounter(), other, {"resourceType": 7}, "text", {"no": "type"})
    assert FhirMessage.of(given, TYPES).bundle["entry"] == [{"resource": encounter()}]
    only = FhirMessage.of(bundle(other), TYPES)
    assert only.written(only.bundle) == {"resourceType": "Bundle", "type": "batch"}


def test_resources_of_other_types_are_kept_if_the_policy_says_so():
    other = {"resourceType": "Observation", "valueString": "a value"}
    assert FhirMessage.of(bundle(other), KEEPING).bundle["entry"] == [{"resource": other}]
    assert FhirMessage.of(dict(other), KEEPING).is_single


@pytest.mark.parametrize("document", [{}, {"resourceType": "Observation"}, {"resourceType": 7}, {"resourceType": "X"}])
def test_an_object_that_is_no_listed_resource_is_rejected(document):
    with pytest.raises(RecordRejectedError, match="unlisted_type"):
        FhirMessage.of(document, TYPES)


@pytest.mark.parametrize("entries", [{}, "text", 3, [1], ["text"], [None], None])
def test_entries_that_are_no_objects_are_rejected(entries):
    with pytest.raises(RecordRejectedError) as error:
        FhirMessage.of({"resourceType": "Bundle", "entry": entries}, TYPES)
    assert (error.value.reason, error.value.field) == ("wrong_shape", "Bundle.entry")


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
def test_the_patient_that_a_message_is_about(document, expected):
    assert patient_of(document) == expected


@pytest.mark.parametrize("text", ["status", "encounter.status", "Encounters.status", "Encounter", "x[0].status"])
def test_a_path_starts_with_a_type(text):
    with pytest.raises(ConfigurationError, match=r"path '.*': with records: fhir, a path starts with Bundle or a type"):
        fhir_path(compile_path(text))


def test_the_path_of_the_patient_is_that_of_a_key():
    assert fhir_path(compile_path("patient"), first=True) == compile_path("patient")
    with pytest.raises(ConfigurationError, match="a path starts with"):
        fhir_path(compile_path("patient"))
