"""A proposal of a configuration for a sample of events: attributes, ontologies, fields and the noise key.

A path is an attribute if most of its texts are codes or labels of an ontology. Other fields are treated by their names
and values, with the stricter treatment in doubt. Each line says why; values are not shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import orjson

from stream_masker.core.mechanisms.windowed import WindowedMechanism
from stream_masker.core.ontology import ConceptMap, Ontology
from stream_masker.errors import ServiceError, StatisticsError
from stream_masker.pipeline.codec.formatted import RecordFormat
from stream_masker.pipeline.fhir.messages import PATIENT_KEY
from stream_masker.pipeline.fhir.references import R4_TYPES
from stream_masker.pipeline.hl7v2.messages import Hl7Format
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
from stream_masker.service.files.proposal.hl7v2 import hl7_noise_key, hl7_treatment, may_be_coded
from stream_masker.service.files.proposal.sample import (
    SampledField,
    Scalars,
    fhir_scalars,
    hl7_scalars,
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
from stream_masker.service.formats.wire_format import file_format

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


@dataclass(frozen=True, slots=True)
class EventKind:
    """A kind of events: the value of ``records``, and how an event's scalars are found and treated.

    joined: whether all codes of an ontology are one attribute; may_be_coded: whether a field may be an attribute.
    """

    records: str
    scalars: Callable[[dict[str, Any]], Scalars]
    treat: Callable[[SampledField, Callable[[str], bool]], tuple[str, ProposedTreatment] | None]
    joined: bool = False
    may_be_coded: Callable[[SampledField], bool] = lambda _: True


def _plain_treatment(field: SampledField, concepts: Callable[[str], bool]) -> tuple[str, ProposedTreatment]:
    return field.path, treatment(field, concepts)


JSON_EVENTS: Final = EventKind("json", json_scalars, _plain_treatment)
HL7_EVENTS: Final = EventKind("hl7v2", hl7_scalars, hl7_treatment, may_be_coded=may_be_coded)
FHIR_EVENTS: Final = EventKind("fhir", fhir_scalars, fhir_treatment, joined=True)


def proposed_configuration(
    lines: Iterable[bytes],
    ontologies: Mapping[str, str],
    sections: Mapping[str, Any] = MappingProxyType({}),
    record_format: RecordFormat | None = None,
) -> str:
    """Return a configuration as YAML for a sample of events, with the reasons as comments.

    ``ontologies``: sources by name. ``sections``: other sections of the configuration, as the sample needed them.
    ``record_format``: of the events; None for JSON and HL7 v2. Raises ServiceError if no event is a JSON object or an
    HL7 v2 message, or no field has codes of an ontology.
    """
    records = list(lines)
    parsed = [(record, event) for record in records if (event := _parsed(record, record_format)) is not None]
    if not parsed:
        raise ServiceError("the sample has no event that is a JSON object, or a row with the cells of its header")
    kind = _kind_of([event for _, event in parsed])
    fields = sampled_fields(kind.scalars(event) for _, event in parsed)
    concepts = {name: _concepts(source) for name, source in ontologies.items()}
    candidates = [field for field in fields.values() if kind.may_be_coded(field)]
    attributes = proposed_attributes(coded_fields(candidates, concepts), joined=kind.joined)
    if not attributes:
        raise ServiceError(
            f"no field of {len(parsed):,} events has codes of {', '.join(concepts)}: name an ontology with --ontology, "
            f"and give events with several codes; the fields are {_some([*fields]) or 'none'}"
        )
    treatments = _treatments(kind, fields.values(), attributes, concepts)
    key, why = _noise_key(kind, fields, attributes, len(parsed))
    used = {attribute.settings["ontology"] for attribute in attributes.values()}
    data: dict[str, Any] = {
        **sections,
        **({"records": kind.records} if kind is not JSON_EVENTS else {}),
        "ontologies": {name: {"source": ontologies[name]} for name in ontologies if name in used},
        "attributes": {name: dict(attribute.settings) for name, attribute in attributes.items()},
        "fields": field_sections(treatments),
        "noise_key": key,
    }
    reasons = {"noise_key": why}
    if len(attributes) > 1 and (
        kind is not JSON_EVENTS or sum("[*" in attribute.settings["path"] for attribute in attributes.values()) > 1
    ):
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
    of_records = record_format or file_format(configuration)
    return RecordMasker(build_plan(configuration), mechanism, bytes(32), record_format=of_records), mechanism


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


def _noise_key(
    kind: EventKind, fields: Mapping[str, SampledField], attributes: ProposedAttributes, size: int
) -> tuple[str, str]:
    if kind is FHIR_EVENTS:
        return PATIENT_KEY, "the patient that an event is about: equal codes of a patient get the same mask"
    return (
        hl7_noise_key(fields, size) if kind is HL7_EVENTS else noise_key(_unmasked(fields.values(), attributes), size)
    )


def _parsed(record: bytes, record_format: RecordFormat | None) -> dict[str, Any] | None:
    of_record = record_format or (Hl7Format() if record.lstrip(b"\x0b").startswith(b"MSH") else None)
    try:
        event = orjson.loads(record if of_record is None else of_record.decode(record)[0])
    except (orjson.JSONDecodeError, RecordRejectedError):
        return None
    return event if isinstance(event, dict) else None


def _kind_of(events: Sequence[dict[str, Any]]) -> EventKind:
    """Return the kind of most events."""
    if 2 * sum(isinstance(event.get("MSH"), list) for event in events) > len(events):
        return HL7_EVENTS
    resources = sum(event.get("resourceType") in R4_TYPES for event in events)
    return FHIR_EVENTS if 2 * resources > len(events) else JSON_EVENTS


def _concepts(source: str) -> ConceptMap:
    ontology = Ontology.load(source)
    return ConceptMap(ontology.taxonomy(), ontology=ontology)


def _unmasked(fields: Iterable[SampledField], attributes: ProposedAttributes) -> list[SampledField]:
    masked = frozenset[str]().union(*(attribute.masked for attribute in attributes.values()))
    return [field for field in fields if field.path not in masked]


def _treatments(
    kind: EventKind,
    fields: Iterable[SampledField],
    attributes: ProposedAttributes,
    concepts: Mapping[str, ConceptMap],
) -> dict[str, ProposedTreatment]:
    """Return the treatment of each field that is not masked; of several at one path the strictest."""

    def is_concept(text: str) -> bool:
        return not is_flag(text) and any(known.find(text).how != "unknown" for known in concepts.values())

    fields = list(fields)
    masked = frozenset[str]().union(*(attribute.masked for attribute in attributes.values()))
    beside = {field.place.names[:-1] for field in fields if field.path in masked} - {()}
    selected = {f"{field.place.parent}.system" for field in fields if _selects_system(field) and field.path in masked}
    treatments: dict[str, ProposedTreatment] = {}
    for field in _unmasked(fields, attributes):
        if (treated := kind.treat(field, is_concept)) is None:
            continue
        path, proposed = treated
        if field.path in selected:
            path, proposed = field.path, _SELECTED
        elif field.place.names[:-1] in beside and not proposed.is_standard:
            path, proposed = field.path, BESIDE_CODE
        treatments[path] = proposed if path not in treatments or proposed.key == "drop" else treatments[path]
    return _of_whole_containers(treatments, masked) if kind is FHIR_EVENTS else treatments


_STEP: Final = re.compile(r"\[(?:'(?:\\.|[^'\\])*'|[^'\]])*\]|\.?[^.\[\]]+")


def _of_whole_containers(
    treatments: Mapping[str, ProposedTreatment], masked: Collection[str]
) -> dict[str, ProposedTreatment]:
    """Return treatments that drop an object or a list of which nothing is left: FHIR has no empty ones.

    What is left of a Reference is what ``references`` leaves, so the fields in it have no treatment of their own.
    """
    references = [path for path, proposed in treatments.items() if proposed.key == "references"]
    left = [*masked, *(path for path, proposed in treatments.items() if proposed.key != "drop")]
    whole: dict[str, ProposedTreatment] = {}
    for path, proposed in treatments.items():
        if any(_is_below(path, reference) for reference in references):
            continue
        outer = _containers(path) if proposed.key == "drop" else ()
        place = next((empty for empty in outer if not any(_is_below(other, empty) for other in left)), path)
        if place not in whole or proposed.is_flagged > whole[place].is_flagged:
            whole[place] = proposed
    return whole


def _containers(path: str) -> Iterator[str]:
    """Yield the paths of the fields and elements around a field of a resource or of a Bundle's entry."""
    steps = _STEP.findall(path)
    outermost = 4 if steps[:2] == ["Bundle", ".entry"] else 2
    ends = (end for end in range(outermost, len(steps)) if steps[end - 1] != "[*]")
    yield from ("".join(steps[:end]) for end in ends)


def _is_below(path: str, outer: str) -> bool:
    return path.startswith((f"{outer}.", f"{outer}["))


def _selects_system(field: SampledField) -> bool:
    """Return whether a field belongs to an element of a list that its path selects by the code system."""
    return "?system=" in field.place.parent.rpartition("[")[2]


def _some(paths: Sequence[str]) -> str:
    """Return the first paths, and how many more there are."""
    more = len(paths) - MOST_NAMED
    return ", ".join(paths[:MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")
