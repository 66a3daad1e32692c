"""What a mechanism is expected to do with a window: the least that it must change, and the masks that it makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from stream_masker.core.arrays import Float64Array
from stream_masker.core.batch import Batch, Column
from stream_masker.core.risk.law import Assessed, Channel, Tuples, masked_columns
from stream_masker.core.statistics.counts import Counts, SparseCounts, combine, count_batch, marginals
from stream_masker.errors import StatisticsError

MIN_CHANGED = 0.05
"""The share of values that masking must change, in units of the share that independent draws would change."""

MIN_DOUBT, MAX_DETERMINED = 1e-5, 0.5
"""The probability of other originals, averaged over a value's masks, below which they determine the value; and the
largest share of an attribute's changed values, without its most frequent one, that masks may determine."""

MOST_RECORDS = 20_000
"""The greatest number of records that are drawn."""


def expected_masks(mechanism: Assessed, counts: Counts) -> Counts | None:
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


def _counted_masks(mechanism: Assessed, columns: Mapping[int, Column], sizes: Sequence[int]) -> Counts:
    masks = masked_columns(mechanism, columns)
    return count_batch(Batch(masks[0].lengths.size, masks), sizes)


def required_change(prior: Float64Array) -> float:
    """Return the share of values that must change: ``MIN_CHANGED`` · (1 − Σ p²).

    1 − Σ p² is the share that changes if each value is replaced by an independent draw from the window. A window that
    consists mostly of one value can thus be masked, although no mechanism can change it much without distorting it.
    """
    return MIN_CHANGED * (1.0 - float((prior**2).sum()))


def check_masking(name: str, channel: Channel, prior: Float64Array) -> None:
    """Raise StatisticsError if masking changes too few values of an attribute, or masks determine too many.

    The values other than the most frequent one are checked on their own: a window that is full of one value, by
    accident or on purpose, has little variance, so that noise would leave the other records as they are. An attribute
    with a single value is not checked: an attacker knows it without masks.

    ``prior``: (n,) the share of each of the channel's values.
    """
    if prior.size < 2:
        return
    joint, others = prior[:, None] * channel.rows, np.arange(prior.size) != prior.argmax()
    changed, apart = prior * (1.0 - channel.unchanged), f"{name}, apart from its most frequent value"
    for which, some in ((name, others | True), (apart, others)):
        share, required = changed[some].sum() / prior[some].sum(), required_change(prior[some] / prior[some].sum())
        if share < required:
            raise StatisticsError(
                f"{which}: masking would change {share:.2%} of the values of the window, and must change at least "
                f"{required:.2%}: increase the noise"
            )
    right = (joint * (joint / np.maximum(joint.sum(axis=0), np.finfo(np.float64).tiny))).sum(axis=1)
    determined = others & (right > (1.0 - MIN_DOUBT) * prior)
    if changed[determined].sum() > MAX_DETERMINED * changed[others].sum():
        raise StatisticsError(
            f"{apart}: more than {MAX_DETERMINED:.0%} of the values that masking changes become masks with a single "
            "possible original; use other candidates, another matrix or another mechanism"
        )
