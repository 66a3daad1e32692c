"""Complete events in the shapes of the documentation: flat, nested, and FHIR R4."""

from __future__ import annotations

from stream_masker.pipeline.transforms import Pseudonyms

ICD = "http://hl7.org/fhir/sid/icd-10-cm"
SNOMED = "http://snomed.info/sct"


def pseudonym(value):
    return Pseudonyms(b"a secret of the tests").of_value(value)


def test_a_flat_event(bench):
    on_bench = bench(
        {
            "principal": {"path": "diag_1", "label": "diag_1_text"},
            "secondary": {"path": "diag_2", "missing": "keep"},
        },
        unlisted="drop",
        fields={"keep": ["age", "time_in_hospital"], "pseudonymize": ["patient_nbr", "encounter_id"]},
    )
    event = {
        "encounter_id": 2278392,
        "patient_nbr": "8222157",
        "race": "Caucasian",
        "age": "[0-10)",
        "time_in_hospital": 1,
        "diag_1": "I110",
        "diag_1_text": "HYPERTENSIVE HEART DISEASE",
        "diag_2": "e119",
    }
    assert on_bench.mask_one(event) == {
        "encounter_id": pseudonym("2278392"),
        "patient_nbr": pseudonym(8222157),
        "age": "[0-10)",
        "time_in_hospital": 1,
        "diag_1": "E11.65",
        "diag_1_text": "Type 2 diabetes with hyperglycemia",
        "diag_2": "I11.0",
    }
    event.pop("diag_2")
    assert "diag_2" not in on_bench.mask_one(event)


def test_a_nested_event(bench):
    on_bench = bench(
        {
            "principal": {"path": "diagnoses.principal.code", "label": "diagnoses.principal.display"},
            "secondary": {"path": "diagnoses.secondary[*].code", "unknown": "ancestor"},
        },
        unlisted="drop",
        fields={"keep": ["encounter_id", "age"], "drop": ["patient.name"], "pseudonymize": ["patient.id"]},
    )
    event = {
        "encounter_id": "E-1",
        "patient": {"id": "P-77", "name": {"family": "Doe"}, "address": "Elm Street"},
        "age": 61,
        "diagnoses": {
            "principal": {"code": "I10", "display": "Essential hypertension", "note": "I10, as ever"},
            "secondary": [{"code": "E11.99", "rank": 2}, {"code": "E03"}],
        },
    }
    assert on_bench.mask_one(event) == {
        "encounter_id": "E-1",
        "patient": {"id": pseudonym("P-77")},
        "age": 61,
        "diagnoses": {
            "principal": {"code": "E11.9", "display": "Type 2 diabetes"},
            "secondary": [{"code": "I11.0"}, {"code": "E03"}],
        },
    }


def coding(code, display, system=ICD):
    return {"system": system, "code": code, "display": display}


def test_a_fhir_condition(bench):
    at = f"code.coding[?system={ICD}]"
    on_bench = bench(
        {"condition": {"path": f"{at}.code", "label": f"{at}.display"}},
        unlisted="drop",
        fields={
            "keep": ["resourceType", "clinicalStatus", "onsetDateTime"],
            "pseudonymize": ["id", "subject.reference", "encounter.reference"],
        },
        noise_key="subject.reference",
    )
    condition = {
        "resourceType": "Condition",
        "id": "f201",
        "text": {"status": "generated", "div": "<div>Hypertension</div>"},
        "clinicalStatus": {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/condition-clinical"}]},
        "code": {
            "coding": [coding("38341003", "Hypertensive disorder", SNOMED), coding("I10", "Essential hypertension")],
            "text": "Hypertension since 2010",
        },
        "subject": {"reference": "Patient/f201", "display": "Roel"},
        "encounter": {"reference": "Encounter/f201"},
        "onsetDateTime": "2010-01-01",
    }
    assert on_bench.mask_one(condition) == {
        "resourceType": "Condition",
        "id": pseudonym("f201"),
        "clinicalStatus": condition["clinicalStatus"],
        "code": {"coding": [coding("E11.9", "Type 2 diabetes")]},
        "subject": {"reference": pseudonym("Patient/f201")},
        "encounter": {"reference": pseudonym("Encounter/f201")},
        "onsetDateTime": "2010-01-01",
    }
    condition["code"]["coding"].pop()
    assert on_bench.mask_one(condition) == ("missing", f"{at}.code")


def test_a_fhir_encounter(bench):
    reason = f"reasonCode[0].coding[?system={ICD}]"
    listed = f"diagnosis[*].condition.concept.coding[?system={ICD}]"
    on_bench = bench(
        {
            "reason": {"path": f"{reason}.code", "label": f"{reason}.display"},
            "diagnosis": {"path": f"{listed}.code", "label": f"{listed}.display"},
        },
        unlisted="drop",
        fields={
            "keep": ["resourceType", "status", "class", "period", "diagnosis[*].rank", "diagnosis[*].use"],
            "pseudonymize": ["id", "subject.reference", "identifier[*].value"],
        },
    )
    encounter = {
        "resourceType": "Encounter",
        "id": "v-1",
        "identifier": [{"use": "official", "value": "v1451"}],
        "status": "finished",
        "class": {"code": "IMP"},
        "subject": {"reference": "Patient/1", "display": "Jane Doe"},
        "reasonCode": [{"coding": [coding("I11.0", "Hypertensive heart disease")], "text": "chest pain"}],
        "diagnosis": [
            {
                "condition": {"concept": {"coding": [coding("1", "x", SNOMED), coding("I10", "HYPERTENSION")]}},
                "rank": 1,
            },
            {"condition": {"concept": {"coding": [coding("E1165", "diabetes")], "text": "sugar"}}, "rank": 2},
        ],
        "period": {"start": "2011-03-02", "end": "2011-03-05"},
    }
    assert on_bench.mask_one(encounter) == {
        "resourceType": "Encounter",
        "id": pseudonym("v-1"),
        "identifier": [{"value": pseudonym("v1451")}],
        "status": "finished",
        "class": {"code": "IMP"},
        "subject": {"reference": pseudonym("Patient/1")},
        "reasonCode": [{"coding": [coding("E11.65", "Type 2 diabetes with hyperglycemia")]}],
        "diagnosis": [
            {"condition": {"concept": {"coding": [coding("E11.9", "Type 2 diabetes")]}}, "rank": 1},
            {"condition": {"concept": {"coding": [coding("I10", "Essential hypertension")]}}, "rank": 2},
        ],
        "period": encounter["period"],
    }
    encounter["diagnosis"] = []
    assert on_bench.mask_one(encounter)["diagnosis"] == []
