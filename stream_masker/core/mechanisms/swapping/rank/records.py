"""Which values of a group swap with their records as wholes (Algorithm 3 of 2019), where attributes may be arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stream_masker.core.dtypes import BoolArray, Int64Array
from stream_masker.core.mechanisms.swapping.base import MIN_VALUES, SwapValues
from stream_masker.core.mechanisms.swapping.rank.distance_table import DistanceTable
from stream_masker.core.mechanisms.swapping.rank.units import UnitParts, swap_units

MOST_DISTINCT = 8192
"""Distinct values of an attribute that swap together; their distances take memory by the square of their number."""

MOST_PLACES = 16
"""Places of an array that count as attributes of their own."""


def swapped_together(values: SwapValues, k: int) -> BoolArray:
    """(m,): the values that swap with their record.

    First elements, second elements and so on, up to the 16th, count as attributes of their own, as far as more than k
    records have them. Those at later places swap by themselves, together with the last place before where they are too
    few for it.
    """
    places = np.arange(len(values)) - np.searchsorted(values.owners, values.owners)
    cut = min(int(np.count_nonzero(np.bincount(places) > k)), MOST_PLACES)
    rest = values.where(places >= cut)
    if len(rest) and (len(rest) <= k or rest.records < MIN_VALUES):
        cut -= 1
    return np.asarray(places < cut)


def swap_records(groups: Sequence[SwapValues], k: int, tables: Sequence[DistanceTable]) -> list[Int64Array]:
    """(m,) partners by attribute, of its values. Each attribute has values of more than k records, or none at all.

    Records with more than ``MOST_DISTINCT`` values of an attribute swap in two halves, by their order, and so on.
    """
    owners = np.unique(np.concatenate([values.owners for values in groups]))
    if owners.size > 2 * k + 1 and max(map(_distinct, groups)) > MOST_DISTINCT:
        return _by_halves(groups, owners[owners.size // 2], k, tables)
    present = [j for j, values in enumerate(groups) if len(values)]
    parts = [_part(groups[j], owners, tables[j]) for j in present]
    found = iter(swap_units(parts, np.arange(owners.size), k).partners if present else ())
    return [next(found) if len(values) else np.empty(0, np.int64) for values in groups]


def _by_halves(
    groups: Sequence[SwapValues], middle: np.int64, k: int, tables: Sequence[DistanceTable]
) -> list[Int64Array]:
    early = [values.owners < middle for values in groups]
    first, second = (
        swap_records([values.where(chosen) for values, chosen in zip(groups, side, strict=True)], k, tables)
        for side in (early, [~chosen for chosen in early])
    )
    return [joined(*of) for of in zip(groups, early, first, second, strict=True)]


def swap_record_values(values: SwapValues, k: int, levels: DistanceTable) -> Int64Array:
    """(m,) partners of one attribute's values by themselves (Algorithm 2 of 2019).

    More than ``MOST_DISTINCT`` values swap in parts of equal size, by their order in the taxonomy.
    """
    distinct, index = np.unique(values.codes, return_inverse=True)
    parts = -(-distinct.size // MOST_DISTINCT)
    part_of = index * parts // distinct.size
    partners = np.empty(len(values), np.int64)
    for number in range(parts):
        chosen = np.flatnonzero(part_of == number)
        partners[chosen] = chosen[_swap_part(values.where(part_of == number), k, levels)]
    return partners


def _swap_part(values: SwapValues, k: int, levels: DistanceTable) -> Int64Array:
    part = UnitParts(values.codes, np.ones(len(values), np.int64), values.words, levels)
    return swap_units([part], values.owners, min(k, len(values) - 1)).partners[0]


def _distinct(values: SwapValues) -> int:
    return int(np.unique(values.codes).size)


def joined(values: SwapValues, wholes: BoolArray, with_records: Int64Array, alone: Int64Array) -> Int64Array:
    """(m,) partners of all values, from those of the ones that swap with their record and those of the rest."""
    partners = np.empty(len(values), np.int64)
    for chosen, among in ((np.flatnonzero(wholes), with_records), (np.flatnonzero(~wholes), alone)):
        partners[chosen] = chosen[among]
    return partners


def _part(values: SwapValues, owners: Int64Array, levels: DistanceTable) -> UnitParts:
    lengths = np.bincount(np.searchsorted(owners, values.owners), minlength=owners.size)
    return UnitParts(values.codes, lengths, values.words, levels)
