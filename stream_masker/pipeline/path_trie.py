"""A trie of paths: paths that begin with the same steps share nodes.

The field policy keeps its actions in such a trie, and the codecs the roles of the paths that they read. The root stands
for the record; every other node stands for the values that the steps on the way to it select.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from stream_masker.pipeline.paths import EachStep, FilterStep, IndexStep, NameStep, Path, Step

ItemT = TypeVar("ItemT")


@dataclass(eq=False, slots=True)
class PathTrie(Generic[ItemT]):
    """A node and everything below it.

    items: of the paths that end at this node. The children, by the next step of the path: ``members`` by name,
    ``indices`` by position in a list, ``each`` for ``[*]``, ``filters`` by filter.
    """

    items: list[ItemT] = field(default_factory=list)
    members: dict[str, PathTrie[ItemT]] = field(default_factory=dict)
    indices: dict[int, PathTrie[ItemT]] = field(default_factory=dict)
    each: PathTrie[ItemT] | None = None
    filters: dict[FilterStep, PathTrie[ItemT]] = field(default_factory=dict)

    @classmethod
    def of(cls, entries: Iterable[tuple[Path, ItemT]]) -> PathTrie[ItemT]:
        """Return the trie of paths, each with an item; a path may occur several times."""
        root = cls()
        for path, item in entries:
            root.at(path).items.append(item)
        return root

    def at(self, path: Path) -> PathTrie[ItemT]:
        """Return the node at the end of a path; it is created if there is none."""
        node = self
        for step in path.steps:
            node = node.child(step)
        return node

    @property
    def enters_lists(self) -> bool:
        """Whether a path continues into the elements of a list."""
        return bool(self.indices or self.each or self.filters)

    def children(self) -> Iterator[PathTrie[ItemT]]:
        yield from self.members.values()
        yield from self.indices.values()
        yield from () if self.each is None else (self.each,)
        yield from self.filters.values()

    def all_items(self) -> Iterator[ItemT]:
        """Yield the items of this node and of all nodes below it."""
        yield from self.items
        for child in self.children():
            yield from child.all_items()

    def child(self, step: Step) -> PathTrie[ItemT]:
        """Return the node below a step; it is created if there is none."""
        match step:
            case NameStep(key):
                return self.members.setdefault(key, PathTrie())
            case IndexStep(position):
                return self.indices.setdefault(position, PathTrie())
            case EachStep():
                self.each = self.each or PathTrie()
                return self.each
            case FilterStep():
                return self.filters.setdefault(step, PathTrie())

    def element(self, position: int, matches: Callable[[FilterStep], bool]) -> Iterator[PathTrie[ItemT]]:
        """Yield the nodes for the element of a list at ``position``; ``matches``: whether a filter selects the
        element."""
        nodes = (self.each, self.indices.get(position), *(node for step, node in self.filters.items() if matches(step)))
        yield from (node for node in nodes if node is not None)
