"""Garbage collections: rare while batches are processed, but never disabled."""

from __future__ import annotations

import gc
import weakref

from stream_masker.service.runtime.process import MIN_ALLOCATIONS, infrequent_collections


class Node:
    """An object that can reference itself."""

    itself: Node


def collections() -> int:
    return sum(generation["collections"] for generation in gc.get_stats())


def test_batches_trigger_no_collection_but_accumulated_cycles_do() -> None:
    usual = gc.get_threshold()
    with infrequent_collections(1_000):
        before = collections()
        for _ in range(20):
            assert len([Node() for _ in range(1_000)]) == 1_000
        assert collections() == before
        there = lost()
        for _ in range(MIN_ALLOCATIONS + 1):
            lost()
        assert there() is None
    assert gc.get_threshold() == usual


def lost() -> weakref.ref[Node]:
    """Return a reference to an object that only itself refers to."""
    node = Node()
    node.itself = node
    return weakref.ref(node)
