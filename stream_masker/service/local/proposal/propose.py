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

from stream_masker.core.ontology import ConceptMap, Ontology
from stream_masker.errors import ServiceError
from stream_masker.pipeline.fhir import PATIENT_KEY, R4_TYPES
from stream_masker.pipeline.formats import RecordFormat
from stream_masker.pipeline.hl7v2 import Hl7Format
from stream_masker.pipeline.reasons import RecordRejectedError
from stream_masker.service.files.hl7 import starts_hl7
from stream_masker.service.local.proposal.attributes import (
    ProposedAttributes,
    coded_fields,
    has_single_code,
    is_flag,
    proposed_attributes,
)
from stream_masker.service.local.proposal.document import DEFAULT_MIN_RECORDS, field_sections, proposal_text
from stream_masker.service.local.proposal.hl7v2 import hl7_noise_key, hl7_scalars, hl7_treatment, may_be_coded
from stream_masker.service.local.proposal.names import CLINICAL_NAMES
from stream_masker.service.local.proposal.rehearsal import Rehearsal
from stream_masker.service.local.proposal.sample import (
    SampledField,
    Scalars,
    fhir_scalars,
    json_scalars,
    sampled_fields,
)
from stream_masker.service.local.proposal.schema_fit import fitting_treatments
from stream_masker.service.local.proposal.treatment import (
    BESIDE_CODE,
    TESTED_VALUES,
    ProposedTreatment,
    noise_key,
    treatment,
    whole_years,
)
from stream_masker.service.local.proposal.values import code_shape

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
    records: Iterable[bytes] | None = None,
    record_format: RecordFormat | None = None,
) -> str:
    """Return a configuration as YAML for a sample of events, with the reasons as comments.

    ``ontologies``: sources by name. ``sections``: other sections of the configuration, as the sample needed them.
    ``records``: the records of the events, if they are not the events themselves. ``record_format``: of the records, if
    masked ones must fit a schema.
    Raises ServiceError if no event is a JSON object or an HL7 v2 message, or no field has codes of an ontology.
    """
    lines = list(lines)
    pairs = zip(lines, lines if records is None else records, strict=True)
    events = [(record, event) for line, record in pairs if (event := _parsed(line)) is not None]
    if not events:
        raise ServiceError("the sample has no event that is a JSON object, or a row with the cells of its header")
    kind = _kind_of([record for record, _ in events], [event for _, event in events])
    fields = sampled_fields(kind.scalars(event) for _, event in events)
    concepts = {name: _concepts(source) for name, source in ontologies.items()}
    attributes = proposed_attributes(
        coded_fields(filter(kind.may_be_coded, fields.values()), concepts), joined=kind.joined
    )
    if not attributes:
        raise ServiceError(_no_codes(len(events), filter(kind.may_be_coded, fields.values()), concepts))
    treatments = _treatments(kind, fields.values(), attributes, concepts)
    rehearsal = Rehearsal([record for record, _ in events], record_format)
    return _text(rehearsal, kind, fields, attributes, treatments, ontologies, sections)


def _text(
    rehearsal: Rehearsal,
    kind: EventKind,
    fields: Mapping[str, SampledField],
    attributes: ProposedAttributes,
    treatments: Mapping[str, ProposedTreatment],
    ontologies: Mapping[str, str],
    sections: Mapping[str, Any],
) -> str:
    used = {attribute.settings["ontology"] for attribute in attributes.values()}
    size = len(rehearsal.values)
    key, why = noise_key(_unmasked(fields.values(), attributes), size)
    if kind is HL7_EVENTS:
        key, why = hl7_noise_key(fields, size)
    if kind is FHIR_EVENTS:
        key, why = PATIENT_KEY, "the patient that an event is about: equal codes of a patient get the same mask"
    data: dict[str, Any] = {
        **sections,
        **({"records": kind.records} if kind is not JSON_EVENTS else {}),
        "ontologies": {name: {"source": ontologies[name]} for name in ontologies if name in used},
        "attributes": {name: attribute.settings for name, attribute in attributes.items()},
        "fields": field_sections(treatments),
        "noise_key": key,
    }
    reasons = {"noise_key": why}
    if len(attributes) > 1 and (
        kind is not JSON_EVENTS or sum("[*" in attribute.settings["path"] for attribute in attributes.values()) > 1
    ):
        data["mechanism"] = {"name": "semantic_noise", "correlated": False, "reference": "mean"}
        reasons["mechanism"] = "several lists of codes are masked each on its own"
    treatments = fitting_treatments(data, treatments, fields, rehearsal)
    data, totals, problem = rehearsal.adapted({**data, "fields": field_sections(treatments)})
    if totals.masked < DEFAULT_MIN_RECORDS:
        data["calibration"] = {"min_records": max(1, totals.masked)}
        reasons["calibration"] = f"the sample has no more; use {DEFAULT_MIN_RECORDS:,} or more in production"
    return proposal_text(
        data, attributes=attributes, treatments=treatments, reasons=reasons, totals=totals, problem=problem
    )


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        event = Hl7Format().decode(line)[0] if starts_hl7(line) else orjson.loads(line)
    except (orjson.JSONDecodeError, RecordRejectedError):
        return None
    return event if isinstance(event, dict) else None


def _kind_of(lines: Sequence[bytes], events: Sequence[dict[str, Any]]) -> EventKind:
    """Return the kind of most events."""
    if 2 * sum(map(starts_hl7, lines)) > len(lines):
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
    beside = {field.container for field in fields if field.path in masked} - {()}
    selected = {f"{field.place.parent}.system" for field in fields if _selects_system(field) and field.path in masked}
    treatments: dict[str, ProposedTreatment] = {}
    for field in _unmasked(fields, attributes):
        if (treated := kind.treat(field, is_concept)) is None:
            continue
        path, proposed = treated
        if field.path in selected:
            path, proposed = field.path, _SELECTED
        elif field.container in beside and not proposed.is_standard:
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


def _no_codes(events: int, fields: Iterable[SampledField], concepts: Mapping[str, ConceptMap]) -> str:
    """Say that no field has codes, with the fields that look as if they had codes of another ontology."""
    fields = list(fields)
    if single := [field.path for field in fields if has_single_code(field, concepts.values())]:
        of_all = "a single event is no sample" if events == 1 else f"it has the same code in all of {events:,} events"
        return f"{_some(single)} cannot be masked: {of_all}: use more events, such as a folder of files"
    of_standard = [field.path for field in fields if field.place.is_coded]
    likely = of_standard or [field.path for field in fields if _may_have_codes(field)]
    of_events = "the event" if events == 1 else f"{events:,} events"
    return (
        f"no field of {of_events} has codes of {', '.join(concepts)}: name an ontology with --ontology; "
        + (f"codes of another one may be in {_some(likely)}; " if likely else "")
        + f"the fields are {_some([field.path for field in fields]) or 'none'}"
    )


def _may_have_codes(field: SampledField) -> bool:
    return CLINICAL_NAMES.fits(field.name) or code_shape([*field.values][:TESTED_VALUES]) is not None


def _some(paths: Sequence[str]) -> str:
    """Return the first paths, and how many more there are."""
    more = len(paths) - MOST_NAMED
    return ", ".join(paths[:MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")
