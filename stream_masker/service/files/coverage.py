"""What a configuration does to the fields of real events: the treatment of each path, and the rejections.

The values themselves are neither kept nor shown.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final, TypeAlias

import orjson

from stream_masker.pipeline.fhir import bundle_of
from stream_masker.pipeline.formats import RecordFormat, document_of
from stream_masker.pipeline.masker import RecordMasker
from stream_masker.pipeline.paths import JsonValue, NameStep, Path, Step, selected, selects
from stream_masker.pipeline.plan import Plan
from stream_masker.pipeline.reasons import RecordRejectedError, causes_text
from stream_masker.service.files.csv_table import with_row_causes

MAX_SUPPRESSED: Final = 0.01
"""The share of an attribute's codes above which a warning says that they are removed."""

LEAST_OF_REVISION: Final = 0.1
"""The share of codes that can only be of ICD-9, and of those that can only be of ICD-10, from which they are mixed."""

_REVISIONS: Final = {
    "ICD-9": re.compile(r"\d{3}(\.?\d{1,2})?|V\d\d(\.?\d{1,2})?|E\d{3}(\.?\d)?"),
    "ICD-10": re.compile(r"[A-Z]\d[0-9A-Z](\.?[0-9A-Z]{1,4})?"),
}

_TRANSFORM_WORDS: Final = {
    "pseudonyms": "pseudonymized with a prefix",
    "references": "pseudonymized as a reference",
    "generalize": "generalized",
    "shift": "shifted by days",
    "constant": "replaced by a constant",
}


class Action(IntEnum):
    """The kinds of treatments; of several paths of equal length that select a value, the greatest applies."""

    KEEP = 0
    PSEUDONYMIZE = 1
    TRANSFORM = 2
    DROP = 3
    MASK = 4


@dataclass(frozen=True, slots=True)
class Treatment:
    """What happens to the values that a path selects. ``text``: of the path, empty for values that none selects."""

    action: Action
    words: str
    text: str = ""


_Rule: TypeAlias = tuple[tuple[Step, ...], Treatment]
"""The steps of a path that are left below a place, and the treatment."""


class Treatments:
    """The treatments of a plan, by the places of an event."""

    def __init__(self, plan: Plan) -> None:
        self.rules: list[_Rule] = [
            (path.steps, Treatment(act, words, path.text)) for path, act, words in _configured(plan)
        ]
        kept = plan.fields.unlisted == "keep"
        self._unlisted = Treatment(Action.KEEP if kept else Action.DROP, f"{'kept' if kept else 'dropped'}: not listed")

    def places(self, value: JsonValue) -> Iterator[tuple[str, JsonValue, Treatment]]:
        """Yield each object, list and scalar of an event with its place, such as ``a.b[*]``, and its treatment."""
        return _places(value, self.rules, "", self._unlisted)


def _places(
    value: JsonValue, rules: Sequence[_Rule], place: str, inherited: Treatment
) -> Iterator[tuple[str, JsonValue, Treatment]]:
    here = [treatment for steps, treatment in rules if not steps]
    treatment = max(here, key=lambda one: one.action, default=inherited)
    yield place, value, treatment
    if isinstance(value, dict):
        for name, member in value.items():
            below = [(s[1:], t) for s, t in rules if s and s[0] == NameStep(name)]
            yield from _places(member, below, f"{place}.{name}" if place else name, treatment)
    elif isinstance(value, list):
        for position, element in enumerate(value):
            below = [(s[1:], t) for s, t in rules if s and selects(s[0], position, element)]
            yield from _places(element, below, f"{place}[*]", treatment)


def _configured(plan: Plan) -> Iterator[tuple[Path, Action, str]]:
    """Yield the configured paths with their treatments."""
    for attribute in plan.attributes:
        for place in attribute.places:
            yield place.path, Action.MASK, f"masked: the code of {attribute.name}"
            if place.label is not None:
                yield place.label, Action.MASK, f"masked: the label of {attribute.name}"
            yield from ((copy, Action.MASK, f"masked: a copy of the code of {attribute.name}") for copy in place.copies)
    yield from ((path, Action.KEEP, "kept") for path in plan.fields.keep)
    yield from ((path, Action.DROP, "dropped") for path in plan.fields.drop)
    yield from ((path, Action.PSEUDONYMIZE, "pseudonymized") for path in plan.fields.pseudonymize)
    for kind, paths in plan.fields.transforms.items():
        yield from ((path, Action.TRANSFORM, _TRANSFORM_WORDS.get(kind, "transformed")) for path in paths)


def written_columns(probes: Mapping[str, JsonValue], plan: Plan) -> dict[str, bool]:
    """Return the columns of a table that the field policy does not drop, and whether their values become texts.

    ``probes``: for each a value of its shape.
    """
    treatments, written = Treatments(plan), {}
    for name, probe in probes.items():
        actions = {t.action for _, value, t in treatments.places({name: probe}) if not isinstance(value, dict | list)}
        if actions - {Action.DROP}:
            becomes_text = bool(actions & {Action.PSEUDONYMIZE, Action.TRANSFORM})
            written[name] = becomes_text and not isinstance(probe, dict | list)
    return written


@dataclass(slots=True)
class _FieldCoverage:
    """A path: the number of events that have it, and the treatments of its values."""

    events: int = 0
    treatments: Counter[str] = field(default_factory=Counter)


