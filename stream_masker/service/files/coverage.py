"""What a configuration does to the fields of real events: the treatment of each path, and the rejections.

The values themselves are neither kept nor shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import orjson

from stream_masker.pipeline.fhir import bundle_of
from stream_masker.pipeline.formats import RecordFormat, document_of
from stream_masker.pipeline.masker import RecordMasker
from stream_masker.pipeline.paths import JsonValue
from stream_masker.pipeline.plan import Plan
from stream_masker.pipeline.reasons import RecordRejectedError, causes_text
from stream_masker.service.files.treatments import Action, Treatments

MAX_SUPPRESSED: Final = 0.01
"""The share of an attribute's codes above which a warning says that they are removed."""


@dataclass(slots=True)
class FieldCoverage:
    """A path: the number of events that have it, and the treatments of its values."""

    events: int = 0
    treatments: Counter[str] = field(default_factory=Counter)


class Coverage:
    """Collects the treatments of all values of events, by path with ``[*]`` for elements of lists."""

    def __init__(self, plan: Plan) -> None:
        self._treatments = Treatments(plan)
        self._met: set[str] = set()
        self._kept_whole: dict[str, None] = {}
        self.fields: dict[str, FieldCoverage] = {}
        self.events = 0

    def add(self, event: JsonValue) -> None:
        """Add the fields of an event."""
        self.events += 1
        seen = set()
        for place, value, treatment in self._treatments.places(event):
            self._met.add(treatment.text)
            if not (isinstance(value, dict | list) and value):
                self.fields.setdefault(place, FieldCoverage()).treatments[treatment.words] += 1
                seen.add(place)
            elif isinstance(value, dict) and treatment.action is Action.KEEP and treatment.text:
                self._kept_whole.setdefault(place)
        for place in seen:
            self.fields[place].events += 1

    def lines(self) -> Iterator[str]:
        """Yield a line for each path, with the share of events that have it, and one for each absent path."""
        width = max(map(len, self.fields), default=0)
        for path, covered in self.fields.items():
            treatments = "; ".join(text for text, _ in covered.treatments.most_common())
            yield f"{path:{width}}  {covered.events / self.events:6.1%}  {treatments}"
        for text in self._treatments.texts:
            if text not in self._met:
                yield f"{text:{width}}    0.0%  configured, but no event has it"
        within = tuple(f"{path}{mark}" for path in self._kept_whole for mark in ".[")
        for path in self._kept_whole:
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


def paths_apply_to(event: JsonValue, plan: Plan) -> JsonValue:
    """Return what the configured paths apply to: an event, or its form as a Bundle; None for an unlisted type."""
    if plan.fhir is None or not isinstance(event, dict):
        return event
    try:
        return bundle_of(event, plan.fhir)
    except RecordRejectedError:
        return None


def coverage_report(
    plan: Plan, masker: RecordMasker, lines: Iterable[bytes], record_format: RecordFormat | None = None
) -> Iterator[str]:
    """Yield the report about events: a line for each path, then the rejections with reasons and paths.

    record_format: the format of the lines and of ``masker``; None for JSON. Rejections because of a record's alpha are
    not among them.
    """
    coverage, values = Coverage(plan), list(lines)
    for line in values:
        try:
            event = document_of(record_format, line)
        except (orjson.JSONDecodeError, RecordRejectedError):
            continue
        if isinstance(opened := paths_apply_to(event, plan), dict):
            coverage.add(opened)
    yield from coverage.lines()
    if plan.noise_key is not None:
        keyed = coverage.fields.get(plan.noise_key.text)
        yield f"noise_key {plan.noise_key.text}: in {keyed.events if keyed else 0:,} of {len(values):,} events"
    counted = masker.count(values)
    rejected, causes = sum(counted.causes.values()), causes_text(counted.causes)
    yield f"{rejected:,} of {len(values):,} events would be rejected" + (f": {causes}" if causes else "")
    for attribute, count, codes in zip(plan.attributes, counted.counts.unknown, counted.counts.given, strict=True):
        if attribute.concepts.unknown == "suppress" and count:
            warning = "warning: " if count > MAX_SUPPRESSED * codes else ""
            yield warning + suppressed_text(attribute.name, count, codes)
