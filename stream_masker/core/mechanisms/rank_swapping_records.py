"""Which values of a group swap with their records as wholes (Algorithm 3 of 2019), where attributes may be arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.mechanisms.candidates import Int64
from stream_masker.core.mechanisms.rank_swapping_levels import LevelTable
from stream_masker.core.mechanisms.rank_swapping_units import Parts, swap_units
from stream_masker.core.mechanisms.swapping import FEWEST, Values

Flags = NDArray[np.bool_]


def together(values: Values, k: int) -> Flags:
    """(m,): the values that swap with their record.

    First elements, second elements and so on count as attributes of their own, as far as more than k records have
    them. Those at later places swap by themselves, together with the last place before where they are too few for it.
    """
    places = np.arange(len(values)) - np.searchsorted(values.owners, values.owners)
    cut = int(np.count_nonzero(np.bincount(places) > k))
    rest = values.where(places >= cut)
    if len(rest) and (len(rest) <= k or rest.records < FEWEST):
        cut -= 1
    return np.asarray(places < cut)


def swap_records(groups: Sequence[Values], k: int, tables: Sequence[LevelTable]) -> list[Int64]:
    """(m,) partners by attribute, of its values. Each attribute has values of more than k records, or none at all."""
    owners = np.unique(np.concatenate([values.owners for values in groups]))
    present = [j for j, values in enumerate(groups) if len(values)]
    parts = [_part(groups[j], owners, tables[j]) for j in present]
    found = iter(swap_units(parts, np.arange(owners.size), k).partners if present else ())
    return [next(found) if len(values) else np.empty(0, np.int64) for values in groups]


def swap_values(values: Values, k: int, levels: LevelTable) -> Int64:
    """(m,) partners of one attribute's values by themselves (Algorithm 2 of 2019)."""
    part = Parts(values.codes, np.ones(len(values), np.int64), values.words, levels)
    return swap_units([part], values.owners, k).partners[0]


def joined(values: Values, wholes: Flags, with_records: Int64, alone: Int64) -> Int64:
    """(m,) partners of all values, from those of the ones that swap with their record and those of the rest."""
    partners = np.empty(len(values), np.int64)
    for chosen, among in ((np.flatnonzero(wholes), with_records), (np.flatnonzero(~wholes), alone)):
        partners[chosen] = chosen[among]
    return partners


def _part(values: Values, owners: Int64, levels: LevelTable) -> Parts:
    lengths = np.bincount(np.searchsorted(owners, values.owners), minlength=owners.size)
    return Parts(values.codes, lengths, values.words, levels)
