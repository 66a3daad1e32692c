"""Searches for reference cycles: rare while batches come and go, but never given up."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from stream_masker.service.runtime.gc_tuning import COLLECTION_BATCHES, MIN_ALLOCATIONS, infrequent_collections


class Node:
    """An object that may point at itself."""

    itself: Node


@pytest.fixture(autouse=True)
def searched() -> Iterator[None]:
    gc.collect()
    before = gc.get_threshold()
    yield
    assert gc.get_threshold() == before


def searches() -> int:
    return sum(generation["collections"] for generation in gc.get_stats())


def test_batches_that_come_and_go_start_no_search() -> None:
    with infrequent_collections(1_000):
        before = searches()
        for _ in range(200):
            batch = [Node() for _ in range(1_000)]
            assert len(batch) == 1_000
        assert searches() == before


def test_cycles_that_pile_up_are_found() -> None:
    with infrequent_collections(1_000):
        lost = Node()
        lost.itself = lost
        there = weakref.ref(lost)
        del lost
        for _ in range(MIN_ALLOCATIONS + 1):
            node = Node()
            node.itself = node
        assert there() is None


def test_the_larger_a_batch_the_rarer_a_search() -> None:
    with infrequent_collections(MIN_ALLOCATIONS):
        assert gc.get_threshold()[0] == COLLECTION_BATCHES * MIN_ALLOCATIONS
