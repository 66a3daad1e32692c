"""The most frequent values of a window, against records that are left out one by one."""

from __future__ import annotations

import numpy as np
import pytest

from stream_masker.core.batch import ABSENT, Batch, Column
from stream_masker.core.risk.floor import reduced_counts
from stream_masker.core.statistics import count_batch
from stream_masker.core.statistics.counts import same_counts

SIZES = (30, 30)


def counts_of(codes):
    return count_batch(Batch(len(codes), tuple(Column(np.ascontiguousarray(c)) for c in codes.T)), SIZES)


def codes(size=500):
    rng = np.random.default_rng(6)
    found = np.minimum(rng.geometric(0.2, (size, 2)), 29).astype(np.int32)
    found[::9, 1] = ABSENT
    return found


def test_a_small_window_is_kept_whole():
    counts = counts_of(codes())
    assert reduced_counts(counts, SIZES, (30, 30)) == (counts, 0.0)


def test_rows_with_a_rare_value_are_left_out():
    rows = codes()
    counts = counts_of(rows)
    reduced, left_out = reduced_counts(counts, SIZES, (5, 6))
    frequent = [
        set(column.keys[np.argsort(-column.counts, kind="stable")[:limit]].tolist()) | {ABSENT}
        for column, limit in zip(counts.values, (5, 6), strict=True)
    ]
    kept = counts_of(np.array([row for row in rows if row[0] in frequent[0] and row[1] in frequent[1]]))
    for some, other in zip((*reduced.values, reduced.pairs[0, 1]), (*kept.values, kept.pairs[0, 1]), strict=True):
        assert same_counts(some, other)
    assert left_out == pytest.approx(1 - kept.pairs[0, 1].rows / counts.pairs[0, 1].rows)
    assert left_out > 0.1
