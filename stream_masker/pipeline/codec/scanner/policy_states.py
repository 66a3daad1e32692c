"""The field policy as positions in a record: what ``pipeline.fields`` does there, told instead of done."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from stream_masker.pipeline.fields import Action, PolicyNode
from stream_masker.pipeline.paths import FilterStep


@dataclass(frozen=True, slots=True)
class PolicyState:
    """A place that ``nodes`` hold, when ``inherited`` holds what is around it (``fields._Compiler.treat``)."""

    nodes: tuple[PolicyNode, ...]
    inherited: Action

    @property
    def own(self) -> Action:
        """What happens to a value here that no longer path decides."""
        own = max((node.action for node in self.nodes if node.action), default=self.inherited)
        return Action.KEEP if own is Action.MASKED else own

    @property
    def is_leaf(self) -> bool:
        """Whether no path goes on from here."""
        return not any(True for node in self.nodes for _ in node.children())

    @property
    def astray(self) -> Action:
        """What happens to a value of another shape than the paths need that go on from here."""
        return self.own if self.is_leaf else max(self.own, *(node.strongest() for node in self.nodes))

    @property
    def names(self) -> set[str]:
        return {name for node in self.nodes for name in node.names}

    @property
    def places(self) -> set[int]:
        return {place for node in self.nodes for place in node.places}

    @property
    def wheres(self) -> list[FilterStep]:
        return [where for node in self.nodes for where, _ in node.wheres]

    @property
    def holds_places(self) -> bool:
        """Whether null holds the place of a list's element that is dropped."""
        return any(node.places for node in self.nodes)

    def as_object(self) -> PolicyState:
        """The spot that decides about members, when an object stands here."""
        return self if any(node.names for node in self.nodes) else leaf_state(self.astray)

    def as_list(self) -> PolicyState:
        """The spot that decides about elements, when a list stands here."""
        return self if any(node.in_list for node in self.nodes) else leaf_state(self.astray)

    def member(self, name: str) -> PolicyState:
        """Where an object's member stands; of any name that is not among ``names``, too."""
        return is_settled(tuple(node.names[name] for node in self.nodes if name in node.names), self.own)

    def element(self, place: int, matching: Iterable[FilterStep]) -> PolicyState:
        """Where a list's element stands, of which just these filters select it; -1: a place that no path names."""
        chosen = list(matching)
        found = [
            one
            for node in self.nodes
            for one in (node.each, node.places.get(place), *(n for where, n in node.wheres if where in chosen))
        ]
        return is_settled(tuple(one for one in found if one is not None), self.own)


def leaf_state(action: Action) -> PolicyState:
    """Where one action holds everything."""
    return PolicyState((), action)


def is_settled(nodes: tuple[PolicyNode, ...], inherited: Action) -> PolicyState:
    """A spot; all that no path goes on from are the same by their action."""
    spot = PolicyState(nodes, inherited)
    return leaf_state(spot.own) if spot.is_leaf else spot
