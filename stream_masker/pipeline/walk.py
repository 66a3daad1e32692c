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

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, compress, repeat
from typing import Any, Final, NamedTuple

import numpy as np

from stream_masker.core.dtypes import BoolArray, Int64Array
from stream_masker.pipeline.paths import Document, Path, PathTrie
from stream_masker.pipeline.plan import Action, Plan, PolicyTrie, policy, strictest_action
from stream_masker.pipeline.reasons import Reason
from stream_masker.pipeline.transforms import DROPPED, Cache, FieldTransform, Pseudonyms


class Slots(NamedTuple):
    """n values in documents, ``containers[i][keys[i]]``.

    keys: one name for all of them, or their positions in lists; places: the numbers of their documents, then their
    positions in each list around them, from the outside in: arrays of (n,) int64.
    """

    values: list[Any]
    containers: Sequence[Any]
    keys: str | list[int]
    places: tuple[Int64Array, ...]

    def where(self, chosen: Iterable[bool] | BoolArray) -> Slots:
        """Return some of the values."""
        mask = chosen if isinstance(chosen, np.ndarray) else np.fromiter(chosen, bool, len(self.values))
        keys = self.keys if isinstance(self.keys, str) else list(compress(self.keys, mask))
        values, containers = list(compress(self.values, mask)), list(compress(self.containers, mask))
        return Slots(values, containers, keys, tuple(numbers[mask] for numbers in self.places))

    def elements(self) -> Slots:
        """Return the elements of values that are lists."""
        sizes = list(map(len, self.values))
        containers = list(chain.from_iterable(map(repeat, self.values, sizes)))
        keys, values = list(chain.from_iterable(map(range, sizes))), list(chain.from_iterable(self.values))
        around = (np.repeat(numbers, sizes) for numbers in self.places)
        return Slots(values, containers, keys, (*around, np.array(keys, np.int64)))

    def places_at(self, levels: Sequence[int]) -> list[Int64Array]:
        """Return the numbers of the documents, and the positions in some of the lists, which are counted from 1."""
        return [self.places[level] for level in (0, *levels)]

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
    those that a ``[*]`` of an attribute's path selects in, and selects, by its trie; refused: the reasons why records
    cannot be masked, with the configured paths, by record; emptied: the number of values that no transform could treat,
    by configured path.
    """

    def __init__(self, keys: Mapping[Path, Sequence[bytes]]) -> None:
        self.keys = keys
        self.found: defaultdict[Path, list[Slots]] = defaultdict(list)
        self.lists: defaultdict[PolicyTrie, list[Slots]] = defaultdict(list)
        self.elements: defaultdict[PolicyTrie, list[Slots]] = defaultdict(list)
        self.refused: dict[int, tuple[Reason, str | None]] = {}
        self.emptied: Counter[str] = Counter()

    def refuse(self, records: Iterable[int], reason: Reason, path: Path) -> None:
        """Refuse records; the first reason of each counts."""
        for record in records:
            self.refused.setdefault(record, (reason, path.text))


class Tree:
    """The paths of a plan as nodes that treat values."""

    def __init__(self, plan: Plan, pseudonyms: Pseudonyms) -> None:
        self.trie, self.pseudonyms = PathTrie.of(policy(plan)), pseudonyms
        self.transforms = {self.trie.at(path): (path.text, rule) for path, rule in plan.fields.transformed.items()}
        self.written = {self.trie.at(path): path for _, path in plan.written}
        codes = [place.path for attribute in plan.attributes for place in attribute.places]
        self.noted: Final = {self.array_of(path) for path in codes if path.arrays}
        self._nodes: dict[tuple[tuple[PolicyTrie, ...], Action], Node] = {}
        self._root = self.node((self.trie,), Action.KEEP if plan.fields.unlisted == "keep" else Action.DROP)

    def array_of(self, path: Path) -> PolicyTrie:
        """Return the trie of the elements that the last ``[*]`` of a path selects."""
        end = max(end for end, step in enumerate(path.steps, 1) if step in set(path.array_steps))
        return self.trie.at(Path(path.text, path.steps[:end]))

    def node(self, tries: tuple[PolicyTrie, ...], inherited: Action) -> Node:
        """Return the treatment of values that ``tries`` select; ``inherited``: the action of the values around them."""
        if (node := self._nodes.get((tries, inherited))) is None:
            node = self._nodes[tries, inherited] = Node(self, tries, inherited)
        return node

    def walk(self, documents: list[Document], reading: Reading) -> None:
        """Treat documents in place."""
        self._root.treat_objects(documents, (np.arange(len(documents)),), reading)


class Node:
    """The treatment of the values that some tries select."""

    def __init__(self, tree: Tree, tries: tuple[PolicyTrie, ...], inherited: Action) -> None:
        self._tree, self._tries = tree, tries
        children = [child for trie in tries for child in trie.children()]
        self._is_leaf = not children
        self._path = next((tree.written[trie] for trie in tries if trie in tree.written), None)
        action = max((item for trie in tries for item in trie.items), default=inherited)
        self._transform = self._prepared_transform() if action is Action.TRANSFORM else None
        if action is Action.TRANSFORM and self._transform is None:
            action = Action.DROP
        self._action = Action.KEEP if action is Action.MASKED else action
        self.is_kept = self._is_leaf and self._path is None and self._action is Action.KEEP
        self.is_dropped = self._is_leaf and self._path is None and self._action is Action.DROP
        if children and self._path is None:
            self._prepare_objects()
            self._prepare_lists()
            strictest = max(self._action, *map(strictest_action, tries))
            self._misshapen = tree.node((), Action.DROP if strictest is Action.TRANSFORM else strictest)

    def _prepared_transform(self) -> tuple[str, FieldTransform, Cache] | None:
        """Return the only transform of values that no path continues into, with its text and results for texts."""
        transforms = [self._tree.transforms[trie] for trie in self._tries if trie in self._tree.transforms]
        if not self._is_leaf or len(transforms) != 1:
            return None
        (text, transform), pseudonyms = transforms[0], self._tree.pseudonyms
        return text, transform, Cache(lambda value: transform.of_value(value, pseudonyms))

    def _prepare_objects(self) -> None:
        names = dict.fromkeys(name for trie in self._tries for name in trie.members)
        below = {n: tuple(trie.members[n] for trie in self._tries if n in trie.members) for n in names}
        self._members = {name: self._tree.node(tries, self._action) for name, tries in below.items()}
        self._listed = frozenset(name for name, node in self._members.items() if not node.is_dropped)
        self._path_below_objects = self._first_path(chain.from_iterable(below.values()))

    def _prepare_lists(self) -> None:
        tries = self._tries
        self._filters = list(dict.fromkeys(step for trie in tries for step in trie.filters))
        self._filters_by_field: dict[tuple[str, ...], list[int]] = {}
        for number, step in enumerate(self._filters):
            self._filters_by_field.setdefault(step.field, []).append(number)
        self._indices = {position for trie in tries for position in trie.indices}
        filtered = [child for trie in tries for child in trie.filters.values()]
        each = [trie.each for trie in tries if trie.each is not None]
        entered = [*each, *filtered, *(child for trie in tries for child in trie.indices.values())]
        self._noted = [child for child in entered if child in self._tree.noted]
        self._enters_lists = bool(entered)
        self._path_below_lists, self._path_below_filters = self._first_path(entered), self._first_path(filtered)

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
            reading.found[self._path].append(slots)
        elif not self._is_leaf:
            self._enter(slots, reading)
        elif self._transform is not None:
            self._transformed(*self._transform, slots, reading)
        elif self._action is Action.PSEUDONYMIZE:
            slots.fill(self._tree.pseudonyms.of_values(slots.values))
        elif self._action is Action.DROP:
            slots.drop()

    def _transformed(
        self, path: str, transform: FieldTransform, results: Cache, slots: Slots, reading: Reading
    ) -> None:
        of_value, pseudonyms = transform.of_value, self._tree.pseudonyms
        if transform.key is None:
            new = [results[v] if type(v) is str else of_value(v, pseudonyms) for v in slots.values]
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
            enters = (kind is dict and bool(self._members)) or (kind is list and self._enters_lists)
            refusing = self._path_below_lists if kind is dict and enters else self._path_below_objects
            refusing = refusing if enters else self._path_below_objects or self._path_below_lists
            if refusing is not None:
                reading.refuse(some.places[0].tolist(), Reason.WRONG_SHAPE, refusing)
            elif not enters:
                self._misshapen.treat(some, reading)
            elif kind is dict:
                self.treat_objects(some.values, some.places, reading)
            else:
                self._treat_lists(some, reading)

    def treat_objects(self, objects: list[Document], places: tuple[Int64Array, ...], reading: Reading) -> None:
        """Treat the members of objects at these places."""
        if self._action is not Action.KEEP:
            self._treat_unlisted(objects)
        for name, node in self._members.items():
            if node.is_kept or (node.is_dropped and self._action is not Action.KEEP):
                continue
            values = [value.get(name, DROPPED) for value in objects]
            if DROPPED not in values:
                node.treat(Slots(values, objects, name, places), reading)
            elif values.count(DROPPED) < len(values):
                there = np.fromiter((value is not DROPPED for value in values), bool, len(values))
                node.treat(Slots(values, objects, name, places).where(there), reading)

    def _treat_unlisted(self, objects: list[Document]) -> None:
        """Drop or pseudonymize the members of objects that no path has."""
        pseudonym, listed = self._tree.pseudonyms.of_value, self._listed
        for value in objects:
            if self._action is not Action.PSEUDONYMIZE:
                for name in value.keys() - listed:
                    del value[name]
                continue
            for name in [name for name in value if name not in listed]:
                member = value.pop(name)
                if name not in self._members:
                    value[pseudonym(name)] = pseudonym(member)

    def _treat_lists(self, slots: Slots, reading: Reading) -> None:
        """Treat the elements of lists; those that the same paths select are treated together."""
        elements = slots.elements()
        if self._path_below_filters and set(map(type, elements.values)) - {dict, type(None)}:
            wrong = elements.where(value is not None and type(value) is not dict for value in elements.values)
            reading.refuse(wrong.places[0].tolist(), Reason.WRONG_SHAPE, self._path_below_filters)
        for trie in self._noted:
            reading.lists[trie].append(slots)
        for some, tries in self._cases(elements):
            for trie in self._noted:
                if trie in tries:
                    reading.elements[trie].append(some)
            node = self._tree.node(tries, self._action)
            if not node.is_kept:
                node.treat(some, reading)
        for value in slots.values:
            if DROPPED in value:
                _remove_dropped(value, counted=bool(self._indices))

    def _cases(self, elements: Slots) -> Iterator[tuple[Slots, tuple[PolicyTrie, ...]]]:
        """Yield the elements of lists by the tries that select them."""
        columns = [self._selecting(numbers, elements.values) for numbers in self._filters_by_field.values()]
        if self._indices:
            columns.append([(position if position in self._indices else -1,) for position in elements.keys])
        cases = list(zip(*columns, strict=True)) if columns else [()] * len(elements.values)
        numbers = {case: number for number, case in enumerate(dict.fromkeys(cases))}
        numbered = np.fromiter(map(numbers.__getitem__, cases), np.int64, len(cases))
        for case, number in numbers.items():
            some = elements if len(numbers) == 1 else elements.where(numbered == number)
            chosen = {self._filters[k] for selecting in case[: len(self._filters_by_field)] for k in selecting}
            position = case[-1][0] if self._indices else -1
            yield some, tuple(child for trie in self._tries for child in trie.element(position, chosen.__contains__))

    def _selecting(self, numbers: Sequence[int], values: Sequence[Any]) -> list[tuple[int, ...]]:
        """Return the numbers of the filters that select each value. ``numbers``: of filters of one field."""
        filters, found = self._filters, values
        for name in filters[numbers[0]].field:
            found = [value.get(name) if type(value) is dict else None for value in found]
        if set(map(type, found)) <= {str, type(None)}:
            texts = {filters[k].value for k in numbers}
            by_text = {text: tuple(k for k in numbers if filters[k].value == text) for text in texts}
            return [by_text.get(text, ()) for text in found]
        return [tuple(k for k in numbers if filters[k].matches(value)) for value in values]


def _remove_dropped(value: list[Any], *, counted: bool) -> None:
    """Remove dropped elements. If paths count elements, null takes their place, except at the end of the list."""
    while counted and value and value[-1] is DROPPED:
        value.pop()
    value[:] = [None if element is DROPPED else element for element in value if counted or element is not DROPPED]
