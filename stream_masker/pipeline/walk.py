"""The walk through the documents of a batch: what becomes of each value.

The paths of a plan form a trie. It is walked once for all documents of a batch together: a ``Node`` treats the values
that its paths select in all of them, in place. Values that masking replaces are not changed. Their places are noted by
path (``Reading``), so that the codec can write masks into them.

The longest path that selects a value, or a value around it, decides; among paths of equal length the greatest
``Action``. A value of another shape than the paths require (a text where a path continues by name) gets the greatest
action of the paths that continue from there, so it is never kept by accident. If one of these paths is an attribute's,
the record is refused. In a pseudonymized object, the names of members that no path has are replaced like their values.
A dropped element is removed from its list; if a path counts elements (``[0]``), null takes its place. Null stays null.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, compress, repeat
from typing import Any, NamedTuple

import numpy as np

from stream_masker.core.dtypes import BoolArray, Int64Array
from stream_masker.pipeline.paths import Document, EachStep, FilterStep, Path
from stream_masker.pipeline.plan import Action, Plan, PolicyTrie, policy_trie, strictest_action
from stream_masker.pipeline.reasons import Reason
from stream_masker.pipeline.transforms import DROPPED, Cache, FieldTransform, Pseudonyms

_NONE: Int64Array = np.empty(0, np.int64)
_NO_ELEMENTS = (_NONE, _NONE)


class Elements:
    """The records of a batch, or the elements of lists that a step of an attribute's path selects.

    Elements are added in any order (``add``), which gives each a row. ``finish`` numbers them in the order of the
    documents. ``outer``: the elements around these, None for records. ``is_each``: whether the step gives each element
    a value of its own (``[*]``); if not, all elements that a filter selects share one.
    """

    def __init__(self, outer: Elements | None = None, *, is_each: bool = True) -> None:
        self.outer, self._is_each = outer, is_each
        self.base: Elements = self if outer is None or is_each else outer.base
        self.numbers: Int64Array = _NONE
        self.owners: Int64Array = _NONE
        self.records: Int64Array = _NONE
        self.start(0)

    def start(self, records: int) -> None:
        """Begin a batch of this number of records."""
        self._added: list[tuple[Int64Array, Int64Array]] = []
        self._lists: list[Int64Array] = []
        self._size = records if self.outer is None else 0

    def add(self, owners: Int64Array, positions: Int64Array) -> Int64Array:
        """Add elements: the rows of the elements around them, and positions in their lists. Return their rows."""
        self._added.append((owners, positions))
        self._size += len(owners)
        return np.arange(self._size - len(owners), self._size)

    def add_lists(self, owners: Int64Array) -> None:
        """Note lists that such elements may be in, also empty ones."""
        self._lists.append(owners)

    def finish(self) -> None:
        """Number the elements of the batch; those around them have their numbers already.

        numbers: by row; owners, records: of each element, in the order of the numbers.
        """
        order = np.arange(self._size)
        owners = order
        if self.outer is not None:
            owners, positions = (np.concatenate(parts) for parts in zip(*self._added, _NO_ELEMENTS, strict=True))
            owners = self.outer.numbers[owners]
            order = np.lexsort((positions, owners)) if len(self._added) > 1 else order
            owners = owners[order]
        self.numbers = np.empty_like(order)
        self.numbers[order] = np.arange(self._size)
        self.owners = owners
        self.records = owners if self.outer is None else self.outer.records[owners]

    @property
    def records_with_lists(self) -> Int64Array:
        """The numbers of the records with a list that the elements may be in."""
        if self.outer is None:
            return self.records
        lists: Int64Array = np.concatenate([*self._lists, _NONE])
        return np.asarray(self.outer.records[self.outer.numbers[lists]])

    def within(self, around: Elements) -> Int64Array:
        """Return the number of the element ``around`` each of these."""
        numbers: Int64Array = np.arange(self._size)
        elements = self
        while elements is not around and elements.outer is not None:
            numbers, elements = elements.owners[numbers], elements.outer
        return numbers

    def matched(self, others: Elements) -> Int64Array:
        """Return the number of the element among ``others`` at the same place as each of these, -1 for none: with the
        same rank in the same outer element."""
        if self is others:
            return np.arange(self._size)
        if self.outer is None or others.outer is None:
            return np.full(self._size, -1)
        own, theirs = self.within(self.outer.base), others.within(others.outer.base)
        owners = self.outer.base.matched(others.outer.base)[own]
        numbers = np.searchsorted(theirs, owners) + np.arange(len(own)) - np.searchsorted(own, own)
        is_there = (owners >= 0) & (numbers < np.searchsorted(theirs, owners, side="right"))
        return np.where(is_there, numbers, -1)


class Slots(NamedTuple):
    """Values in documents, ``containers[i][keys[i]]``.

    keys: one name for all of them, or their positions in lists; records: of the documents; rows: of the elements that
    the values are in, by ``Elements``.
    """

    values: list[Any]
    containers: Sequence[Any]
    keys: str | list[int]
    records: Int64Array
    rows: dict[Elements, Int64Array]

    def where(self, chosen: Iterable[bool] | BoolArray) -> Slots:
        """Return some of the values."""
        mask = chosen if isinstance(chosen, np.ndarray) else np.fromiter(chosen, bool, len(self.values))
        keys = self.keys if isinstance(self.keys, str) else list(compress(self.keys, mask))
        rows = {elements: numbers[mask] for elements, numbers in self.rows.items()}
        values, containers = list(compress(self.values, mask)), list(compress(self.containers, mask))
        return Slots(values, containers, keys, self.records[mask], rows)

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

    keys: those that transforms need, by path and record; found: the places of masked values, by path; refused: the
    reasons why records cannot be masked, with the configured paths, by record; emptied: the number of values that no
    transform could treat, by configured path.
    """

    def __init__(self, keys: Mapping[Path, Sequence[bytes | None]]) -> None:
        self.keys = keys
        self.emptied: Counter[str] = Counter()
        self.found: dict[Path, list[Slots]] = {}
        self.refused: dict[int, tuple[Reason, str | None]] = {}

    def refuse(self, records: Iterable[int], reason: Reason, path: Path) -> None:
        """Refuse records; the first reason of each counts."""
        for record in records:
            self.refused.setdefault(record, (reason, path.text))


