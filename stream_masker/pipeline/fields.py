"""The field policy, compiled to functions: keep, drop, transform or pseudonymize every value of no attribute.

The paths of the policy form a trie. The trie nodes that select a value, together with the action inherited from the
value around it, determine what happens to the value. Each such pair is compiled once, to a function from a value to
its treated form. ``codec.scanner.policy_states`` expresses the same policy as states of the scanner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import IntEnum
from typing import Any, Final, TypeAlias

from stream_masker.pipeline.codec.reference.json_decoder import noise_key_reader
from stream_masker.pipeline.paths import FilterStep, JsonValue, Path, PathTrie
from stream_masker.pipeline.plan import Plan
from stream_masker.pipeline.pseudonyms import Pseudonyms
from stream_masker.pipeline.reasons import RecordRejectedError
from stream_masker.pipeline.transforms import DROPPED, FieldTransform, TransformContext

FieldTreatment: TypeAlias = Callable[[JsonValue], Any]
"""A function from a value to its treated form; ``DROPPED`` if the value is dropped."""


class Action(IntEnum):
    """What happens to a value. If paths of equal length disagree, the greatest action applies."""

    KEEP = 1
    PSEUDONYMIZE = 2
    TRANSFORM = 3
    """The transform of the path replaces the value. Other values around or next to such a path are dropped."""
    DROP = 4
    MASKED = 5
    """The value is a code, label, copy or number of an attribute: it is kept, because masking has replaced it."""


PolicyTrie: TypeAlias = PathTrie[Action]
PolicyNodes: TypeAlias = tuple[PolicyTrie, ...]


def field_treatment(
    plan: Plan, pseudonyms: Pseudonyms, context: TransformContext | None = None
) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return a function from a decoded record with masked attributes to the record to write. It may modify its
    argument.

    ``context``: that of the transforms, which counts the values that a transform cannot treat and drops; by default one
    of ``pseudonyms``.

    The longest path that selects a value, or a value around it, decides; among paths of equal length the greatest
    ``Action``. If a value has another shape than the paths require (an object where a path continues into a list, or a
    text where it continues by name), it gets the greatest action of the paths that continue from there: a value of an
    unexpected shape is never kept by accident. In a pseudonymized object, the names of members that no path has are
    replaced like their values. A dropped element is removed from its list, but if a path counts elements (``[0]``),
    null takes its place. With ``unlisted: drop``, the field that a filter compares is kept together with the values
    that the filter's path keeps.
    """
    inherited = Action.KEEP if plan.fields.unlisted == "keep" else Action.DROP
    trie = policy_trie(plan)
    context = context or TransformContext(pseudonyms.of_bytes, pseudonyms.offset_hash)
    transforms = {path: transform.prepared() for path, transform in plan.fields.transformed.items()}
    treat = _Compiler(pseudonyms, trie, transforms, context).treat_object((trie,), inherited, _drop)
    keys = {key: noise_key_reader(key) for transform in transforms.values() if (key := transform.key) is not None}
    return _with_keys(treat, keys, context) if keys else treat


def _with_keys(
    treat: FieldTreatment, keys: Mapping[Path, Callable[[dict[str, Any]], bytes]], context: TransformContext
) -> FieldTreatment:
    """Read the keys of a record, which transforms need, before anything of it is replaced."""

    def treat_with_keys(record: dict[str, Any]) -> Any:
        context.keys = {path: _key_or_none(read, record) for path, read in keys.items()}
        return treat(record)

    return treat_with_keys


def _key_or_none(read: Callable[[dict[str, Any]], bytes], record: dict[str, Any]) -> bytes | None:
    try:
        return read(record)
    except RecordRejectedError:
        return None


def policy_trie(plan: Plan) -> PolicyTrie:
    """Return the trie of all paths that the plan gives an action to."""
    return PathTrie.of((*_policy_paths(plan), *_filter_fields(plan)))


def _policy_paths(plan: Plan) -> Iterator[tuple[Path, Action]]:
    yield from ((path, Action.MASKED) for _, path in plan.written)
    yield from ((path, Action.DROP) for path in plan.fields.drop)
    yield from ((path, Action.TRANSFORM) for path in plan.fields.transformed)
    yield from ((path, Action.PSEUDONYMIZE) for path in plan.fields.pseudonymize)
    yield from ((path, Action.KEEP) for path in plan.fields.keep)


