"""Windows that are full of one value, and what masking changes of the others."""

from __future__ import annotations

import numpy as np

from stream_masker.core.batch import Batch, Column
from stream_masker.core.mechanisms.base import Mechanism
from stream_masker.core.mechanisms.expected import required_change
from stream_masker.core.ontology import Ontology
from stream_masker.core.risk.law import value_law
from stream_masker.core.statistics.counts import Counts, count_batch

LEAVES = [f"{chapter}{group}{leaf}" for chapter in "abcd" for group in "1234" for leaf in "123456789"]
TREE = Ontology.from_edges(
    [(chapter, "root") for chapter in "abcd"]
    + [(f"{chapter}{group}", chapter) for chapter in "abcd" for group in "1234"]
    + [(leaf, leaf[:2]) for leaf in LEAVES]
).taxonomy()


def flooded(share: float, values: int) -> Counts:
    """Return the counts of ``values`` different values, to which one value is added up to ``share`` of all records."""
    codes = TREE.encode(LEAVES[:: len(LEAVES) // values][:values])
    more = round(10 * len(codes) * share / (1.0 - share))
    column = np.concatenate([np.repeat(codes, 10), np.full(more, codes[0], np.int32)])
    return count_batch(Batch(column.size, (Column(column),)), (len(TREE),))


def changed_of_others(mechanism: Mechanism, counts: Counts) -> tuple[float, float]:
    """Return the share that masking changes of the values other than the most frequent, and the required one."""
    values, prior = value_law(counts.values[0])
    changed = 1.0 - mechanism.attribute_channel(0, values, counts).unchanged
    others = np.delete(prior, prior.argmax()) / (1.0 - prior.max())
    return float(others @ np.delete(changed, prior.argmax())), required_change(others)
