"""The order of nominal values by closeness to one of them, and what is most distant (2019: sections 3.2 to 3.4).

Definitions by the letter, for readers and for small data; masking has its own, compiled ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import Float64Array
from stream_masker.errors import ParameterError

ORDER_TIE = 1e-12
"""Sums of distances that differ by no more than this, relative to the greatest, are equal."""


def ascending_rank(values: Sequence[str], reference: str, d: Distance) -> list[str]:
    """The values in ascending distance from ``reference`` (2019: equation 4); equally far ones in their given order."""
    order = np.argsort(d.between([reference], values)[0], kind="stable")
    return [values[i] for i in order]


def most_distant_values(values: Sequence[str], d: Distance, *, reference: str | None = None) -> tuple[str, ...]:
    """The values of the greatest sum of distances to all (2019: equation 5), or farthest from ``reference`` (7).

    Several where they tie, each once, in their given order. Raises ParameterError for no values.
    """
    records = [(value,) for value in values]
    found = most_distant_records(records, [d], reference=None if reference is None else (reference,))
    return tuple(dict.fromkeys(values[i] for i in found))


def most_distant_records(
    records: Sequence[Sequence[str]], distances: Sequence[Distance], *, reference: Sequence[str] | None = None
) -> tuple[int, ...]:
    """The indices of the records of the greatest sum of distances to all (2019: equation 10), or farthest from
    ``reference`` (12); several where they tie. Raises ParameterError for no records."""
    if not records:
        raise ParameterError("of no records none is most distant: give at least one")
    to_whom = records if reference is None else [reference]
    sums = record_distances(records, to_whom, distances).sum(axis=1)
    return tuple(np.flatnonzero(sums >= sums.max() * (1.0 - ORDER_TIE)).tolist())


def record_distances(
    first: Sequence[Sequence[str]], second: Sequence[Sequence[str]], distances: Sequence[Distance]
) -> Float64Array:
    """(k, l): the mean distance of the values of each of k records and each of l (2019: equation 9)."""
    between = [
        d.between([record[j] for record in first], [record[j] for record in second]) for j, d in enumerate(distances)
    ]
    return np.asarray(np.mean(between, axis=0))
