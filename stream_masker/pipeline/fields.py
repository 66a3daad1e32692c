"""The field policy compiled: keep, drop or pseudonymize everything that is no attribute.

The policy's paths form a tree. A place in a record is held by the set of tree nodes that lead to it and by the action
it inherits; each such pair is compiled once to a function from the value that stands there to what becomes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final, TypeAlias

from stream_masker.pipeline.paths import EachStep, FilterStep, IndexStep, JsonValue, NameStep, Path, Step
from stream_masker.pipeline.plan import Plan
from stream_masker.pipeline.pseudonyms import Pseudonyms

FieldTreatment: TypeAlias = Callable[[JsonValue], Any]
"""From a value to what becomes of it; ``GONE`` when it is dropped."""

GONE: Final = object()


class Action(IntEnum):
    """What happens to a value; where paths of one length disagree, the greatest wins."""

    KEEP = 1
    PSEUDONYMIZE = 2
    DROP = 3
    MASKED = 4
    """An attribute's own value, label or copy: masking has rewritten it, and it is kept."""


@dataclass(eq=False, slots=True)
class PolicyNode:
    """A step of some paths. ``action``: of the paths that end here; children by the next step."""

    action: Action | None = None
    names: dict[str, PolicyNode] = field(default_factory=dict)
    places: dict[int, PolicyNode] = field(default_factory=dict)
    each: PolicyNode | None = None
    wheres: list[tuple[FilterStep, PolicyNode]] = field(default_factory=list)

    @property
    def in_list(self) -> bool:
        """Whether paths go on into the elements of a list."""
        return bool(self.places or self.each or self.wheres)

    @property
    def in_every_element(self) -> bool:
        """Whether paths go on into all elements of a list alike."""
        return not self.places and not self.wheres

    @property
    def is_filter(self) -> bool:
        """Whether paths go on into the elements that one filter selects, and no others."""
        return len(self.wheres) == 1 and not self.places and self.each is None

    def children(self) -> Iterator[PolicyNode]:
        """The nodes of all next steps."""
        yield from self.names.values()
        yield from self.places.values()
        yield from () if self.each is None else (self.each,)
        yield from (node for _, node in self.wheres)

    def strongest(self) -> Action:
        """The greatest action at this node or anywhere below; masked values count as kept ones here."""
        own = Action.KEEP if self.action in (None, Action.MASKED) else self.action
        return max((own, *(child.strongest() for child in self.children())))

    def child(self, step: Step) -> PolicyNode:
        """The node of a next step, made where there is none."""
        match step:
            case NameStep(key):
                return self.names.setdefault(key, PolicyNode())
            case IndexStep(position):
                return self.places.setdefault(position, PolicyNode())
            case EachStep():
                self.each = self.each or PolicyNode()
                return self.each
            case FilterStep():
                return self._matching(step)

    def element(self, position: int, value: JsonValue) -> tuple[PolicyNode, ...]:
        """The nodes that hold a list's element."""
        matching = [node for where, node in self.wheres if where.matches(value)]
        return tuple(node for node in (self.each, self.places.get(position), *matching) if node is not None)

    def _matching(self, step: FilterStep) -> PolicyNode:
        for where, node in self.wheres:
            if where == step:
                return node
        self.wheres.append((step, PolicyNode()))
        return self.wheres[-1][1]


