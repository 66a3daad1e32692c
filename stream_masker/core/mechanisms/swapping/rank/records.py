"""The values of a group that swap with their records (2019: Algorithm 3), for attributes that can be arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stream_masker.core.dtypes import BoolArray, Int64Array
from stream_masker.core.mechanisms.swapping.base import MIN_SWAP_RECORDS, SwapValues
from stream_masker.core.mechanisms.swapping.rank.distance_table import DistanceTable
from stream_masker.core.mechanisms.swapping.rank.units import UnitValues, swap_units

MAX_DISTINCT = 8192
"""The largest number of distinct values of an attribute that swap together.

The memory for their distances is quadratic in their number.
"""

MAX_ELEMENT_ATTRIBUTES = 16
"""The largest number of elements of an array that are treated as separate attributes."""


def swap_with_record(values: SwapValues, k: int) -> BoolArray:
    """Return (m,) bool: the values that swap with their record.

    First elements, second elements and so on, up to the 16th, are treated as separate attributes if more than k records
    have them. Later elements swap alone; if they are too few for that, the last of the separate attributes swaps with
    them.
    """
    element_indices = np.arange(len(values)) - np.searchsorted(values.owners, values.owners)
    limit = min(int(np.count_nonzero(np.bincount(element_indices) > k)), MAX_ELEMENT_ATTRIBUTES)
    rest = values.select(element_indices >= limit)
    if len(rest) and (len(rest) <= k or rest.records < MIN_SWAP_RECORDS):
        limit -= 1
    return np.asarray(element_indices < limit)


def swap_records(groups: Sequence[SwapValues], k: int, tables: Sequence[DistanceTable]) -> list[Int64Array]:
    """Return (m,) int64 partners for each attribute. More than k records have values of an attribute, or none has.

    Records with more than ``MAX_DISTINCT`` values of an attribute are split into halves by their order, recursively.
    """
    owners = np.unique(np.concatenate([values.owners for values in groups]))
    if owners.size > 2 * k + 1 and max(map(_distinct, groups)) > MAX_DISTINCT:
        return _by_halves(groups, owners[owners.size // 2], k, tables)
    present = [j for j, values in enumerate(groups) if len(values)]
    parts = [_unit_values(groups[j], owners, tables[j]) for j in present]
    results = iter(swap_units(parts, np.arange(owners.size), k).partners if present else ())
    return [next(results) if len(values) else np.empty(0, np.int64) for values in groups]


def _by_halves(
    groups: Sequence[SwapValues], middle: np.int64, k: int, tables: Sequence[DistanceTable]
) -> list[Int64Array]:
    early = [values.owners < middle for values in groups]
    first, second = (
        swap_records([values.select(mask) for values, mask in zip(groups, side, strict=True)], k, tables)
        for side in (early, [~mask for mask in early])
    )
    return [merge_partners(*arguments) for arguments in zip(groups, early, first, second, strict=True)]


def swap_values_alone(values: SwapValues, k: int, table: DistanceTable) -> Int64Array:
    """Return (m,) int64: the partners of one attribute's values that swap alone (2019: Algorithm 2).

    More than ``MAX_DISTINCT`` distinct values swap in parts of equal size, by their order in the taxonomy.
    """
    distinct, index = np.unique(values.codes, return_inverse=True)
    parts = -(-distinct.size // MAX_DISTINCT)
    part_numbers = index * parts // distinct.size
    partners = np.empty(len(values), np.int64)
    for number in range(parts):
        chosen = np.flatnonzero(part_numbers == number)
        partners[chosen] = chosen[_swap_part(values.select(part_numbers == number), k, table)]
    return partners


def _swap_part(values: SwapValues, k: int, table: DistanceTable) -> Int64Array:
    part = UnitValues(values.codes, np.ones(len(values), np.int64), values.words, table)
    return swap_units([part], values.owners, min(k, len(values) - 1)).partners[0]


def _distinct(values: SwapValues) -> int:
    return int(np.unique(values.codes).size)


def merge_partners(
    values: SwapValues, with_record: BoolArray, record_partners: Int64Array, alone_partners: Int64Array
) -> Int64Array:
    """Return (m,) int64: the partners of all values, from those that swap with their record and those that swap
    alone."""
    partners = np.empty(len(values), np.int64)
    for chosen, chosen_partners in (
        (np.flatnonzero(with_record), record_partners),
        (np.flatnonzero(~with_record), alone_partners),
    ):
        partners[chosen] = chosen[chosen_partners]
    return partners


def _unit_values(values: SwapValues, owners: Int64Array, table: DistanceTable) -> UnitValues:
    lengths = np.bincount(np.searchsorted(owners, values.owners), minlength=owners.size)
    return UnitValues(values.codes, lengths, values.words, table)