def _field_lines(plan: Plan, events: Sequence[JsonValue]) -> Iterator[str]:
    """Yield a line for each path, with the share of events that have it, and one for each absent path."""
    treatments, met = Treatments(plan), set[str]()
    fields: dict[str, _FieldCoverage] = {}
    kept_whole: dict[str, None] = {}
    for event in events:
        seen = set()
        for place, value, treatment in treatments.places(event):
            met.add(treatment.text)
            if not (isinstance(value, dict | list) and value):
                fields.setdefault(place, _FieldCoverage()).treatments[treatment.words] += 1
                seen.add(place)
            elif isinstance(value, dict) and treatment.action is Action.KEEP and treatment.text:
                kept_whole[place] = None
        for place in seen:
            fields[place].events += 1
    width = max(map(len, fields), default=0)
    for path, covered in fields.items():
        words = "; ".join(text for text, _ in covered.treatments.most_common())
        yield f"{path:{width}}  {covered.events / len(events):6.1%}  {words}"
    for text in dict.fromkeys(treatment.text for _, treatment in treatments.rules):
        if text not in met:
            yield f"{text:{width}}    0.0%  configured, but no event has it"
    within = tuple(f"{path}{mark}" for path in kept_whole for mark in ".[")
    for path in kept_whole:
        if not path.startswith(within):
            yield f"warning: {path} is an object that is kept with all that producers write in it: list its fields"


def emptied_text(path: str, count: int) -> str:
    """Say that a treatment does not fit some of the values at a path."""
    return (
        f"{count:,} values of {path} were removed, because its treatment does not fit them: for dates that are not in "
        "ISO 8601, give their formats; codes must be in the ontology of their field"
    )


def suppressed_text(name: str, count: int, codes: int) -> str:
    """Say that codes of an attribute are removed because they are unknown; ``codes``: the number of all its codes."""
    return (
        f"{count:,} of {codes:,} codes of {name} ({count / codes:.1%}) are removed, because they are unknown and "
        f"attributes.{name}.unknown is suppress: check the ontology, or give a mapping"
    )


def revisions(values: Mapping[str, int]) -> str | None:
    """Say which shares of texts can only be of ICD-9 and of ICD-10, if both are ``LEAST_OF_REVISION`` or more."""
    counts = Counter[str]()
    for value, count in values.items():
        fitting = [name for name, form in _REVISIONS.items() if form.fullmatch(value.strip().upper())]
        counts[fitting[0] if len(fitting) == 1 else ""] += count
    shares = {name: counts[name] / max(1, counts.total()) for name in _REVISIONS}
    if min(shares.values()) < LEAST_OF_REVISION:
        return None
    return f"two revisions are mixed ({', '.join(f'{share:.0%} {name}' for name, share in shares.items())})"


def mixed_attributes(plan: Plan, documents: Iterable[JsonValue]) -> Iterator[str]:
    """Yield a sentence about each attribute whose codes are of two revisions of ICD."""
    texts: list[Counter[str]] = [Counter() for _ in plan.attributes]
    for document in documents:
        for attribute, found in zip(plan.attributes, texts, strict=True):
            values = (value for place in attribute.places for value in selected(document, place.path.steps))
            found.update(value for value in values if isinstance(value, str) and value.strip())
    for attribute, found in zip(plan.attributes, texts, strict=True):
        if (mixed := revisions(found)) is not None:
            yield f"{attribute.name}: {mixed}: write each revision in a field of its own, with its own ontology"


def documents_of(plan: Plan, lines: Iterable[bytes], record_format: RecordFormat | None) -> Iterator[dict[str, Any]]:
    """Yield what the configured paths apply to in events that are objects: for FHIR, their form as a Bundle."""
    for line in lines:
        try:
            event = document_of(record_format, line)
            if isinstance(event, dict):
                yield event if plan.fhir is None else bundle_of(event, plan.fhir)
        except (orjson.JSONDecodeError, RecordRejectedError):
            continue


def coverage_report(
    plan: Plan, masker: RecordMasker, lines: Iterable[bytes], record_format: RecordFormat | None = None
) -> Iterator[str]:
    """Yield the report about events: a line for each path, then the rejections with reasons and paths.

    record_format: the format of the lines and of ``masker``; None for JSON.
    """
    values = list(lines)
    documents = list(documents_of(plan, values, record_format))
    yield from _field_lines(plan, documents)
    if plan.noise_key is not None:
        keyed = sum(next(selected(document, plan.noise_key.steps), None) is not None for document in documents)
        yield f"noise_key {plan.noise_key.text}: in {keyed:,} of {len(values):,} events"
    counted = masker.count(values)
    causes = with_row_causes(counted.causes, values)
    rejected = sum(causes.values())
    yield f"{rejected:,} of {len(values):,} events would be rejected" + (f": {causes_text(causes)}" if causes else "")
    yield from (f"warning: {text}" for text in mixed_attributes(plan, documents))
    for attribute, count, codes in zip(plan.attributes, counted.counts.unknown, counted.counts.given, strict=True):
        if attribute.concepts.unknown == "suppress" and count:
            warning = "warning: " if count > MAX_SUPPRESSED * codes else ""
            yield warning + suppressed_text(attribute.name, count, codes)
