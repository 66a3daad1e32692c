"""The concepts that have occurred, and the shares of those of one depth: on both, drift is measured."""

from __future__ import annotations

import numpy as np

from stream_masker.core.arrays import ranges
from stream_masker.core.dtypes import BoolArray
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.statistics.counts import SparseCounts
from stream_masker.core.statistics.packing import pack_array, unpack_array


def roll_up(counts: SparseCounts, taxonomy: Taxonomy, depth: int) -> dict[str, float]:
    """Return the share, in (0, 1], of the values that each concept of the given depth subsumes; the shares sum to 1.

    Depth is that of the longest path from the root. A value below several concepts of that depth is divided equally
    among them. A value above that depth counts for itself. Concepts without a value are omitted. Empty if there are no
    values.
    """
    closure, starts = taxonomy.closure, taxonomy.closure.offsets[counts.keys]
    lengths = closure.offsets[counts.keys + 1] - starts
    owner, concept = np.repeat(np.arange(lengths.size), lengths), closure.ancestors[ranges(starts, lengths)]
    level = taxonomy.depth[concept] == np.minimum(taxonomy.depth[counts.keys], depth)[owner]
    owner, concept = owner[level], concept[level]
    mass = counts.counts / np.bincount(owner, minlength=lengths.size) / max(counts.rows, 1)
    shares = np.bincount(concept, mass[owner], minlength=len(taxonomy))
    return {taxonomy.ids[c]: float(shares[c]) for c in np.flatnonzero(shares)}


def observed_concepts(counts: SparseCounts, size: int) -> BoolArray:
    """Return (size,) bool: the positions that occur in the counts."""
    mask = np.zeros(size, dtype=np.bool_)
    mask[counts.keys] = True
    return mask


def pack_observed(observed: BoolArray) -> str:
    """Return the text of a mask; the first concept is the highest bit of the first byte."""
    return pack_array(np.packbits(observed))


def unpack_observed(text: str, size: int) -> BoolArray:
    """Return (size,) bool: the inverse of ``pack_observed``. Raises StatisticsError for any other text."""
    return np.unpackbits(unpack_array(text, np.uint8, (size + 7) // 8), count=size).astype(np.bool_)
