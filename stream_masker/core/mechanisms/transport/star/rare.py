"""The pairs that masks may be, where many of the window's pairs are of too few patients to be written.

A rare pair (a, b) would tell whoever knows that somebody has a, that he has b. If rare pairs were left out, the law of
masks would be that of the frequent pairs, which depend on each other far more than the others. Instead, the values b
of rare pairs change places among the pairs whose values a are near: the pairs below the lowest concept that has
enough of them, from several values a. So each a keeps how many elements it has, each b how often it occurs, and the
dependence of concepts above the rare values stays; that a rare pair is written tells nothing about a patient.

This is data swapping (Dalenius and Reiss 1982) within the classes of a taxonomy, of the law instead of the records.
"""

from __future__ import annotations

import numpy as np

from stream_masker.core.dtypes import BoolArray, Int64Array, UInt64Array
from stream_masker.core.mechanisms.transport.scaling.table import CountedPairs, Table
from stream_masker.core.mechanisms.transport.values import Values
from stream_masker.core.ontology.graph import first_parents_of
from stream_masker.core.random.keys import SecretHash

LEAST_EXCHANGED = 20
"""The least number of different patients, as far as they are known, whose pairs change places with each other."""


def masks_of(
    pairs: CountedPairs, units: Int64Array, values: tuple[Values, Values], least: int, seed: bytes
) -> CountedPairs:
    """Return the pairs of masks; the same ones as the window's if none of these is rare.

    * ``pairs``, ``units``: the window's, and how many different noise keys each has. ``values``: of both attributes.
    * ``least``: of how many noise keys a value, or a pair that does not change places, must be.
    * ``seed``: secret, so that nobody who knows masks can undo the exchange.
    """
    table, counts = pairs
    frequent = units >= least
    if frequent.all():
        return pairs
    first, second = (each.units >= least for each in values)
    rare = CountedPairs(Table.of(table.rows[~frequent], table.columns[~frequent], table.shape), counts[~frequent])
    rows, columns = _exchanged(rare, first, second, values, seed)
    keys = np.concatenate([np.repeat(table.keys[frequent], counts[frequent]), rows * table.shape[1] + columns])
    found, written = np.unique(keys, return_counts=True)
    return CountedPairs(Table.of(*np.divmod(found, table.shape[1]), table.shape), written)


def _exchanged(
    rare: CountedPairs, first: BoolArray, second: BoolArray, values: tuple[Values, Values], seed: bytes
) -> tuple[Int64Array, Int64Array]:
    """Return (n,) int64 each: a and b of the rows of rare pairs, after b has changed places.

    ``first``, ``second``: (k,) which values of A and of B may be written.

    The rows of a group are in the order of a keyed hash, and each takes b of the next one. So the exchange of most rows
    stays as it is when some rows come or go.
    """
    rows, columns = (np.repeat(each, rare.counts) for each in (rare.table.rows, rare.table.columns))
    groups = _groups(rare, values[0])[rows]
    order = np.lexsort((_hashes(rare, values, seed), groups))
    order = order[groups[order] >= 0]
    into, taken = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for group in np.split(order, np.flatnonzero(np.diff(groups[order])) + 1):
        places, given = np.flatnonzero(first[rows[group]]), np.flatnonzero(second[columns[group]])
        if given.size:
            following = given[np.searchsorted(given, places, side="right") % given.size]
            into.append(rows[group[places]])
            taken.append(columns[group[following]])
    return np.concatenate(into), np.concatenate(taken)


def _hashes(rare: CountedPairs, values: tuple[Values, Values], seed: bytes) -> UInt64Array:
    """Return (n,) uint64: a keyed hash of each row, by its values and its number among the rows of its pair."""
    places = zip((rare.table.rows, rare.table.columns), values, strict=True)
    positions = [np.repeat(each.positions[which], rare.counts) for which, each in places]
    starts = np.cumsum(rare.counts) - rare.counts
    numbers = np.arange(rare.counts.sum()) - np.repeat(starts, rare.counts)
    messages = np.column_stack([*positions, numbers]).astype("<i8")
    digests = SecretHash(seed, person=b"masker-exchange", digest_size=8).digests(row.tobytes() for row in messages)
    return np.frombuffer(digests, "<u8")


def _groups(rare: CountedPairs, roots: Values) -> Int64Array:
    """Return (k_A,) int64: the concept below which the rare pairs of each value a change places, −1 for none.

    A concept needs ``LEAST_EXCHANGED`` patients, of whom no value has more than half.
    """
    people = np.minimum(np.bincount(rare.table.rows, rare.counts, minlength=len(roots)).astype(np.int64), roots.units)
    groups = np.full(people.size, -1)
    for concepts in _lines(roots)[::-1]:
        open_ = np.flatnonzero((groups < 0) & (concepts >= 0) & (people > 0))
        own, which = np.unique(concepts[open_], return_inverse=True)
        total, greatest = np.bincount(which, people[open_], own.size), np.zeros(own.size, np.int64)
        np.maximum.at(greatest, which, people[open_])
        enough = (total >= LEAST_EXCHANGED) & (2 * greatest <= total)
        groups[open_[enough[which]]] = own[which[enough[which]]]
    return groups


def _lines(roots: Values) -> Int64Array:
    """Return (depth, k) int64: the concepts above each value, from the root down to itself, then −1."""
    taxonomy = roots.distance.taxonomy
    parents = first_parents_of(taxonomy.parent_offsets, taxonomy.parents)
    upwards = [roots.positions.astype(np.int64)]
    while upwards[-1].any():
        upwards.append(parents[upwards[-1]].astype(np.int64))
    above = np.array(upwards)
    steps = np.count_nonzero(above, axis=0) - np.arange(len(above))[:, None]
    return np.where(steps >= 0, np.take_along_axis(above, np.maximum(steps, 0), axis=0), -1)
