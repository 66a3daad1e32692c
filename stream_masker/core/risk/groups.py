"""The channel of a mechanism that masks records in groups, estimated from random groups.

What a value becomes depends on the other records of its group. The exact channel is a sum over all groups, so groups
are drawn from the law of the window instead. With G groups, the share of an outcome, and the vulnerability, differ from
their expectation by more than ``sampling.hoeffding_bound(G)`` with a probability of at most 0.05 (Hoeffding 1963; for
the vulnerability McDiarmid 1989, because one group of n among G·n records changes it by at most 1/G). The expectation
of the estimated vulnerability is at least the true one.

The channel is that of one value's own mask. An attacker who uses all masks of a group can learn more
(``core.mechanisms.grouped``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from stream_masker.core.batch import ABSENT
from stream_masker.core.dtypes import Float64Array, Int32Array, Int32Matrix, Int64Array
from stream_masker.core.random import FieldKeys
from stream_masker.core.risk.assessment import SECRET, ChannelSource, MaskedSource, batch_of_values
from stream_masker.core.risk.channel import Channel
from stream_masker.core.risk.classes import value_classes
from stream_masker.core.risk.repeats import TrialRows, learned_rows
from stream_masker.core.risk.sampling import hoeffding_bound
from stream_masker.core.statistics.counts import Counts
from stream_masker.errors import ParameterError

GROUP_RECORDS = 50
"""The number of records of a random group, unless the mechanism is told how many will be masked together."""

SAMPLED_RECORDS = 200_000
MIN_GROUPS = 20
MAX_GROUPS = 2_000
"""The number of records of all random groups together, and the least and the greatest number of groups."""

GROUP_GROWTH = 10
"""The multiple of its size up to which a group with too few values grows."""


@dataclass(frozen=True, slots=True, eq=False)
class MaskedGroup:
    """A random group of n records. ``before``, ``after``: (n, p) int32 positions, ``ABSENT`` for an absent value."""

    before: Int32Matrix
    after: Int32Matrix


def group_count(size: int, records: int = SAMPLED_RECORDS) -> int:
    """Return the number of random groups of ``size`` records that have about ``records`` together."""
    return min(MAX_GROUPS, max(MIN_GROUPS, records // size))


def sampled_groups(
    source: ChannelSource,
    counts: Counts,
    size: int,
    *,
    j: int = 0,
    only: int | None = None,
    records: int = SAMPLED_RECORDS,
) -> Iterator[MaskedGroup]:
    """Yield ``group_count(size, records)`` random groups of the window's records; the same ones each time.

    As in the service, a group with too few values to be masked grows. If it still has too few at ``GROUP_GROWTH`` times
    its size, it is left out.

    * ``only``: a value of attribute j that the first record of each group has.
    """
    law = RecordLaw(counts, tuple(len(d.taxonomy) for d in source.distances))
    generator = np.random.default_rng(0)
    for number in range(group_count(size, records)):
        codes = law.draw(generator, size)
        if only is not None:
            codes[0] = law.draw_with(generator, j, only)
        masked = grown_group(source, law, generator, codes, number)
        if masked is not None:
            yield masked


def grown_group(
    source: MaskedSource, law: RecordLaw, generator: np.random.Generator, codes: Int32Matrix, number: int
) -> MaskedGroup | None:
    """Mask a group, with the random words of a number. It grows by its size while it has too few values.

    None if it still has too few at ``GROUP_GROWTH`` times its size.
    """
    size = len(codes)
    while len(codes) <= GROUP_GROWTH * size:
        try:
            return MaskedGroup(codes, masks_of_group(source, codes, number))
        except ParameterError:
            codes = np.concatenate((codes, law.draw(generator, size)))
    return None


def masks_of_group(
    source: MaskedSource, codes: Int32Matrix, number: int, context: Int64Array | None = None
) -> Int32Matrix:
    """Return the (n, p) masks of a group of (n, p) codes, with the random words of a number.

    ``context``: (n,), that of each record, if the mechanism has one.

    Raises ParameterError if the group has too few values.
    """
    keys = FieldKeys(SECRET, [b"%d %d" % (number, i) for i in range(len(codes))])
    batch = batch_of_values(source, {k: codes[:, k].copy() for k in range(codes.shape[1])}, len(codes))
    masked = source.mask_batch(replace(batch, context=context), keys)
    return np.stack([column.codes for column in masked.columns], axis=1)


def tabulated_channel(groups: Sequence[MaskedGroup], j: int, values: Int32Array, size: int) -> Channel:
    """Return the channel of several values of attribute j, estimated from all records of the groups.

    A value that occurs in no group counts as unchanged. ``size``: the number of concepts of the taxonomy.
    """
    return _tabulated(values, *_pairs_of(groups, j), size, len(groups))


def channel_of_value(groups: Sequence[MaskedGroup], j: int, values: Int32Array, size: int) -> Channel:
    """Return the channel of one value of attribute j, which the first record of each group has."""
    after = np.array([group.after[0, j] for group in groups], np.int32)
    return _tabulated(values, np.full(after.size, values[0]), after, size, len(groups))


def trial_rows(groups: Sequence[MaskedGroup], j: int, values: Int32Array) -> TrialRows:
    """Return the masks of attribute j in one half of the groups, and what an attacker learns of the other half."""
    halves = [_pairs_of(groups[half::2], j) for half in range(2)]
    outcomes = np.unique(np.concatenate([values, *(masked for _, masked in halves)]))
    seen, learned = (_counted(values, outcomes, *pairs) for pairs in halves)
    return TrialRows(learned_rows(learned), seen)


def _pairs_of(groups: Sequence[MaskedGroup], j: int) -> tuple[Int32Array, Int32Array]:
    """Return attribute j's values before and after masking, of all records of the groups."""
    before = np.concatenate([group.before[:, j] for group in groups] or [np.zeros(0, np.int32)])
    after = np.concatenate([group.after[:, j] for group in groups] or [np.zeros(0, np.int32)])
    return before[before >= 0], after[before >= 0]


def _counted(values: Int32Array, outcomes: Int32Array, originals: Int32Array, masked: Int32Array) -> Int64Array:
    cells = np.searchsorted(values, originals) * outcomes.size + np.searchsorted(outcomes, masked)
    return np.bincount(cells, minlength=values.size * outcomes.size).reshape(values.size, outcomes.size)


def _tabulated(values: Int32Array, originals: Int32Array, masked: Int32Array, size: int, groups: int) -> Channel:
    outcomes = np.unique(np.concatenate((values, masked)))
    counts = _counted(values, outcomes, originals, masked)
    missing = np.flatnonzero(counts.sum(axis=1) == 0)
    counts[missing, np.searchsorted(outcomes, values[missing])] = 1
    rows = counts / counts.sum(axis=1, keepdims=True)
    bound = hoeffding_bound(groups) if groups else 1.0
    return Channel(values, rows, value_classes(outcomes, size), bound)


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
            holders = np.flatnonzero(rows[:, j] == value)
            if holders.size:
                record = rows[holders[_choose(generator, np.cumsum(weights[holders]), 1)[0]]].copy()
        record[j] = value
        return np.asarray(record)


def _choose(generator: np.random.Generator, cumulative: Float64Array, size: int) -> Int64Array:
    places = np.searchsorted(cumulative, generator.random(size) * cumulative[-1], side="right")
    return np.asarray(np.minimum(places, cumulative.size - 1))


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
