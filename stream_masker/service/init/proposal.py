"""The configuration that is proposed for a sample of events, tried on the sample, as YAML with reasons."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from copy import deepcopy
from typing import Any, Final

import orjson
import yaml

from stream_masker.core.ontology import ConceptMap, Ontology
from stream_masker.errors import ConfigurationError, ServiceError, StatisticsError
from stream_masker.pipeline.fhir import PATIENT_KEY
from stream_masker.pipeline.paths import alternatives
from stream_masker.pipeline.reasons import Reason, RejectionCause
from stream_masker.pipeline.style import most_used
from stream_masker.service.configuration import parse_configuration
from stream_masker.service.configuration.paths import POSITION
from stream_masker.service.files.inputs import FileEvent
from stream_masker.service.files.masking import FileMasking
from stream_masker.service.init.fields import Coding, best_coding, person_id
from stream_masker.service.init.sample import Sample, SampledField, sampled_fields, type_of

DEFAULT_MIN_RECORDS: Final = 1000
"""The default of ``calibration.min_records``; a smaller sample gets a smaller number."""

_MISSING: Final = frozenset({Reason.MISSING, Reason.NOT_A_CODE, Reason.EMPTY})
"""The reasons of rejections for which an attribute gets ``missing: keep``."""


def proposed_configuration(sample: Sample, ontologies: Mapping[str, str]) -> str:
    """Return a configuration as YAML for a sample of events, with the reasons as comments; no value is shown.

    ``ontologies``: sources by name. Raises ServiceError if there is no event, or if no field has codes.
    """
    documents = sample.documents()
    if not documents:
        raise ServiceError("the sample has no event that is a JSON object, or a row with the cells of its header")
    is_fhir, found = any(map(type_of, documents.values())), sampled_fields(documents)
    taxonomies = {name: Ontology.load(source).taxonomy() for name, source in ontologies.items()}
    concepts = {name: ConceptMap(taxonomy, unknown="ancestor") for name, taxonomy in taxonomies.items()}
    codings = [best_coding(field, concepts) for field in found.values()]
    reasons = _reasons(codings)
    codes = [coding for coding in codings if coding.field.path not in reasons]
    if not codes:
        raise ServiceError(_no_codes(reasons, len(documents), ontologies, is_fhir=is_fhir))
    coded = {number for code in codes for number in code.field.events}
    marks = sorted({mark for code in codes for mark in code.marks}) if sample.kind == "csv" else []
    csv = {"encoding": sample.encoding, "null_values": ["", *marks] if marks else []}
    fields, noise_key, why = _identity([found[path] for path in reasons], coded, is_fhir=is_fhir)
    attributes, comments = _attributes(codes, concepts, is_fhir=is_fhir)
    data: dict[str, Any] = {
        **({"records": "fhir"} if is_fhir else {}),
        **({"csv": {key: value for key, value in csv.items() if value}} if any(csv.values()) else {}),
        "ontologies": {code.ontology: {"source": ontologies[code.ontology]} for code in codes},
        "attributes": attributes,
        "fields": {**fields, "unlisted": "drop"},
        "noise_key": noise_key,
    }
    outcome = _tried(data, [_unmarked(event, marks) for event in sample.events], coded)
    listed = {path for paths in fields.values() for path in paths}
    dropped = {p: text for p, text in reasons.items() if listed.isdisjoint({*found[p].place.paths, found[p].reference})}
    return "\n".join(_lines(data, {**comments, "noise_key": why}, outcome, dropped))


def _unmarked(event: FileEvent, marks: Collection[str]) -> FileEvent:
    """Return an event of a table without the cells that ``null_values`` leave out."""
    if not marks or event.problem is not None:
        return event
    cells = orjson.loads(event.value).items()
    return event._replace(value=orjson.dumps({name: cell for name, cell in cells if cell not in marks}))


def _no_codes(reasons: Mapping[str, str], events: int, ontologies: Iterable[str], *, is_fhir: bool) -> str:
    named = "".join(f"\n  {path}: {why}" for path, why in reasons.items())
    example = ", or start from the configuration of examples/fhir-bundle" if is_fhir else ""
    return (
        f"no field of {events:,} events has codes of {', '.join(ontologies)}: name an ontology with --ontology, and "
        f"give events with several codes{example}; the fields are{named or ' none'}"
    )


def _reasons(codings: Sequence[Coding]) -> dict[str, str]:
    """Return why fields are no attributes, by path.

    Where only some codings of FHIR name their system, only those are attributes: the path of all would meet theirs.
    """
    codes = [coding.field.place for coding in codings if coding.problem is None]
    beside, reasons = {place.parent for place in codes} - {""}, dict[str, str]()
    for coding in codings:
        place, problem = coding.field.place, coding.problem
        if problem is not None:
            reasons[place.path] = "it stands beside a code and may tell it" if place.parent in beside else problem
        elif any(place.holds(other) for other in codes):
            reasons[place.path] = "codes without a system, beside others with one: let their source name it"
    return reasons


def _attributes(
    codes: Iterable[Coding], concepts: Mapping[str, ConceptMap], *, is_fhir: bool
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Return the attributes, and the reasons for them. The codes of FHIR that share an ontology are one attribute."""
    attributes, reasons = dict[str, dict[str, Any]](), dict[str, str]()
    names = dict[str, str]()
    for code in codes:
        path, ontology = code.field.path, code.ontology
        if is_fhir and ontology in names:
            attributes[names[ontology]]["path"] += f" | {path}"
            continue
        name = names[ontology] = _attribute_name(code.field, attributes)
        attributes[name] = {"path": path, "ontology": ontology, **({"missing": "keep"} if is_fhir else {})}
        if (style := most_used(concepts[ontology], code.field.values)) != "id":
            attributes[name]["style"] = style
        reasons[name] = code.why
    return attributes, reasons


