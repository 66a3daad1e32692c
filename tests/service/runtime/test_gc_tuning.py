"""Garbage collections: rare while batches are processed, but never disabled."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from stream_masker.service.runtime.process import COLLECTION_BATCHES, MIN_ALLOCATIONS, infrequent_collections


class Node:
    """An object that can reference itself."""

    itself: Node


@pytest.fixture(autouse=True)
def restored_threshold() -> Iterator[None]:
    gc.collect()
    before = gc.get_threshold()
    yield
    assert gc.get_threshold() == before


def collections() -> int:
    return sum(generation["collections"] for generation in gc.get_stats())


def test_batches_trigger_no_collection() -> None:
    with infrequent_collections(1_000):
        before = collections()
        for _ in range(200):
            batch = [Node() for _ in range(1_000)]
            assert len(batch) == 1_000
        assert collections() == before


def test_accumulated_cycles_are_collected() -> None:
    with infrequent_collections(1_000):
        lost = Node()
        lost.itself = lost
        there = weakref.ref(lost)
        del lost
        for _ in range(MIN_ALLOCATIONS + 1):
            node = Node()
            node.itself = node
        assert there() is None


def test_threshold_grows_with_the_batch() -> None:
    with infrequent_collections(MIN_ALLOCATIONS):
        assert gc.get_threshold()[0] == COLLECTION_BATCHES * MIN_ALLOCATIONS
