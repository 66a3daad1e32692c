"""What a configuration does to real events: the treatment of each path, rejections, and codes without a concept.

The values themselves are neither kept nor shown.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import orjson

from stream_masker.core.statistics.counts import Counts
from stream_masker.pipeline.blocks import SampleCounts
from stream_masker.pipeline.fhir import BUNDLE, bundle_of
from stream_masker.pipeline.formats import RecordFormat, document_of
from stream_masker.pipeline.masker import RecordMasker
from stream_masker.pipeline.paths import JsonValue, NameStep, Step, selected, selects
from stream_masker.pipeline.plan import Plan
from stream_masker.pipeline.reasons import Reason, RecordRejectedError, RejectionCause, causes_text
from stream_masker.service.files.inputs import FileEvent

MAX_SUPPRESSED: Final = 0.01
"""The share of an attribute's codes above which a warning says that they are removed."""

LEAST_OF_REVISION: Final = 0.1
"""The share of codes that can only be of ICD-9, and of those that can only be of ICD-10, from which they are mixed."""

REVISIONS: Final = {
    "ICD-9": re.compile(r"\d{3}(\.?\d{1,2})?|V\d\d(\.?\d{1,2})?|E\d{3}(\.?\d)?"),
    "ICD-10": re.compile(r"[A-Z]\d[0-9A-Z](\.?[0-9A-Z]{1,4})?"),
}

KEPT, DROPPED, MASKED, REFERENCE = "kept", "dropped", "masked", "pseudonymized as a reference"
UNLISTED: Final = ": not listed"
RESOURCE: Final = f"{BUNDLE}.entry[*].resource"
_TRANSFORM_WORDS: Final = {
    "references": REFERENCE,
    "generalize": "generalized",
    "shift": "shifted by days",
    "constant": "replaced by a constant",
}


class Treatment(NamedTuple):
    """What happens to the values that a path selects. ``text``: of the path, empty for values that none selects."""

    words: str
    text: str = ""


Rule: TypeAlias = tuple[tuple[Step, ...], Treatment]
"""The steps of a path that are left below a place, and the treatment of the values there."""


def _rules(plan: Plan) -> Iterator[Rule]:
    """Yield the treatment of each configured path. Of several equal paths, the last one counts."""
    fields = plan.fields
    transforms = {_TRANSFORM_WORDS.get(kind, "transformed"): paths for kind, paths in fields.transforms.items()}
    ways = {KEPT: fields.keep, "pseudonymized": fields.pseudonymize, **transforms, DROPPED: fields.drop}
    yield from ((path.steps, Treatment(words, path.text)) for words, paths in ways.items() for path in paths)
    for attribute in plan.attributes:
        for place in attribute.places:
            parts = [
                ("code", place.path),
                ("label", place.label),
                *(("copy of the code", copy) for copy in place.copies),
            ]
            for what, path in parts:
                if path is not None:
                    yield path.steps, Treatment(f"{MASKED}: the {what} of {attribute.name}", path.text)


def _places(
    value: JsonValue, rules: Sequence[Rule], inherited: Treatment, place: str = ""
) -> Iterator[tuple[str, JsonValue, Treatment]]:
    """Yield each object, list and scalar of an event with its place, such as ``a.b[*]``, and its treatment.

    The place of a resource in a Bundle is its type, as in configured paths.
    """
    treatment = next((treatment for steps, treatment in reversed(rules) if not steps), inherited)
    yield place, value, treatment
    if isinstance(value, dict):
        if place == RESOURCE and isinstance(kind := value.get("resourceType"), str):
            place, value = kind, {name: member for name, member in value.items() if name != "resourceType"}
        for name, member in value.items():
            below = [(s[1:], t) for s, t in rules if s and s[0] == NameStep(name)]
            if treatment.words == REFERENCE and name != "reference":
                below.insert(0, ((), Treatment(KEPT if name == "type" else DROPPED, treatment.text)))
            yield from _places(member, below, treatment, f"{place}.{name}" if place else name)
    elif isinstance(value, list):
        for position, element in enumerate(value):
            below = [(s[1:], t) for s, t in rules if s and selects(s[0], position, element)]
            yield from _places(element, below, treatment, f"{place}[*]")


def _treated(plan: Plan) -> Callable[[JsonValue], Iterator[tuple[str, JsonValue, Treatment]]]:
    """Return what yields the places of an event."""
    rules = list(_rules(plan))
    unlisted = Treatment((KEPT if plan.fields.unlisted == "keep" else DROPPED) + UNLISTED)
    return lambda event: _places(event, rules, unlisted, "" if plan.fhir is None else BUNDLE)


def written_columns(probes: Mapping[str, JsonValue], plan: Plan) -> dict[str, bool]:
    """Return the columns of a table that the field policy does not drop, and whether their values become texts.

    ``probes``: for each a value of its shape.
    """
    treated, columns = _treated(plan), dict[str, bool]()
    for name, probe in probes.items():
        ways = {one.words.partition(":")[0] for _, value, one in treated({name: probe}) if isinstance(value, str)}
        if ways != {DROPPED}:
            columns[name] = not ways <= {KEPT, MASKED, DROPPED} and isinstance(probe, str)
    return columns


