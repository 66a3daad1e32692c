"""The distribution of an attribute's values over the concepts of one depth, on which drift is measured."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.ontology import Taxonomy
from stream_masker.core.statistics.counts import SparseCounts


def roll_up(counts: SparseCounts, taxonomy: Taxonomy, depth: int) -> dict[str, float]:
    """Return the share, in (0, 1], of the values that each concept of the given depth subsumes; the shares sum to 1.

    Depth is that of the longest path from the root. A value below several concepts of that depth is divided equally
    among them. A value above that depth counts for itself. Concepts without a value are omitted. Empty if there are no
    values.
    """
    owner, concept = _subsumers(counts.keys, taxonomy)
    own_depth = taxonomy.depth[counts.keys]
    chosen = taxonomy.depth[concept] == np.minimum(own_depth, depth)[owner]
    owner, concept = owner[chosen], concept[chosen]
    mass = counts.counts / np.bincount(owner, minlength=len(counts.keys)) / max(counts.rows, 1)
    shares = np.bincount(concept, mass[owner], minlength=len(taxonomy))
    return {taxonomy.ids[c]: float(shares[c]) for c in np.flatnonzero(shares)}


def _subsumers(positions: NDArray[np.int64], taxonomy: Taxonomy) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return every pair (index into positions, ancestor of that position); a position is its own ancestor."""
    table = taxonomy.closure
    start, stop = table.offsets[positions], table.offsets[positions + 1]
    lengths = stop - start
    owner = np.repeat(np.arange(len(positions)), lengths)
    within = np.arange(len(owner)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return owner, table.ancestors[start[owner] + within]
