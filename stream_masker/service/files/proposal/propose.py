"""A proposal of a configuration for a sample of events: attributes, ontologies, fields and the noise key.

A path is an attribute if most of its texts are codes or labels of an ontology. Other fields are treated by their names
and values, with the stricter treatment in doubt. Each line says why; values are not shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import orjson

from stream_masker.core.mechanisms.windowed import WindowedMechanism
from stream_masker.core.ontology import ConceptMap, Ontology
from stream_masker.errors import ServiceError, StatisticsError
from stream_masker.pipeline.fhir import PATIENT_KEY, R4_TYPES
from stream_masker.pipeline.formats import RecordFormat, document_of
from stream_masker.pipeline.masker import RecordMasker
from stream_masker.pipeline.reasons import Reason, RecordRejectedError, RejectionCauses, causes_text
from stream_masker.service.configuration import parse_configuration
from stream_masker.service.configuration.build import build_mechanism, build_plan
from stream_masker.service.files.proposal.attributes import (
    ProposedAttributes,
    coded_fields,
    is_flag,
    proposed_attributes,
)
from stream_masker.service.files.proposal.document import field_sections, proposal_text
from stream_masker.service.files.proposal.sample import (
    SampledField,
    Scalars,
    fhir_scalars,
    json_scalars,
    sampled_fields,
)
from stream_masker.service.files.proposal.treatment import (
    BESIDE_CODE,
    ProposedTreatment,
    noise_key,
    treatment,
    whole_years,
)

_ADMINISTRATIVE: Final = frozenset(
    {"type", "method", "use", "intent", "status", "gender", "outcome", "sequence", "currency"}
)
_REFERENCE: Final = ProposedTreatment("references", None, "a reference or an id: its type stays")
_KEPT: Final = ProposedTreatment("keep", None, "an administrative code of FHIR")
_INSTANTS: Final = frozenset({"lastUpdated", "issued", "recorded"})
"""The fields of FHIR's type ``instant``, of which no part can be left out."""
_WHOLE_TIME: Final = ProposedTreatment("drop", None, "FHIR requires the whole time here: shift it to keep a part of it")
_SELECTED: Final = ProposedTreatment("keep", None, "the code system that the path of the attribute selects")


def fhir_treatment(field: SampledField, concepts: Callable[[str], bool]) -> tuple[str, ProposedTreatment]:
    """Return the path that is treated, and its treatment: a reference is treated with its type."""
    names = field.place.names
    if field.name == "reference" and len(names) > 2:
        return field.place.parent, _REFERENCE
    if (field.name == "id" and len(names) == 2) or names[-2:] == ("entry", "fullUrl"):
        return field.path, _REFERENCE
    if _is_administrative(names):
        return field.path, _KEPT
    proposed = whole_years(treatment(field, concepts))
    return field.path, _WHOLE_TIME if field.name in _INSTANTS and proposed.key == "generalize" else proposed


def _is_administrative(names: tuple[str, ...]) -> bool:
    direct = len(names) == 2 or names[:3] == ("Bundle", "entry", "request")
    status = len(names) > 2 and (names[1].endswith("Status") or names[1] == "class") and names[-1] in {"system", "code"}
    return (direct and names[-1] in _ADMINISTRATIVE) or status


MOST_NAMED: Final = 20
DEFAULT_MIN_RECORDS: Final = 1000
"""The default of ``calibration.min_records``. A smaller sample is proposed with a smaller number."""

UNKNOWN_POLICIES: Final = ("ancestor", "suppress")
"""The policies for unknown codes that are tried, in their order, if the sample has such codes."""


def proposed_configuration(
    lines: Iterable[bytes],
    ontologies: Mapping[str, str],
    sections: Mapping[str, Any] = MappingProxyType({}),
    record_format: RecordFormat | None = None,
) -> str:
    """Return a configuration as YAML for a sample of events, with the reasons as comments.

    ``ontologies``: sources by name. ``sections``: other sections of the configuration, as the sample needed them.
    ``record_format``: of the events; None for JSON. Raises ServiceError if no event is a JSON object, or no field has
    codes of an ontology.
    """
    records = list(lines)
    parsed = [(record, event) for record in records if (event := _parsed(record, record_format)) is not None]
    if not parsed:
        raise ServiceError("the sample has no event that is a JSON object, or a row with the cells of its header")
    is_fhir = 2 * sum(event.get("resourceType") in R4_TYPES for _, event in parsed) > len(parsed)
    scalars: Callable[[dict[str, Any]], Scalars] = fhir_scalars if is_fhir else json_scalars
    fields = sampled_fields(scalars(event) for _, event in parsed)
    concepts = {name: _concepts(source) for name, source in ontologies.items()}
    attributes = proposed_attributes(coded_fields(fields.values(), concepts), joined=is_fhir)
    if not attributes:
        raise ServiceError(
            f"no field of {len(parsed):,} events has codes of {', '.join(concepts)}: name an ontology with --ontology, "
            f"and give events with several codes; the fields are {_some([*fields]) or 'none'}"
        )
    treatments = _treatments(fields.values(), attributes, concepts, is_fhir=is_fhir)
    key, why = noise_key(_unmasked(fields.values(), attributes), len(parsed))
    if is_fhir:
        key, why = PATIENT_KEY, "the patient that an event is about: equal codes of a patient get the same mask"
    used = {attribute.settings["ontology"] for attribute in attributes.values()}
    data: dict[str, Any] = {
        **sections,
        **({"records": "fhir"} if is_fhir else {}),
        "ontologies": {name: {"source": ontologies[name]} for name in ontologies if name in used},
        "attributes": {name: dict(attribute.settings) for name, attribute in attributes.items()},
        "fields": field_sections(treatments),
        "noise_key": key,
    }
    reasons = {"noise_key": why}
    lists = sum("[*" in attribute.settings["path"] for attribute in attributes.values())
    if len(attributes) > 1 and (is_fhir or lists > 1):
        data["mechanism"] = {"name": "semantic_noise", "correlated": False, "reference": "mean"}
        reasons["mechanism"] = "several lists of codes are masked each on its own"
    usable, outcome = _rehearsed(data, [record for record, _ in parsed], record_format)
    if usable < DEFAULT_MIN_RECORDS:
        data["calibration"] = {"min_records": max(1, usable)}
        reasons["calibration"] = f"the sample has no more; use {DEFAULT_MIN_RECORDS:,} or more in production"
    return proposal_text(data, attributes=attributes, treatments=treatments, reasons=reasons, outcome=outcome)


