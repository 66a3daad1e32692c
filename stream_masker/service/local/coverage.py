"""What a configuration does to the fields of real events: the treatment of each path, and the rejections.

The values themselves are neither kept nor shown.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain

import orjson

from stream_masker.pipeline.fhir import bundle_of
from stream_masker.pipeline.fields import DocumentTreatment
from stream_masker.pipeline.formats import RecordFormat, document_of
from stream_masker.pipeline.masker import RecordMasker
from stream_masker.pipeline.paths import JsonValue, Path
from stream_masker.pipeline.plan import Plan
from stream_masker.pipeline.policy import Action, PolicyNodes, action_of, policy_trie
from stream_masker.pipeline.pseudonyms import Pseudonyms
from stream_masker.pipeline.reasons import RecordRejectedError, causes_text

_WORDS = {
    Action.KEEP: "kept",
    Action.PSEUDONYMIZE: "pseudonymized",
    Action.TRANSFORM: "transformed",
    Action.DROP: "dropped",
    Action.MASKED: "masked",
}

_TRANSFORM_WORDS = {
    "pseudonyms": "pseudonymized with a prefix",
    "references": "pseudonymized as a reference",
    "generalize": "generalized",
    "shift": "shifted by days",
    "constant": "replaced by a constant",
}


@dataclass(slots=True)
class FieldCoverage:
    """A path: the number of events that have it, and the treatments of its values."""

    events: int = 0
    treatments: Counter[str] = field(default_factory=Counter)


class Coverage:
    """Collects the treatments of all values of events, by path with ``[*]`` for elements of lists."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._trie = policy_trie(plan)
        self._names = {id(self._trie.at(path)): (path.text, text) for path, text in _named(plan)}
        self._met: set[str] = set()
        self._kept_whole: dict[str, None] = {}
        self.fields: dict[str, FieldCoverage] = {}
        self.events = 0

    def add(self, event: JsonValue) -> None:
        """Add the fields of an event."""
        self.events += 1
        unlisted = "kept: not listed" if self._plan.fields.unlisted == "keep" else "dropped: not listed"
        seen = set()
        for path, treatment in self._leaves(event, (self._trie,), "", unlisted):
            self.fields.setdefault(path, FieldCoverage()).treatments[treatment] += 1
            seen.add(path)
        for path in seen:
            self.fields[path].events += 1

    @property
    def absent(self) -> list[str]:
        """The configured paths that no event has."""
        paths = [text for text, _ in self._names.values()]
        return [text for text in dict.fromkeys(paths) if text not in self._met]

    @property
    def kept_whole(self) -> list[str]:
        """The paths of objects that are kept with all that is in them, without those within others of them."""
        within = tuple(f"{path}{mark}" for path in self._kept_whole for mark in ".[")
        return [path for path in self._kept_whole if not path.startswith(within)]

    def _leaves(self, value: JsonValue, nodes: PolicyNodes, path: str, inherited: str) -> Iterator[tuple[str, str]]:
        treatment = self._treatment(nodes, inherited)
        if isinstance(value, dict) and value:
            if treatment == _WORDS[Action.KEEP]:
                self._kept_whole.setdefault(path)
            for name, member in value.items():
                below = tuple(node.members[name] for node in nodes if name in node.members)
                yield from self._leaves(member, below, f"{path}.{name}" if path else name, treatment)
        elif isinstance(value, list) and value:
            for position, element in enumerate(value):
                yield from self._leaves(element, _selecting(nodes, position, element), f"{path}[*]", treatment)
        else:
            yield path, treatment

    def _treatment(self, nodes: PolicyNodes, inherited: str) -> str:
        """Return the treatment by the strongest action of some nodes; ``inherited`` if they have none."""
        actions = [(action, id(node)) for node in nodes if (action := action_of(node)) is not None]
        if not actions:
            return inherited
        action, node = max(actions)
        text, words = self._names.get(node, ("", _WORDS[action]))
        self._met.add(text)
        return words

    def lines(self, emptied: Mapping[str, int]) -> Iterator[str]:
        """Yield a line for each path, with the share of events that have it, and one for each absent path.

        ``emptied``: how many values of a path were removed, because its treatment does not fit them.
        """
        width = max(map(len, self.fields), default=0)
        for path, covered in self.fields.items():
            treatments = "; ".join(text for text, _ in covered.treatments.most_common())
            if count := emptied.get(path):
                treatments += f"; {count:,} values removed"
            yield f"{path:{width}}  {covered.events / self.events:6.1%}  {treatments}"
        for text in self.absent:
            yield f"{text:{width}}    0.0%  configured, but no event has it"
        for path in self.kept_whole:
            yield f"warning: {path} is an object that is kept with all that producers write in it: list its fields"