def _filter_fields(plan: Plan) -> Iterator[tuple[Path, Action]]:
    """Yield the fields that filters compare, except for a filter at the end of a path, which selects whole elements."""
    for path, action in _policy_paths(plan):
        if action is not Action.DROP:
            yield from ((compared, Action.KEEP) for compared in path.parent.filter_fields())


def action_of(node: PolicyTrie) -> Action | None:
    """Return the action of the paths that end at a node; None if there are none."""
    return max(node.items, default=None)


def strongest_action(node: PolicyTrie) -> Action:
    """Return the greatest action at a node or below it; masked values count as kept."""
    action = action_of(node) or Action.KEEP
    return max((Action.KEEP if action is Action.MASKED else action, *map(strongest_action, node.children())))


_INNER_ACTIONS: Final = {Action.MASKED: Action.KEEP, Action.TRANSFORM: Action.DROP}
"""What applies to the other parts of a value that longer paths continue into."""


class _Compiler:
    """Creates the functions and keeps them, one for each pair of nodes and inherited action."""

    def __init__(
        self,
        pseudonyms: Pseudonyms,
        trie: PolicyTrie,
        transforms: Mapping[Path, FieldTransform],
        context: TransformContext,
    ) -> None:
        self._pseudonyms = pseudonyms
        self._transforms = {id(trie.at(path)): (path.text, transform) for path, transform in transforms.items()}
        self._context = context
        self._treatments: dict[tuple[PolicyNodes, Action], FieldTreatment] = {}

    def treat(self, nodes: PolicyNodes, inherited: Action) -> FieldTreatment:
        """Return the treatment of a value that ``nodes`` select; ``inherited``: the action of the value around it."""
        treatment = self._treatments.get((nodes, inherited))
        if treatment is None:
            treatment = self._treatments[nodes, inherited] = self._compile(nodes, inherited)
        return treatment

    def treat_object(self, nodes: PolicyNodes, action: Action, other: FieldTreatment) -> FieldTreatment:
        """Return the treatment of an object: ``action`` is that of members that no path names.

        ``other``: the treatment of a value that is not an object.
        """
        members = {key: self._member(nodes, key, action) for node in nodes for key in node.members}
        if action is Action.PSEUDONYMIZE:
            return _hidden_members(members, self._pseudonyms, other)
        changed = [(key, treat) for key, treat in members.items() if treat is not _keep]
        if action is Action.KEEP:
            return _changed_members(changed, other)
        listed = frozenset(key for key, treat in members.items() if treat is not _drop)
        return _listed_members(listed, _changed_members([item for item in changed if item[0] in listed], other), other)

    def _member(self, nodes: PolicyNodes, key: str, action: Action) -> FieldTreatment:
        return self.treat(tuple(node.members[key] for node in nodes if key in node.members), action)

    def _compile(self, nodes: PolicyNodes, inherited: Action) -> FieldTreatment:
        action = max(filter(None, map(action_of, nodes)), default=inherited)
        if not any(True for node in nodes for _ in node.children()):
            return self._transform(nodes) if action is Action.TRANSFORM else self._leaf(action)
        return self._inner(nodes, _INNER_ACTIONS.get(action, action))

    def _transform(self, nodes: PolicyNodes) -> FieldTreatment:
        """Return the transform of the only path that has one here; a value that several paths transform is dropped."""
        transforms = [self._transforms[id(node)] for node in nodes if id(node) in self._transforms]
        if len(transforms) != 1:
            return _drop
        (path, transform), context = transforms[0], self._context

        def treat(value: JsonValue) -> Any:
            treated = transform.of_value(value, context)
            if treated is DROPPED:
                context.emptied[path] += 1
            return treated

        return treat

    def _inner(self, nodes: PolicyNodes, action: Action) -> FieldTreatment:
        misshapen = self._leaf(max(action, *map(strongest_action, nodes)))
        elements = self._list(nodes, action) if any(node.enters_lists for node in nodes) else misshapen
        other = _list_or_scalar(elements, misshapen)
        if any(node.members for node in nodes):
            return self.treat_object(nodes, action, other)
        return lambda value: misshapen(value) if type(value) is dict else other(value)

    def _list(self, nodes: PolicyNodes, action: Action) -> FieldTreatment:
        if all(not node.indices and not node.filters for node in nodes):
            return _every_element(self.treat(tuple(node.each for node in nodes if node.each), action))
        if len(nodes) == 1 and _is_single_filter(nodes[0]):
            ((step, node),) = nodes[0].filters.items()
            return _matching_elements(step, self.treat((node,), action), self.treat((), action))
        remove = _null_dropped if any(node.indices for node in nodes) else _without_dropped
        return lambda value: remove([self._element(nodes, action, at, element) for at, element in enumerate(value)])

    def _element(self, nodes: PolicyNodes, action: Action, position: int, element: JsonValue) -> Any:
        selecting = (child for node in nodes for child in node.element(position, lambda step: step.matches(element)))
        return self.treat(tuple(selecting), action)(element)

    def _leaf(self, action: Action) -> FieldTreatment:
        if action is Action.PSEUDONYMIZE:
            return self._pseudonyms.of_value
        return _keep if action in {Action.KEEP, Action.MASKED} else _drop


