"""Typed references: ``Patient/17`` becomes ``Patient/`` and the pseudonym of ``17``.

A reference keeps its kind and the type of what it refers to, and the same id has the same pseudonym wherever it stands:
in ``Patient/17``, in ``urn:uuid:…`` and in ``Patient.id``. So references still resolve, also within a Bundle.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import orjson

from stream_masker.pipeline.paths import JsonValue
from stream_masker.pipeline.transforms import DROPPED, FieldTransform, TransformContext

_NAMES: Final = """
Account ActivityDefinition AdverseEvent AllergyIntolerance Appointment AppointmentResponse AuditEvent Basic Binary
BiologicallyDerivedProduct BodyStructure Bundle CapabilityStatement CarePlan CareTeam CatalogEntry ChargeItem
ChargeItemDefinition Claim ClaimResponse ClinicalImpression CodeSystem Communication CommunicationRequest
CompartmentDefinition Composition ConceptMap Condition Consent Contract Coverage CoverageEligibilityRequest
CoverageEligibilityResponse DetectedIssue Device DeviceDefinition DeviceMetric DeviceRequest DeviceUseStatement
DiagnosticReport DocumentManifest DocumentReference EffectEvidenceSynthesis Encounter Endpoint EnrollmentRequest
EnrollmentResponse EpisodeOfCare EventDefinition Evidence EvidenceVariable ExampleScenario ExplanationOfBenefit
FamilyMemberHistory Flag Goal GraphDefinition Group GuidanceResponse HealthcareService ImagingStudy Immunization
ImmunizationEvaluation ImmunizationRecommendation ImplementationGuide InsurancePlan Invoice Library Linkage List
Location Measure MeasureReport Media Medication MedicationAdministration MedicationDispense MedicationKnowledge
MedicationRequest MedicationStatement MedicinalProduct MedicinalProductAuthorization MedicinalProductContraindication
MedicinalProductIndication MedicinalProductIngredient MedicinalProductInteraction MedicinalProductManufactured
MedicinalProductPackaged MedicinalProductPharmaceutical MedicinalProductUndesirableEffect MessageDefinition
MessageHeader MolecularSequence NamingSystem NutritionOrder Observation ObservationDefinition OperationDefinition
OperationOutcome Organization OrganizationAffiliation Parameters Patient PaymentNotice PaymentReconciliation Person
PlanDefinition Practitioner PractitionerRole Procedure Provenance Questionnaire QuestionnaireResponse RelatedPerson
RequestGroup ResearchDefinition ResearchElementDefinition ResearchStudy ResearchSubject RiskAssessment
RiskEvidenceSynthesis Schedule SearchParameter ServiceRequest Slot Specimen SpecimenDefinition StructureDefinition
StructureMap Subscription Substance SubstanceNucleicAcid SubstancePolymer SubstanceProtein
SubstanceReferenceInformation SubstanceSourceMaterial SubstanceSpecification SupplyDelivery SupplyRequest Task
TerminologyCapabilities TestReport TestScript ValueSet VerificationResult VisionPrescription
"""

R4_TYPES: Final = frozenset(_NAMES.split())
"""The types of resources in FHIR R4 (https://hl7.org/fhir/R4/resourcelist.html)."""

UUID_PREFIX: Final = "urn:uuid:"
OID_PREFIX: Final = "urn:oid:"
CONTAINED_PREFIX: Final = "#"
_URN_OR_FRAGMENT: Final = (UUID_PREFIX, OID_PREFIX, CONTAINED_PREFIX)
_UUID_OID: Final = "2.25."
"""The arc of object identifiers that are made from UUIDs (ITU-T X.667)."""

_TYPED: Final = re.compile(r"(?:https?://[^?#]*/)?([A-Za-z]+)/([A-Za-z0-9.-]{1,64})(?:/_history/[A-Za-z0-9.-]{1,64})?")
_CONDITIONAL: Final = re.compile(r"([A-Za-z]+)\?(.+)", re.DOTALL)
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


class Reference(NamedTuple):
    """A reference: what stays of it (``Patient/``, ``urn:uuid:``, ``urn:oid:``, ``#`` or nothing), and the id."""

    prefix: str
    id: str


def parse_reference(text: str) -> Reference:
    """Return the parts of a reference. A server's address and a version are not among them.

    The id of a conditional reference (``Practitioner?identifier=…``) is its condition. A text that is not a reference
    to a type of FHIR R4 is an id as a whole.
    """
    for prefix in _URN_OR_FRAGMENT:
        if text.startswith(prefix):
            return Reference(prefix, text[len(prefix) :])
    match = _TYPED.fullmatch(text) or _CONDITIONAL.fullmatch(text)
    if match is not None and match[1] in R4_TYPES:
        return Reference(f"{match[1]}/", match[2])
    return Reference("", text)


def masked_reference(text: str, pseudonym: Callable[[bytes], str]) -> str:
    """Return a reference with the pseudonym of its id. It has the form of a UUID for a UUID, otherwise 32 digits."""
    prefix, own_id = parse_reference(text)
    digits = pseudonym(own_id.encode())
    if prefix == OID_PREFIX:
        return f"{prefix}{_UUID_OID}{int(digits, 16)}"
    if prefix == UUID_PREFIX or _UUID.fullmatch(own_id):
        digits = f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
    return prefix + digits


@dataclass(frozen=True, slots=True)
class ReferencePseudonym(FieldTransform):
    """The masked reference of a text. Of a Reference object, the masked ``reference`` and the ``type`` are left."""

    def transform(self, value: JsonValue, context: TransformContext) -> Any:
        if isinstance(value, str):
            return masked_reference(value, context.pseudonym)
        if isinstance(value, list):
            masked = [self.of_value(element, context) for element in value]
            return [element for element in masked if element is not DROPPED]
        if not isinstance(value, dict):
            return masked_reference(orjson.dumps(value).decode(), context.pseudonym)
        return self._of_object(value, context) or DROPPED

    def _of_object(self, value: dict[str, Any], context: TransformContext) -> dict[str, Any]:
        left = {}
        if isinstance(reference := value.get("reference"), str):
            left["reference"] = masked_reference(reference, context.pseudonym)
        if isinstance(kind := value.get("type"), str) and kind in R4_TYPES:
            left["type"] = kind
        return left
