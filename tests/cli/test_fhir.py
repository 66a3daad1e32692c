"""FHIR messages through the command ``mask``: Synthea-like Bundles, and resources after the examples of FHIR R4.

The resources of ``SPECIFICATION`` are written after the examples of the specification (Encounter f001, Condition
"example", Claim 100150, ExplanationOfBenefit EB3500, Bundle "bundle-example"); they have the same elements.
"""

from __future__ import annotations

import gzip
import re

import orjson
import pytest
import yaml
from click.testing import CliRunner
from support import examples, synthea
from support.documents import named_scalars

from stream_masker.cli import main
from stream_masker.core.ontology import Ontology

FOLDER = examples.FOLDER / "fhir-bundle"
REFERENCE = re.compile(r"(urn:uuid:|[A-Z][A-Za-z]+/|#)?[0-9a-f-]{32,36}")


def lines(name):
    return [orjson.loads(line) for line in gzip.decompress((FOLDER / name).read_bytes()).splitlines()]


@pytest.fixture(scope="module")
def original():
    return lines("events.jsonl.gz")


@pytest.fixture(scope="module")
def masked():
    return lines("expected.jsonl.gz")


def resources(bundles):
    return [entry["resource"] for bundle in bundles for entry in bundle["entry"]]


def codings(resource):
    """The codes of ICD-10-CM, in their order."""
    found = re.findall(rb'\{"system":"http://hl7.org/fhir/sid/icd-10-cm","code":"([^"]+)"', orjson.dumps(resource))
    return [code.decode() for code in found]


def test_every_bundle_keeps_the_listed_resources_and_their_codings(original, masked):
    listed = {"Patient", "Encounter", "Condition", "Claim", "ExplanationOfBenefit"}
    for before, after in zip(original, masked, strict=True):
        kept = [one for one in resources([before]) if one["resourceType"] in listed]
        assert [one["resourceType"] for one in resources([after])] == [one["resourceType"] for one in kept]
        assert [len(codings(one)) for one in resources([after])] == [len(codings(one)) for one in kept]
    assert {one["resourceType"] for one in resources(original)} - listed == {"Observation"}


def test_codes_are_masked_and_equal_codes_of_a_bundle_equally(original, masked):
    icd, changed = Ontology.load("icd10cm"), 0
    for before, after in zip(original, masked, strict=True):
        pairs = set(zip(codings(before), codings(after), strict=True))
        assert len(pairs) == len({code for code, _ in pairs})
        changed += sum(one != other for one, other in pairs)
        assert all(code in icd for code in codings(after))
    assert changed > 100


def test_no_raw_id_name_date_or_text_is_left(original, masked):
    telling = ("id", "reference", "family", "value", "fullUrl", "text", "birthDate", "city", "postalCode", "given")
    for before, after in zip(original, masked, strict=True):
        written = orjson.dumps(after).decode()
        raw = {value for name, value in named_scalars(before) if name in telling and isinstance(value, str)}
        assert {
            text for text in {*raw, "Ada Doe", "Dr. Example", "snomed", "(disorder)"} - TYPES if text in written
        } == set()


TYPES = frozenset({"Patient", "Encounter", "Condition", "Claim", "ExplanationOfBenefit", "male", "female"})


def test_references_still_resolve_and_are_typed(original, masked):
    for before, after in zip(original[1:], masked[1:], strict=True):
        urls = {entry["fullUrl"]: entry["resource"] for entry in after["entry"]}
        assert all(url == f"urn:uuid:{one['id']}" for url, one in urls.items())
        references = [value for name, value in named_scalars(after) if name == "reference"]
        assert all(REFERENCE.fullmatch(reference) for reference in references)
        assert all(one in urls or one.startswith("Practitioner/") for one in references)
        (patient,) = [url for url, one in urls.items() if one["resourceType"] == "Patient"]
        subjects = [
            (one.get("subject") or one.get("patient"))["reference"]
            for one in urls.values()
            if one["resourceType"] != "Patient"
        ]
        assert set(subjects) == {patient}
        assert len(urls) == sum(entry["resource"]["resourceType"] != "Observation" for entry in before["entry"])


def test_dates_of_a_person_move_together(original, masked):
    def days(bundle):
        found = [one["onsetDateTime"] for one in resources([bundle]) if "onsetDateTime" in one]
        return [int(text[8:10]) for text in found], found

    moved = 0
    for before, after in zip(original, masked, strict=True):
        assert len(days(before)[1]) == len(days(after)[1])
        moved += days(before)[1] != days(after)[1]
    assert moved == len(original)


