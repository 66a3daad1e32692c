"""The masks that a mechanism is expected to make of the records of a window, of which only the counts are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from stream_masker.core.batch import Batch, Column
from stream_masker.core.mechanisms.base import Mechanism
from stream_masker.core.risk.law import Tuples, masked_columns
from stream_masker.core.statistics.counts import Counts, SparseCounts, combine, count_batch, marginals

MOST_RECORDS = 20_000
"""The greatest number of records that are drawn."""


def expected_masks(mechanism: Mechanism, counts: Counts) -> Counts | None:
    """Return the counts of masks of random records of the window; None for masks of groups, or given a context, and
    for three or more attributes if masks depend on which ones are missing.

    Records are drawn for each pair of attributes, and for the values without the attribute that they mostly occur with;
    as many as the window has, or fewer.
    """
    sizes = [len(d.taxonomy) for d in mechanism.distances]
    if mechanism.needs_group or counts.contexts or (mechanism.needs_patterns and len(sizes) > 2):
        return None
    share, pairs, alone = min(1.0, MOST_RECORDS / counts.records), dict(counts.pairs), list(counts.values)
    made: list[list[SparseCounts]] = [[] for _ in alone]
    for both in sorted(pairs, key=lambda each: -pairs[each].rows):
        if rows := pairs[both].rows:
            tuples = Tuples.of(counts, both, sizes)
            drawn = tuples.draw(max(1, round(share * rows / tuples.mean_length)))
            masks = _counted_masks(mechanism, drawn, sizes)
            for j, paired in zip(both, marginals(pairs[both], sizes[both[1]]), strict=True):
                if not made[j]:
                    made[j].append(masks.values[j])
                    alone[j] = combine([alone[j], SparseCounts(paired.keys, -paired.counts)])
            pairs[both] = masks.pairs[both]
    for j, column in enumerate(alone):
        if column.rows:
            size = max(1, round(share * column.rows))
            codes = np.random.default_rng(j).choice(column.keys, size, p=column.counts / column.rows).astype(np.int32)
            drawn = {j: Column(codes, np.arange(size + 1) if j in counts.lengths else None)}
            made[j].append(_counted_masks(mechanism, drawn, sizes).values[j])
    return Counts(round(share * counts.records), tuple(map(combine, made)), pairs)


def _counted_masks(mechanism: Mechanism, columns: Mapping[int, Column], sizes: Sequence[int]) -> Counts:
    masks = masked_columns(mechanism, columns)
    return count_batch(Batch(masks[0].lengths.size, masks), sizes)