def _is_single_filter(node: PolicyTrie) -> bool:
    """Return whether the paths continue only into the elements that one filter selects."""
    return len(node.filters) == 1 and not node.indices and node.each is None


def _keep(value: JsonValue) -> Any:
    return value


def _drop(_: JsonValue) -> Any:
    return DROPPED


def _every_element(treat: FieldTreatment) -> FieldTreatment:
    return lambda value: _without_dropped([treat(element) for element in value])


def _matching_elements(step: FilterStep, treat: FieldTreatment, rest: FieldTreatment) -> FieldTreatment:
    matches = step.matches
    return lambda value: _without_dropped([treat(element) if matches(element) else rest(element) for element in value])


def _without_dropped(treated: list[Any]) -> list[JsonValue]:
    return [element for element in treated if element is not DROPPED]


def _null_dropped(treated: list[Any]) -> list[JsonValue]:
    """Return the elements with null for each dropped one; dropped elements at the end are removed."""
    while treated and treated[-1] is DROPPED:
        treated.pop()
    return [None if element is DROPPED else element for element in treated]


MemberTreatments: TypeAlias = Iterable[tuple[str, FieldTreatment]]


def _changed_members(changed: MemberTreatments, other: FieldTreatment) -> FieldTreatment:
    """Treat some members of an object in place, and keep the others."""

    def treat(value: JsonValue) -> Any:
        if type(value) is not dict:
            return other(value)
        for key, member in changed:
            if key in value:
                new = member(value[key])
                if new is DROPPED:
                    del value[key]
                else:
                    value[key] = new
        return value

    return treat


def _listed_members(listed: frozenset[str], some: FieldTreatment, other: FieldTreatment) -> FieldTreatment:
    """Keep only the listed members of an object, treated by ``some``; an object with other members is copied."""
    covers = listed.issuperset

    def treat(value: JsonValue) -> Any:
        if type(value) is not dict:
            return other(value)
        if covers(value):
            return some(value)
        return some({key: member for key, member in value.items() if key in listed})

    return treat


def _hidden_members(
    members: dict[str, FieldTreatment], pseudonyms: Pseudonyms, other: FieldTreatment
) -> FieldTreatment:
    """Treat the members of an object that ``members`` names; pseudonyms replace the others and their names."""

    def treat(value: JsonValue) -> Any:
        if type(value) is not dict:
            return other(value)
        treated = {}
        for key, member in value.items():
            if key not in members:
                treated[pseudonyms.of_bytes(key.encode())] = pseudonyms.of_value(member)
            elif (new := members[key](member)) is not DROPPED:
                treated[key] = new
        return treated

    return treat


def _list_or_scalar(elements: FieldTreatment, misshapen: FieldTreatment) -> FieldTreatment:
    """Return the treatment of anything but an object: a list, null (which is kept), or a value of another shape."""

    def treat(value: JsonValue) -> Any:
        if type(value) is list:
            return elements(value)
        return None if value is None else misshapen(value)

    return treat
