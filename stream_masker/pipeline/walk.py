"""The walk through the documents of a batch: what becomes of each value.

The paths of a plan are followed once for all documents of a batch together: the values that the same steps select in
all of them are treated together, in place. Values that masking replaces are not changed. Their places are noted by
path, so that the codec can write masks into them.

The longest path that selects a value, or a value around it, decides; among paths of equal length the greatest
``Action``. A value of another shape than the paths require (a text where a path continues by name) is dropped, unless
all these paths keep; so it is never kept by accident. If one of them is an attribute's, the record is refused. A
dropped element is removed from its list; if a path counts elements (``[0]``), null takes its place. Null stays null.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, compress, repeat
from operator import attrgetter, itemgetter, setitem
from typing import Any, NamedTuple

import numpy as np
from msgspec import UNSET, Struct

from stream_masker.core.arrays import Int64Array, ranges
from stream_masker.pipeline.paths import Document, EachStep, FilterStep, IndexStep, NameStep, Path, Step, members
from stream_masker.pipeline.plan import Action, Plan, policy
from stream_masker.pipeline.records import Reason, Rejected, Tally
from stream_masker.pipeline.transforms import DROPPED, FieldTransform, Pseudonyms


class Slots(NamedTuple):
    """n values in documents, ``containers[i][keys[i]]``.

    keys: names in dicts, fields of structs, or positions in lists; places: (1 + l, n) int64, the numbers of their
    documents, then their positions in each of l lists around them, from the outside in.
    """

    values: list[Any]
    containers: list[Any]
    keys: list[Any]
    places: Int64Array

    def take(self, indices: Int64Array) -> Slots:
        """Return the values at these indices, in their order."""
        chosen = indices.tolist()
        values, containers, keys = ([column[k] for k in chosen] for column in self[:3])
        return Slots(values, containers, keys, self.places[:, indices])

    def where(self, chosen: Iterable[bool]) -> Slots:
        """Return some of the values."""
        return self.take(np.flatnonzero(np.fromiter(chosen, bool, len(self.values))))

    def without_null(self) -> Slots:
        """Return the values that are not null."""
        return self.where(value is not None for value in self.values) if None in self.values else self

    def elements(self) -> Slots:
        """Return the elements of values that are lists."""
        lengths = list(map(len, self.values))
        sizes = np.array(lengths, np.int64)
        positions = ranges(np.zeros_like(sizes), sizes)
        containers = list(chain.from_iterable(map(repeat, self.values, lengths)))
        places = np.vstack((np.repeat(self.places, sizes, axis=1), positions))
        return Slots(list(chain.from_iterable(self.values)), containers, positions.tolist(), places)

    def fill(self, values: Iterable[Any]) -> None:
        """Write a value into each place."""
        in_structs = bool(self.containers) and isinstance(self.containers[0], Struct)
        deque(map(setattr if in_structs else setitem, self.containers, self.keys, values), maxlen=0)

    def drop(self) -> None:
        """Remove the values from their objects; mark those in lists, which ``Walk`` removes."""
        for container, key in zip(self.containers, self.keys, strict=True):
            if type(container) is list:
                container[key] = DROPPED
            else:
                del container[key]


class Rest(NamedTuple):
    """The steps of a path that are left from a value on, and what happens to the values that the path selects.

    action: None if they are only noted.
    """

    steps: tuple[Step, ...]
    path: Path
    action: Action | None
    transform: FieldTransform | None = None


class Branch:
    """The paths of a plan that go on from the values which the same steps select.

    found: the paths that end here, and whose values are noted; names: the branches behind names; lists: the steps into
    lists; further: the paths that do not end here, and misfits: those that do not go on in an object, or a list;
    action: what happens to the values, None for what happens to those around them; rule: the path that decides it;
    transforms: of the values, with their paths.
    """

    def __init__(self, rests: Sequence[Rest]) -> None:
        ended = [rest for rest in rests if not rest.steps]
        self.found = dict.fromkeys(rest.path for rest in ended if rest.action in (None, Action.MASKED))
        self.further = [rest for rest in rests if rest.steps]
        self._entered: dict[frozenset[Step], Branch] = {}
        firsts = dict.fromkeys(rest.steps[0] for rest in self.further)
        self.names = {step.key: self.entered(frozenset({step})) for step in firsts if isinstance(step, NameStep)}
        self.lists: list[Step] = [step for step in firsts if not isinstance(step, NameStep)]
        self.misfits: dict[type, list[Rest]] = {
            dict: [rest for rest in self.further if rest.steps[0] in self.lists],
            list: [rest for rest in self.further if rest.steps[0] not in self.lists],
        }
        self.transforms = [(rest.path, rest.transform) for rest in ended if rest.transform is not None]
        rules = {rest.action: rest.path for rest in reversed(ended) if rest.action is not None}
        action = max(rules, default=None)
        self.rule = None if action is None else rules[action]
        is_mixed = bool(self.further) or len(self.transforms) > 1
        self.action = Action.DROP if action is Action.TRANSFORM and is_mixed else action
        self.is_kept = action is Action.KEEP and not (self.further or self.found)

    @classmethod
    def of(cls, plan: Plan) -> Branch:
        """Return all paths of a plan that are followed."""
        elements = [place.path.elements for one in plan.attributes if one.missing == "reject" for place in one.places]
        required = [*elements, *(path.around for path in elements if path.arrays)]
        rests = [Rest(rule[0].steps, *rule) for rule in policy(plan)]
        return cls([*rests, *(Rest(path.steps, path, None) for path in required)])

    def entered(self, steps: frozenset[Step]) -> Branch:
        """Return the paths that go on from the values which these steps select; the same branch each time."""
        if (branch := self._entered.get(steps)) is None:
            inside = [rest._replace(steps=rest.steps[1:]) for rest in self.further if rest.steps[0] in steps]
            branch = self._entered[steps] = Branch(inside)
        return branch


class Walk:
    """One walk, and what it finds.

    found: the places of values that masking replaces, and of records or elements that lack a code if none is in them,
    by path; refused: the reasons why records cannot be masked, with the configured paths, by record; tally: the number
    of values that no transform could treat.
    """

    def __init__(
        self, plan: Plan, pseudonyms: Pseudonyms, keys: Mapping[Path, Sequence[bytes]], *, is_ordered: bool
    ) -> None:
        """keys: those that transforms need, by path and record; is_ordered: whether members get the order of the plan,
        that of structs, so that the order tells nothing of dropped members."""
        self._is_ordered = is_ordered
        self._unlisted = Action.KEEP if plan.fields.unlisted == "keep" else Action.DROP
        self._pseudonyms, self._keys = pseudonyms, keys
        self.found: defaultdict[Path, list[Slots]] = defaultdict(list)
        self.refused: dict[int, Rejected] = {}
        self.tally: Tally = Counter()

    def refuse(self, records: Iterable[int], reason: Reason, path: Path) -> None:
        """Refuse records; the first reason of each counts."""
        for record in records:
            self.refused.setdefault(record, Rejected(reason, path.text))

    def through(self, documents: list[Document], root: Branch) -> None:
        """Treat documents in place; root: ``Branch.of`` the plan."""
        n = len(documents)
        self._treat(Slots(documents, [documents] * n, [*range(n)], np.arange(n)[np.newaxis]), root, self._unlisted)

    def _treat(self, slots: Slots, branch: Branch, inherited: Action) -> None:
        """Treat the values that a branch selects; inherited: the action of the values around them."""
        for path in branch.found:
            self.found[path].append(slots)
        action = branch.action or inherited
        if action is not Action.MASKED and (branch.names or branch.lists):
            self._enter(slots, branch, action)
        elif action is Action.TRANSFORM:
            self._transform(slots, *branch.transforms[0])
        elif action is Action.DROP:
            slots.drop()

    def _transform(self, slots: Slots, path: Path, transform: FieldTransform) -> None:
        """Replace values by their transforms; remove those that cannot be transformed."""
        keys = None
        if transform.key is not None:
            keys = list(map(self._keys[transform.key].__getitem__, slots.places[0].tolist()))
        new = transform.of_values(slots.values, self._pseudonyms, keys)
        slots.fill(new)
        if DROPPED in new:
            self.tally["emptied", path.text] += new.count(DROPPED)
            slots.where(value is DROPPED for value in new).drop()

    def _enter(self, slots: Slots, branch: Branch, action: Action) -> None:
        """Treat the parts of values that paths continue into; action: that of the other parts."""
        kinds = set(map(type, slots.values))
        for kind in sorted(kinds - {type(None)}, key=lambda kind: kind.__name__):
            some = slots if len(kinds) == 1 else slots.where(type(value) is kind for value in slots.values)
            shape = dict if issubclass(kind, Struct) else kind
            misfits = branch.misfits.get(shape, branch.further)
            if (refusing := _masked(misfits)) is not None:
                self.refuse(some.places[0].tolist(), Reason.WRONG_SHAPE, refusing)
            elif shape is dict and branch.names:
                self._treat_objects(some, branch, action)
            elif shape is list and branch.lists:
                self._treat_lists(some, branch, action)
            elif {action, *(rest.action for rest in misfits if rest.action is not None)} != {Action.KEEP}:
                some.drop()

    def _treat_objects(self, slots: Slots, branch: Branch, action: Action) -> None:
        """Treat the members of objects, which have one type."""
        objects = slots.values
        kind: Any = type(objects[0])
        if issubclass(kind, Struct):
            for name, field in kind.fields.items():
                inner = branch.names.get(name) or branch.entered(frozenset({NameStep(name)}))
                self._treat_members(slots, field, attrgetter(field), inner, action)
            return
        if action is Action.DROP and (unlisted := set().union(*objects) - branch.names.keys()):
            for value in objects:
                for name in unlisted if len(unlisted) <= len(value) else unlisted.intersection(value):
                    value.pop(name, None)
        for value in objects if self._is_ordered else ():
            for name in [name for name in branch.names if name in value]:
                value[name] = value.pop(name)
        for name, inner in branch.names.items():
            self._treat_members(slots, name, itemgetter(name), inner, action)

    def _treat_members(
        self, slots: Slots, key: str, member: Callable[[Any], Any], branch: Branch, action: Action
    ) -> None:
        """Treat one member of each object that has it; key: its name, or its field in structs."""
        if branch.is_kept:
            return
        try:
            values = list(map(member, slots.values))
        except KeyError:
            values = [value.get(key, UNSET) for value in slots.values]
        if UNSET in values:
            slots = slots.where(value is not UNSET for value in values)
            values = [value for value in values if value is not UNSET]
        if values:
            self._treat(Slots(values, slots.values, [key] * len(values), slots.places), branch, action)

    def _treat_lists(self, slots: Slots, branch: Branch, action: Action) -> None:
        """Treat the elements of lists; those that the same paths select are treated together."""
        elements = slots.elements()
        if set(map(type, elements.values)) - {dict, type(None)}:
            filtered = _masked(rest for rest in branch.further if isinstance(rest.steps[0], FilterStep))
            if filtered is not None:
                wrong = elements.where(value is not None and type(value) is not dict for value in elements.values)
                self.refuse(wrong.places[0].tolist(), Reason.WRONG_SHAPE, filtered)
        for some, chosen in _cases(elements, branch.lists):
            self._treat(some, branch.entered(frozenset(chosen)), action)
        for value in slots.values:
            if DROPPED in value:
                _remove_dropped(value, counted=any(isinstance(step, IndexStep) for step in branch.lists))


def _cases(elements: Slots, steps: Sequence[Step]) -> Iterator[tuple[Slots, Iterable[Step]]]:
    """Yield the elements of lists by the steps that select them, and these."""
    filters = [step for step in steps if isinstance(step, FilterStep)]
    indices = {step.position for step in steps if isinstance(step, IndexStep)}
    if not filters and not indices:
        yield elements, steps
        return
    columns: list[list[Any]] = [step.matching(members(elements.values, step.field)) for step in filters]
    columns.append([position if position in indices else -1 for position in elements.keys])
    cases = defaultdict[tuple[Any, ...], list[int]](list)
    for index, case in enumerate(zip(*columns, strict=True)):
        cases[case].append(index)
    for (*matches, position), where in cases.items():
        yield elements.take(np.array(where)), {EachStep(), IndexStep(position), *compress(filters, matches)}


def _masked(rests: Iterable[Rest]) -> Path | None:
    """Return the first path of masked values; None if there is none."""
    return next((rest.path for rest in rests if rest.action is Action.MASKED), None)


def _remove_dropped(value: list[Any], *, counted: bool) -> None:
    """Remove dropped elements. If paths count elements, null takes their place, except at the end of the list."""
    while counted and value and value[-1] is DROPPED:
        value.pop()
    value[:] = [None if element is DROPPED else element for element in value if counted or element is not DROPPED]