def _field_lines(plan: Plan, events: Sequence[JsonValue]) -> Iterator[str]:
    """Yield a line for each path, with the share of events that have it, and one for each absent path."""
    treated = _treated(plan)
    words: dict[str, Counter[str]] = {}
    having, met, kept_whole = Counter[str](), set[str](), dict[str, None]()
    for event in events:
        seen = set()
        for place, value, treatment in treated(event):
            met.add(treatment.text)
            if not (isinstance(value, dict | list) and value):
                words.setdefault(place, Counter())[treatment.words] += 1
                seen.add(place)
            elif isinstance(value, dict) and treatment.words == KEPT and treatment.text:
                kept_whole[place] = None
        having.update(seen)
    width = max(map(len, words), default=0)
    for path, found in words.items():
        texts = "; ".join(text for text, _ in found.most_common())
        yield f"{path:{width}}  {having[path] / len(events):6.1%}  {texts}"
    for text in dict.fromkeys(treatment.text for _, treatment in _rules(plan)):
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


def generalized_text(name: str, count: int, codes: int) -> str:
    """Say that unknown codes of an attribute are masked as coarser ones; ``codes``: the number of all its codes."""
    return (
        f"{count:,} of {codes:,} codes of {name} ({count / codes:.1%}) are unknown, and are masked as the concept that "
        "they begin with"
    )


def revision_shares(values: Mapping[str, int]) -> dict[str, float]:
    """Return the shares of texts, given with their numbers, that can only be codes of ICD-9, and only of ICD-10."""
    counts = Counter[str]()
    for value, count in values.items():
        fitting = [name for name, form in REVISIONS.items() if form.fullmatch(value.strip().upper())]
        counts[fitting[0] if len(fitting) == 1 else ""] += count
    return {name: counts[name] / max(1, counts.total()) for name in REVISIONS}


def mixed_text(values: Mapping[str, int]) -> str | None:
    """Say which shares of texts are of ICD-9 and of ICD-10, if both are ``LEAST_OF_REVISION`` or more."""
    shares = revision_shares(values)
    if min(shares.values()) < LEAST_OF_REVISION:
        return None
    found = ", ".join(f"{share:.0%} {name}" for name, share in shares.items())
    return f"two revisions are mixed ({found}): write each revision in a field of its own"


def mixed_attributes(plan: Plan, documents: Iterable[JsonValue]) -> Iterator[str]:
    """Yield a sentence about each attribute whose codes are of two revisions of ICD."""
    texts: dict[str, Counter[str]] = {attribute.name: Counter() for attribute in plan.attributes}
    for document in documents:
        for attribute in plan.attributes:
            values = (value for place in attribute.places for value in selected(document, place.path.steps))
            texts[attribute.name].update(value for value in values if isinstance(value, str) and value.strip())
    for name, found in texts.items():
        if (mixed := mixed_text(found)) is not None:
            yield f"{name}: {mixed}, with its own ontology"


def documents_of(plan: Plan, events: Iterable[FileEvent], form: RecordFormat | None) -> Iterator[dict[str, Any]]:
    """Yield what the configured paths apply to in events that are objects: for FHIR, their form as a Bundle."""
    for event in events:
        if event.problem is None:
            try:
                document = document_of(form, event.value)
                if isinstance(document, dict):
                    yield document if plan.fhir is None else bundle_of(document, plan.fhir)
            except (orjson.JSONDecodeError, RecordRejectedError):
                continue


def counted_events(masker: RecordMasker, events: Collection[FileEvent]) -> tuple[SampleCounts, Counter[RejectionCause]]:
    """Return the counts of events, and the causes of all rejections, also of those that cannot be read."""
    counted = masker.count(event.value for event in events if event.problem is None)
    return counted, Counter(counted.causes) + Counter(event.problem for event in events if event.problem is not None)


def coverage_report(
    plan: Plan, masker: RecordMasker, events: Sequence[FileEvent], form: RecordFormat | None
) -> Generator[str, None, Counts]:
    """Yield the report about events: a line for each path, then the rejections with reasons and paths.

    form: the format of the events and of ``masker``; None for JSON. Returns the counts of the events.
    """
    documents = list(documents_of(plan, events, form))
    yield from _field_lines(plan, documents)
    counted, causes = counted_events(masker, events)
    if plan.noise_key is not None:
        lacking = sum(n for (reason, _), n in counted.causes.items() if reason == Reason.MISSING_NOISE_KEY)
        yield f"noise_key {plan.noise_key.text}: in {len(documents) - lacking:,} of {len(events):,} events"
    more = f": {causes_text(causes)}" if causes else ""
    yield f"{causes.total():,} of {len(events):,} events would be rejected{more}"
    yield from (f"warning: {text}" for text in mixed_attributes(plan, documents))
    for attribute, count, codes in zip(plan.attributes, counted.counts.unknown, counted.counts.given, strict=True):
        policy = attribute.concepts.unknown
        rejected = sum(causes[Reason.UNKNOWN_CODE, place.path.text] for place in attribute.places)
        if count and policy == "suppress":
            warning = "warning: " if count > MAX_SUPPRESSED * codes else ""
            yield warning + suppressed_text(attribute.name, count, codes)
        elif count > rejected and policy == "ancestor":
            yield generalized_text(attribute.name, count - rejected, codes)
    return counted.counts
