"""Messages that are FHIR resources or Bundles of them, in one form: a Bundle with the resources to mask.

A single resource is treated as the only entry of a Bundle, so the same paths apply to both. The id of the patient that
the message is about stands at the member ``patient`` while the message is masked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from stream_masker.errors import ConfigurationError
from stream_masker.pipeline.fhir.references import OID_PREFIX, R4_TYPES, UUID_PREFIX, parse_reference
from stream_masker.pipeline.paths import FilterStep, JsonValue, NameStep, Path
from stream_masker.pipeline.reasons import Reason, RecordRejectedError

BUNDLE: Final = "Bundle"
PATIENT_KEY: Final = "patient"
"""The path of the id of the patient that a message is about. It selects nothing if there are several patients."""

TYPE_PATH: Final = Path("Bundle.resourceType", (NameStep("resourceType"),))
_ENTRIES: Final = "Bundle.entry"
_SUBJECTS: Final = ("subject", "patient", "beneficiary")
_PATIENT_PREFIXES: Final = ("Patient/", UUID_PREFIX, OID_PREFIX)


@dataclass(frozen=True, slots=True)
class FhirTypes:
    """The types of resources that the configuration names, and whether those of other types are kept."""

    listed: frozenset[str]
    keeps_others: bool

    def admit(self, resource: JsonValue) -> bool:
        """Return whether a resource of a Bundle is kept; its fields are treated by the field policy."""
        return self.keeps_others or _type_of(resource) in self.listed


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
    selects = FilterStep(("resource", "resourceType"), start.key, quoted=True, every=not first)
    return Path(path.text, (NameStep("entry"), selects, NameStep("resource"), *rest))


def type_of_path(path: Path) -> str:
    """Return the type that a configured path starts with."""
    start = path.steps[0]
    return start.key if isinstance(start, NameStep) else ""


@dataclass(frozen=True, slots=True)
class FhirMessage:
    """A message as a Bundle.

    ``is_single``: whether it is a single resource, the only one of the Bundle. ``patients``: the number of patients
    that it is about.
    """

    bundle: dict[str, Any]
    is_single: bool
    patients: int

    @classmethod
    def of(cls, document: dict[str, Any], types: FhirTypes) -> FhirMessage:
        """Return the message of a decoded record, without resources of types that are not to be kept.

        Raises RecordRejectedError for an object that is not such a resource, and for a Bundle whose entries are not a
        list of objects.
        """
        is_single = _type_of(document) != BUNDLE
        if is_single and not (_type_of(document) in R4_TYPES and types.admit(document)):
            raise RecordRejectedError(Reason.UNLISTED_TYPE)
        bundle = {"resourceType": BUNDLE, "entry": [{"resource": document}]} if is_single else document
        patients = _patients_of(bundle)
        bundle.pop(PATIENT_KEY, None)
        if len(patients) == 1:
            (bundle[PATIENT_KEY],) = patients
        if "entry" in bundle:
            bundle["entry"] = [entry for entry in _entries(bundle) if _is_admitted(entry, types)]
        return cls(bundle, is_single, len(patients))

    def written(self, treated: dict[str, Any]) -> dict[str, Any]:
        """Return the document to write, of the bundle after the field policy, which keeps the types of listed
        resources."""
        if self.is_single:
            document: dict[str, Any] = treated["entry"][0]["resource"]
            return document
        treated.pop(PATIENT_KEY, None)
        if not treated.get("entry", True):
            del treated["entry"]
        return treated


def _type_of(resource: JsonValue) -> str:
    return _text(resource, "resourceType") or ""


def _text(value: JsonValue, member: str) -> str | None:
    """Return a member of an object that is a text; None if there is none."""
    text = value.get(member) if isinstance(value, dict) else None
    return text if isinstance(text, str) else None


def _entries(bundle: dict[str, Any]) -> list[dict[str, Any]]:
    entries = bundle.get("entry", [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise RecordRejectedError(Reason.WRONG_SHAPE, _ENTRIES)
    return entries


def _is_admitted(entry: dict[str, Any], types: FhirTypes) -> bool:
    """Return whether an entry is kept: its resource is, or it has none."""
    return "resource" not in entry or types.admit(entry["resource"])


def _patients_of(bundle: dict[str, Any]) -> set[str]:
    """Return the ids of the patients that a Bundle's resources are about."""
    ids: dict[str, str] = {}
    others = set()
    for entry in _entries(bundle):
        url = _text(entry, "fullUrl")
        url_id = None if url is None else parse_reference(url).id
        if _type_of(entry.get("resource")) != "Patient":
            others.add(url_id)
        elif (patient_id := _text(entry["resource"], "id") or url_id) is not None:
            ids |= {patient_id: patient_id, url_id or patient_id: patient_id}
    return {*ids.values(), *(ids.get(key, key) for key in _subjects(bundle) if key in ids or key not in others)}


def _subjects(bundle: dict[str, Any]) -> Iterator[str]:
    """Yield the ids of the patients that the resources of a Bundle refer to."""
    for entry in _entries(bundle):
        resource = entry.get("resource")
        for subject in [resource.get(member) for member in _SUBJECTS] if isinstance(resource, dict) else ():
            text = _text(subject, "reference")
            if text is not None and (reference := parse_reference(text)).prefix in _PATIENT_PREFIXES:
                yield reference.id