class Tree:
    """The paths of a plan as nodes, and the elements that the attributes' paths select."""

    def __init__(self, plan: Plan, pseudonyms: Pseudonyms) -> None:
        self.trie, self.pseudonyms = policy_trie(plan), pseudonyms
        self.transforms = {self.trie.at(path): (path.text, rule) for path, rule in plan.fields.transformed.items()}
        self.written = {self.trie.at(path): path for _, path in plan.written}
        self.documents = Elements()
        self.elements: dict[PolicyTrie, Elements] = {}
        for _, path in plan.written:
            self.elements_of(path)
        self._nodes: dict[tuple[tuple[PolicyTrie, ...], Action], Node] = {}
        self._root = self.node((self.trie,), Action.KEEP if plan.fields.unlisted == "keep" else Action.DROP)

    def elements_of(self, path: Path) -> Elements:
        """Return the innermost elements that the values of a path are in."""
        elements = self.documents
        for end, step in enumerate(path.steps, 1):
            if isinstance(step, EachStep | FilterStep):
                trie = self.trie.at(Path(path.text, path.steps[:end]))
                is_each = isinstance(step, EachStep) or step.every
                elements = self.elements.setdefault(trie, Elements(elements, is_each=is_each))
        return elements

    def node(self, tries: tuple[PolicyTrie, ...], inherited: Action) -> Node:
        """Return the treatment of values that ``tries`` select; ``inherited``: the action of the values around them."""
        if (node := self._nodes.get((tries, inherited))) is None:
            node = self._nodes[tries, inherited] = Node(self, tries, inherited)
        return node

    def walk(self, documents: list[Document], reading: Reading) -> None:
        """Treat documents in place."""
        self.documents.start(len(documents))
        for elements in self.elements.values():
            elements.start(0)
        records = np.arange(len(documents))
        self._root.treat_objects(documents, records, {self.documents: records}, reading)
        for elements in (self.documents, *self.elements.values()):
            elements.finish()