def _attribute_name(field: SampledField, taken: Collection[str]) -> str:
    """Return a name from the path: its last name that is not ``code`` or ``coding``."""
    names = field.place.names
    telling = [name for name in names if name not in {"code", "coding", "value"} and not name.isdigit()] or names
    name = re.sub(r"^(?=[0-9-])|[^A-Za-z0-9_-]+", "_", telling[-1])[:90] or "attribute"
    return next(one for k in range(1, 1000) if (one := name if k == 1 else f"{name}_{k}") not in taken)


def _identity(
    fields: Sequence[SampledField], coded: Set[int], *, is_fhir: bool
) -> tuple[dict[str, list[str]], str, str]:
    """Return the treatment of ids, and the noise key with the reason for it; ``coded``: the events with a code."""
    if is_fhir:
        references = dict.fromkeys(field.reference for field in fields if field.reference)
        return {"references": [*references]}, PATIENT_KEY, "the id of the patient that a message is about"
    person = person_id(fields, coded)
    if person is None:
        return {}, POSITION, "no field is a person's id in every event with a code"
    return {"pseudonymize": [*person[0].place.paths]}, person[0].path, person[1]


def _tried(data: dict[str, Any], events: Sequence[FileEvent], coded: Collection[int]) -> str:
    """Adapt the policies of attributes to the events with codes, and say what becomes of all events."""
    data["calibration"], failed = {"min_records": 1}, ""
    with_codes = [event for event in events if event.number in coded]
    try:
        while _is_adapted(data["attributes"], _masking(data).count(with_codes)[1].rejected):
            continue
        masking = _masking(data)
        counts, totals = masking.count(events)
        data["calibration"] = {"min_records": min(max(1, totals.masked), DEFAULT_MIN_RECORDS)}
        masking.compute(counts, totals)
    except ConfigurationError as refused:
        return f"CHECK: this proposal cannot be used as it is: {' '.join(str(refused).split())}"
    except StatisticsError as error:
        failed = f" It cannot be masked by its own statistics: {error}. Give more events."
    return f"Tried on the sample ({totals}).{failed}"


def _masking(data: Mapping[str, Any]) -> FileMasking:
    return FileMasking(parse_configuration(data), is_trial=True)


def _is_adapted(attributes: Mapping[str, dict[str, Any]], causes: Iterable[RejectionCause]) -> bool:
    """Let attributes admit what they cause rejections of, step by step; return whether a policy has changed."""
    before = deepcopy(attributes)
    for attribute in attributes.values():
        reasons = {reason for reason, path in causes if path in alternatives(attribute["path"])}
        if reasons & _MISSING:
            attribute["missing"] = "keep"
        if Reason.UNKNOWN_CODE in reasons:
            attribute["unknown"] = "suppress" if "unknown" in attribute else "ancestor"
    return attributes != before


def _lines(
    data: Mapping[str, Any], comments: Mapping[str, str], outcome: str, dropped: Mapping[str, str]
) -> Iterator[str]:
    yield "# Proposed for a sample of events by stream-masker config init. Check every line."
    yield f"# {_on_one_line(outcome)}"
    for key, value in data.items():
        if key in ("attributes", "fields"):
            yield f"{key}:"
            yield from (f"  {_entry(name, setting, comments)}" for name, setting in value.items())
        else:
            yield _entry(key, value, comments)
        if key == "fields":
            yield from (f"  # dropped: {_on_one_line(path)}: {why}" for path, why in dropped.items())
    yield "secret: {file: secret}\n"


def _entry(key: str, value: Any, comments: Mapping[str, str]) -> str:
    return f"{_flow(key)}: {_flow(value)}" + (f"  # {comments[key]}" if comments.get(key) else "")


def _flow(value: Any) -> str:
    """Return a value as YAML in one line."""
    style: dict[str, Any] = {"default_flow_style": True, "width": float("inf"), "sort_keys": False}
    text = str(yaml.safe_dump(value, allow_unicode=True, **style)).strip().removesuffix("\n...")
    return text if text == _on_one_line(text) else str(yaml.safe_dump(value, default_style='"', **style)).strip()


def _on_one_line(text: str) -> str:
    """Return a text without line breaks: a field's name may have some, and must not end a comment."""
    return " ".join(text.splitlines())
