"""The most frequent values of a window, for an assessment in bounded time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from stream_masker.core.dtypes import BoolArray, Int64Array
from stream_masker.core.statistics.counts import Counts, SparseCounts


def reduced_counts(counts: Counts, sizes: Sequence[int], limits: Sequence[int]) -> tuple[Counts, float]:
    """Return the counts of the rows that have only the most frequent values, and the share of the rows left out.

    A probability that is an average over all rows differs by at most this share from the average over the remaining
    rows. With more than two attributes, the counts of each attribute and of each pair are reduced separately, and the
    share is the largest of them. The lengths of arrays stay those of all events. Contexts are reduced separately.

    * ``sizes``: the number of concepts of each taxonomy. ``limits``: the number of values of each attribute to keep.
    """
    kept = [_kept(column, limit) for column, limit in zip(counts.values, limits, strict=True)]
    if all(chosen.all() for chosen in kept):
        return counts, 0.0
    pairs, values = {}, [column.select(chosen) for column, chosen in zip(counts.values, kept, strict=True)]
    shares = [1.0 - part.rows / whole.rows for part, whole in zip(values, counts.values, strict=True)]
    for (i, j), pair in counts.pairs.items():
        codes = np.divmod(pair.keys, sizes[j])
        both = np.isin(codes[0], values[i].keys) & np.isin(codes[1], values[j].keys)
        pairs[i, j] = pair.select(both)
        shares.append(1.0 - pairs[i, j].rows / max(pair.rows, 1))
        if len(values) == 2:
            values = [_without(column, k[~both], pair.counts[~both]) for column, k in zip(values, codes, strict=True)]
    reduced = {c: reduced_counts(one, sizes, limits) for c, one in counts.contexts.items()}
    if reduced:
        shares.append(sum(share * counts.contexts[c].records for c, (_, share) in reduced.items()) / counts.records)
    contexts = {c: one for c, (one, _) in reduced.items()}
    return replace(counts, values=tuple(values), pairs=pairs, contexts=contexts), max(shares)


def _kept(column: SparseCounts, limit: int) -> BoolArray:
    chosen = np.zeros(column.keys.size, np.bool_)
    chosen[np.argsort(-column.counts, kind="stable")[:limit]] = True
    return chosen


def _without(column: SparseCounts, keys: Int64Array, counts: Int64Array) -> SparseCounts:
    """Return the counts of a column without the rows that are left out because of their other value."""
    present = np.isin(keys, column.keys)
    left = column.counts.copy()
    np.subtract.at(left, np.searchsorted(column.keys, keys[present]), counts[present])
    return replace(column, counts=left).select(left > 0)


def without_mode(counts: Counts, j: int) -> Counts:
    """Return the counts without the most frequent value of attribute j; its pairs stay as they are."""
    column = counts.values[j]
    kept = np.arange(column.keys.size) != (column.counts.argmax() if column.keys.size else -1)
    return replace(counts, values=(*counts.values[:j], column.select(kept), *counts.values[j + 1 :]))
