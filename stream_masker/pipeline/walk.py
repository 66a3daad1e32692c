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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, compress, repeat
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from stream_masker.core.arrays import BoolArray, Int64Array
from stream_masker.pipeline.paths import Document, EachStep, FilterStep, IndexStep, NameStep, Path, Step, members
from stream_masker.pipeline.plan import Action, Plan, policy
from stream_masker.pipeline.reasons import Reason
from stream_masker.pipeline.transforms import DROPPED, Cache, FieldTransform, Pseudonym, Pseudonyms


class Slots(NamedTuple):
    """n values in documents, ``containers[i][keys[i]]``.

    keys: one name for all of them, or their positions in lists; places: (1 + l, n) int64, the numbers of their
    documents, then their positions in each of l lists around them, from the outside in.
    """

    values: list[Any]
    containers: Sequence[Any]
    keys: str | list[int]
    places: Int64Array

    @classmethod
    def joined(cls, parts: Sequence[Slots]) -> Slots:
        """Return the values at one path, at least one part, in the order of the documents."""
        if len(parts) == 1:
            return parts[0]
        values, containers = (list(chain.from_iterable(part[k] for part in parts)) for k in (0, 1))
        keys = [key for part in parts for key in part.keys if isinstance(key, int)]
        places = np.concatenate([part.places for part in parts], axis=1)
        joined = cls(values, containers, keys or parts[0].keys, places)
        return joined.take(np.lexsort(places[::-1]))

    def take(self, indices: Int64Array) -> Slots:
        """Return the values at these indices, in their order."""
        chosen = indices.tolist()
        keys = self.keys if isinstance(self.keys, str) else [self.keys[k] for k in chosen]
        values, containers = ([column[k] for k in chosen] for column in (self.values, self.containers))
        return Slots(values, containers, keys, self.places[:, indices])

    def where(self, chosen: Iterable[bool] | BoolArray) -> Slots:
        """Return some of the values."""
        mask = chosen if isinstance(chosen, np.ndarray) else np.fromiter(chosen, bool, len(self.values))
        return self.take(np.flatnonzero(mask))

    def without_null(self) -> Slots:
        """Return the values that are not null."""
        if type(None) not in set(map(type, self.values)):
            return self
        return self.where(value is not None for value in self.values)

    def elements(self) -> Slots:
        """Return the elements of values that are lists."""
        sizes = list(map(len, self.values))
        containers = list(chain.from_iterable(map(repeat, self.values, sizes)))
        keys, values = list(chain.from_iterable(map(range, sizes))), list(chain.from_iterable(self.values))
        places = np.vstack((np.repeat(self.places, sizes, axis=1), np.array(keys, np.int64)))
        return Slots(values, containers, keys, places)

    def fill(self, values: Iterable[Any]) -> None:
        """Write a value into each place."""
        keys = repeat(self.keys) if isinstance(self.keys, str) else self.keys
        for container, key, value in zip(self.containers, keys, values, strict=False):
            container[key] = value

    def drop(self) -> None:
        """Remove the values from their objects; mark those in lists, which ``Node`` removes."""
        if isinstance(self.keys, str):
            for container in self.containers:
                del container[self.keys]
        else:
            self.fill(repeat(DROPPED))


class Reading:
    """What a walk finds.

    keys: those that transforms need, by path and record; found: the places of masked values, by path; lists, elements:
    those that the last ``[*]`` of a code's path selects in, and selects, by ``Path.elements``; refused: the reasons why
    records cannot be masked, with the configured paths, by record; emptied: the number of values that no transform
    could treat, by configured path.
    """

    def __init__(self, keys: Mapping[Path, Sequence[bytes]]) -> None:
        self.keys = keys
        self.found: defaultdict[Path, list[Slots]] = defaultdict(list)
        self.lists: defaultdict[Path, list[Slots]] = defaultdict(list)
        self.elements: defaultdict[Path, list[Slots]] = defaultdict(list)
        self.refused: dict[int, tuple[Reason, str | None]] = {}
        self.emptied: Counter[str] = Counter()

    def refuse(self, records: Iterable[int], reason: Reason, path: Path) -> None:
        """Refuse records; the first reason of each counts."""
        for record in records:
            self.refused.setdefault(record, (reason, path.text))


class Rest(NamedTuple):
    """The rest of a path, behind the first ``depth`` steps. elements: ``Path.elements`` of a code, None for others."""

    path: Path
    action: Action
    elements: Path | None
    depth: int = 0

    @property
    def step(self) -> Step | None:
        """The next step; None at the end of the path."""
        return self.path.steps[self.depth] if self.depth < len(self.path.steps) else None

    @property
    def after(self) -> Rest:
        """The rest behind the next step."""
        return self._replace(depth=self.depth + 1)


