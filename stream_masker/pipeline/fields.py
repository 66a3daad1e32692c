"""What becomes of the values of a document: the paths of a plan, compiled to functions that change values in place.

The paths form a trie. The nodes that select a value, together with the action inherited from the value around it,
decide what happens to the value. Each such pair is compiled once. The values of attributes are not changed: their
places are noted, so that masking can write into them (``codec``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeAlias

import orjson

from stream_masker.pipeline.paths import FilterStep, JsonValue, Path, reader
from stream_masker.pipeline.plan import Plan
from stream_masker.pipeline.policy import Action, PolicyNodes, PolicyTrie, policy_trie, strongest_action
from stream_masker.pipeline.pseudonyms import PendingPseudonyms, Pseudonyms
from stream_masker.pipeline.reasons import Reason, RecordRejectedError
from stream_masker.pipeline.transforms import DROPPED, TransformContext

Document: TypeAlias = dict[str, Any]
Treat: TypeAlias = Callable[[Any, Any], None]
"""Treats ``container[key]`` in place, a member of an object or an element of a list."""


@dataclass(frozen=True, slots=True)
class Notes:
    """What is called while a document is treated, by path.

    masked: for each value that masking replaces; entered: for each element that the last ``[*]`` of the path selects;
    met: for each list in which this ``[*]`` selects.
    """

    masked: Mapping[Path, Treat] = field(default_factory=dict)
    entered: Mapping[Path, Callable[[], None]] = field(default_factory=dict)
    met: Mapping[Path, Callable[[], None]] = field(default_factory=dict)


class DocumentTreatment:
    """Treats documents by the field policy of a plan.

    The longest path that selects a value, or a value around it, decides; among paths of equal length the greatest
    ``Action``. If a value has another shape than the paths require (an object where a path continues into a list, or a
    text where it continues by name), it gets the greatest action of the paths that continue from there: a value of an
    unexpected shape is never kept by accident. If one of these paths is an attribute's, the record is rejected. In a
    pseudonymized object, the names of members that no path has are replaced like their values. A dropped element is
    removed from its list, but if a path counts elements (``[0]``), null takes its place. With ``unlisted: drop``, the
    field that a filter compares is kept together with the values that the filter's path keeps. Null stays null.
    """

    def __init__(self, plan: Plan, pseudonyms: Pseudonyms, notes: Notes = Notes()) -> None:
        self._context = TransformContext(pseudonyms.of_bytes, pseudonyms.offset_hash)
        self._pending = PendingPseudonyms(pseudonyms)
        keys = {key for transform in plan.fields.transformed.values() if (key := transform.key) is not None}
        self._keys = {path: reader(path) for path in keys}
        trie = policy_trie(plan)
        inherited = Action.KEEP if plan.fields.unlisted == "keep" else Action.DROP
        compiler = _Compiler(plan, pseudonyms, self._context, self._pending, notes, trie)
        self._treat = compiler.object_treatment((trie,), inherited)

    def treat(self, document: Document) -> None:
        """Treat a document in place; its texts become pseudonyms by ``finish``.

        Raises RecordRejectedError (wrong_shape) if a value around one that masking replaces has another shape.
        """
        if self._keys:
            self._context.keys = {path: key_text(read(document)) or None for path, read in self._keys.items()}
        self._treat(document)

    def finish(self) -> dict[str, int]:
        """Finish all treated documents. Return the number of values that no transform could treat, by their paths."""
        self._pending.write()
        emptied = dict(self._context.emptied)
        self._context.emptied.clear()
        return emptied


def key_text(value: JsonValue) -> bytes:
    """Return the text of a key, such as a patient's id; an empty one for what is no key. That of a number is its
    JSON."""
    if type(value) is str:
        return b"" if value.isspace() else value.encode()
    return orjson.dumps(value) if type(value) is int or type(value) is float else b""


def _keep(container: Any, key: Any) -> None:
    """Keep a value as it is."""


def _delete(container: Any, key: Any) -> None:
    """Drop a member of an object."""
    del container[key]


def _mark(container: Any, key: Any) -> None:
    """Mark an element of a list as dropped; the treatment of the list removes it."""
    container[key] = DROPPED


_INNER: Final = {Action.MASKED: Action.KEEP, Action.TRANSFORM: Action.DROP}
"""What applies to the other parts of a value that longer paths continue into."""


class _Compiler:
    """Creates the functions and keeps them, one for each tuple of nodes and inherited action."""

    def __init__(
        self,
        plan: Plan,
        pseudonyms: Pseudonyms,
        context: TransformContext,
        pending: PendingPseudonyms,
        notes: Notes,
        trie: PolicyTrie,
    ) -> None:
        self._pseudonyms, self._context, self._pending = pseudonyms, context, pending
        self._transforms = {trie.at(path): (path.text, rule) for path, rule in plan.fields.transformed.items()}
        self._masked = {trie.at(path): (path, note) for path, note in notes.masked.items()}
        self._entered = {trie.at(path): note for path, note in notes.entered.items()}
        self._met = {trie.at(path): note for path, note in notes.met.items()}
        self._treatments: dict[tuple[PolicyNodes, Action, Treat], Treat] = {}

    def treatment(self, nodes: PolicyNodes, inherited: Action, drop: Treat) -> Treat:
        """Return the treatment of a value that ``nodes`` select.

        inherited: the action of the value around it; drop: ``_delete`` in an object, ``_mark`` in a list.
        """
        key = nodes, inherited, drop
        if key not in self._treatments:
            self._treatments[key] = self._entering(nodes, self._compiled(nodes, inherited, drop))
        return self._treatments[key]

    def _entering(self, nodes: PolicyNodes, treat: Treat) -> Treat:
        for node in nodes:
            if node in self._entered:
                treat = _entered(self._entered[node], treat)
        return treat

    def _compiled(self, nodes: PolicyNodes, inherited: Action, drop: Treat) -> Treat:
        for node in nodes:
            if node in self._masked:
                return self._masked[node][1]
        action = max((action for node in nodes for action in node.items), default=inherited)
        if any(True for node in nodes for _ in node.children()):
            return self._inner(nodes, _INNER.get(action, action), drop)
        return self._transform(nodes, drop) if action is Action.TRANSFORM else self._leaf(action, drop)

    def _leaf(self, action: Action, drop: Treat) -> Treat:
        if action is not Action.PSEUDONYMIZE:
            return _keep if action in {Action.KEEP, Action.MASKED} else drop
        return self._pending.treat if drop is _delete else self._pseudonymize

    def _pseudonymize(self, container: Any, key: Any) -> None:
        """Pseudonymize an element of a list, whose position may change."""
        container[key] = self._pseudonyms.of_value(container[key])

    def _transform(self, nodes: PolicyNodes, drop: Treat) -> Treat:
        """Return the transform of the only path that has one here; a value that several paths transform is dropped."""
        transforms = [self._transforms[node] for node in nodes if node in self._transforms]
        if len(transforms) != 1:
            return drop
        (path, transform), context = transforms[0], self._context

        def treat(container: Any, key: Any) -> None:
            new = transform.of_value(container[key], context)
            if new is DROPPED:
                context.emptied[path] += 1
                drop(container, key)
            else:
                container[key] = new

        return treat

    def _inner(self, nodes: PolicyNodes, action: Action, drop: Treat) -> Treat:
        """Return the treatment of a value that longer paths continue into."""
        in_objects = [child for node in nodes for child in node.members.values()]
        in_lists = [child for node in nodes for child in node.children() if child not in in_objects]
        treat_object = self._only(in_lists, self.object_treatment(nodes, action)) if in_objects else None
        treat_list = self._only(in_objects, self._list(nodes, action)) if in_lists else None
        misshapen = self._misshapen(nodes, action, drop)

        def treat(container: Any, key: Any) -> None:
            value = container[key]
            if type(value) is dict and treat_object is not None:
                treat_object(value)
            elif type(value) is list and treat_list is not None:
                treat_list(value)
            elif value is not None:
                misshapen(container, key)

        return treat

    def _only(self, others: Sequence[PolicyTrie], treat: Callable[[Any], None]) -> Callable[[Any], None]:
        """Return the treatment of an object or a list, unless masking needs the other one for ``others``."""
        path = next(self._masked_below(others), None)
        return treat if path is None else _rejecting(path)

    def _misshapen(self, nodes: PolicyNodes, action: Action, drop: Treat) -> Treat:
        path = next(self._masked_below(child for node in nodes for child in node.children()), None)
        if path is None:
            return self._leaf(max(action, *map(strongest_action, nodes)), drop)
        return _rejecting(path)

    def _masked_below(self, nodes: Iterable[PolicyTrie]) -> Iterator[Path]:
        """Yield the paths of values that masking replaces, at nodes or below them."""
        for node in nodes:
            if node in self._masked:
                yield self._masked[node][0]
            yield from self._masked_below(node.children())

    def object_treatment(self, nodes: PolicyNodes, action: Action) -> Callable[[Document], None]:
        """Return the treatment of an object; ``action``: that of members that no path names."""
        names = dict.fromkeys(name for node in nodes for name in node.members)
        members = {name: self._member(nodes, name, action) for name in names}
        dropped = [name for name, treat in members.items() if treat is _delete]
        changed = [(name, treat) for name, treat in members.items() if treat is not _keep and treat is not _delete]

        if action is Action.DROP:
            return _with_listed_members(frozenset(members).difference(dropped), changed)

        def treat(value: Document) -> None:
            for name in dropped:
                value.pop(name, None)
            for name, member in changed:
                if name in value:
                    member(value, name)

        return treat if action is Action.KEEP else self._with_hidden_members(members, treat)

    def _member(self, nodes: PolicyNodes, name: str, action: Action) -> Treat:
        return self.treatment(tuple(node.members[name] for node in nodes if name in node.members), action, _delete)

    def _with_hidden_members(
        self, members: Mapping[str, Treat], treat: Callable[[Document], None]
    ) -> Callable[[Document], None]:
        """Replace the members that no path names, and their names, by pseudonyms."""
        pseudonyms = self._pseudonyms

        def treat_all(value: Document) -> None:
            treat(value)
            all_members = [*value.items()]
            value.clear()
            for name, member in all_members:
                if name in members:
                    value[name] = member
                else:
                    value[pseudonyms.of_bytes(name.encode())] = pseudonyms.of_value(member)

        return treat_all

    def _list(self, nodes: PolicyNodes, action: Action) -> Callable[[list[Any]], None]:
        treat_elements = self._elements(nodes, action)
        met = [self._met[child] for node in nodes for child in node.children() if child in self._met]
        has_indices = any(node.indices for node in nodes)
        filtered = next(self._masked_below(child for node in nodes for child in node.filters.values()), None)

        def treat(value: list[Any]) -> None:
            for note in met:
                note()
            if filtered is not None and any(type(element) is not dict and element is not None for element in value):
                raise RecordRejectedError(Reason.WRONG_SHAPE, filtered.text)
            treat_elements(value)
            if DROPPED in value:
                _remove_dropped(value, has_indices)

        return treat

    def _elements(self, nodes: PolicyNodes, action: Action) -> Callable[[list[Any]], None]:
        """Return the treatment of the elements of a list."""
        if not any(node.filters or node.indices for node in nodes):
            each = self.treatment(tuple(node.each for node in nodes if node.each), action, _mark)

            def treat_all(value: list[Any]) -> None:
                for position in range(len(value)):
                    each(value, position)

            return treat_all
        choose = self._chooser(nodes, action)

        def treat_chosen(value: list[Any]) -> None:
            for position, element in enumerate(value):
                choose(position, element)(value, position)

        return treat_chosen

    def _chooser(self, nodes: PolicyNodes, action: Action) -> Callable[[int, Any], Treat]:
        """Return a function from an element of a list and its position to the element's treatment."""
        filters = [step for node in nodes for step in node.filters]
        fields = {step.field for step in filters}

        def choose(position: int, element: Any) -> Treat:
            return self._selected(nodes, action, position, lambda step: step.matches(element))

        if len(fields) > 1 or any(node.indices for node in nodes):
            return choose
        return self._by_text(nodes, action, filters, choose)

    def _by_text(
        self,
        nodes: PolicyNodes,
        action: Action,
        filters: Sequence[FilterStep],
        otherwise: Callable[[int, Any], Treat],
    ) -> Callable[[int, Any], Treat]:
        """Choose by the text of the only field that filters compare, and by ``otherwise`` if it is no text."""
        field = filters[0].field
        known = {step.value: self._selected(nodes, action, 0, partial(_has_value, step.value)) for step in filters}
        none = self._selected(nodes, action, 0, partial(_has_value, None))

        def choose(position: int, element: Any) -> Treat:
            value = element
            for name in field:
                value = value.get(name) if type(value) is dict else None
            return known.get(value, none) if type(value) is str else otherwise(position, element)

        return choose

    def _selected(
        self, nodes: PolicyNodes, action: Action, position: int, matches: Callable[[FilterStep], bool]
    ) -> Treat:
        selecting = tuple(child for node in nodes for child in node.element(position, matches))
        return self.treatment(selecting, action, _mark)


def _entered(note: Callable[[], None], treat: Treat) -> Treat:
    def enter(container: Any, key: Any) -> None:
        note()
        treat(container, key)

    return enter


def _rejecting(path: Path) -> Callable[..., None]:
    def reject(*_: Any) -> None:
        raise RecordRejectedError(Reason.WRONG_SHAPE, path.text)

    return reject


def _has_value(value: str | None, step: FilterStep) -> bool:
    return step.value == value


def _with_listed_members(listed: frozenset[str], changed: Sequence[tuple[str, Treat]]) -> Callable[[Document], None]:
    """Drop all members of an object but the listed ones, and treat some of these."""
    covers = listed.issuperset

    def treat(value: Document) -> None:
        if not covers(value):
            for name in [name for name in value if name not in listed]:
                del value[name]
        for name, member in changed:
            if name in value:
                member(value, name)

    return treat


def _remove_dropped(value: list[Any], has_indices: bool) -> None:
    """Remove dropped elements. If paths count elements, null takes their place, except at the end of the list."""
    while has_indices and value and value[-1] is DROPPED:
        value.pop()
    value[:] = [None if element is DROPPED else element for element in value if has_indices or element is not DROPPED]