class Node:
    """The treatment of the values that some tries select."""

    def __init__(self, tree: Tree, tries: tuple[PolicyTrie, ...], inherited: Action) -> None:
        self._tree, self._tries = tree, tries
        children = [child for trie in tries for child in trie.children()]
        self._is_leaf = not children
        self._path = next((tree.written[trie] for trie in tries if trie in tree.written), None)
        self._transform = None
        action = max((item for trie in tries for item in trie.items), default=inherited)
        if action is Action.TRANSFORM:
            transforms = [tree.transforms[trie] for trie in tries if trie in tree.transforms]
            self._transform = transforms[0] if self._is_leaf and len(transforms) == 1 else None
            action = Action.TRANSFORM if self._transform else Action.DROP
        if self._transform is not None:
            of_value, pseudonyms = self._transform[1].of_value, tree.pseudonyms
            self._results_of_texts = Cache(lambda text: of_value(text, pseudonyms))
        self._action = Action.KEEP if action is Action.MASKED else action
        self.is_kept = self._is_leaf and self._path is None and self._action is Action.KEEP
        self.is_dropped = self._is_leaf and self._path is None and self._action is Action.DROP
        if children and self._path is None:
            self._prepare_objects()
            self._prepare_lists()
            strictest = max(self._action, *map(strictest_action, tries))
            self._misshapen = tree.node((), Action.DROP if strictest is Action.TRANSFORM else strictest)

    def _prepare_objects(self) -> None:
        names = dict.fromkeys(name for trie in self._tries for name in trie.members)
        below = {n: tuple(trie.members[n] for trie in self._tries if n in trie.members) for n in names}
        self._members = {name: self._tree.node(tries, self._action) for name, tries in below.items()}
        self._listed = frozenset(name for name, node in self._members.items() if not node.is_dropped)
        self._path_below_objects = self._first_path(chain.from_iterable(below.values()))

    def _prepare_lists(self) -> None:
        tries, tree = self._tries, self._tree
        self._filters = [step for trie in tries for step in trie.filters]
        self._indices = {position for trie in tries for position in trie.indices}
        filtered = [child for trie in tries for child in trie.filters.values()]
        each = [trie.each for trie in tries if trie.each is not None]
        entered = [*each, *filtered, *(child for trie in tries for child in trie.indices.values())]
        steps: list[FilterStep | None] = [*(None for _ in each), *self._filters]
        self._noted = [
            (tree.elements[child], step)
            for child, step in zip([*each, *filtered], steps, strict=True)
            if child in tree.elements
        ]
        self._enters_lists = bool(entered)
        self._path_below_lists = self._first_path(entered)
        self._path_below_filters = self._first_path(filtered)

    def _first_path(self, tries: Iterable[PolicyTrie]) -> Path | None:
        """Return the path of masked values at tries or below them; None if there is none."""
        return next(self._paths(tries), None)

    def _paths(self, tries: Iterable[PolicyTrie]) -> Iterator[Path]:
        for trie in tries:
            if trie in self._tree.written:
                yield self._tree.written[trie]
            yield from self._paths(trie.children())

    def treat(self, slots: Slots, reading: Reading) -> None:
        """Treat values in place."""
        if self._path is not None:
            reading.found.setdefault(self._path, []).append(slots)
        elif not self._is_leaf:
            self._enter(slots, reading)
        elif self._transform is not None:
            self._transformed(*self._transform, slots, reading)
        elif self._action is Action.PSEUDONYMIZE:
            slots.fill(self._tree.pseudonyms.of_values(slots.values))
        elif self._action is Action.DROP:
            slots.drop()

    def _transformed(self, path: str, transform: FieldTransform, slots: Slots, reading: Reading) -> None:
        new = list(self._results(transform, slots, reading))
        slots.fill(new)
        if DROPPED in new:
            reading.emptied[path] += new.count(DROPPED)
            slots.where(value is DROPPED for value in new).drop()

    def _results(self, transform: FieldTransform, slots: Slots, reading: Reading) -> Iterator[Any]:
        known, of_value, pseudonyms = self._results_of_texts, transform.of_value, self._tree.pseudonyms
        if transform.key is None:
            return (known[value] if type(value) is str else of_value(value, pseudonyms) for value in slots.values)
        keys = map(reading.keys[transform.key].__getitem__, slots.records.tolist())
        return map(of_value, slots.values, repeat(pseudonyms), keys)

    def _enter(self, slots: Slots, reading: Reading) -> None:
        """Treat the parts of values that longer paths continue into."""
        kinds = set(map(type, slots.values)) - {type(None)}
        has_null = None in slots.values
        for kind in sorted(kinds, key=lambda kind: kind.__name__):
            some = slots
            if has_null or len(kinds) > 1:
                some = slots.where(type(value) is kind for value in slots.values)
            enters = (kind is dict and bool(self._members)) or (kind is list and self._enters_lists)
            refusing = self._path_below_lists if kind is dict and enters else self._path_below_objects
            refusing = refusing if enters else self._path_below_objects or self._path_below_lists
            if refusing is not None:
                reading.refuse(some.records.tolist(), Reason.WRONG_SHAPE, refusing)
            elif not enters:
                self._misshapen.treat(some, reading)
            elif kind is dict:
                self.treat_objects(some.values, some.records, some.rows, reading)
            else:
                self._treat_lists(some, reading)

    def treat_objects(
        self, objects: list[Document], records: Int64Array, rows: dict[Elements, Int64Array], reading: Reading
    ) -> None:
        """Treat the members of objects, of these records and in elements with these rows."""
        pseudonyms = self._tree.pseudonyms
        shapes = set(shape_of := list(map(tuple, objects)))
        if self._action is not Action.KEEP:
            unlisted = {shape: [name for name in shape if name not in self._listed] for shape in shapes}
            hides = self._action is Action.PSEUDONYMIZE
            for value, shape in zip(objects, shape_of, strict=True):
                for name in unlisted[shape]:
                    member = value.pop(name)
                    if hides and name not in self._members:
                        value[pseudonyms.of_value(name)] = pseudonyms.of_value(member)
        for name, node in self._members.items():
            if node.is_kept or (node.is_dropped and self._action is not Action.KEEP):
                continue
            if all(name in shape for shape in shapes):
                node.treat(Slots([value[name] for value in objects], objects, name, records, rows), reading)
            elif any(there := [name in value for value in objects]):
                slots = Slots([value.get(name) for value in objects], objects, name, records, rows)
                node.treat(slots.where(there), reading)

    def _treat_lists(self, slots: Slots, reading: Reading) -> None:
        """Treat the elements of lists; those that the same paths select are treated together."""
        elements = _elements_of(slots)
        if self._path_below_filters and set(map(type, elements.values)) - {dict, type(None)}:
            wrong = elements.where(value is not None and type(value) is not dict for value in elements.values)
            reading.refuse(wrong.records.tolist(), Reason.WRONG_SHAPE, self._path_below_filters)
        matches = _matches(self._filters, elements.values)
        self._note(slots, elements, matches)
        cases: list[tuple[int, ...]] = [(-1,)] * len(elements.values)
        if self._filters or self._indices:
            positions = (position if position in self._indices else -1 for position in elements.keys)
            cases = list(zip(positions, *matches.values(), strict=True))
        numbers = {case: number for number, case in enumerate(sorted(set(cases)))}
        numbered = np.fromiter(map(numbers.__getitem__, cases), np.int64, len(cases))
        for case, number in numbers.items():
            some = elements if len(numbers) == 1 else elements.where(numbered == number)
            node = self._node_of_case(case[0], dict(zip(matches, case[1:], strict=True)))
            if not node.is_kept:
                node.treat(some, reading)
        for value in slots.values:
            if DROPPED in value:
                _remove_dropped(value, counted=bool(self._indices))

    def _note(self, slots: Slots, elements: Slots, matches: Mapping[FilterStep, Sequence[bool]]) -> None:
        """Add the elements of lists to those that attributes' paths select."""
        positions = np.array(elements.keys, np.int64)
        for noted, step in self._noted:
            assert noted.outer is not None, "elements of lists are in records"
            owners, rows = elements.rows[noted.outer], np.full(len(positions), -1)
            chosen = np.array(matches[step], bool) if step else np.ones(len(positions), bool)
            noted.add_lists(slots.rows[noted.outer])
            rows[chosen] = noted.add(owners[chosen], positions[chosen])
            elements.rows[noted] = rows

    def _node_of_case(self, position: int, matches: Mapping[FilterStep, int]) -> Node:
        tries = [child for trie in self._tries for child in trie.element(position, lambda step: bool(matches[step]))]
        return self._tree.node(tuple(tries), self._action)


