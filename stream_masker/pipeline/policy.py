"""The field policy as a trie: the action of each path of a plan."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import TypeAlias

from stream_masker.pipeline.paths import Path, PathTrie
from stream_masker.pipeline.plan import Plan


class Action(IntEnum):
    """What happens to a value. If paths of equal length disagree, the greatest action applies."""

    KEEP = 1
    PSEUDONYMIZE = 2
    TRANSFORM = 3
    """The transform of the path replaces the value. Other values around or next to such a path are dropped."""
    DROP = 4
    MASKED = 5
    """The value is a code, label, copy or number of an attribute: masking replaces it."""


PolicyTrie: TypeAlias = PathTrie[Action]
PolicyNodes: TypeAlias = tuple[PolicyTrie, ...]


def policy_trie(plan: Plan) -> PolicyTrie:
    """Return the trie of all paths that the plan gives an action to."""
    return PathTrie.of((*_policy_paths(plan), *_filter_fields(plan)))


def _policy_paths(plan: Plan) -> Iterator[tuple[Path, Action]]:
    yield from ((path, Action.MASKED) for _, path in plan.written)
    yield from ((path, Action.DROP) for path in plan.fields.drop)
    yield from ((path, Action.TRANSFORM) for path in plan.fields.transformed)
    yield from ((path, Action.PSEUDONYMIZE) for path in plan.fields.pseudonymize)
    yield from ((path, Action.KEEP) for path in plan.fields.keep)


def _filter_fields(plan: Plan) -> Iterator[tuple[Path, Action]]:
    """Yield the fields that filters compare, except for a filter at the end of a path, which selects whole elements."""
    for path, action in _policy_paths(plan):
        if action is not Action.DROP:
            yield from ((compared, Action.KEEP) for compared in path.parent.filter_fields())


def action_of(node: PolicyTrie) -> Action | None:
    """Return the action of the paths that end at a node; None if there are none."""
    return max(node.items, default=None)


def strongest_action(node: PolicyTrie) -> Action:
    """Return the greatest action at a node or below it; masked values count as kept."""
    action = action_of(node) or Action.KEEP
    return max((Action.KEEP if action is Action.MASKED else action, *map(strongest_action, node.children())))
