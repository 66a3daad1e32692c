"""The channel of a mechanism that masks records in groups, estimated from random groups.

What a value becomes depends on the other records of its group. The exact channel is a sum over all groups, so groups
are drawn from the law of the window instead. With G groups, the share of an outcome, and the vulnerability, differ from
their expectation by more than ``sampling.hoeffding_bound(G)`` with a probability of at most 0.05 (Hoeffding 1963; for
the vulnerability McDiarmid 1989, because one group of n among G·n records changes it by at most 1/G). The expectation
of the estimated vulnerability is at least the true one.

The channel is that of one value's own mask. An attacker who uses all masks of a group can learn more.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stream_masker.core.batch import ABSENT
from stream_masker.core.dtypes import Float64Array, Int32Array, Int32Matrix, Int64Array
from stream_masker.core.random.keys import FieldKeys
from stream_masker.core.risk.assessment import SECRET, ChannelSource, batch_of_values
from stream_masker.core.risk.channel import Channel
from stream_masker.core.risk.classes import value_classes
from stream_masker.core.risk.sampling import hoeffding_bound
from stream_masker.core.statistics.counts import Counts

GROUPS = 500
"""The number of random groups."""

GROUP_RECORDS = 50
"""The number of records of a random group, if the mechanism allows it."""


def sampled_channel(source: ChannelSource, j: int, values: Int32Array, counts: Counts, *, minimum: int) -> Channel:
    """Return the estimated channel of attribute j.

    If there is a single value, it is put into every group. If there are several, every record of the groups counts; a
    value that occurs in no group counts as unchanged. ``minimum``: the smallest group that the mechanism allows.
    """
    law = RecordLaw(counts, tuple(len(d.taxonomy) for d in source.distances))
    originals, masked = [], []
    only = int(values[0]) if values.size == 1 else None
    for before, after in _masked_groups(source, law, j, only, max(minimum, GROUP_RECORDS)):
        originals.append(before)
        masked.append(after)
    return _tabulated(values, np.concatenate(originals), np.concatenate(masked), len(source.distances[j].taxonomy))


def _masked_groups(
    source: ChannelSource, law: RecordLaw, j: int, only: int | None, size: int
) -> Iterator[tuple[Int32Array, Int32Array]]:
    """Yield attribute j's values before and after masking: of each group's first record if ``only`` is given, else of
    all records."""
    generator = np.random.default_rng(0)
    for group in range(GROUPS):
        codes = law.draw(generator, size)
        if only is not None:
            codes[0] = law.draw_with(generator, j, only)
        keys = FieldKeys(SECRET, [b"%d %d" % (group, i) for i in range(size)])
        batch = batch_of_values(source, {k: codes[:, k].copy() for k in range(codes.shape[1])}, size)
        after = source.mask_batch(batch, keys).columns[j].codes
        chosen = np.flatnonzero(codes[:, j] >= 0)[: 1 if only is not None else size]
        yield codes[chosen, j], after[chosen]


def _tabulated(values: Int32Array, originals: Int32Array, masked: Int32Array, size: int) -> Channel:
    outcomes = np.unique(np.concatenate((values, masked)))
    cells = np.searchsorted(values, originals) * outcomes.size + np.searchsorted(outcomes, masked)
    counts = np.bincount(cells, minlength=values.size * outcomes.size).reshape(values.size, outcomes.size)
    missing = np.flatnonzero(counts.sum(axis=1) == 0)
    counts[missing, np.searchsorted(outcomes, values[missing])] = 1
    rows = counts / counts.sum(axis=1, keepdims=True)
    return Channel(values, rows, value_classes(outcomes, size), hoeffding_bound(GROUPS))


class RecordLaw:
    """The law of a window's records, as far as its counts determine it.

    The values of two attributes are drawn jointly, those of more attributes independently. An array has one element.
    """

    def __init__(self, counts: Counts, sizes: tuple[int, ...]) -> None:
        """``sizes``: the number of concepts of each taxonomy."""
        if len(sizes) == 2:
            self._parts = [_pair_rows(counts, sizes[1])]
        else:
            self._parts = [_value_rows(counts, j) for j in range(len(sizes))]
        self._cumulative = [np.cumsum(weights) for _, weights in self._parts]

    def draw(self, generator: np.random.Generator, size: int) -> Int32Matrix:
        """Draw records: (size, p) int32; ``ABSENT`` for an absent value."""
        drawn = [
            rows[_choose(generator, cumulative, size)]
            for (rows, _), cumulative in zip(self._parts, self._cumulative, strict=True)
        ]
        return np.asarray(np.concatenate(drawn, axis=1))

    def draw_with(self, generator: np.random.Generator, j: int, value: int) -> Int32Array:
        """Draw a record with the given value of attribute j: (p,) int32."""
        record = self.draw(generator, 1)[0]
        if len(self._parts) == 1:
            rows, weights = self._parts[0]
            chosen = np.flatnonzero(rows[:, j] == value)
            if chosen.size:
                record = rows[chosen[_choose(generator, np.cumsum(weights[chosen]), 1)[0]]].copy()
        record[j] = value
        return np.asarray(record)


def _choose(generator: np.random.Generator, cumulative: Float64Array, size: int) -> Int64Array:
    found = np.searchsorted(cumulative, generator.random(size) * cumulative[-1], side="right")
    return np.asarray(np.minimum(found, cumulative.size - 1))


def _value_rows(counts: Counts, j: int) -> tuple[Int32Matrix, Float64Array]:
    column = counts.values[j]
    absent = max(counts.records - column.rows, 0)
    rows = np.append(column.keys, ABSENT).astype(np.int32)[:, None]
    return rows, np.append(column.counts, absent).astype(np.float64)


def _pair_rows(counts: Counts, size: int) -> tuple[Int32Matrix, Float64Array]:
    pair = counts.pairs[0, 1]
    both = np.stack(np.divmod(pair.keys, size), axis=1)
    rows, weights = [both], [pair.counts]
    for j, column in enumerate(counts.values):
        alone = column.counts - np.bincount(np.searchsorted(column.keys, both[:, j]), pair.counts, column.keys.size)
        single = np.full((column.keys.size, 2), ABSENT)
        single[:, j] = column.keys
        rows.append(single)
        weights.append(alone)
    return np.concatenate(rows).astype(np.int32), np.concatenate(weights).astype(np.float64)
