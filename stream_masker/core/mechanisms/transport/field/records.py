"""Records that have the window's pairs along a tree, and are otherwise independent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stream_masker.core.arrays import offsets_from_lengths
from stream_masker.core.dtypes import Float64Array, Int32Array, Int32Matrix, Int64Array
from stream_masker.core.mechanisms.transport.field.links import Links
from stream_masker.errors import StatisticsError

MAX_RECORDS = 100_000
"""The greatest number of records; larger windows are sampled."""
RECORDS_SEED = 7
RAKING_ROUNDS = 50


@dataclass(frozen=True, slots=True, eq=False)
class TreeRecords:
    """n distinct records of q nodes, ordered by the root.

    * ``indices``: (n, q) int32, k_j for an absent value. ``weights``: (n,) float64, their shares.
    * ``starts``: (k_0 + 2,) int64, the first record of each value of the root.
    """

    indices: Int32Matrix
    weights: Float64Array
    starts: Int64Array

    @classmethod
    def of(cls, links: Links) -> TreeRecords:
        """Build the records. Their pairs along the tree are those of the window: exactly, or nearly if it is sampled.

        Raises StatisticsError if the pairs of two links are not of the same rows.
        """
        rng = np.random.default_rng(RECORDS_SEED)
        first = links.tables[0]
        columns = [np.repeat(first.rows, links.counts[0]).astype(np.int32)]
        for node in range(1, len(links.attributes)):
            columns.append(_matched(links, node, columns[links.parents[node]], rng))
        chosen, weights = _sampled(links, columns, rng)
        return cls._distinct(np.stack([column[chosen] for column in columns]), weights, links.sizes[0])

    @classmethod
    def _distinct(cls, rows: Int32Matrix, weights: Float64Array, roots: int) -> TreeRecords:
        order = np.lexsort(rows[::-1])
        ordered = rows[:, order]
        new = np.concatenate([[True], (ordered[:, 1:] != ordered[:, :-1]).any(axis=0)])
        shares = np.bincount(np.cumsum(new) - 1, weights[order])
        indices = np.ascontiguousarray(ordered[:, new].T)
        starts = offsets_from_lengths(np.bincount(indices[:, 0], minlength=roots))
        return cls(indices, shares / shares.sum(), starts)


def _matched(links: Links, node: int, parents: Int32Array, rng: np.random.Generator) -> Int32Array:
    """Give each record a value of a node, at random among the pairs of its parent's value."""
    table, counts = links.tables[node - 1], links.counts[node - 1]
    rows, values = np.repeat(table.rows, counts), np.repeat(table.columns, counts).astype(np.int32)
    places = np.argsort(parents, kind="stable")
    if not np.array_equal(parents[places], rows):
        raise StatisticsError("the pairs of two attributes are not of the same rows as those of two others")
    result = np.empty(parents.size, np.int32)
    result[places] = values[np.lexsort((rng.random(rows.size), rows))]
    return result


def _sampled(links: Links, columns: list[Int32Array], rng: np.random.Generator) -> tuple[Int64Array, Float64Array]:
    """Return the records to keep, with weights: ``MAX_RECORDS`` at random, and one for each pair that these lack.

    The weights are raked: scaled to the rows of the pairs of one link after the other (Deming and Stephan 1940).
    """
    size = columns[0].size
    if size <= MAX_RECORDS:
        return np.arange(size), np.ones(size)
    chosen = rng.choice(size, MAX_RECORDS, replace=False)
    places = []
    for node, table in enumerate(links.tables, start=1):
        keys = columns[links.parents[node]].astype(np.int64) * table.shape[1] + columns[node]
        places.append(np.searchsorted(table.keys, keys))
    firsts = [np.unique(each, return_index=True)[1] for each in places]
    kept = np.unique(np.concatenate([chosen, *firsts]))
    weights = np.full(kept.size, size / kept.size)
    for _ in range(RAKING_ROUNDS):
        for place, counts in zip(places, links.counts, strict=True):
            weights *= (counts / np.bincount(place[kept], weights, minlength=counts.size))[place[kept]]
    return kept, weights
