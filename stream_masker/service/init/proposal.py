"""The configuration that is proposed for a sample of events, tried on the sample, as YAML with reasons."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias

import orjson
import yaml

from stream_masker.core.ontology import ConceptMap, Ontology
from stream_masker.errors import ConfigurationError, ServiceError, StatisticsError
from stream_masker.pipeline.fhir import PATIENT_KEY, R4_TYPES
from stream_masker.pipeline.masker import RecordMasker
from stream_masker.pipeline.paths import compile_path
from stream_masker.pipeline.reasons import Reason, RejectionCauses, causes_text
from stream_masker.service.configuration import parse_configuration
from stream_masker.service.configuration.build import build_mechanism, build_plan
from stream_masker.service.init.fields import Coding, best_coding, person_id
from stream_masker.service.init.sample import Envelope, SampledField, fhir_scalars, sampled_fields, scalars

DEFAULT_MIN_RECORDS: Final = 1000
"""The default of ``calibration.min_records``. A smaller sample is proposed with a smaller number."""

MOST_NAMED: Final = 20

_MISSING: Final = frozenset({Reason.MISSING, Reason.NOT_A_CODE, Reason.EMPTY})
"""The reasons of rejections for which an attribute gets ``missing: keep``."""

_REQUIRED: Final = frozenset(
    {
        ("status",),
        ("intent",),
        ("use",),
        ("class", "system"),
        ("class", "code"),
        *((name, "coding", part) for name in ("clinicalStatus", "verificationStatus") for part in ("system", "code")),
    }
)
"""The coded members of R4 resources that are required, in them or by an invariant, and tell nothing of a disease."""

Attributes: TypeAlias = dict[str, dict[str, Any]]


def proposed_configuration(events: Iterable[bytes], ontologies: Mapping[str, str], encoding: str = "") -> str:
    """Return a configuration as YAML for a sample of events, with the reasons as comments; no value is shown.

    ``ontologies``: sources by name. ``encoding``: of the table of the events; empty for the default. Raises
    ServiceError if no event is an object, or no field has codes.
    """
    concepts = {name: _concepts(source) for name, source in ontologies.items()}
    is_fhir, objects = _objects(events)
    envelope = Envelope() if is_fhir else Envelope.of([event for _, event in objects])
    with_rows = [(record, row) for record, event in objects if (row := envelope.row(event)) is not None]
    records, rows = [record for record, _ in with_rows], [row for _, row in with_rows]
    found = sampled_fields(fhir_scalars(row) if is_fhir else scalars(row) for row in rows)
    reasons, codes = _codes(found.values(), concepts)
    if not codes:
        raise ServiceError(_no_codes(reasons, len(records), ontologies))
    person = None if is_fhir else person_id((found[path] for path in reasons), len(rows))
    treated = _fhir_fields(codes, found.values()) if is_fhir else {"pseudonymize": [person[0].path]} if person else {}
    attributes = _attributes(codes, joined=is_fhir)
    why = {code.field.path: code.why for code in codes}
    comments = {name: why[attribute["path"]] for name, attribute in attributes.items()}
    comments["noise_key"] = person[1] if person else "" if is_fhir else "no field is a person's id in every event"
    used = dict.fromkeys(attribute["ontology"] for attribute in attributes.values())
    fields = {key: [one for path in paths for one in envelope.paths(path)] for key, paths in treated.items()}
    data: dict[str, Any] = {
        **({"produce": {"encoding": encoding}} if encoding else {}),
        **({"records": "fhir"} if is_fhir else {}),
        "ontologies": {name: {"source": ontologies[name]} for name in used},
        "attributes": {name: envelope.attribute(attribute) for name, attribute in attributes.items()},
        "fields": {**({"keep": [*envelope.kept]} if envelope.kept else {}), **fields, "unlisted": "drop"},
        "noise_key": PATIENT_KEY if is_fhir else envelope.path(person[0].path) if person else "position",
    }
    if sum("[*" in attribute["path"] for attribute in attributes.values()) > 1:
        data["mechanism"] = {"name": "semantic_noise", "correlated": False, "reference": "mean"}
        comments["mechanism"] = "several lists of codes are masked each on its own"
    outcome = _tried(data, records)
    listed = tuple(path for paths in treated.values() for path in paths) or ("\0",)
    dropped = {envelope.path(path): reason for path, reason in reasons.items() if not path.startswith(listed)}
    return "\n".join(_lines(data, comments, outcome, {**envelope.dropped, **dropped}))


def _objects(events: Iterable[bytes]) -> tuple[bool, list[tuple[bytes, dict[str, Any]]]]:
    """Return whether most events that are objects are FHIR resources; and these, or all objects, with their content.

    Raises ServiceError if no event is an object.
    """
    found = []
    for record in events:
        with suppress(orjson.JSONDecodeError):
            if isinstance(event := orjson.loads(record), dict):
                found.append((record, event))
    fhir = [(record, event) for record, event in found if str(event.get("resourceType")) in R4_TYPES]
    if is_fhir := 2 * len(fhir) > len(found):
        found = fhir
    if not found:
        raise ServiceError("the sample has no event that is a JSON object, or a row with the cells of its header")
    return is_fhir, found


def _concepts(source: str) -> ConceptMap:
    ontology = Ontology.load(source)
    return ConceptMap(ontology.taxonomy(), unknown="ancestor")


def _no_codes(reasons: Mapping[str, str], events: int, ontologies: Mapping[str, str]) -> str:
    named = [f"\n  {path}: {why}" for path, why in [*reasons.items()][:MOST_NAMED]]
    more = f"\n  and {len(reasons) - MOST_NAMED:,} more" if len(reasons) > MOST_NAMED else ""
    return (
        f"no field of {events:,} events has codes of {', '.join(ontologies)}: name an ontology with --ontology, and "
        f"give events with several codes; the fields are{''.join(named) or ' none'}{more}"
    )


def _codes(fields: Iterable[SampledField], concepts: Mapping[str, ConceptMap]) -> tuple[dict[str, str], list[Coding]]:
    """Return why fields are no attributes, by path, and the codes of those that are.

    Of two paths that may select the same value, the first one with a filter is the attribute.
    """
    codings = [best_coding(field, concepts) for field in fields]
    problems = {coding.field.path: coding.problem for coding in codings}
    codes: list[Coding] = []
    for coding in sorted(codings, key=lambda one: "?" not in one.field.path):
        path = compile_path(coding.field.path)
        clash = next((one.field.path for one in codes if path.may_meet(compile_path(one.field.path))), None)
        if problems[path.text] is None and clash is not None:
            problems[path.text] = f"it may select the same value as {clash}"
        elif problems[path.text] is None:
            codes.append(coding)
    beside = {code.field.place.parent for code in codes} - {""}
    reasons = {}
    for coding in codings:
        if (problem := problems[coding.field.path]) is not None:
            tells = coding.field.place.parent in beside
            reasons[coding.field.path] = "it stands beside a code and may tell it" if tells else problem
    return reasons, sorted(codes, key=codings.index)


def _attributes(codes: Sequence[Coding], *, joined: bool) -> Attributes:
    """Return an attribute for each code; joined: one for all codes of an ontology, as in FHIR."""
    groups: dict[str, list[Coding]] = {}
    for code in codes:
        groups.setdefault(code.ontology if joined else code.field.path, []).append(code)
    attributes: Attributes = {}
    for own in groups.values():
        path, *others = (code.field.path for code in own)
        also = {"also": others} if others else {}
        attributes[_attribute_name(own[0].field, attributes)] = {"path": path, **also, "ontology": own[0].ontology}
    return attributes


def _fhir_fields(codes: Sequence[Coding], fields: Iterable[SampledField]) -> dict[str, list[str]]:
    """Return the fields without which masked resources are of no use, or invalid: systems of codes, required codes,
    ids and references."""
    parents = {code.field.place.parent for code in codes}
    kept = dict.fromkeys(f"{parent}.system" for parent in sorted(parents) if "?system=" in parent.rpartition("[")[2])
    references: dict[str, None] = {}
    for place in (field.place for field in fields):
        if (place.names[1:] in _REQUIRED and place.parent not in parents) or place.path == "Bundle.type":
            kept[place.path] = None
        elif place.names[-1] == "reference" and len(place.names) > 2:
            references[place.parent] = None
        elif place.names[-1] == "id" and len(place.names) == 2:
            references[place.path] = None
    return {key: [*paths] for key, paths in (("keep", kept), ("references", references)) if paths}


def _attribute_name(field: SampledField, taken: Attributes) -> str:
    """Return a name from the path: its last name that is not ``code`` or ``coding``."""
    names = field.place.names
    telling = [name for name in names if name not in {"code", "coding", "value"} and not name.isdigit()] or names
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", telling[-1]).strip("_")[:90] or "attribute"
    name = name if re.match(r"[A-Za-z_]", name) else f"a_{name}"
    return next(one for k in range(1, 1000) if (one := name if k == 1 else f"{name}_{k}") not in taken)


def _tried(data: dict[str, Any], records: Sequence[bytes]) -> str:
    """Adapt the policies of the attributes to a sample, and say how much of it can be masked."""
    try:
        causes, error = _counted(data, records)
        while [each for each in data["attributes"].values() if _is_remedied(each, causes)]:
            causes, error = _counted(data, records)
    except ConfigurationError as refused:
        return f"CHECK: this proposal cannot be used as it is: {' '.join(str(refused).split())}"
    rejected = sum(causes.values())
    if (usable := len(records) - rejected) < DEFAULT_MIN_RECORDS:
        data["calibration"] = {"min_records": max(1, usable)}
    text = f"Of the sample, {usable:,} can be masked, rejected {rejected:,}"
    text += f" ({causes_text(causes)})." if rejected else "."
    return text + (f" It cannot be masked by its own statistics: {error}. Give more events." if error else "")


def _is_remedied(attribute: dict[str, Any], causes: RejectionCauses) -> bool:
    """Let an attribute admit what it causes rejections of, step by step; return whether its policies change."""
    before = dict(attribute)
    reasons = {reason for reason, path in causes if path in (attribute["path"], *attribute.get("also", ()))}
    if reasons & _MISSING:
        attribute["missing"] = "keep"
    if Reason.UNKNOWN_CODE in reasons:
        attribute["unknown"] = "suppress" if "unknown" in attribute else "ancestor"
    return attribute != before


def _counted(data: Mapping[str, Any], records: Sequence[bytes]) -> tuple[RejectionCauses, str]:
    """Return the rejections of a sample by cause, and why its statistics cannot be computed, if they cannot."""
    configuration = parse_configuration(data)
    mechanism = build_mechanism(configuration)
    counted = RecordMasker(build_plan(configuration), mechanism, bytes(32)).count(records)
    try:
        mechanism.compute(counted.counts, version=1)
    except StatisticsError as error:
        return counted.causes, str(error)
    return counted.causes, ""


def _lines(
    data: Mapping[str, Any], comments: Mapping[str, str], outcome: str, dropped: Mapping[str, str]
) -> Iterator[str]:
    yield "# Proposed for a sample of events by stream-masker config init. Check every line."
    yield f"# {outcome}"
    for key, value in data.items():
        if key in ("attributes", "fields"):
            yield f"{key}:"
            yield from (f"  {_entry(name, setting, comments)}" for name, setting in value.items())
        else:
            yield _entry(key, value, comments)
        if key == "fields":
            yield from (f"  # dropped: {path}: {why}" for path, why in dropped.items())
    yield "secret: {file: secret}\n"


def _entry(key: str, value: Any, comments: Mapping[str, str]) -> str:
    return f"{_flow(key)}: {_flow(value)}" + (f"  # {comments[key]}" if comments.get(key) else "")


def _flow(value: Any) -> str:
    """Return a value as YAML in one line."""
    text = yaml.safe_dump(value, default_flow_style=True, width=float("inf"), allow_unicode=True, sort_keys=False)
    return str(text).strip().removesuffix("\n...")
