"""Bundles as the Synthea patient generator writes them for FHIR R4: transactions with the resources of one person.

Resources refer to each other by ``urn:uuid:`` and to practitioners by conditional references. Conditions have a coding
in SNOMED CT and, as hospitals send them, one or more in ICD-10-CM.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]

ICD = "http://hl7.org/fhir/sid/icd-10-cm"
SNOMED = "http://snomed.info/sct"
CLINICAL = "http://terminology.hl7.org/CodeSystem/condition-clinical"
ACT = "http://terminology.hl7.org/CodeSystem/v3-ActCode"
CLAIM_TYPE = "http://terminology.hl7.org/CodeSystem/claim-type"

DIAGNOSES = [
    ("I10", "Essential (primary) hypertension", "59621000"),
    ("E11.9", "Type 2 diabetes mellitus without complications", "44054006"),
    ("E78.5", "Hyperlipidemia, unspecified", "55822004"),
    ("I25.10", "Atherosclerotic heart disease of native coronary artery", "53741008"),
    ("J45.909", "Unspecified asthma, uncomplicated", "195967001"),
    ("J20.9", "Acute bronchitis, unspecified", "10509002"),
    ("J02.9", "Acute pharyngitis, unspecified", "363746003"),
    ("M17.0", "Bilateral primary osteoarthritis of knee", "239873007"),
    ("N18.30", "Chronic kidney disease, stage 3 unspecified", "433144002"),
    ("I50.9", "Heart failure, unspecified", "88805009"),
    ("I48.91", "Unspecified atrial fibrillation", "49436004"),
    ("D64.9", "Anemia, unspecified", "271737000"),
]


def bundles(people: int, seed: int = 1) -> Iterator[Json]:
    """The Bundles of some people; equal arguments give equal Bundles."""
    for number in range(people):
        yield _Person(random.Random(f"{seed}/{number}")).bundle()


class _Person:
    """The resources of one person, as entries of a Bundle."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.entries: list[Json] = []
        self.patient = self.add("Patient", {"gender": draw.choice(["male", "female"]), **self._identity()})

    def bundle(self) -> Json:
        for visit in range(self.draw.randint(1, 3)):
            self._visit(f"20{10 + visit}-0{self.draw.randint(1, 9)}-1{self.draw.randint(0, 9)}T10:00:00+02:00")
        return {"resourceType": "Bundle", "type": "transaction", "entry": self.entries}

    def add(self, kind: str, content: Json) -> Json:
        """Add a resource; the reference to it."""
        own = str(uuid.UUID(int=self.draw.getrandbits(128), version=4))
        resource = {"resourceType": kind, "id": own, **content}
        request = {"method": "POST", "url": kind}
        self.entries.append({"fullUrl": f"urn:uuid:{own}", "resource": resource, "request": request})
        return {"reference": f"urn:uuid:{own}"}

    def _identity(self) -> Json:
        family = f"Doe{self.draw.randint(100, 999)}"
        return {
            "name": [{"use": "official", "family": family, "given": ["Ada"]}],
            "birthDate": f"19{self.draw.randint(30, 99)}-03-14",
            "address": [{"city": "Springfield", "postalCode": "01101"}],
            "identifier": [{"system": "http://hospital.example", "value": f"MRN-{family}"}],
        }

    def _visit(self, start: str) -> None:
        found = [_concept(*one) for one in self.draw.sample(DIAGNOSES, self.draw.randint(1, 3))]
        doctor = f"Practitioner?identifier=http://hl7.org/fhir/sid/us-npi|99999{self.draw.randint(10000, 99999)}"
        encounter = self.add(
            "Encounter",
            {
                "status": "finished",
                "class": {"system": ACT, "code": "AMB"},
                "type": [{"text": "Encounter for problem"}],
                "subject": {**self.patient, "display": "Ada Doe"},
                "participant": [{"individual": {"reference": doctor, "display": "Dr. Example"}}],
                "period": {"start": start, "end": start},
                "reasonCode": found[:2],
            },
        )
        conditions = [self._condition(one, encounter, start) for one in found]
        self.add("Observation", {"status": "final", "code": {"text": "Body Weight"}, "subject": self.patient})
        self._claims(found, conditions, encounter, start)

    def _condition(self, concept: Json, encounter: Json, start: str) -> Json:
        content = {"clinicalStatus": {"coding": [{"system": CLINICAL, "code": "active"}]}, "code": concept}
        return self.add(
            "Condition", {**content, "subject": self.patient, "encounter": encounter, "onsetDateTime": start}
        )

    def _claims(self, found: list[Json], conditions: list[Json], encounter: Json, start: str) -> None:
        common = {
            "status": "active",
            "type": {"coding": [{"system": CLAIM_TYPE, "code": "professional"}]},
            "use": "claim",
            "patient": self.patient,
            "billablePeriod": {"start": start, "end": start},
            "created": start,
            "item": [{"sequence": 1, "productOrService": {"text": "Visit"}, "encounter": [encounter]}],
        }
        numbered = list(enumerate(conditions, 1))
        referred = [{"sequence": k, "diagnosisReference": one} for k, one in numbered[1:]]
        coded = [{"sequence": k, "diagnosisCodeableConcept": one} for k, one in enumerate(found, 1)]
        claim = self.add("Claim", {**common, "diagnosis": [coded[0], *referred], "total": {"value": 129.16}})
        self.add(
            "ExplanationOfBenefit",
            {**common, "outcome": "complete", "claim": claim, "diagnosis": coded, "payment": {"amount": {"value": 90}}},
        )


def _concept(code: str, display: str, snomed: str) -> Json:
    coding = {"system": ICD, "code": code, "display": display}
    return {"coding": [{"system": SNOMED, "code": snomed, "display": display}, coding], "text": f"{display} (disorder)"}