class Tree:
    """The paths of a plan as nodes that treat values."""

    def __init__(self, plan: Plan, pseudonyms: Pseudonyms) -> None:
        self.transforms, self.pseudonyms = plan.fields.transformed, pseudonyms
        codes = {place.path: place.path.elements for attribute in plan.attributes for place in attribute.places}
        rests = [Rest(path, action, codes.get(path)) for path, action in dict.fromkeys(policy(plan))]
        self._nodes: dict[tuple[tuple[Rest, ...], Action], Node] = {}
        self._root = self.node(rests, Action.KEEP if plan.fields.unlisted == "keep" else Action.DROP)

    def node(self, rests: Iterable[Rest], inherited: Action) -> Node:
        """Return the treatment of values from which ``rests`` go on; ``inherited``: the action of those around them."""
        key = (tuple(rests), inherited)
        if (node := self._nodes.get(key)) is None:
            node = self._nodes[key] = Node(self, *key)
        return node

    def walk(self, documents: list[Document], reading: Reading) -> None:
        """Treat documents in place."""
        self._root.treat_objects(documents, np.arange(len(documents))[None], reading)


class Node:
    """The treatment of the values that the same steps select."""

    def __init__(self, tree: Tree, rests: tuple[Rest, ...], inherited: Action) -> None:
        self._tree = tree
        ends, going = ([rest for rest in rests if (rest.step is None) is is_end] for is_end in (True, False))
        self._path = _masked(ends)
        self._is_leaf = self._path is not None or not going
        action = max((rest.action for rest in ends if rest.action is not Action.MASKED), default=inherited)
        transformed = [rest.path for rest in ends if rest.action is Action.TRANSFORM]
        self._transform: tuple[str, FieldTransform] | None = None
        if action is Action.TRANSFORM and self._is_leaf and len(transformed) == 1:
            rule = tree.transforms[transformed[0]]
            self._transform = transformed[0].text, rule
            self._results = Cache(lambda value: rule.of_value(value, tree.pseudonyms))
        elif action is Action.TRANSFORM:
            action = Action.DROP
        self._action = action
        self.is_kept = self._is_leaf and self._path is None and action is Action.KEEP
        self.is_dropped = self._is_leaf and self._path is None and action is Action.DROP
        if not self._is_leaf:
            self._prepare(going)

    def _prepare(self, rests: Sequence[Rest]) -> None:
        """Prepare for objects and lists that longer paths continue into, and for values of another shape."""
        below = defaultdict[str, list[Rest]](list)
        for rest in rests:
            if isinstance(rest.step, NameStep):
                below[rest.step.key].append(rest.after)
        self._members = {name: self._tree.node(inner, self._action) for name, inner in below.items()}
        self._listed = frozenset(name for name, node in self._members.items() if not node.is_dropped)
        self._treated = [
            (name, node)
            for name, node in self._members.items()
            if not (node.is_kept or (node.is_dropped and self._action is not Action.KEEP))
        ]
        self._entering = [(rest.step, rest.after) for rest in rests if not isinstance(rest.step, NameStep)]
        self._filters = list(dict.fromkeys(step for step, _ in self._entering if isinstance(step, FilterStep)))
        self._indices = {step.position for step, _ in self._entering if isinstance(step, IndexStep)}
        objects, lists = _masked(chain.from_iterable(below.values())), _masked(after for _, after in self._entering)
        self._refusing: dict[type, Path | None] = {dict: lists, list: objects}
        self._refusing_others = objects or lists
        self._refusing_elements = _masked(after for step, after in self._entering if isinstance(step, FilterStep))
        strictest = max([self._action, *(rest.action for rest in rests if rest.action is not Action.MASKED)])
        self._misshapen = self._tree.node((), Action.DROP if strictest is Action.TRANSFORM else strictest)

    def treat(self, slots: Slots, reading: Reading) -> None:
        """Treat values in place."""
        if self._path is not None:
            reading.found[self._path].append(slots)
        elif not self._is_leaf:
            self._enter(slots, reading)
        elif self._transform is not None:
            self._transformed(*self._transform, slots, reading)
        elif self._action is Action.DROP:
            slots.drop()

    def _transformed(self, path: str, transform: FieldTransform, slots: Slots, reading: Reading) -> None:
        of_value, pseudonyms, results = transform.of_value, self._tree.pseudonyms, self._results
        if isinstance(transform, Pseudonym):
            new = transform.of_values(slots.values, pseudonyms)
        elif transform.key is None:
            new = [results[v] if type(v) is str or type(v) is int else of_value(v, pseudonyms) for v in slots.values]
        else:
            keys = map(reading.keys[transform.key].__getitem__, slots.places[0].tolist())
            new = list(map(of_value, slots.values, repeat(pseudonyms), keys))
        slots.fill(new)
        if DROPPED in new:
            reading.emptied[path] += new.count(DROPPED)
            slots.where(value is DROPPED for value in new).drop()

    def _enter(self, slots: Slots, reading: Reading) -> None:
        """Treat the parts of values that longer paths continue into."""
        kinds = set(map(type, slots.values))
        for kind in sorted(kinds - {type(None)}, key=lambda kind: kind.__name__):
            some = slots if len(kinds) == 1 else slots.where(type(value) is kind for value in slots.values)
            refusing = self._refusing.get(kind, self._refusing_others)
            if refusing is not None:
                reading.refuse(some.places[0].tolist(), Reason.WRONG_SHAPE, refusing)
            elif kind is dict and self._members:
                self.treat_objects(some.values, some.places, reading)
            elif kind is list and self._entering:
                self._treat_lists(some, reading)
            else:
                self._misshapen.treat(some, reading)

    def treat_objects(self, objects: list[Document], places: Int64Array, reading: Reading) -> None:
        """Treat the members of objects at these places, (1 + l, n)."""
        if self._action is not Action.KEEP and (unlisted := set().union(*objects) - self._listed):
            for value in objects:
                for name in unlisted if len(unlisted) <= len(value) else unlisted.intersection(value):
                    value.pop(name, None)
        for name, node in self._treated:
            try:
                slots = Slots(list(map(itemgetter(name), objects)), objects, name, places)
            except KeyError:
                slots = Slots([value.get(name) for value in objects], objects, name, places)
                slots = slots.where(name in value for value in objects)
            if slots.values:
                node.treat(slots, reading)

    def _treat_lists(self, slots: Slots, reading: Reading) -> None:
        """Treat the elements of lists; those that the same paths select are treated together."""
        elements = slots.elements()
        if self._refusing_elements and set(map(type, elements.values)) - {dict, type(None)}:
            wrong = elements.where(value is not None and type(value) is not dict for value in elements.values)
            reading.refuse(wrong.places[0].tolist(), Reason.WRONG_SHAPE, self._refusing_elements)
        for path in _selected_elements(after for _, after in self._entering):
            reading.lists[path].append(slots)
        for some, rests in self._cases(elements):
            for path in _selected_elements(rests):
                reading.elements[path].append(some)
            node = self._tree.node(rests, self._action)
            if not node.is_kept:
                node.treat(some, reading)
        for value in slots.values:
            if DROPPED in value:
                _remove_dropped(value, counted=bool(self._indices))

    def _cases(self, elements: Slots) -> Iterator[tuple[Slots, list[Rest]]]:
        """Yield the elements of lists by the paths that select them, with the rests of these."""
        if not self._filters and not self._indices:
            yield elements, [after for _, after in self._entering]
            return
        fields = {step.field: members(elements.values, step.field) for step in self._filters}
        columns: list[list[Any]] = [step.matching(fields[step.field]) for step in self._filters]
        columns.append([position if position in self._indices else -1 for position in elements.keys])
        cases = list(zip(*columns, strict=True))
        numbers = {case: number for number, case in enumerate(dict.fromkeys(cases))}
        numbered = np.fromiter(map(numbers.__getitem__, cases), np.int64, len(cases))
        for (*selecting, position), number in numbers.items():
            some = elements if len(numbers) == 1 else elements.where(numbered == number)
            chosen = {EachStep(), IndexStep(position), *compress(self._filters, selecting)}
            yield some, [after for step, after in self._entering if step in chosen]


def _masked(rests: Iterable[Rest]) -> Path | None:
    """Return the first path of masked values among the paths of rests; None if there is none."""
    return next((rest.path for rest in rests if rest.action is Action.MASKED), None)


def _selected_elements(rests: Iterable[Rest]) -> set[Path]:
    """Return the paths of elements that rests have just selected."""
    pairs = ((rest.elements, rest.depth) for rest in rests)
    return {path for path, depth in pairs if path is not None and len(path.steps) == depth}


def _remove_dropped(value: list[Any], *, counted: bool) -> None:
    """Remove dropped elements. If paths count elements, null takes their place, except at the end of the list."""
    while counted and value and value[-1] is DROPPED:
        value.pop()
    value[:] = [None if element is DROPPED else element for element in value if counted or element is not DROPPED]
