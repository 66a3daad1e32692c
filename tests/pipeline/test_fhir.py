"""FHIR messages: resources and Bundles in one form, their patient, and references that keep their kind and type."""

from __future__ import annotations

import uuid
from dataclasses import replace
from functools import partial

import orjson
import pytest

from stream_masker.errors import ConfigurationError
from stream_masker.pipeline.fhir import (
    R4_TYPES,
    ReferencePseudonym,
    fhir_form,
    fhir_path,
    masked_reference,
    patients_of,
)
from stream_masker.pipeline.formats import record_form
from stream_masker.pipeline.masker import RecordMasker
from stream_masker.pipeline.paths import compile_path
from stream_masker.pipeline.plan import Place
from stream_masker.pipeline.records import RecordRejectedError
from stream_masker.pipeline.transforms import DROPPED, DateShift, Pseudonym, Pseudonyms
from tests.pipeline.conftest import SECRET

TYPES = {"Encounter", "Condition"}
PATIENT = compile_path("patient")
PSEUDONYMS = Pseudonyms(SECRET)
P = partial(Pseudonym().of_value, pseudonyms=PSEUDONYMS)
ID = "0f7a2c55-3f2b-4d8e-9f0a-6a0c6a3f1b11"
MRN = "http://hospital.example/mrn"


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
    plan = bench({"code": {"path": "code"}}, transforms={"date": DateShift(30, PATIENT)}).plan

    def opened(document, types=TYPES, **keys):
        form = fhir_form(replace(plan, fhir=types, **keys), record_form(None, plan.record_bytes))
        return form(orjson.dumps(document))

    return opened


OTHER = {"resourceType": "Observation", "valueString": "a value"}


@pytest.mark.parametrize(
    ("document", "types", "entries", "written"),
    [
        (encounter(), TYPES, [encounter()], encounter()),
        (bundle(encounter()), TYPES, [encounter()], bundle(encounter())),
        (bundle(OTHER, encounter(), "a", {"no": 1}, {"resourceType": 7}), TYPES, [encounter()], bundle(encounter())),
        (bundle(OTHER), TYPES, [], {"resourceType": "Bundle", "type": "batch"}),
        (bundle(OTHER), R4_TYPES, [OTHER], bundle(OTHER)),
        (OTHER, R4_TYPES, [OTHER], OTHER),
        (
            {**bundle(encounter("Group/1")), "patient": "raw"},
            TYPES,
            [encounter("Group/1")],
            bundle(encounter("Group/1")),
        ),
    ],
)
def test_a_message_is_a_bundle_of_its_listed_resources(opened, document, types, entries, written):
    message, write = opened(document, types)
    assert message.get("patient") != "raw"
    assert [entry["resource"] for entry in message["entry"]] == entries
    assert orjson.loads(write(message)) == written


@pytest.mark.parametrize("document", [{}, OTHER, {"resourceType": 7}, {"resourceType": "X"}])
def test_an_object_that_is_no_listed_resource_is_rejected(opened, document):
    with pytest.raises(RecordRejectedError, match="unlisted_type"):
        opened(document)


@pytest.mark.parametrize("entries", [{}, "text", 3, [1], [None], None])
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
        (bundle({"resourceType": "Patient", "id": "17"}, encounter("Patient?identifier=7")), "17"),
        (bundle({"resourceType": "Patient", "id": "17"}, {"resourceType": "Patient", "id": "18"}), None),
        (encounter(f"Patient?identifier={MRN}|7"), "7"),
        (encounter("Group/17"), None),
        (encounter(7), None),
        ({"resourceType": "Encounter", "subject": [3]}, None),
        ({"resourceType": "Bundle"}, None),
    ],
)
def test_the_patient_that_a_message_is_about(opened, document, expected):
    assert opened(document)[0].get("patient") == expected


@pytest.mark.parametrize("text", ["status", "encounter.status", "Encounters.status", "Encounter", "patient"])
def test_a_path_starts_with_a_type(text):
    with pytest.raises(ConfigurationError, match=r"path '.*': with records: fhir, a path starts with Bundle or a type"):
        fhir_path(compile_path(text))
    assert fhir_path(PATIENT, first=True) == PATIENT


def test_only_types_of_the_specification_are_kept():
    assert {"Patient", "Encounter", "Condition", "Claim", "ExplanationOfBenefit", "Bundle"} <= R4_TYPES
    assert len(R4_TYPES) == 97


