"""The walk through the documents of a batch: what becomes of each value.

The paths of a plan form a tree. It is walked once for all documents of a batch together: a ``Node`` treats the values
that the same steps select in all of them, in place. Values that masking replaces are not changed. Their places are
noted by path (``Reading``), so that the codec can write masks into them.

The longest path that selects a value, or a value around it, decides; among paths of equal length the greatest
``Action``. A value of another shape than the paths require (a text where a path continues by name) gets the greatest
action of the paths that continue from there, so it is never kept by accident. If one of these paths is an attribute's,
the record is refused. A dropped element is removed from its list; if a path counts elements (``[0]``), null takes its
place. Null stays null.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, compress, repeat
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from stream_masker.core.arrays import Int64Array, ranges
from stream_masker.pipeline.paths import Document, EachStep, FilterStep, IndexStep, NameStep, Path, Step, members
from stream_masker.pipeline.plan import Action, Plan, policy
from stream_masker.pipeline.reasons import Reason
from stream_masker.pipeline.transforms import DROPPED, Cache, Pseudonym, Pseudonyms


class Slots(NamedTuple):
    """n values in documents, ``containers[i][keys[i]]``.

    keys: names in objects, or positions in lists; places: (1 + l, n) int64, the numbers of their documents, then their
    positions in each of l lists around them, from the outside in.
    """

    values: list[Any]
    containers: list[Any]
    keys: list[Any]
    places: Int64Array

    @classmethod
    def joined(cls, parts: Sequence[Slots]) -> Slots:
        """Return the values at one path, at least one part, in the order of the documents."""
        if len(parts) == 1:
            return parts[0]
        values, containers, keys = (list(chain.from_iterable(part[k] for part in parts)) for k in range(3))
        places = np.concatenate([part.places for part in parts], axis=1)
        return cls(values, containers, keys, places).take(np.lexsort(places[::-1]))

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
        sizes = np.fromiter(map(len, self.values), np.int64, len(self.values))
        positions = ranges(np.zeros_like(sizes), sizes)
        containers = list(chain.from_iterable(map(repeat, self.values, sizes.tolist())))
        places = np.vstack((np.repeat(self.places, sizes, axis=1), positions))
        return Slots(list(chain.from_iterable(self.values)), containers, positions.tolist(), places)

    def fill(self, values: Iterable[Any]) -> None:
        """Write a value into each place."""
        for container, key, value in zip(self.containers, self.keys, values, strict=False):
            container[key] = value

    def drop(self) -> None:
        """Remove the values from their objects; mark those in lists, which ``Node`` removes."""
        for container, key in zip(self.containers, self.keys, strict=True):
            if type(container) is dict:
                del container[key]
            else:
                container[key] = DROPPED


class Reading:
    """What a walk finds.

    keys: those that transforms need, by path and record; found: the places of values that masking replaces, and of what
    requires a code (``AttributePlan.required``), by path; refused: the reasons why records cannot be masked, with the
    configured paths, by record; emptied: the number of values that no transform could treat, by configured path.
    """

    def __init__(self, keys: Mapping[Path, Sequence[bytes]]) -> None:
        self.keys = keys
        self.found: defaultdict[Path, list[Slots]] = defaultdict(list)
        self.refused: dict[int, tuple[Reason, str | None]] = {}
        self.emptied: Counter[str] = Counter()

    def refuse(self, records: Iterable[int], reason: Reason, path: Path) -> None:
        """Refuse records; the first reason of each counts."""
        for record in records:
            self.refused.setdefault(record, (reason, path.text))


class Rest(NamedTuple):
    """The rest of a path, behind the first ``depth`` steps. action: None if the values are only found."""

    path: Path
    action: Action | None
    depth: int = 0

    @property
    def step(self) -> Step | None:
        """The next step; None at the end of the path."""
        return self.path.steps[self.depth] if self.depth < len(self.path.steps) else None

    @property
    def shape(self) -> type:
        """The type of the values that the next step goes on into."""
        return dict if isinstance(self.step, NameStep) else list

    @property
    def after(self) -> Rest:
        """The rest behind the next step."""
        return self._replace(depth=self.depth + 1)


class Tree:
    """The paths of a plan as nodes that treat values."""

    def __init__(self, plan: Plan, pseudonyms: Pseudonyms) -> None:
        self.transforms, self.pseudonyms = plan.fields.transformed, pseudonyms
        rests = [Rest(path, action) for path, action in policy(plan)]
        rests += [Rest(path, None) for attribute in plan.attributes for path in attribute.required]
        self._nodes: dict[tuple[tuple[Rest, ...], Action], Node] = {}
        self._root = self.node(dict.fromkeys(rests), Action.KEEP if plan.fields.unlisted == "keep" else Action.DROP)

    def node(self, rests: Iterable[Rest], inherited: Action) -> Node:
        """Return the treatment of values from which ``rests`` go on; ``inherited``: the action of those around them."""
        key = (tuple(rests), inherited)
        if (node := self._nodes.get(key)) is None:
            node = self._nodes[key] = Node(self, *key)
        return node

    def walk(self, documents: list[Document], reading: Reading) -> None:
        """Treat documents in place."""
        self._root.treat(Slots([documents], [], [], np.empty((0, 1), np.int64)).elements(), reading)


class Node:
    """The treatment of the values that the same steps select.

    is_kept: whether they stay as they are, and nothing is found in them; is_dropped: whether they are removed.
    """

    def __init__(self, tree: Tree, rests: tuple[Rest, ...], inherited: Action) -> None:
        self._tree = tree
        ends, going = ([rest for rest in rests if (rest.step is None) is is_end] for is_end in (True, False))
        self._found = {rest.path for rest in ends if rest.action in (None, Action.MASKED)}
        is_masked = _masked(ends) is not None
        is_leaf, is_field = is_masked or not going, not (is_masked or going)
        actions = [rest.action for rest in ends if rest.action is not None and rest.action is not Action.MASKED]
        self._action = max(actions, default=inherited)
        if self._action is Action.TRANSFORM and (not is_leaf or actions.count(Action.TRANSFORM) > 1):
            self._action = Action.DROP
        self.is_kept = is_field and self._action is Action.KEEP
        self.is_dropped = is_field and self._action is Action.DROP
        self._treat: Callable[[Slots, Reading], None] | None = None
        if not is_leaf:
            self._treat = self._enter
            self._prepare(going)
        elif self.is_dropped:
            self._treat = _drop
        elif is_field and self._action is Action.TRANSFORM:
            self._path = next(rest.path for rest in ends if rest.action is Action.TRANSFORM)
            self._transform = tree.transforms[self._path]
            self._results = Cache(lambda value: self._transform.of_value(value, tree.pseudonyms))
            self._treat = self._replace

    def _prepare(self, going: Sequence[Rest]) -> None:
        """Prepare for objects and lists that longer paths continue into, and for values of another shape."""
        below = defaultdict[str, list[Rest]](list)
        for rest in going:
            if isinstance(rest.step, NameStep):
                below[rest.step.key].append(rest.after)
        members = {name: self._tree.node(inner, self._action) for name, inner in below.items()}
        self._listed = frozenset(name for name, node in members.items() if not node.is_dropped)
        treated = self._listed if self._action is not Action.KEEP else members
        self._members = {name: node for name, node in members.items() if name in treated and not node.is_kept}
        self._entering = [rest for rest in going if not isinstance(rest.step, NameStep)]
        steps = [rest.step for rest in self._entering]
        self._filters = list(dict.fromkeys(step for step in steps if isinstance(step, FilterStep)))
        self._filtered = _masked(rest for rest in self._entering if rest.step in self._filters)
        self._indices = {step.position for step in steps if isinstance(step, IndexStep)}
        self._shapes = {rest.shape for rest in going}
        self._refusing: dict[type, Path | None] = {
            kind: _masked(rest for rest in going if rest.shape is not kind) for kind in (dict, list, object)
        }
        strictest = max(self._action, *(rest.action for rest in going if rest.action is not None))
        self._misshapen = self._tree.node((), Action.DROP if strictest is Action.TRANSFORM else strictest)

    def treat(self, slots: Slots, reading: Reading) -> None:
        """Treat values in place."""
        for path in self._found:
            reading.found[path].append(slots)
        if self._treat is not None:
            self._treat(slots, reading)

    def _replace(self, slots: Slots, reading: Reading) -> None:
        """Replace values by their transforms; remove those that cannot be transformed."""
        transform, pseudonyms, results = self._transform, self._tree.pseudonyms, self._results
        if isinstance(transform, Pseudonym):
            new = transform.of_values(slots.values, pseudonyms)
        elif transform.key is None:
            of_value = transform.of_value
            new = [results[v] if type(v) is str or type(v) is int else of_value(v, pseudonyms) for v in slots.values]
        else:
            keys = map(reading.keys[transform.key].__getitem__, slots.places[0].tolist())
            new = list(map(transform.of_value, slots.values, repeat(pseudonyms), keys))
        slots.fill(new)
        if DROPPED in new:
            reading.emptied[self._path.text] += new.count(DROPPED)
            slots.where(value is DROPPED for value in new).drop()

    def _enter(self, slots: Slots, reading: Reading) -> None:
        """Treat the parts of values that longer paths continue into."""
        kinds = set(map(type, slots.values))
        for kind in sorted(kinds - {type(None)}, key=lambda kind: kind.__name__):
            some = slots if len(kinds) == 1 else slots.where(type(value) is kind for value in slots.values)
            if (refusing := self._refusing.get(kind, self._refusing[object])) is not None:
                reading.refuse(some.places[0].tolist(), Reason.WRONG_SHAPE, refusing)
            elif kind not in self._shapes:
                self._misshapen.treat(some, reading)
            elif kind is dict:
                self._treat_objects(some, reading)
            else:
                self._treat_lists(some, reading)

    def _treat_objects(self, slots: Slots, reading: Reading) -> None:
        """Treat the members of objects."""
        objects = slots.values
        if self._action is not Action.KEEP and (unlisted := set().union(*objects) - self._listed):
            for value in objects:
                for name in unlisted if len(unlisted) <= len(value) else unlisted.intersection(value):
                    value.pop(name, None)
        for name, node in self._members.items():
            try:
                some, values = slots, list(map(itemgetter(name), objects))
            except KeyError:
                some = slots.where(name in value for value in objects)
                values = [value[name] for value in some.values]
            if values:
                node.treat(Slots(values, some.values, [name] * len(values), some.places), reading)

    def _treat_lists(self, slots: Slots, reading: Reading) -> None:
        """Treat the elements of lists; those that the same paths select are treated together."""
        elements = slots.elements()
        if self._filtered is not None and set(map(type, elements.values)) - {dict, type(None)}:
            wrong = elements.where(value is not None and type(value) is not dict for value in elements.values)
            reading.refuse(wrong.places[0].tolist(), Reason.WRONG_SHAPE, self._filtered)
        for some, rests in self._cases(elements):
            self._tree.node(rests, self._action).treat(some, reading)
        for value in slots.values:
            if DROPPED in value:
                _remove_dropped(value, counted=bool(self._indices))

    def _cases(self, elements: Slots) -> Iterator[tuple[Slots, list[Rest]]]:
        """Yield the elements of lists by the paths that select them, with the rests of these."""
        if not self._filters and not self._indices:
            yield elements, [rest.after for rest in self._entering]
            return
        fields = {step.field: members(elements.values, step.field) for step in self._filters}
        columns: list[list[Any]] = [step.matching(fields[step.field]) for step in self._filters]
        columns.append([position if position in self._indices else -1 for position in elements.keys])
        cases = defaultdict[tuple[Any, ...], list[int]](list)
        for index, case in enumerate(zip(*columns, strict=True)):
            cases[case].append(index)
        for (*matches, position), indices in cases.items():
            chosen = {EachStep(), IndexStep(position), *compress(self._filters, matches)}
            yield elements.take(np.array(indices)), [rest.after for rest in self._entering if rest.step in chosen]


def _drop(slots: Slots, _: Reading) -> None:
    slots.drop()


def _masked(rests: Iterable[Rest]) -> Path | None:
    """Return the first path of masked values among the paths of rests; None if there is none."""
    return next((rest.path for rest in rests if rest.action is Action.MASKED), None)


def _remove_dropped(value: list[Any], *, counted: bool) -> None:
    """Remove dropped elements. If paths count elements, null takes their place, except at the end of the list."""
    while counted and value and value[-1] is DROPPED:
        value.pop()
    value[:] = [None if element is DROPPED else element for element in value if counted or element is not DROPPED]
