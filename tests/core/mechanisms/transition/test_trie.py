"""The trie of a domain's values: its nodes, compared with a literal recursion over prefixes."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stream_masker.core.mechanisms.transition.trie import Trie

Nested = int | tuple["Nested", "Nested"]


def literal(positions: list[int], bit: int) -> Nested:
    """The trie as nested pairs: the positions without and with the highest bit in which they differ."""
    if len(positions) == 1:
        return positions[0]
    halves = [[x for x in positions if (x >> bit & 1) == value] for value in (0, 1)]
    if not all(halves):
        return literal(positions, bit - 1)
    return literal(halves[0], bit - 1), literal(halves[1], bit - 1)


def nested(trie: Trie, node: int, low: int, high: int) -> Nested:
    """The nodes of a trie as nested pairs."""
    if not node:
        assert high == low + 1
        return int(trie.values[low])
    return nested(trie, int(trie.left[node]), low, node), nested(trie, int(trie.right[node]), node, high)


@given(st.sets(st.integers(0, 2**31 - 1), min_size=1, max_size=40) | st.sets(st.integers(0, 60), min_size=1))
def test_nodes_are_those_of_the_prefixes(positions):
    trie = Trie.of(np.array(list(positions), np.int32))
    assert nested(trie, trie.roots[0], 0, len(positions)) == literal(sorted(positions), 30)
    assert len(set(trie.salts[1:].tolist())) == len(positions) - 1


@given(st.sets(st.integers(0, 500), min_size=3, max_size=40))
def test_the_salt_of_a_node_does_not_depend_on_the_other_values(positions):
    ordered = sorted(positions)
    whole, part = (Trie.of(np.array(kept, np.int32)) for kept in (ordered, ordered[:-1]))
    assert set(part.salts[1:].tolist()) <= set(whole.salts[1:].tolist())
