"""FHIR R4 messages: resources and Bundles of them, the paths into both, and references that stay typed.

A single resource is treated as the only entry of a Bundle, so the same paths apply to both. The id of the patient that
a message is about stands at the member ``patient`` while the message is masked.

A reference keeps its kind and the type of what it refers to (``Patient/17`` becomes ``Patient/`` and the pseudonym of
``17``), and the same id has the same pseudonym wherever it stands: in ``Patient/17``, in ``urn:uuid:…`` and in
``Patient.id``. So references still resolve, also within a Bundle.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

from stream_masker.errors import ConfigurationError
from stream_masker.pipeline.formats import Form, Write
from stream_masker.pipeline.paths import Document, FilterStep, JsonValue, NameStep, Path
from stream_masker.pipeline.plan import Plan
from stream_masker.pipeline.records import Reason, RecordRejectedError
from stream_masker.pipeline.transforms import DROPPED, FieldTransform, Pseudonyms, text_of

_NAMES: Final = """
Account AdverseEvent AllergyIntolerance Appointment AppointmentResponse AuditEvent Basic Binary
BiologicallyDerivedProduct BodyStructure Bundle CarePlan CareTeam ChargeItem Claim ClaimResponse ClinicalImpression
Communication CommunicationRequest Composition Condition Consent Contract Coverage CoverageEligibilityRequest
CoverageEligibilityResponse DetectedIssue Device DeviceMetric DeviceRequest DeviceUseStatement DiagnosticReport
DocumentManifest DocumentReference Encounter Endpoint EnrollmentRequest EnrollmentResponse EpisodeOfCare
ExplanationOfBenefit FamilyMemberHistory Flag Goal Group GuidanceResponse HealthcareService ImagingStudy Immunization
ImmunizationEvaluation ImmunizationRecommendation InsurancePlan Invoice Linkage List Location MeasureReport Media
Medication MedicationAdministration MedicationDispense MedicationKnowledge MedicationRequest MedicationStatement
MessageHeader MolecularSequence NutritionOrder Observation OperationOutcome Organization OrganizationAffiliation
Parameters Patient PaymentNotice PaymentReconciliation Person Practitioner PractitionerRole Procedure Provenance
Questionnaire QuestionnaireResponse RelatedPerson RequestGroup ResearchStudy ResearchSubject RiskAssessment Schedule
ServiceRequest Slot Specimen Subscription Substance SupplyDelivery SupplyRequest Task VerificationResult
VisionPrescription
"""

R4_TYPES: Final = frozenset(_NAMES.split())
"""The types of resources in FHIR R4 (https://hl7.org/fhir/R4/resourcelist.html) without those that define terms,
products and interfaces, which are about no patient."""

UUID_PREFIX: Final = "urn:uuid:"
_REFERENCE: Final = re.compile(
    r"""(?P<prefix>urn:uuid:|\#) (?P<own>.*)
    | (?:https?://[^?#]*/)? (?P<type>[A-Za-z]+)/ (?P<id>[A-Za-z0-9.-]{1,64}) (?:/_history/[A-Za-z0-9.-]{1,64})?
    | (?P<searched>[A-Za-z]+)\?identifier= (?P<system>(?:(?:https?://|urn:)[A-Za-z0-9./:_-]*)?\|)? (?P<value>[^&|]+)""",
    re.DOTALL | re.VERBOSE,
)
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


@lru_cache(maxsize=1 << 16)
def parse_reference(text: str) -> tuple[str, str]:
    """Return what stays of a reference (``Patient/``, ``Patient?identifier=SYSTEM|``, ``urn:uuid:``, ``#`` or nothing),
    and the id or the identifier's value. A server's address and a version are removed.

    A text that is not a reference to a type of FHIR R4 is an id as a whole.
    """
    match = _REFERENCE.fullmatch(text)
    if match is not None and match["prefix"]:
        return match["prefix"], match["own"]
    if match is not None and match["type"] in R4_TYPES:
        return f"{match['type']}/", match["id"]
    if match is not None and match["searched"] in R4_TYPES:
        return f"{match['searched']}?identifier={match['system'] or ''}", match["value"]
    return "", text


@lru_cache(maxsize=1 << 16)
def masked_reference(text: str, pseudonym: Callable[[bytes], str]) -> str:
    """Return a reference with the pseudonym of its id. It has the form of a UUID for a UUID, otherwise 32 digits.

    That of an identifier (``Patient?identifier=SYSTEM|7``) always has 32 digits, as the identifier has elsewhere.
    A type alone (``Patient``), as in ``request.url``, stays.
    """
    if text in R4_TYPES:
        return text
    prefix, own_id = parse_reference(text)
    digits = pseudonym(own_id.encode())
    is_uuid = prefix == UUID_PREFIX or ("?" not in prefix and _UUID.fullmatch(own_id))
    return prefix + (str(UUID(digits)) if is_uuid else digits)


@dataclass(frozen=True, slots=True)
class ReferencePseudonym(FieldTransform):
    """The masked reference of a text. Of a Reference object, the masked ``reference`` and the ``type`` are left."""

    def transform(self, value: JsonValue, pseudonyms: Pseudonyms, key: bytes | None) -> Any:
        if isinstance(value, dict):
            text, kind = value.get("reference"), value.get("type")
            left = {"reference": masked_reference(text, pseudonyms.of_bytes)} if isinstance(text, str) else {}
            return left | ({"type": kind} if isinstance(kind, str) and kind in R4_TYPES else {}) or DROPPED
        if isinstance(value, list):
            masked = [self.of_value(element, pseudonyms) for element in value]
            return [element for element in masked if element is not DROPPED]
        return masked_reference(value if isinstance(value, str) else text_of(value).decode(), pseudonyms.of_bytes)


BUNDLE: Final = "Bundle"
PATIENT_KEY: Final = "patient"
"""The path of the id of the patient that a message is about. It selects nothing if there are several patients."""

TYPE: Final = "resourceType"
TYPE_PATH: Final = Path(f"Bundle.{TYPE}", (NameStep(TYPE),))
_SUBJECTS: Final = ("subject", "patient", "beneficiary")


def fhir_path(path: Path, *, first: bool = False) -> Path:
    """Return the path into a message's form as a Bundle. Raises ConfigurationError for a path without a type.

    A path starts with a type of resources, as in FHIRPath (``Encounter.subject``), or with ``Bundle``. It selects the
    values of all resources of the type, or with ``first`` of the first one. ``patient`` is ``PATIENT_KEY``.
    """
    start, *rest = path.steps
    if path.text == PATIENT_KEY and first:
        return path
    if not isinstance(start, NameStep) or start.key not in R4_TYPES or not rest:
        raise ConfigurationError(
            f"path {path.text!r}: with records: fhir, a path starts with Bundle or a type of resources and continues "
            "with a member, such as Encounter.status"
        )
    if start.key == BUNDLE:
        return Path(path.text, tuple(rest))
    selects = FilterStep(("resource", TYPE), start.key, every=not first)
    return Path(path.text, (NameStep("entry"), selects, NameStep("resource"), *rest))


def fhir_form(plan: Plan, form: Form) -> Form:
    """Return what opens FHIR messages as Bundles; ``form``: opens their JSON.

    It raises RecordRejectedError for an object that is not a resource of a listed type, for a Bundle whose entries are
    not a list of objects, and, if the patient keys the noise, for a Bundle that is about several patients.
    """
    types = plan.fhir or frozenset[str]()
    reads_patient = any(path.text == PATIENT_KEY for path in plan.keys)
    one_patient = plan.noise_key is not None and plan.noise_key.text == PATIENT_KEY

    def open_record(value: bytes) -> tuple[Document, Write]:
        document, write = form(value)
        patients = patients_of(_as_bundle(document, types)) if reads_patient else set()
        if one_patient and len(patients) > 1:
            raise RecordRejectedError(Reason.SEVERAL_PATIENTS)
        bundle = bundle_of(document, types)
        if len(patients) == 1:
            (bundle[PATIENT_KEY],) = patients
        if bundle is not document:
            return bundle, lambda masked: write(masked["entry"][0]["resource"])
        return bundle, lambda masked: write(
            {name: m for name, m in masked.items() if name != PATIENT_KEY and (m or name != "entry")}
        )

    return open_record


def bundle_of(document: Document, types: Set[str]) -> Document:
    """Return a message as a Bundle with its resources of these types. Raises RecordRejectedError like ``fhir_form``."""
    bundle = _as_bundle(document, types)
    if "entry" in bundle:
        bundle["entry"] = [e for e in _entries(bundle) if "resource" not in e or _text(e["resource"], TYPE) in types]
    return bundle


def _as_bundle(document: Document, types: Set[str]) -> Document:
    if _text(document, TYPE) == BUNDLE:
        document.pop(PATIENT_KEY, None)
        return document
    if _text(document, TYPE) not in types:
        raise RecordRejectedError(Reason.UNLISTED_TYPE)
    return {TYPE: BUNDLE, "entry": [{"resource": document}]}


def _entries(bundle: Document) -> list[Document]:
    entries = bundle.get("entry", [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise RecordRejectedError(Reason.WRONG_SHAPE, "Bundle.entry")
    return entries


def _text(value: JsonValue, member: str) -> str | None:
    """Return a member of an object that is a text; None if there is none."""
    text = value.get(member) if isinstance(value, dict) else None
    return text if isinstance(text, str) else None


def patients_of(bundle: Document) -> set[str]:
    """Return the ids of the patients that a Bundle's resources are about.

    In a Bundle with a resource of type Patient, references by ``urn:uuid:`` or a condition name no other patient.
    """
    resources = [resource for entry in _entries(bundle) if isinstance(resource := entry.get("resource"), dict)]
    patients = [resource for resource in resources if _text(resource, TYPE) == "Patient"]
    ids = {text for patient in patients if (text := _text(patient, "id")) is not None}
    subjects = (_text(resource.get(member), "reference") or "" for resource in resources for member in _SUBJECTS)
    prefixes = ("Patient/",) if ids else ("Patient/", "Patient?", UUID_PREFIX)
    return ids | {own_id for prefix, own_id in map(parse_reference, subjects) if prefix.startswith(prefixes)}