@pytest.mark.parametrize(
    ("reference", "masked"),
    [
        ("17", P("17")),
        ("Patient/17", f"Patient/{P('17')}"),
        ("https://fhir.example/r4/Patient/17/_history/3", f"Patient/{P('17')}"),
        ("#17", f"#{P('17')}"),
        ("John/Smith", P("John/Smith")),
        ("John?Smith", P("John?Smith")),
        ("Patient/17 of Mr. Smith", P("Patient/17 of Mr. Smith")),
        ("urn:oid:1.2.3", P("urn:oid:1.2.3")),
        (f"urn:uuid:{ID}", f"urn:uuid:{uuid.UUID(P(ID))}"),
        (f"Patient/{ID}", f"Patient/{uuid.UUID(P(ID))}"),
        (ID, str(uuid.UUID(P(ID)))),
        (f"Patient?identifier={MRN}|MRN-1", f"Patient?identifier={MRN}|{P('MRN-1')}"),
        (f"Patient?identifier={MRN}|{ID}", f"Patient?identifier={MRN}|{P(ID)}"),
        ("Patient?identifier=|MRN-1", f"Patient?identifier=|{P('MRN-1')}"),
        ("Patient?identifier=MRN-1", f"Patient?identifier={P('MRN-1')}"),
        ("John?identifier=MRN-1", P("John?identifier=MRN-1")),
        ("Patient?identifier=MRN-1&name=Jane", P("Patient?identifier=MRN-1&name=Jane")),
        ("Patient?identifier=Jane Doe|1", P("Patient?identifier=Jane Doe|1")),
        ("Patient?Jane Doe", P("Patient?Jane Doe")),
        ("Patient", "Patient"),
        ("", P("")),
    ],
)
def test_references_have_the_pseudonyms_of_what_they_name(reference, masked):
    assert masked_reference(reference, PSEUDONYMS.of_bytes) == masked


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"reference": "17", "display": "Ada", "identifier": {"value": "MRN"}}, {"reference": P("17")}),
        ({"reference": "Patient/17", "type": "Patient"}, {"reference": f"Patient/{P('17')}", "type": "Patient"}),
        ({"reference": "17", "type": "Ada Doe"}, {"reference": P("17")}),
        ({"display": "Ada"}, DROPPED),
        ([{"reference": "17"}, {"display": "Ada"}], [{"reference": P("17")}]),
        (17, P("17")),
        (None, None),
    ],
)
def test_of_a_reference_object_only_reference_and_type_are_left(value, expected):
    assert ReferencePseudonym().of_value(value, PSEUDONYMS) == expected


def test_a_bundle_with_conditions_can_be_loaded_again(bench):
    made = bench({"code": {"path": "code"}})
    references = ("Condition.subject", "Bundle.entry[*].request.url")
    lists = {
        "pseudonymize": {fhir_path(compile_path("Patient.identifier[*].value")): Pseudonym()},
        "references": {fhir_path(compile_path(text)): ReferencePseudonym() for text in references},
    }
    fields = replace(made.plan.fields, lists=lists)
    attribute = replace(made.plan.attributes[0], places=(Place(fhir_path(compile_path("Condition.code.text"))),))
    noise_key = fhir_path(PATIENT, first=True)
    types = {"Patient", "Condition"}
    plan = replace(made.plan, attributes=(attribute,), fields=fields, fhir=types, noise_key=noise_key)
    made.masker = RecordMasker(plan, made.mechanism, SECRET)
    patient = {"resourceType": "Patient", "id": "17", "identifier": [{"system": MRN, "value": "MRN-1"}]}
    url = f"Patient?identifier={MRN}|MRN-1"
    condition = {"resourceType": "Condition", "subject": {"reference": url}, "code": {"text": "I10"}}
    entries = [
        {"resource": patient, "request": {"method": "PUT", "url": url}},
        {"resource": condition, "request": {"method": "POST", "url": "Condition"}},
    ]
    message = {"resourceType": "Bundle", "type": "transaction", "entry": entries}
    assert patients_of(message) == {"17"}, "the condition names the Bundle's own patient"
    (outcome,) = made.mask(message)
    first, second = orjson.loads(outcome.value)["entry"]
    masked = f"Patient?identifier={MRN}|{first['resource']['identifier'][0]['value']}"
    assert (first["request"]["url"], second["request"]["url"]) == (masked, "Condition")
    assert second["resource"]["subject"]["reference"] == masked
    assert b"MRN-1" not in outcome.value
