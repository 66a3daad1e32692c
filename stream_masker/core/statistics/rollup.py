"""Values aggregated at ancestors: at one depth, on which drift is measured, or where enough records share one."""

from __future__ import annotations

import base64
import binascii
import zlib

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.dtypes import BoolArray
from stream_masker.core.ontology import Taxonomy
from stream_masker.core.ontology.taxonomy import NO_POSITION, levels, line_parents
from stream_masker.core.statistics.counts import SparseCounts
from stream_masker.core.statistics.units import units_of
from stream_masker.errors import StatisticsError


def roll_up(counts: SparseCounts, taxonomy: Taxonomy, depth: int) -> dict[str, float]:
    """Return the share, in (0, 1], of the values that each concept of the given depth subsumes; the shares sum to 1.

    Depth is that of the longest path from the root. A value below several concepts of that depth is divided equally
    among them. A value above that depth counts for itself. Concepts without a value are omitted. Empty if there are no
    values.
    """
    owner, concept = _subsumers(counts.keys, taxonomy)
    own_depth = taxonomy.depth[counts.keys]
    level = taxonomy.depth[concept] == np.minimum(own_depth, depth)[owner]
    owner, concept = owner[level], concept[level]
    mass = counts.counts / np.bincount(owner, minlength=len(counts.keys)) / max(counts.rows, 1)
    shares = np.bincount(concept, mass[owner], minlength=len(taxonomy))
    return {taxonomy.ids[c]: float(shares[c]) for c in np.flatnonzero(shares)}


def shared_concepts(counts: SparseCounts, taxonomy: Taxonomy, least: int) -> BoolArray:
    """Return (m,) bool: the concepts that at least ``least`` records each share, if every record is generalized to the
    nearest of them (``ontology.taxonomy``).

    From the deepest level up, a concept whose records have fewer than ``least`` different noise keys, or are fewer if
    no noise keys are known, leaves them to its parent. Records that are too few even at the root have no concept. A
    root that is no value is none either.
    """
    parents, size = line_parents(taxonomy), len(taxonomy)
    records, bits = np.zeros(size, np.int64), np.zeros(size, np.uint64)
    records[counts.keys] = counts.counts
    if counts.key_bits is not None:
        bits[counts.keys] = counts.key_bits
    known = None if counts.key_bits is None else bits
    for level in reversed(levels(taxonomy)):
        enough = units_of(records[level], None if known is None else known[level]) >= least
        few = level[~enough & (parents[level] != NO_POSITION)]
        np.add.at(records, parents[few], records[few])
        np.bitwise_or.at(bits, parents[few], bits[few])
        records[few], bits[few] = 0, 0
    shared: BoolArray = units_of(records, known) >= least
    shared[0] &= taxonomy.root_is_value
    return shared


def _subsumers(positions: NDArray[np.int64], taxonomy: Taxonomy) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return every pair (index into positions, ancestor of that position); a position is its own ancestor."""
    table = taxonomy.closure
    start, stop = table.offsets[positions], table.offsets[positions + 1]
    lengths = stop - start
    owner = np.repeat(np.arange(len(positions)), lengths)
    within = np.arange(len(owner)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return owner, table.ancestors[start[owner] + within]


def pack_observed(observed: BoolArray) -> str:
    """Return base64 of the mask's zlib-compressed bits; the first concept is the highest bit of the first byte."""
    return base64.b64encode(zlib.compress(np.packbits(observed).tobytes())).decode("ascii")


def unpack_observed(text: str, size: int) -> BoolArray:
    """Return (size,) bool: the inverse of ``pack_observed``. Raises StatisticsError for any other text."""
    length = (size + 7) // 8
    try:
        packed = zlib.decompressobj().decompress(base64.b64decode(text, validate=True), length + 1)
    except (ValueError, binascii.Error, zlib.error):
        raise StatisticsError("the packed mask of observed concepts cannot be decoded") from None
    if len(packed) != length:
        raise StatisticsError("the packed mask of observed concepts belongs to a taxonomy of another size")
    return np.unpackbits(np.frombuffer(packed, dtype=np.uint8), count=size).astype(np.bool_)


def observed_concepts(counts: SparseCounts, size: int) -> BoolArray:
    """Return (size,) bool: the positions that occur in the counts."""
    mask = np.zeros(size, dtype=np.bool_)
    mask[counts.keys] = True
    return mask


def novel_share(counts: SparseCounts, observed: BoolArray) -> float:
    """Return the share, in [0, 1], of the values whose concept had not been observed before; 0 for no values."""
    return int(counts.counts[~observed[counts.keys]].sum()) / max(counts.rows, 1)
