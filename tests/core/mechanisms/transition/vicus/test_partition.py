"""Parts found by the genetic algorithm: within their bounds, and optimal for few values."""

from __future__ import annotations

import numpy as np
import pytest

from stream_masker.core.mechanisms.transition.vicus import partition
from stream_masker.core.mechanisms.transition.vicus.partition import (
    PartitionSearch,
    canonical_partition,
    excess,
    fitness_of,
    partition_values,
)


def search(**given):
    return PartitionSearch(**{"part_size": 2, "parts": None, "population": 20, "generations": 10, "seed": 0, **given})


def similarity(rng, v):
    matrix = rng.random((v, v))
    matrix = (matrix + matrix.T) / 2
    np.fill_diagonal(matrix, 1.0)
    return matrix


def all_partitions(v, labels=()):
    if len(labels) == v:
        yield np.array(labels)
        return
    for part in range(max(labels, default=-1) + 2):
        yield from all_partitions(v, (*labels, part))


@pytest.mark.parametrize("parts", [None, 2, 3])
@pytest.mark.parametrize("part_size", [1, 2, 3])
def test_partitions_of_few_values_are_optimal(parts, part_size):
    rng = np.random.default_rng(part_size)
    for v in (4, 6, 7):
        matrix = similarity(rng, v)
        options = search(parts=parts, part_size=part_size)
        max_parts = options.max_parts_of(v)
        weights = excess(matrix) if parts is None else matrix
        sizes = [(labels, np.bincount(labels)) for labels in all_partitions(v)]
        allowed = [
            labels
            for labels, size in sizes
            if size.min() >= part_size and (size.size <= max_parts if parts is None else size.size == max_parts)
        ]
        best = max(fitness_of(weights, labels) for labels in allowed)
        assert fitness_of(weights, partition_values(matrix, options)) == pytest.approx(best)


@pytest.mark.parametrize("parts", [None, 5, 40])
@pytest.mark.parametrize("part_size", [1, 2, 7])
def test_parts_respect_their_bounds(parts, part_size):
    found = partition_values(
        similarity(np.random.default_rng(1), 60), search(parts=parts, part_size=part_size, generations=2)
    )
    sizes = np.bincount(found)
    assert sizes.min() >= part_size
    if parts is not None:
        assert sizes.size == min(parts, 60 // part_size)


def test_blocks_of_similar_values_are_found():
    blocks = np.repeat(np.arange(6), [2, 3, 4, 5, 6, 10])
    matrix = np.where(blocks[:, None] == blocks[None, :], 0.8, 0.1)
    np.fill_diagonal(matrix, 1.0)
    order = np.random.default_rng(2).permutation(30)
    found = partition_values(matrix[np.ix_(order, order)], search())
    np.testing.assert_array_equal(found, canonical_partition(blocks[order]))


def test_equal_seeds_find_equal_parts_and_keep_the_matrix(monkeypatch):
    matrix = similarity(np.random.default_rng(3), 40)
    before = matrix.copy()
    first = partition_values(matrix, search(seed=5))
    monkeypatch.setattr(partition, "_DIVIDED", {})
    np.testing.assert_array_equal(partition_values(matrix, search(seed=5)), first)
    np.testing.assert_array_equal(matrix, before)


def test_values_that_were_divided_lately_are_not_divided_again(monkeypatch):
    matrix = similarity(np.random.default_rng(4), 12)
    first = partition_values(matrix, search())
    expected = first.copy()
    first[:] = -1
    monkeypatch.setattr(partition, "_searched", lambda *_: np.zeros(12, np.int64))
    np.testing.assert_array_equal(partition_values(matrix.copy(), search()), expected)
    assert not partition_values(matrix, search(seed=1)).any()
    assert not partition_values(matrix + np.eye(12), search()).any()
    monkeypatch.setattr(partition, "_DIVIDED", {})


@pytest.mark.parametrize("v", [1, 2, 3])
def test_too_few_values_form_one_part(v):
    assert partition_values(np.ones((v, v)), search(part_size=2)).tolist() == [0] * v


def test_equally_similar_values_form_allowed_parts():
    assert np.bincount(partition_values(np.ones((9, 9)), search(parts=3))).min() >= 2


def test_parts_are_numbered_by_their_first_values():
    assert canonical_partition(np.array([4, 1, 4, 0, 1])).tolist() == [0, 1, 0, 2, 1]
