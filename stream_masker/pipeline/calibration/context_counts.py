"""Counts of all contexts at once, as sums of blocks need them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from stream_masker.core.dtypes import Int64Array
from stream_masker.core.statistics.counts import Counts, SparseCounts


def counts_by_context(
    numbers: Int64Array,
    sums: tuple[Int64Array, Int64Array, Int64Array],
    values: Sequence[Sequence[SparseCounts]],
    pairs: Mapping[tuple[int, int], Sequence[SparseCounts]],
    lengths: Mapping[int, Sequence[SparseCounts]],
    events: Mapping[tuple[int, ...], Sequence[SparseCounts]],
) -> dict[int, Counts]:
    """Return ``Counts.contexts`` of c contexts.

    * ``numbers``: (c,) the contexts. ``sums``: (c,) records, (c, p) ``given`` and (c, p) ``unknown``.
    * ``values``, ``pairs``, ``lengths``, ``events``: of each attribute or pair, the counts of all contexts.
    """
    records, given, unknown = (each.tolist() for each in sums)
    return {
        number: Counts(
            records=records[k],
            values=tuple(column[k] for column in values),
            pairs={pair: column[k] for pair, column in pairs.items()},
            given=tuple(given[k]),
            unknown=tuple(unknown[k]),
            lengths={j: column[k] for j, column in lengths.items()},
            events={js: column[k] for js, column in events.items()},
        )
        for k, number in enumerate(numbers.tolist())
    }


def split_by_context(total: SparseCounts, width: int, size: int) -> list[SparseCounts]:
    """Return the counts of each of ``size`` contexts; the keys of ``total`` are context · ``width`` + key."""
    context, keys = np.divmod(total.keys, width)
    whole = SparseCounts(keys, total.counts, total.key_bits)
    bounds = np.searchsorted(context, np.arange(size + 1)).tolist()
    return [whole.select(np.arange(start, end)) for start, end in pairwise(bounds)]