def field_treatment(plan: Plan, pseudonyms: Pseudonyms) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A function from a decoded record whose attributes are masked to what is emitted of it; may change its argument.

    The longest path that holds a value decides; of equally long ones the greatest ``Action``. A value of another
    shape than a path needs (an object where the path goes on into a list, a text where it goes on by name) cannot
    hide what the path is about: it falls to the greatest action of the paths that go on from there. An element that
    is dropped leaves its list, but where a path counts elements (``[0]``) null holds its place. With
    ``unlisted: drop``, a filter's own field is kept beside what the filter's path keeps.
    """
    inherited = Action.KEEP if plan.fields.unlisted == "keep" else Action.DROP
    return _Compiler(pseudonyms).treat_object((policy_tree(plan),), inherited, _drop)


def policy_tree(plan: Plan) -> PolicyNode:
    """The steps of all paths that the plan names, from the record on."""
    root = PolicyNode()
    for path, action in _listed(plan):
        _grow(root, path, action)
    return root


def _listed(plan: Plan) -> Iterator[tuple[Path, Action]]:
    yield from ((path, Action.MASKED) for _, path in plan.written)
    yield from ((path, Action.DROP) for path in plan.fields.drop)
    yield from ((path, Action.PSEUDONYMIZE) for path in plan.fields.pseudonymize)
    yield from ((path, Action.KEEP) for path in plan.fields.keep)


def _grow(root: PolicyNode, path: Path, action: Action) -> None:
    node = root
    for number, step in enumerate(path.steps, start=1):
        node = node.child(step)
        if isinstance(step, FilterStep) and number < len(path.steps) and action is not Action.DROP:
            _keep_field(node, step)
    node.action = max(node.action or action, action)


def _keep_field(node: PolicyNode, step: FilterStep) -> None:
    for key in step.field:
        node = node.child(NameStep(key))
    node.action = node.action or Action.KEEP


PolicyNodes: TypeAlias = tuple[PolicyNode, ...]


class _Compiler:
    """Makes and keeps the functions, one for each (nodes, inherited action)."""

    def __init__(self, pseudonyms: Pseudonyms) -> None:
        self._pseudonyms = pseudonyms
        self._made: dict[tuple[PolicyNodes, Action], FieldTreatment] = {}

    def treat(self, nodes: PolicyNodes, inherited: Action) -> FieldTreatment:
        """What becomes of a value that ``nodes`` hold, when the action ``inherited`` holds what is around it."""
        made = self._made.get((nodes, inherited))
        if made is None:
            made = self._made[nodes, inherited] = self._make(nodes, inherited)
        return made

    def treat_object(self, nodes: PolicyNodes, own: Action, other: FieldTreatment) -> FieldTreatment:
        """The members of an object: those that a node holds by their names, all others by ``own``.

        ``other``: what becomes of a value that is no object.
        """
        members = {key: self._member(nodes, key, own) for node in nodes for key in node.names}
        if own is Action.PSEUDONYMIZE:
            return _every_member(members, self._leaf(own), other)
        special = [(key, treat) for key, treat in members.items() if treat is not _keep]
        if own is Action.KEEP:
            return _some_members(special, other)
        listed = frozenset(key for key, treat in members.items() if treat is not _drop)
        return _listed_members(listed, _some_members([one for one in special if one[0] in listed], other), other)

    def _member(self, nodes: PolicyNodes, key: str, own: Action) -> FieldTreatment:
        return self.treat(tuple(node.names[key] for node in nodes if key in node.names), own)

    def _make(self, nodes: PolicyNodes, inherited: Action) -> FieldTreatment:
        own = max((node.action for node in nodes if node.action), default=inherited)
        if not any(True for node in nodes for _ in node.children()):
            return self._leaf(own)
        return self._inner(nodes, Action.KEEP if own is Action.MASKED else own)

    def _inner(self, nodes: PolicyNodes, own: Action) -> FieldTreatment:
        astray = self._leaf(max(own, *(node.strongest() for node in nodes)))
        elements = self._list(nodes, own) if any(node.in_list for node in nodes) else astray
        other = _other(elements, astray)
        return self.treat_object(nodes, own, other) if any(node.names for node in nodes) else _no_object(other, astray)

    def _list(self, nodes: PolicyNodes, own: Action) -> FieldTreatment:
        if all(node.in_every_element for node in nodes):
            return _every_element(self.treat(tuple(node.each for node in nodes if node.each), own))
        if len(nodes) == 1 and nodes[0].is_filter:
            ((where, node),) = nodes[0].wheres
            return _matching_elements(where, self.treat((node,), own), self.treat((), own))
        settle = _places_held if any(node.places for node in nodes) else _remaining
        return lambda value: settle([self._element(nodes, own, at, element) for at, element in enumerate(value)])

    def _element(self, nodes: PolicyNodes, own: Action, position: int, element: JsonValue) -> Any:
        held = tuple(found for node in nodes for found in node.element(position, element))
        return self.treat(held, own)(element)

    def _leaf(self, action: Action) -> FieldTreatment:
        if action is Action.PSEUDONYMIZE:
            return self._pseudonyms.of_value
        return _drop if action is Action.DROP else _keep


def _keep(value: JsonValue) -> Any:
    return value


def _drop(_: JsonValue) -> Any:
    return GONE


def _every_element(treat: FieldTreatment) -> FieldTreatment:
    return lambda value: _remaining([treat(element) for element in value])


def _matching_elements(where: FilterStep, treat: FieldTreatment, rest: FieldTreatment) -> FieldTreatment:
    matches = where.matches
    return lambda value: _remaining([treat(element) if matches(element) else rest(element) for element in value])


def _remaining(treated: list[Any]) -> list[JsonValue]:
    return [element for element in treated if element is not GONE]


def _places_held(treated: list[Any]) -> list[JsonValue]:
    while treated and treated[-1] is GONE:
        treated.pop()
    return [None if element is GONE else element for element in treated]


Special: TypeAlias = Iterable[tuple[str, FieldTreatment]]


def _some_members(special: Special, other: FieldTreatment) -> FieldTreatment:
    """Some members of an object, in place."""

    def treat(value: JsonValue) -> Any:
        if type(value) is not dict:
            return other(value)
        for key, member in special:
            if key in value:
                new = member(value[key])
                if new is GONE:
                    del value[key]
                else:
                    value[key] = new
        return value

    return treat


def _listed_members(listed: frozenset[str], some: FieldTreatment, other: FieldTreatment) -> FieldTreatment:
    """Only the listed members of an object; it is copied where it has others."""
    covers = listed.issuperset

    def treat(value: JsonValue) -> Any:
        if type(value) is not dict:
            return other(value)
        if covers(value):
            return some(value)
        return some({key: member for key, member in value.items() if key in listed})

    return treat


def _every_member(members: dict[str, FieldTreatment], rest: FieldTreatment, other: FieldTreatment) -> FieldTreatment:
    def treat(value: JsonValue) -> Any:
        if type(value) is not dict:
            return other(value)
        treated = ((key, members.get(key, rest)(member)) for key, member in value.items())
        return {key: member for key, member in treated if member is not GONE}

    return treat


def _other(elements: FieldTreatment, astray: FieldTreatment) -> FieldTreatment:
    """What is no object: a list, null (kept, for it tells nothing), or anything else."""

    def treat(value: JsonValue) -> Any:
        if type(value) is list:
            return elements(value)
        return None if value is None else astray(value)

    return treat


def _no_object(other: FieldTreatment, astray: FieldTreatment) -> FieldTreatment:
    return lambda value: astray(value) if type(value) is dict else other(value)
