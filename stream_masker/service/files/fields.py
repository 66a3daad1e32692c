"""What a configuration does to the fields of real events: how each path is treated. Their values are not shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from stream_masker.pipeline.fhir import BUNDLE, TYPE_PATH
from stream_masker.pipeline.hl7v2 import kept_paths
from stream_masker.pipeline.paths import JsonValue, Path, selects
from stream_masker.pipeline.plan import Action, Plan
from stream_masker.pipeline.walk import Branch

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

_ALWAYS_KEPT: Final = {path.text for path in kept_paths(())}
"""The fields of HL7 v2 that a valid message needs, whatever the configuration says."""

_DROPS_CONTAINERS: Final = {_WORDS[key] for key in ("pseudonymize", "generalize", "shift")}


class Rule(NamedTuple):
    """What happens to the values that a path selects; ``text``: the path, empty for what none selects."""

    words: str
    text: str = ""


def _rules(plan: Plan) -> dict[Path, Rule]:
    """Return the rule of each configured path."""
    rules = {path: Rule(words, path.text) for key, words in _WORDS.items() for path in plan.fields.lists.get(key, ())}
    for attribute in plan.attributes:
        for place in attribute.places:
            for path in place.written:
                what = "code" if path is place.path else "label" if path is place.label else "copy of the code"
                rules[path] = Rule(f"{MASKED}: the {what} of {attribute.name}", path.text)
    return rules


def _places(
    value: JsonValue, branch: Branch, own: Rule, rules: Mapping[Path, Rule], path: str
) -> Iterator[tuple[str, JsonValue, Rule]]:
    """Yield each object, list and scalar of an event, with its place, such as ``a.b[*]``, and the rule for it.

    The place of a resource in a Bundle is its type, as in configured paths. own: the rule for what is around the value.
    """
    if branch.rule is not None:
        own = rules.get(branch.rule, Rule(KEPT))
    yield path, value, own
    if own.words in _DROPS_CONTAINERS:
        own = own._replace(words=f"{DROPPED}: an object or a list is not {own.words}")
    if isinstance(value, dict):
        if path == RESOURCE and isinstance(kind := value.get("resourceType"), str):
            path = kind
        for name, member in value.items():
            around = own
            if own.words == REFERENCE and name != "reference":
                around = Rule(KEPT if name == "type" else DROPPED, own.text)
            below = branch.names.get(name) or Branch(())
            yield from _places(member, below, around, rules, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for position, element in enumerate(value):
            steps = frozenset(step for step in branch.lists if selects(step, position, element))
            yield from _places(element, branch.entered(steps), own, rules, f"{path}[*]")


def written_columns(names: Iterable[str], plan: Plan) -> dict[str, bool]:
    """Return the columns of a table that the field policy does not drop, and whether their values become texts."""
    columns, branches, keeps_others = dict[str, bool](), Branch.of(plan).names, plan.fields.unlisted == "keep"
    for name in names:
        branch = branches.get(name) or Branch(())
        actions = {branch.action, *(rest.action for rest in branch.further)} - {None, Action.DROP}
        if actions or (keeps_others and branch.action is None):
            columns[name] = branch.action is Action.TRANSFORM
    return columns


def field_lines(plan: Plan, events: Sequence[JsonValue]) -> Iterator[str]:
    """Yield a line for each path of events, with their share that has it; and one for each path that none has.

    For FHIR, the events have the form of a Bundle, and a type of which there is no resource has one line.
    """
    rules, root = _rules(plan), Branch.of(plan)
    others = Rule(f"{KEPT if plan.fields.unlisted == 'keep' else DROPPED}: not listed")
    words: dict[str, Counter[str]] = {}
    having, met, kept_whole = Counter[str](), set[str](), dict[str, str]()
    for event in events:
        seen = set()
        for path, value, rule in _places(event, root, others, rules, "" if plan.fhir is None else BUNDLE):
            met.add(rule.text)
            if not (isinstance(value, dict | list) and value):
                words.setdefault(path, Counter())[rule.words] += 1
                seen.add(path)
            elif isinstance(value, dict) and rule.words == KEPT and rule.text and value.keys() != {"1"}:
                kept_whole[path] = rule.text  # a field of HL7 v2 with one component is no object
        having.update(seen)
    unmet = dict.fromkeys(rule.text for rule in rules.values() if rule.text not in met)
    if plan.fhir is not None:
        kinds = {path.partition(".")[0] for path in words if path != TYPE_PATH.text}
        words = {path: found for path, found in words.items() if path.partition(".")[0] in kinds}
        unmet = dict.fromkeys(text if (kind := text.split()[-1].partition(".")[0]) in kinds else kind for text in unmet)
    width = max(map(len, words), default=0)
    for path, found in words.items():
        texts = "; ".join(text for text, _ in found.most_common())
        yield f"{path:{width}}  {having[path] / len(events):6.1%}  {texts}"
    yield from (f"{text:{width}}    0.0%  configured, but no event has it" for text in unmet)
    within = tuple(f"{path}{mark}" for path in kept_whole for mark in ".[")
    for path, text in kept_whole.items():
        if text not in _ALWAYS_KEPT and not path.startswith(within):
            yield f"warning: {path} is an object that is kept with all that producers write in it: list its fields"