SPECIFICATION = [
    {
        "resourceType": "Encounter",
        "id": "f001",
        "text": {"status": "generated", "div": "<div>P. van de Heuvel</div>"},
        "identifier": [{"use": "official", "value": "v1451"}],
        "status": "finished",
        "class": {"system": synthea.ACT, "code": "AMB", "display": "ambulatory"},
        "type": [
            {"coding": [{"system": synthea.SNOMED, "code": "270427003", "display": "Patient-initiated encounter"}]}
        ],
        "subject": {"reference": "Patient/f001", "display": "P. van de Heuvel"},
        "participant": [{"individual": {"reference": "Practitioner/f001", "display": "P. Voigt"}}],
        "length": {"value": 140, "unit": "min"},
        "reasonCode": [
            {"coding": [{"system": synthea.SNOMED, "code": "34068001", "display": "Heart valve replacement"}]}
        ],
        "hospitalization": {"preAdmissionIdentifier": {"use": "official", "value": "93042"}},
        "serviceProvider": {"reference": "Organization/f001", "display": "Burgers University Medical Center"},
    },
    {
        "resourceType": "Condition",
        "id": "example",
        "clinicalStatus": {"coding": [{"system": synthea.CLINICAL, "code": "active"}]},
        "severity": {"coding": [{"system": synthea.SNOMED, "code": "24484000", "display": "Severe"}]},
        "code": {"coding": [{"system": synthea.SNOMED, "code": "39065001"}], "text": "Burnt Ear"},
        "bodySite": [
            {"coding": [{"system": synthea.SNOMED, "code": "49521004", "display": "Left Ear"}], "text": "Left Ear"}
        ],
        "subject": {"reference": "Patient/example"},
        "onsetDateTime": "2012-05-24",
    },
    {
        "resourceType": "Claim",
        "id": "100150",
        "identifier": [{"system": "http://happyvalley.com/claim", "value": "12345"}],
        "status": "active",
        "type": {"coding": [{"system": synthea.CLAIM_TYPE, "code": "oral"}]},
        "use": "claim",
        "patient": {"reference": "Patient/1"},
        "created": "2014-08-16",
        "insurer": {"reference": "Organization/2"},
        "provider": {"reference": "Organization/1"},
        "priority": {"coding": [{"code": "normal"}]},
        "careTeam": [{"sequence": 1, "provider": {"reference": "Practitioner/example"}}],
        "diagnosis": [{"sequence": 1, "diagnosisCodeableConcept": {"coding": [{"code": "123456"}]}}],
        "insurance": [{"sequence": 1, "focal": True, "coverage": {"reference": "Coverage/9876B1"}}],
        "item": [{"sequence": 1, "servicedDate": "2014-08-16", "net": {"value": 135.57, "currency": "USD"}}],
    },
    {
        "resourceType": "ExplanationOfBenefit",
        "id": "EB3500",
        "status": "active",
        "type": {"coding": [{"system": synthea.CLAIM_TYPE, "code": "oral"}]},
        "use": "claim",
        "patient": {"reference": "Patient/pat1"},
        "created": "2014-08-16",
        "claim": {"reference": "Claim/100150"},
        "outcome": "complete",
        "disposition": "Claim settled as per contract.",
        "item": [{"sequence": 1, "adjudication": [{"category": {"coding": [{"code": "eligible"}]}, "value": 0.8}]}],
        "total": [{"category": {"coding": [{"code": "submitted"}]}, "amount": {"value": 135.57}}],
    },
    {
        "resourceType": "Bundle",
        "id": "bundle-example",
        "type": "searchset",
        "total": 3,
        "link": [{"relation": "self", "url": "https://example.com/base/MedicationRequest?patient=347"}],
        "entry": [
            {
                "fullUrl": "https://example.com/base/Condition/3123",
                "resource": {"resourceType": "Condition", "id": "3123", "subject": {"reference": "Patient/347"}},
                "search": {"mode": "match", "score": 1},
            },
            {
                "fullUrl": "https://example.com/base/Medication/example",
                "resource": {"resourceType": "Medication", "id": "m"},
            },
        ],
    },
]


@pytest.fixture(scope="module")
def specification(tmp_path_factory):
    """The masked resources; Bundles of the example, in the same file, give the first statistics."""
    folder = tmp_path_factory.mktemp("specification")
    bundles = list(synthea.bundles(40, seed=2))
    (folder / "in.jsonl").write_bytes(b"".join(orjson.dumps(one) + b"\n" for one in [*SPECIFICATION, *bundles]))
    content = yaml.safe_load((FOLDER / "stream-masker.yaml").read_text())
    (folder / "c.yaml").write_text(yaml.safe_dump({**content, "calibration": {"min_records": 10}}))
    arguments = ["mask", "-c", folder / "c.yaml", folder / "in.jsonl", folder / "out.jsonl"]
    done = CliRunner(env={examples.SECRET_VARIABLE: examples.SECRET}).invoke(main, [str(one) for one in arguments])
    assert done.exit_code == 0, done.output
    return [orjson.loads(line) for line in (folder / "out.jsonl").read_bytes().splitlines()][: len(SPECIFICATION)]


def test_resources_after_the_specification_lose_what_no_path_names(specification):
    encounter, condition, claim, benefit, bundle = specification
    assert encounter.keys() == {"resourceType", "id", "status", "class", "subject", "participant", "reasonCode"}
    assert encounter["reasonCode"] == [{"coding": []}]
    assert encounter["subject"].keys() == {"reference"}
    assert REFERENCE.fullmatch(encounter["subject"]["reference"])[1] == "Patient/"
    assert condition.keys() == {"resourceType", "id", "clinicalStatus", "code", "subject", "onsetDateTime"}
    assert condition["code"] == {"coding": []}
    assert claim["diagnosis"] == [{"sequence": 1, "diagnosisCodeableConcept": {"coding": []}}]
    assert claim["item"] == [{"sequence": 1}]
    assert benefit["claim"] == {"reference": f"Claim/{claim['id']}"}
    assert benefit["total"] == [{"amount": {"value": 135.57}}]
    assert [entry["resource"]["resourceType"] for entry in bundle["entry"]] == ["Condition"]
    assert bundle["entry"][0]["fullUrl"] == f"Condition/{bundle['entry'][0]['resource']['id']}"
    assert bundle.keys() == {"resourceType", "type", "entry"}


def test_nothing_of_the_specifications_persons_is_left(specification):
    written = orjson.dumps(specification).decode()
    raw = [
        "f001",
        "Heuvel",
        "v1451",
        "93042",
        "Burgers",
        "Burnt",
        "Ear",
        "34068001",
        "12345",
        "9876B1",
        "347",
        "example.com",
    ]
    assert [text for text in raw if text in written] == []
