"""The configuration that is proposed for a sample of events, tried on the sample, as YAML with reasons."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import yaml

from stream_masker.core.ontology import ConceptMap, Ontology
from stream_masker.errors import ConfigurationError, ServiceError, StatisticsError
from stream_masker.pipeline.masker import RecordMasker
from stream_masker.pipeline.reasons import Reason, RejectionCauses, causes_text
from stream_masker.service.configuration import parse_configuration
from stream_masker.service.configuration.build import build_mechanism, build_plan
from stream_masker.service.init.fields import Coding, best_coding, person_id
from stream_masker.service.init.sample import SampledField, objects_of, sampled_fields

DEFAULT_MIN_RECORDS: Final = 1000
"""The default of ``calibration.min_records``. A smaller sample is proposed with a smaller number."""

MOST_NAMED: Final = 20

_MISSING: Final = frozenset({Reason.MISSING, Reason.NOT_A_CODE, Reason.EMPTY})
"""The reasons of rejections for which an attribute gets ``missing: keep``."""


def proposed_configuration(events: Iterable[bytes], ontologies: Mapping[str, str], encoding: str = "") -> str:
    """Return a configuration as YAML for a sample of events, with the reasons as comments; no value is shown.

    ``ontologies``: sources by name. ``encoding``: of the table of the events; empty for the default. Raises
    ServiceError if no event is an object, if one is a FHIR resource, or if no field has codes.
    """
    objects = [*objects_of(events)]
    if not objects:
        raise ServiceError("the sample has no event that is a JSON object, or a row with the cells of its header")
    found = sampled_fields(event for _, event in objects)
    concepts = {name: _concepts(source) for name, source in ontologies.items()}
    codings = [best_coding(field, concepts) for field in found.values()]
    codes = [coding for coding in codings if coding.problem is None]
    reasons = _reasons(codings)
    if not codes:
        raise ServiceError(_no_codes(reasons, len(objects), ontologies))
    person = person_id((found[path] for path in reasons), len(objects))
    attributes = _attributes(codes)
    data: dict[str, Any] = {
        **({"produce": {"encoding": encoding}} if encoding else {}),
        "ontologies": {code.ontology: {"source": ontologies[code.ontology]} for code in codes},
        "attributes": attributes,
        "fields": {**({"pseudonymize": [person[0].path]} if person else {}), "unlisted": "drop"},
        "noise_key": person[0].path if person else "position",
    }
    comments = dict(zip(attributes, (code.why for code in codes), strict=True))
    comments["noise_key"] = person[1] if person else "no field is a person's id in every event"
    if sum("[*" in attribute["path"] for attribute in attributes.values()) > 1:
        data["mechanism"] = {"name": "semantic_noise", "correlated": False, "reference": "mean"}
        comments["mechanism"] = "several lists of codes are masked each on its own"
    outcome = _tried(data, [record for record, _ in objects])
    dropped = {path: reason for path, reason in reasons.items() if path != data["noise_key"]}
    return "\n".join(_lines(data, comments, outcome, dropped))


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


def _reasons(codings: Sequence[Coding]) -> dict[str, str]:
    """Return why fields are no attributes, by path."""
    beside = {coding.field.place.parent for coding in codings if coding.problem is None} - {""}
    return {
        coding.field.path: "it stands beside a code and may tell it" if coding.field.place.parent in beside else problem
        for coding in codings
        if (problem := coding.problem) is not None
    }


def _attributes(codes: Iterable[Coding]) -> dict[str, dict[str, Any]]:
    """Return an attribute for each code."""
    attributes: dict[str, dict[str, Any]] = {}
    for code in codes:
        name = _attribute_name(code.field, attributes)
        attributes[name] = {"path": code.field.path, "ontology": code.ontology}
    return attributes


def _attribute_name(field: SampledField, taken: Collection[str]) -> str:
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
    reasons = {reason for reason, path in causes if path == attribute["path"]}
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