def _selecting(nodes: PolicyNodes, position: int, element: JsonValue) -> PolicyNodes:
    """Return the nodes for an element of a list."""
    return tuple(chain.from_iterable(node.element(position, lambda step: step.matches(element)) for node in nodes))


def _named(plan: Plan) -> Iterator[tuple[Path, str]]:
    """Yield the configured paths with what happens to their values."""
    for attribute in plan.attributes:
        for place in attribute.places:
            yield place.path, f"masked: the code of {attribute.name}"
            if place.label is not None:
                yield place.label, f"masked: the label of {attribute.name}"
            yield from ((copy, f"masked: a copy of the code of {attribute.name}") for copy in place.copies)
    yield from ((number.path, f"masked: the number {number.name}") for number in plan.numeric)
    yield from ((path, "kept") for path in plan.fields.keep)
    yield from ((path, "dropped") for path in plan.fields.drop)
    yield from ((path, "pseudonymized") for path in plan.fields.pseudonymize)
    for kind, paths in plan.fields.transforms.items():
        yield from ((path, _TRANSFORM_WORDS[kind]) for path in paths)


def _opened(event: dict[str, JsonValue], plan: Plan) -> JsonValue:
    """Return what the configured paths apply to: the event or its form as a Bundle, or None for an unlisted type."""
    if plan.fhir is None:
        return event
    try:
        return bundle_of(event, plan.fhir)
    except RecordRejectedError:
        return None


def emptied_text(path: str, count: int) -> str:
    """Say that a treatment does not fit some of the values at a path."""
    return (
        f"{count:,} values of {path} were removed, because its treatment does not fit them: for dates that are not in "
        "ISO 8601, give their formats; codes must be in the ontology of their field"
    )


MAX_SUPPRESSED = 0.01
"""The share of an attribute's codes above which a warning says that they are removed."""


def suppressed_text(name: str, count: int, codes: int) -> str:
    """Say that codes of an attribute are removed because they are unknown; ``codes``: the number of all its codes."""
    return (
        f"{count:,} of {codes:,} codes of {name} ({count / codes:.1%}) are removed, because they are unknown and "
        f"attributes.{name}.unknown is suppress: check the ontology, or give a mapping"
    )


def coverage_report(
    plan: Plan, masker: RecordMasker, lines: Iterable[bytes], record_format: RecordFormat | None = None
) -> Iterator[str]:
    """Yield the report about events: a line for each path, then the rejections with reasons and paths.

    ``record_format``: the format of the lines and of ``masker``; None for JSON.

    Rejections because of a record's alpha are not among them.
    """
    coverage, values = Coverage(plan), []
    treatment = DocumentTreatment(plan, Pseudonyms(secrets.token_bytes(32)))
    for line in lines:
        values.append(line)
        try:
            event = document_of(record_format, line)
        except (orjson.JSONDecodeError, RecordRejectedError):
            continue
        if isinstance(event, dict) and (opened := _opened(event, plan)) is not None:
            coverage.add(opened)
            treatment.treat(opened)
    emptied = Counter(treatment.finish())
    yield from coverage.lines(emptied)
    for path, count in emptied.most_common():
        yield f"warning: {emptied_text(path, count)}"
    if plan.noise_key is not None:
        keyed = coverage.fields.get(plan.noise_key.text)
        yield f"noise_key {plan.noise_key.text}: in {keyed.events if keyed else 0:,} of {len(values):,} events"
    counted = masker.count(values)
    rejected = sum(counted.causes.values())
    causes = causes_text(counted.causes)
    yield f"{rejected:,} of {len(values):,} events would be rejected" + (f": {causes}" if causes else "")
    for attribute, count, codes in zip(plan.attributes, counted.counts.unknown, counted.counts.given, strict=True):
        if attribute.concepts.unknown == "suppress" and count:
            warning = "warning: " if count > MAX_SUPPRESSED * codes else ""
            yield warning + suppressed_text(attribute.name, count, codes)
