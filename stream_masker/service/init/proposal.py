"""The configuration that is proposed for a sample of events, tried on the sample, as YAML with reasons."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from copy import deepcopy
from typing import Any, Final, get_args

import orjson
import yaml

from stream_masker.core.ontology import ConceptMap, Ontology
from stream_masker.errors import ConfigurationError, ServiceError, StatisticsError
from stream_masker.pipeline.fhir import PATIENT_KEY
from stream_masker.pipeline.paths import alternatives
from stream_masker.pipeline.plan import Style, written_code
from stream_masker.pipeline.records import Reason, Rejected
from stream_masker.service.configuration import parse_configuration
from stream_masker.service.configuration.paths import POSITION
from stream_masker.service.files import FileEvent
from stream_masker.service.files.masking import FileMasking
from stream_masker.service.init.fields import Coding, SampledField, best_coding, file_sample, person_id, sampled_fields

DEFAULT_MIN_RECORDS: Final = 1000
"""The default of ``calibration.min_records``; a smaller sample gets a smaller number."""


def proposed_configuration(name: str, ontologies: Mapping[str, str], *, size: int, encoding: str = "") -> str:
    """Return a configuration as YAML for the first events of a file, with the reasons as comments; no value is shown.

    ``ontologies``: sources by name. Raises like ``file_sample``, and ServiceError if there is no event, or if no field
    has codes.
    """
    sample = file_sample(name, size, encoding)
    documents, is_fhir = sample.documents()
    if not documents:
        raise ServiceError("the sample has no event that is a JSON object, or a row with the cells of its header")
    found = sampled_fields(documents)
    taxonomies = {name: Ontology.load(source).taxonomy() for name, source in ontologies.items()}
    concepts = {name: ConceptMap(taxonomy, unknown="ancestor") for name, taxonomy in taxonomies.items()}
    codings = [best_coding(field, concepts) for field in found.values()]
    others = _reasons(codings)
    codes = [coding for coding in codings if coding.field.place.path not in others]
    if not codes:
        raise ServiceError(_no_codes(others, len(documents), ontologies, is_fhir=is_fhir))
    coded = {number for code in codes for number in code.field.events}
    marks = sorted({mark for code in codes for mark in code.marks}) if sample.kind == "csv" else []
    csv = {"encoding": sample.encoding, "null_values": ["", *marks] if marks else []}
    attributes, reasons = _attributes(codes, is_fhir=is_fhir)
    ids, noise_key, reasons["noise_key"] = _identity([found[path] for path in others], coded, is_fhir=is_fhir)
    data: dict[str, Any] = {
        **({"records": "fhir"} if is_fhir else {}),
        **({"csv": {key: value for key, value in csv.items() if value}} if any(csv.values()) else {}),
        "ontologies": {code.ontology: {"source": ontologies[code.ontology]} for code in codes},
        "attributes": attributes,
        "noise_key": noise_key,
        "calibration": {"min_records": 1},
        "secret": {"file": "secret"},
        "fields": {**ids, "unlisted": "drop"},
    }
    outcome = _tried(data, [_unmarked(event, marks) for event in sample.events], coded)
    listed = {path for paths in ids.values() for path in paths}
    dropped = {p: text for p, text in others.items() if listed.isdisjoint({*found[p].place.paths, found[p].reference})}
    return "".join(f"{line}\n" for line in _lines(data, outcome, reasons, dropped))


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


def _attributes(codes: Iterable[Coding], *, is_fhir: bool) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Return the attributes, and the reasons for them. The codes of FHIR that share an ontology are one attribute."""
    attributes, reasons = dict[str, dict[str, Any]](), dict[str, str]()
    names = dict[str, str]()
    for code in codes:
        path, ontology = code.field.place.path, code.ontology
        if is_fhir and ontology in names:
            attributes[names[ontology]]["path"] += f" | {path}"
            continue
        name = names[ontology] = _attribute_name(code.field, attributes)
        policies = {} if (style := most_used_style(code.concepts, code.field.values)) == "id" else {"style": style}
        attributes[name] = {"path": path, "ontology": ontology, **policies, **({"missing": "keep"} if is_fhir else {})}
        reasons[name] = code.why
    return attributes, reasons


def most_used_style(concepts: ConceptMap, texts: Mapping[str, int]) -> Style:
    """Return the style in which most codes are written, of several the first one; texts: how often each occurs."""
    found = {text: position for text in texts if (position := concepts.find(text).position) >= 0}
    fitting: dict[Style, int] = {}
    for style in get_args(Style):
        written = {text: written_code(concepts, style, position) for text, position in found.items()}
        fitting[style] = sum(texts[text] for text in found if text.strip().casefold() == written[text].casefold())
    return max(fitting, key=fitting.__getitem__)


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
    return {"pseudonymize": [*person[0].place.paths]}, person[0].place.path, person[1]


def _tried(data: dict[str, Any], events: Sequence[FileEvent], coded: Collection[int]) -> str:
    """Adapt the policies of attributes to the events with codes, and say what becomes of all events."""
    with_codes, is_adapted = [event for event in events if event.number in coded], True
    try:
        while is_adapted:
            masking = FileMasking(parse_configuration(data), is_trial=True)
            is_adapted = _is_adapted(data["attributes"], masking.count(with_codes)[1].rejected)
        counts, totals = masking.count(events)
        data["calibration"] = {"min_records": min(max(1, totals.masked), DEFAULT_MIN_RECORDS)}
        masking.compute(counts, totals)
    except (ConfigurationError, StatisticsError) as error:
        return f"CHECK: the sample cannot be masked with this proposal: {error}. Give more events, or change it."
    return f"Tried on the sample ({totals})."


def _is_adapted(attributes: Mapping[str, dict[str, Any]], causes: Iterable[Rejected]) -> bool:
    """Let attributes admit what they cause rejections of, step by step; return whether a policy has changed."""
    before = deepcopy(attributes)
    for attribute in attributes.values():
        reasons = {reason for reason, path in causes if path in alternatives(attribute["path"])}
        if reasons & {Reason.MISSING, Reason.NOT_A_CODE, Reason.EMPTY}:
            attribute["missing"] = "keep"
        if Reason.UNKNOWN_CODE in reasons:
            attribute["unknown"] = "suppress" if "unknown" in attribute else "ancestor"
    return attributes != before


def _lines(data: dict[str, Any], outcome: str, reasons: Mapping[str, str], dropped: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of YAML, with the fields and why they are dropped at the end."""
    yield "# Proposed for a sample of events by stream-masker config init. Check every line."
    yield from (f"# {_on_one_line(text)}" for text in (outcome, *map(": ".join, reasons.items())))
    style: dict[str, Any] = {"default_flow_style": None, "sort_keys": False, "width": float("inf")}
    texts = (str(yaml.safe_dump(data, allow_unicode=is_shown, **style)) for is_shown in (True, False))
    yield next(text for text in texts if yaml.safe_load(text) == data).rstrip()  # some line breaks are escaped in ASCII
    yield from (f"  # dropped: {_on_one_line(path)}: {why}" for path, why in dropped.items())


def _on_one_line(text: str) -> str:
    """Return a text without line breaks: a field's name may have some, and must not end a comment."""
    return " ".join(text.split())
