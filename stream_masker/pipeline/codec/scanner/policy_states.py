"""The field policy as states, equivalent to ``pipeline.fields``.

``pipeline.fields`` compiles the policy to functions that treat decoded values. The scanner has no decoded values; it
follows the policy from state to state while it reads a record's bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stream_masker.pipeline.fields import Action, PolicyNodes, action_of, strongest_action
from stream_masker.pipeline.paths import FilterStep


@dataclass(frozen=True, slots=True)
class PolicyState:
    """The policy for one value: the trie nodes that select it, and the action of the value around it."""

    nodes: PolicyNodes
    inherited: Action

    @property
    def action(self) -> Action:
        """The action of the value, unless a longer path decides."""
        action = max(filter(None, map(action_of, self.nodes)), default=self.inherited)
        if action is Action.TRANSFORM and not self.is_leaf:
            return Action.DROP
        return Action.KEEP if action is Action.MASKED else action

    @property
    def is_leaf(self) -> bool:
        """Whether no path continues from here."""
        return not any(True for node in self.nodes for _ in node.children())

    @property
    def is_transformed(self) -> bool:
        """Whether a transform replaces the value."""
        return self.is_leaf and self.action is Action.TRANSFORM

    @property
    def misshapen(self) -> Action:
        """The action of a value whose shape is not the one that the paths that continue from here require."""
        return self.action if self.is_leaf else max(self.action, *map(strongest_action, self.nodes))

    @property
    def members(self) -> set[str]:
        """The names of members that a path continues to."""
        return {name for node in self.nodes for name in node.members}

    @property
    def indices(self) -> set[int]:
        """The positions of elements that a path continues to."""
        return {position for node in self.nodes for position in node.indices}

    @property
    def filters(self) -> list[FilterStep]:
        """The filters that select elements."""
        return [step for node in self.nodes for step in node.filters]

    @property
    def nulls_dropped(self) -> bool:
        """Whether null takes the place of a list's dropped element."""
        return any(node.indices for node in self.nodes)

    def as_object(self) -> PolicyState:
        """Return the state that decides about the members, if the value is an object."""
        return self if any(node.members for node in self.nodes) else leaf_state(self.misshapen)

    def as_list(self) -> PolicyState:
        """Return the state that decides about the elements, if the value is a list."""
        return self if any(node.enters_lists for node in self.nodes) else leaf_state(self.misshapen)

    def member(self, name: str) -> PolicyState:
        """Return the state of a member of any name."""
        return policy_state(tuple(node.members[name] for node in self.nodes if name in node.members), self.action)

    def element(self, position: int, matches: Callable[[FilterStep], bool]) -> PolicyState:
        """Return the state of an element; ``position``: -1 if no path names it; ``matches``: filters that select it."""
        children = (child for node in self.nodes for child in node.element(position, matches))
        return policy_state(tuple(children), self.action)


def leaf_state(action: Action) -> PolicyState:
    """Return the state in which one action applies to the whole value; a value without a transform is dropped."""
    return PolicyState((), Action.DROP if action is Action.TRANSFORM else action)


def policy_state(nodes: PolicyNodes, inherited: Action) -> PolicyState:
    """Return the state for some nodes. States without continuing paths are equal if their actions are.

    The state of a value that one path transforms has the node of this path.
    """
    state = PolicyState(nodes, inherited)
    if not state.is_leaf:
        return state
    transformed = tuple(node for node in nodes if Action.TRANSFORM in node.items)
    if state.action is Action.TRANSFORM and len(transformed) == 1:
        return PolicyState(transformed, Action.TRANSFORM)
    return leaf_state(state.action)