def _rehearsed(data: dict[str, Any], values: Sequence[bytes], record_format: RecordFormat | None) -> tuple[int, str]:
    """Adapt the attributes of a proposal to a sample; return how many events can be masked with it, and a sentence.

    An attribute that is missing or empty in some events gets ``missing: keep``, one with unknown codes the first of
    ``UNKNOWN_POLICIES`` that does not reject them.
    """
    for policy in (None, *UNKNOWN_POLICIES):
        # A rejection names the first attribute that causes it, so the next one appears only then.
        for _ in data["attributes"]:
            masker, mechanism = _built(data, record_format)
            counted = masker.count(values)
            if not _adapted(data["attributes"], counted.causes, policy):
                break
    masker, mechanism = _built(data, record_format)
    counted = masker.count(values)
    rejected = sum(counted.causes.values())
    causes = f" ({causes_text(counted.causes)})" if rejected else ""
    outcome = f"Of the sample, {len(values) - rejected:,} can be masked, rejected {rejected:,}{causes}."
    try:
        mechanism.compute(counted.counts, version=1)
    except StatisticsError as error:
        outcome += f" It cannot be masked by its own statistics: {error}. Give more events."
    return len(values) - rejected, outcome


def _built(data: Mapping[str, Any], record_format: RecordFormat | None) -> tuple[RecordMasker, WindowedMechanism[Any]]:
    configuration = parse_configuration(data)
    mechanism: WindowedMechanism[Any] = build_mechanism(configuration)
    return RecordMasker(build_plan(configuration), mechanism, bytes(32), record_format=record_format), mechanism


def _adapted(attributes: Mapping[str, dict[str, Any]], causes: RejectionCauses, policy: str | None) -> bool:
    """Change the attributes that reject events: missing ones without a policy, otherwise those with unknown codes."""
    reasons = (Reason.MISSING, Reason.NOT_A_CODE, Reason.EMPTY) if policy is None else (Reason.UNKNOWN_CODE,)
    key, value = ("missing", "keep") if policy is None else ("unknown", policy)
    rejecting = {path for reason, path in causes if reason in reasons}
    changed = [
        settings
        for settings in attributes.values()
        if settings.get(key) != value and not rejecting.isdisjoint((settings["path"], *settings.get("also", ())))
    ]
    for settings in changed:
        settings[key] = value
    return bool(changed)


def _parsed(record: bytes, record_format: RecordFormat | None) -> dict[str, Any] | None:
    try:
        event = document_of(record_format, record)
    except (orjson.JSONDecodeError, RecordRejectedError):
        return None
    return event if isinstance(event, dict) else None


def _concepts(source: str) -> ConceptMap:
    ontology = Ontology.load(source)
    return ConceptMap(ontology.taxonomy(), ontology=ontology)


def _unmasked(fields: Iterable[SampledField], attributes: ProposedAttributes) -> list[SampledField]:
    masked = frozenset[str]().union(*(attribute.masked for attribute in attributes.values()))
    return [field for field in fields if field.path not in masked]


def _treatments(
    fields: Iterable[SampledField],
    attributes: ProposedAttributes,
    concepts: Mapping[str, ConceptMap],
    *,
    is_fhir: bool,
) -> dict[str, ProposedTreatment]:
    """Return the treatment of each field that is not masked; of several at one path the strictest."""

    def is_concept(text: str) -> bool:
        return not is_flag(text) and any(known.find(text).how != "unknown" for known in concepts.values())

    fields = list(fields)
    masked = [field for field in fields if any(field.path in attribute.masked for attribute in attributes.values())]
    beside = {field.place.names[:-1] for field in masked} - {()}
    selected = {f"{field.place.parent}.system" for field in masked if _selects_system(field)}
    treatments: dict[str, ProposedTreatment] = {}
    for field in _unmasked(fields, attributes):
        path, proposed = fhir_treatment(field, is_concept) if is_fhir else (field.path, treatment(field, is_concept))
        if field.path in selected:
            path, proposed = field.path, _SELECTED
        elif field.place.names[:-1] in beside:
            path, proposed = field.path, BESIDE_CODE
        if path not in treatments or proposed.key == "drop":
            treatments[path] = proposed
    references = tuple(f"{path}." for path, proposed in treatments.items() if proposed.key == "references")
    return {path: proposed for path, proposed in treatments.items() if not path.startswith(references)}


def _selects_system(field: SampledField) -> bool:
    """Return whether a field belongs to an element of a list that its path selects by the code system."""
    return "?system=" in field.place.parent.rpartition("[")[2]


def _some(paths: Sequence[str]) -> str:
    """Return the first paths, and how many more there are."""
    more = len(paths) - MOST_NAMED
    return ", ".join(paths[:MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")
