"""Path matching in decoded records: one pass along the trie of all paths finds the values that they select.

The trie is compiled to functions, one for each node with children. Paths that begin with the same steps share these
functions, so a filter is evaluated once for all paths that have it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

from stream_masker.pipeline.paths import JsonValue, Path, PathTrie
from stream_masker.pipeline.reasons import Reason, RecordRejectedError

Slot: TypeAlias = tuple[Any, Any]
"""The place of a value in a record: its container (an object or a list), and its key or position there."""

_NO_PATHS: Final[frozenset[int]] = frozenset()


class Matches:
    """What the paths of a trie select in a record or, below a ``[*]``, in one element of a list.

    Paths have numbers, the items of the trie. slots: those of each path, in the order of the record; lists: of each
    path with a ``[*]``, the lists that it stands for, each as the matches in its elements; misshapen: the paths that
    require another shape than the value has. A value that is absent, or below a null, is not selected.
    """

    __slots__ = ("lists", "misshapen", "slots")

    def __init__(self) -> None:
        self.slots: dict[int, list[Slot]] = {}
        self.lists: dict[int, list[list[Matches]]] = {}
        self.misshapen = _NO_PATHS

    def slots_of(self, number: int, path: Path) -> Sequence[Slot]:
        """Return the slots that a path without ``[*]``, or its part after the ``[*]``, selects.

        Raises RecordRejectedError (wrong_shape, with the path) if a value has another shape than the path requires.
        """
        if number in self.misshapen:
            raise RecordRejectedError(Reason.WRONG_SHAPE, path.text)
        return self.slots.get(number, ())

    def lists_of(self, number: int, path: Path) -> Sequence[list[Matches]]:
        """Return the lists that a path with a ``[*]`` stands for, as the matches in their elements.

        Only the shape of what surrounds the elements is checked. Raises like ``slots_of``.
        """
        if number in self.misshapen:
            raise RecordRejectedError(Reason.WRONG_SHAPE, path.text)
        return self.lists.get(number, ())

    def all_slots_of(self, number: int, path: Path) -> Iterator[Slot]:
        """Yield the slots that a path selects, including those in the elements of lists. Raises like ``slots_of``."""
        yield from self.slots_of(number, path)
        for elements in self.lists_of(number, path):
            for element in elements:
                yield from element.all_slots_of(number, path)


_NOTHING: Final = Matches()
"""The matches in all elements in which no path selects anything."""

MatchFunction: TypeAlias = Callable[[JsonValue, Matches], None]
"""A function that adds what the paths below a node select in a value."""


def matcher(trie: PathTrie[int]) -> Callable[[JsonValue], Matches]:
    """Return a function from a record to what the paths of the trie select in it."""
    match = _compiled(trie)

    def match_record(record: JsonValue) -> Matches:
        matches = Matches()
        match(record, matches)
        return matches

    return match_record


def matching_slots(path: Path) -> Callable[[JsonValue], Sequence[Slot]]:
    """Return a function from a value to the slots that one path selects in it, in order. It raises like ``Matches``."""
    match = matcher(PathTrie.of([(path, 0)]))
    return lambda value: list(match(value).all_slots_of(0, path))


def _compiled(node: PathTrie[int]) -> MatchFunction:
    members = [(name, child.items, _compiled_below(child)) for name, child in node.members.items()]
    through_members = _numbers(node.members.values())
    through_lists = _numbers([*node.indices.values(), *node.filters.values(), *filter(None, [node.each])])
    through_any = through_members | through_lists
    match_list = _compiled_list(node)

    def match(value: JsonValue, matches: Matches) -> None:
        if type(value) is dict:
            for name, ending, below in members:
                if name in value:
                    for number in ending:
                        matches.slots.setdefault(number, []).append((value, name))
                    if below is not None:
                        below(value[name], matches)
            if through_lists:
                matches.misshapen |= through_lists
        elif type(value) is list:
            match_list(value, matches)
            if through_members:
                matches.misshapen |= through_members
        elif value is not None:
            matches.misshapen |= through_any

    return match


def _compiled_below(node: PathTrie[int]) -> MatchFunction | None:
    """Return the function of a node; None for a node without children."""
    return _compiled(node) if any(True for _ in node.children()) else None


def _numbers(nodes: Iterable[PathTrie[int]]) -> frozenset[int]:
    return frozenset(number for node in nodes for number in node.all_items())


def _compiled_list(node: PathTrie[int]) -> MatchFunction:
    """Return the function of a node for a value that is a list."""
    parts = [*_positions(node), *_filters(node)]
    if node.each is not None:
        parts.append(_lists(node.each, lambda elements: range(len(elements))))

    def match(elements: JsonValue, matches: Matches) -> None:
        for part in parts:
            part(elements, matches)

    return match


def _positions(node: PathTrie[int]) -> Iterator[MatchFunction]:
    for position, child in node.indices.items():
        yield _at_position(position, child)


def _at_position(position: int, child: PathTrie[int]) -> MatchFunction:
    add = _element(child)

    def match(elements: JsonValue, matches: Matches) -> None:
        if position < len(elements):
            add(elements, position, matches)

    return match


def _filters(node: PathTrie[int]) -> Iterator[MatchFunction]:
    for step, child in node.filters.items():
        yield _every_matching(step.matches, child) if step.every else _where(step.matches, child)


def _are_objects(elements: list[JsonValue]) -> bool:
    """Return whether filters can select among the elements, which must all be objects or null."""
    return all(type(element) is dict or element is None for element in elements)


def _where(selects: Callable[[JsonValue], bool], child: PathTrie[int]) -> MatchFunction:
    add, numbers = _element(child), _numbers([child])

    def match(elements: JsonValue, matches: Matches) -> None:
        if not _are_objects(elements):
            matches.misshapen |= numbers
            return
        for position, element in enumerate(elements):
            if selects(element):
                add(elements, position, matches)

    return match


def _every_matching(selects: Callable[[JsonValue], bool], child: PathTrie[int]) -> MatchFunction:
    numbers = _numbers([child])
    add = _lists(child, lambda elements: [k for k, element in enumerate(elements) if selects(element)])

    def match(elements: JsonValue, matches: Matches) -> None:
        if _are_objects(elements):
            add(elements, matches)
        else:
            matches.misshapen |= numbers

    return match


def _lists(child: PathTrie[int], positions: Callable[[list[JsonValue]], Iterable[int]]) -> MatchFunction:
    """Return a function that adds the matches in the elements of a list at some positions, each on its own.

    It stops after an element that has another shape than all paths require: further elements are never read.
    """
    add, numbers = _element(child), _numbers([child])

    def match(elements: JsonValue, matches: Matches) -> None:
        matched = []
        inside = Matches()
        for position in positions(elements):
            add(elements, position, inside)
            if not (inside.slots or inside.lists or inside.misshapen):
                matched.append(_NOTHING)
                continue
            matched.append(inside)
            if inside.misshapen == numbers:
                break
            inside = Matches()
        for number in numbers:
            matches.lists.setdefault(number, []).append(matched)

    return match


def _element(node: PathTrie[int]) -> Callable[[list[JsonValue], int, Matches], None]:
    """Return a function that adds what the paths of a node and below it select in the element of a list at a
    position."""
    ending, below = node.items, _compiled_below(node)

    def add(elements: list[JsonValue], position: int, matches: Matches) -> None:
        for number in ending:
            matches.slots.setdefault(number, []).append((elements, position))
        if below is not None:
            below(elements[position], matches)

    return add
