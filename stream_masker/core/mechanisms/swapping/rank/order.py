"""Literal definitions of the order of nominal values and of the most distant ones (2019: sections 3.2 to 3.4).

They serve readers and small data; masking uses compiled code.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import Float64Array
from stream_masker.errors import ParameterError

ORDER_TIE = 1e-12
"""Sums of distances are tied if they differ by no more than this, relative to the largest one."""


def ascending_rank(values: Sequence[str], reference: str, d: Distance) -> list[str]:
    """Return the values in ascending distance from ``reference`` (2019: equation 4).

    Equally distant values keep the given order.
    """
    order = np.argsort(d.between([reference], values)[0], kind="stable")
    return [values[i] for i in order]


def most_distant_values(values: Sequence[str], d: Distance, *, reference: str | None = None) -> tuple[str, ...]:
    """Return the values with the largest sum of distances to all values (2019: equation 5).

    With a ``reference``, return the values farthest from it (equation 7). Tied values are returned once each, in the
    given order. Raises ParameterError if there are no values.
    """
    records = [(value,) for value in values]
    found = most_distant_records(records, [d], reference=None if reference is None else (reference,))
    return tuple(dict.fromkeys(values[i] for i in found))


def most_distant_records(
    records: Sequence[Sequence[str]], distances: Sequence[Distance], *, reference: Sequence[str] | None = None
) -> tuple[int, ...]:
    """Return the indices of the records with the largest sum of distances to all records (2019: equation 10).

    With a ``reference``, return the records farthest from it (equation 12). All tied records are returned. Raises
    ParameterError if there are no records.
    """
    if not records:
        raise ParameterError("the most distant of no records is undefined: give at least one record")
    references = records if reference is None else [reference]
    sums = record_distances(records, references, distances).sum(axis=1)
    return tuple(np.flatnonzero(sums >= sums.max() * (1.0 - ORDER_TIE)).tolist())


def record_distances(
    first: Sequence[Sequence[str]], second: Sequence[Sequence[str]], distances: Sequence[Distance]
) -> Float64Array:
    """Return (k, l) float64: the mean distance of the values of each of k records and each of l records (2019: equation
    9)."""
    between = [
        d.between([record[j] for record in first], [record[j] for record in second]) for j, d in enumerate(distances)
    ]
    return np.asarray(np.mean(between, axis=0))
