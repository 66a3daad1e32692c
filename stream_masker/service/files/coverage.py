"""What a configuration does to real events: the treatment of each path, rejections, and codes without a concept.

The values themselves are neither kept nor shown.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

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
RESOURCE: Final = f"{BUNDLE}.entry[*].resource"
_WORDS: Final = {
    "keep": KEPT,
    "pseudonymize": "pseudonymized",
    "references": REFERENCE,
    "generalize": "generalized",
    "shift": "shifted by days",
    "constant": "replaced by a constant",
    "drop": DROPPED,
}
"""What each list of ``fields`` does."""

_DROPS_CONTAINERS: Final = {_WORDS[key] for key in ("pseudonymize", "generalize", "shift")}


class Rule(NamedTuple):
    """What happens to the values that a path selects.

    ``steps``: those of the path that are left below a place; ``text``: the path, empty for what none selects.
    """

    steps: tuple[Step, ...]
    words: str
    text: str = ""

    def below(self) -> Rule:
        """Return the rule for what the first step selects."""
        return self._replace(steps=self.steps[1:])


def _rules(plan: Plan) -> list[Rule]:
    """Return the rules of all configured paths after that for other values. Of several for a value, the last counts."""
    lists, others = plan.fields.lists(), KEPT if plan.fields.unlisted == "keep" else DROPPED
    rules = [Rule((), f"{others}: not listed")]
    rules += [Rule(path.steps, words, path.text) for key, words in _WORDS.items() for path in lists.get(key, ())]
    for attribute in plan.attributes:
        for place in attribute.places:
            named = [("code", place.path), *(("copy of the code", copy) for copy in place.copies)]
            named += [] if place.label is None else [("label", place.label)]
            rules += [Rule(path.steps, f"{MASKED}: the {what} of {attribute.name}", path.text) for what, path in named]
    return rules


def _places(value: JsonValue, rules: Sequence[Rule], path: str) -> Iterator[tuple[str, JsonValue, Rule]]:
    """Yield each object, list and scalar of an event, with its place, such as ``a.b[*]``, and the rule for it.

    The place of a resource in a Bundle is its type, as in configured paths.
    """
    own = next(rule for rule in reversed(rules) if not rule.steps)
    yield path, value, own
    if own.words in _DROPS_CONTAINERS:
        own = own._replace(words=f"{DROPPED}: an object or a list is not {own.words}")
    if isinstance(value, dict):
        if path == RESOURCE and isinstance(kind := value.get("resourceType"), str):
            path, value = kind, {name: member for name, member in value.items() if name != "resourceType"}
        for name, member in value.items():
            around = own
            if own.words == REFERENCE and name != "reference":
                around = Rule((), KEPT if name == "type" else DROPPED, own.text)
            below = [rule.below() for rule in rules if rule.steps[:1] == (NameStep(name),)]
            yield from _places(member, [around, *below], f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for position, element in enumerate(value):
            below = [rule.below() for rule in rules if rule.steps and selects(rule.steps[0], position, element)]
            yield from _places(element, [own, *below], f"{path}[*]")


def written_columns(names: Iterable[str], plan: Plan) -> dict[str, bool]:
    """Return the columns of a table that the field policy does not drop, and whether their values become texts."""
    others, *rules = _rules(plan)
    columns = dict[str, bool]()
    for name in names:
        within = [rule for rule in rules if rule.steps[:1] == (NameStep(name),)]
        own = next((rule for rule in reversed(within) if len(rule.steps) == 1), others)
        if not all(rule.words.startswith(DROPPED) for rule in (own, *within)):
            columns[name] = not own.words.startswith((KEPT, MASKED, DROPPED))
    return columns


def _field_lines(plan: Plan, events: Sequence[JsonValue]) -> Iterator[str]:
    """Yield a line for each path, with the share of events that have it, and one for each absent path."""
    rules = _rules(plan)
    words: dict[str, Counter[str]] = {}
    having, met, kept_whole = Counter[str](), set[str](), dict[str, None]()
    for event in events:
        seen = set()
        for path, value, rule in _places(event, rules, "" if plan.fhir is None else BUNDLE):
            met.add(rule.text)
            if not (isinstance(value, dict | list) and value):
                words.setdefault(path, Counter())[rule.words] += 1
                seen.add(path)
            elif isinstance(value, dict) and rule.words == KEPT and rule.text:
                kept_whole[path] = None
        having.update(seen)
    width = max(map(len, words), default=0)
    for path, found in words.items():
        texts = "; ".join(text for text, _ in found.most_common())
        yield f"{path:{width}}  {having[path] / len(events):6.1%}  {texts}"
    for text in dict.fromkeys(rule.text for rule in rules[1:]):
        if text not in met:
            yield f"{text:{width}}    0.0%  configured, but no event has it"
    within = tuple(f"{path}{mark}" for path in kept_whole for mark in ".[")
    for path in kept_whole:
        if not path.startswith(within):
            yield f"warning: {path} is an object that is kept with all that producers write in it: list its fields"


def mixed_text(values: Mapping[str, int]) -> str | None:
    """Say which shares of texts, given with their numbers, can only be codes of ICD-9, and only of ICD-10.

    None if one of them is below ``LEAST_OF_REVISION``.
    """
    counts = Counter[str]()
    for value, count in values.items():
        fitting = [name for name, form in REVISIONS.items() if form.fullmatch(value.strip().upper())]
        counts[fitting[0] if len(fitting) == 1 else ""] += count
    shares = {name: counts[name] / max(1, counts.total()) for name in REVISIONS}
    if min(shares.values()) < LEAST_OF_REVISION:
        return None
    found = ", ".join(f"{share:.0%} {name}" for name, share in shares.items())
    return f"two revisions are mixed ({found}): write each revision in a field of its own"


def suppressed_text(name: str, count: int, codes: int) -> str:
    """Say how many of the codes of an attribute are removed, and what to do."""
    return (
        f"{count:,} of {codes:,} codes of {name} ({count / codes:.1%}) are removed, because they are unknown and "
        f"attributes.{name}.unknown is suppress: check the ontology, or give a mapping"
    )


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
    for attribute, count, codes in zip(plan.attributes, counted.counts.unknown, counted.counts.given, strict=True):
        name, policy = attribute.name, attribute.concepts.unknown
        coarser = count - sum(causes[Reason.UNKNOWN_CODE, place.path.text] for place in attribute.places)
        if count and policy == "suppress":
            yield f"{'warning: ' if count > MAX_SUPPRESSED * codes else ''}{suppressed_text(name, count, codes)}"
        elif coarser > 0 and policy == "ancestor":
            share = f"{coarser:,} of {codes:,} codes of {name} ({coarser / codes:.1%})"
            yield f"{share} are unknown, and are masked as the concept that they begin with"
        written = Counter(
            value
            for document in documents
            for place in attribute.places
            for value in selected(document, place.path.steps)
            if isinstance(value, str)
        )
        if (mixed := mixed_text(written)) is not None:
            yield f"warning: {name}: {mixed}"
    return counted.counts
