"""Draws by transition probabilities, at the extremes of the random words."""

from __future__ import annotations

import numpy as np
import pytest

from stream_masker.core.mechanisms.transition.transitions import PartTransition, RowTransition, ShareTransition
from stream_masker.core.mechanisms.transition.trie import Domain

SMALLEST, LARGEST = np.uint64(0), np.uint64(2**64 - 1)


def transitions():
    domain = Domain.of(np.array([4, 7, 2]), np.array([0, 2, 3]), 9)
    rows = np.array([[0.0, 1.0, 0.0], [0.3, 0.0, 0.7], [0.1, 0.9, 0.0]])
    low, high = np.array([0, 0, 2]), np.array([2, 2, 3])
    yield PartTransition.of(domain, np.array([0.4, 0.4, 0.8]), np.array([0.7, 0.7, 0.8]), low, high)
    yield PartTransition.whole(domain.ascending(), np.array([0.8, 0.4, 0.0]))
    yield ShareTransition(domain, 0.25)
    yield RowTransition.of(domain, rows)


@pytest.mark.parametrize("transition", list(transitions()), ids=["parts", "whole", "shares", "rows"])
@pytest.mark.parametrize("first", [SMALLEST, LARGEST])
@pytest.mark.parametrize("second", [SMALLEST, LARGEST])
def test_extreme_random_words_draw_only_possible_values(transition, first, second):
    codes = np.array([4, 7, 2, 0, 8, -1], np.int32)
    drawn = transition.draw(codes, np.array([[first, second]] * 6))
    domain = transition.domain
    chances = np.vstack([transition.matrix()[domain.index_of[codes[:3]]], np.tile(domain.shares, (2, 1))])
    for row, value in zip(chances, drawn, strict=False):
        assert row[domain.index_of[value]] > 0
    assert drawn[5] == -1
    np.testing.assert_allclose(transition.matrix().sum(axis=1), 1.0)
