"""The channel of mechanisms that mask records in groups, estimated from random groups.

What a value becomes depends on the other records of its group. So groups are drawn from the law of the window, and
masked. With G groups, V and the share of an outcome differ from their expectation by more than ``hoeffding_bound(G)``
with a probability of at most 0.05 (McDiarmid 1989: one group changes them by at most 1/G). The expectation of the
estimated V is at least the true one. An attacker who uses all masks of a group can learn more than the channel tells.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from stream_masker.core.batch import Column
from stream_masker.core.dtypes import Int32Array, Int32Matrix, Int64Array
from stream_masker.core.risk.channel import Channel
from stream_masker.core.risk.classes import value_classes
from stream_masker.core.risk.records import RecordMasker, Tuples, hoeffding_bound, masked_columns
from stream_masker.core.statistics.counts import Counts

GROUP_RECORDS = 50
"""The number of records of a random group, unless the mechanism is told how many will be masked together."""

SAMPLED_RECORDS = 200_000
MIN_GROUPS = 20
MAX_GROUPS = 2_000
"""The number of records of all random groups together, and the least and the greatest number of groups."""


class MaskedGroup(NamedTuple):
    """A random group of n records. ``before``, ``after``: (n, p) int32 positions."""

    before: Int32Matrix
    after: Int32Matrix


def group_count(size: int, records: int = SAMPLED_RECORDS) -> int:
    """Return the number of random groups of ``size`` records that have about ``records`` together."""
    return min(MAX_GROUPS, max(MIN_GROUPS, records // size))


def random_records(counts: Counts, sizes: Sequence[int], generator: np.random.Generator, size: int) -> Int32Matrix:
    """Draw records that have all values: (size, p) int32 positions.

    The values of two attributes are drawn jointly, those of more attributes independently. An array has one element.
    ``sizes``: the number of concepts of each taxonomy.
    """
    jointly = len(sizes) == 2 and counts.pairs[0, 1].keys.size > 0
    columns: list[Int32Array] = []
    for attributes in [(0, 1)] if jointly else [(j,) for j in range(len(sizes))]:
        tuples = Tuples.of(counts, attributes, sizes)
        rows = generator.choice(tuples.prior.size, size, p=tuples.prior)
        columns += [codes[rows] for codes in tuples.codes]
    return np.stack(columns, axis=1)


def sampled_groups(
    masker: RecordMasker, counts: Counts, sizes: Sequence[int], size: int, *, records: int = SAMPLED_RECORDS
) -> Iterator[MaskedGroup]:
    """Yield ``group_count(size, records)`` random groups of the window's records; the same ones each time."""
    generator = np.random.default_rng(0)
    for number in range(group_count(size, records)):
        before = random_records(counts, sizes, generator, size)
        yield MaskedGroup(before, masks_of_group(masker, before, number))


def masks_of_group(
    masker: RecordMasker, codes: Int32Matrix, number: int, context: Int64Array | None = None
) -> Int32Matrix:
    """Return the (n, p) masks of a group of (n, p) codes, with the random words of a number.

    ``context``: (n,), that of each record, if the mechanism has one. Raises ParameterError if there are too few values.
    """
    columns = {j: Column(np.ascontiguousarray(column)) for j, column in enumerate(codes.T)}
    masked = masked_columns(masker, columns, len(codes), number=number, context=context)
    return np.stack(list(masked.values()), axis=1)


def tabulated_channel(groups: Sequence[MaskedGroup], j: int, values: Int32Array, size: int) -> Channel:
    """Return the channel of some values of attribute j, ascending, estimated from all records of at least one group.

    A value that occurs in no group counts as unchanged. ``size``: the number of concepts of the taxonomy.
    """
    before, after = (np.concatenate([side[:, j] for side in sides]) for sides in zip(*groups, strict=True))
    asked = np.isin(before, values)
    outcomes = np.union1d(values, after[asked]).astype(np.int32)
    counts = np.zeros((values.size, outcomes.size))
    np.add.at(counts, (np.searchsorted(values, before[asked]), np.searchsorted(outcomes, after[asked])), 1.0)
    missing = np.flatnonzero(counts.sum(axis=1) == 0.0)
    counts[missing, np.searchsorted(outcomes, values[missing])] = 1.0
    rows = counts / counts.sum(axis=1, keepdims=True)
    return Channel(values, rows, value_classes(outcomes, size), hoeffding_bound(len(groups)))