def _matches(filters: Iterable[FilterStep], values: Sequence[Any]) -> dict[FilterStep, list[bool]]:
    """Return which values each filter selects. Of filters that compare one field, the field is read once."""
    texts: dict[tuple[str, ...], Sequence[Any]] = {}
    matches: dict[FilterStep, list[bool]] = {}
    for step in filters:
        if step.field not in texts:
            found = values
            for name in step.field:
                found = [value.get(name) if type(value) is dict else None for value in found]
            texts[step.field] = found
        compared = texts[step.field]
        if set(map(type, compared)) <= {str, type(None)}:
            matches[step] = [text == step.value for text in compared]
        else:
            matches[step] = list(map(step.matches, values))
    return matches


def _elements_of(slots: Slots) -> Slots:
    """Return the elements of lists."""
    lists, sizes = slots.values, list(map(len, slots.values))
    rows = {elements: np.repeat(numbers, sizes) for elements, numbers in slots.rows.items()}
    containers, keys = chain.from_iterable(map(repeat, lists, sizes)), chain.from_iterable(map(range, sizes))
    values = list(chain.from_iterable(lists))
    return Slots(values, list(containers), list(keys), np.repeat(slots.records, sizes), rows)


def _remove_dropped(value: list[Any], *, counted: bool) -> None:
    """Remove dropped elements. If paths count elements, null takes their place, except at the end of the list."""
    while counted and value and value[-1] is DROPPED:
        value.pop()
    value[:] = [None if element is DROPPED else element for element in value if counted or element is not DROPPED]
