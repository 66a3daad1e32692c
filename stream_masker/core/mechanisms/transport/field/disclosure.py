"""What masked records of a field tell: the best guesses of values and of pairs, given all masks of the record.

The posterior of the records s given masks t is P(s)·Π K_j(s_j, t_j) / Z(s), up to a factor; given n independent masks
t_r of the whole record it is P(s)·Π_r Π_j K_j(s_j, t_rj) / Z(s)^n. It is computed over all ``TreeRecords``, for
``DRAWS`` of them with their masks, and its maxima are averaged (Rao–Blackwell).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stream_masker.core.arrays import offsets_from_lengths
from stream_masker.core.dtypes import Float64Array, Float64Matrix, Int32Array, Int32Matrix, Int64Array, Int64Matrix
from stream_masker.core.kernels.jit import int64, kernel, part
from stream_masker.core.mechanisms.transport.field.channel import FieldChannel, draw_records
from stream_masker.core.mechanisms.transport.field.links import Links
from stream_masker.core.mechanisms.transport.field.records import TreeRecords
from stream_masker.core.risk.sampling import RecordRisk

DRAWS = 10_000
"""The number of records that are drawn."""
ROUGH_DRAWS = 2_000
"""The number of records that are drawn while λ is searched for."""
DRAWS_SEED = 11
NORMAL_QUANTILE = 2.0
"""Standard errors by which an estimate may miss its true value, with a confidence of 0.95."""
NEGLIGIBLE = 2e-5
"""The records with a value of the root, or with a pair of the first link, are left out of a posterior if they can have
less than this share of it. What they can have at most counts as guessed right."""
NEGLIGIBLE_PAIR = 3e-6
"""The same for a pair: there are more of them."""
NEGLIGIBLE_LOG = 40.0
"""Given several masks, records are left out whose posterior is less than exp(−40) of the greatest: fewer than 10⁶
records have less than 10⁻¹¹ together."""


@dataclass(frozen=True, slots=True, eq=False)
class FieldRisk:
    """The chances of the best guesses, given all masks of a record, or several times all of them.

    * ``of_nodes``: (q,) of each value. ``of_pairs``: (q − 1,) of both values of each link.
    * ``unchanged``: (q − 1,) the share of records of which both values stay in all masks.
    * ``bound``: with confidence 0.95, none of the chances differs from its true value by more.
    """

    of_nodes: Float64Array
    of_pairs: Float64Array
    unchanged: Float64Array
    bound: float

    @classmethod
    def of(
        cls,
        channel: FieldChannel,
        links: Links,
        records: TreeRecords,
        totals: Float64Array,
        draws: int = DRAWS,
        repeats: int = 1,
    ) -> FieldRisk:
        """Estimate the chances. Values and pairs that are absent from a record do not count.

        ``totals``: (n,) Z of the records. ``draws``: the number of records drawn. ``repeats``: how often each of them
        is masked, with independent random words.
        """
        rng = np.random.default_rng(DRAWS_SEED)
        places = (np.arange(draws) + rng.random(draws)) / draws
        drawn = np.minimum(np.searchsorted(np.cumsum(records.weights), places), len(records.indices) - 1)
        originals = np.ascontiguousarray(records.indices[drawn])
        words = rng.integers(0, 2**64, (repeats, *originals.shape), dtype=np.uint64)
        masks = np.stack([draw_records(channel, originals, each) for each in words])
        explained = masks[0, :, 0] >= 0
        masks = masks[:, explained]
        given = Posteriors.of(links, records, totals)
        if repeats == 1:
            best = best_guesses(channel, given, masks[0])
        else:
            best = repeated_guesses(channel, given, records.weights, totals, masks)
        absent = originals[explained] == np.array(links.sizes) - 1
        parents = np.array(links.parents[1:])
        both = ~absent[:, 1:] & ~absent[:, parents]
        counted = np.concatenate([~absent, both], axis=1)
        stays = (originals[explained] == masks).all(axis=0)
        means, errors = _means(best, counted)
        q = len(links.attributes)
        return cls(
            means[:q],
            means[q:],
            _means((stays[:, 1:] & stays[:, parents]).astype(np.float64), both)[0],
            NORMAL_QUANTILE * float(errors.max()),
        )

    def of_records(self, links: Links) -> dict[tuple[int, int], RecordRisk]:
        """Return the figures of each link as those of records of both attributes, by these attributes, ascending."""
        found = {}
        for node in range(1, len(links.attributes)):
            ends = sorted((links.parents[node], node), key=lambda n: links.attributes[n])
            chances = (float(self.of_nodes[ends[0]]), float(self.of_nodes[ends[1]]))
            both, unchanged = float(self.of_pairs[node - 1]), float(self.unchanged[node - 1])
            pair = (links.attributes[ends[0]], links.attributes[ends[1]])
            found[pair] = RecordRisk(both, chances, unchanged, self.bound)
        return found


def _means(values: Float64Matrix, counted: np.ndarray) -> tuple[Float64Array, Float64Array]:
    """Return the mean of each column over the rows that count, and its standard error."""
    rows = np.maximum(counted.sum(axis=0), 1)
    means = np.where(counted, values, 0.0).sum(axis=0) / rows
    squares = np.where(counted, (values - means) ** 2, 0.0).sum(axis=0) / rows
    return means, np.sqrt(squares / rows)


class Posteriors(NamedTuple):
    """The records of a law, by the pairs of the first link, whose parent is the root.

    * ``records``: (n, q) ordered by these pairs. ``shares``: (n,) P / Z. ``pairs``: (n, q) the index of each record's
      pair of each node's link. ``starts``: (q + 1,) where each link starts in an array over all pairs.
    * ``rows``: (k_0 + 2,) the first pair of each value of the root. ``firsts``: (m + 1,) the first record of each pair.
    * ``in_value``, ``in_pair``: the sums of the shares of each value of the root, and of each of these pairs.
    """

    records: Int32Matrix
    shares: Float64Array
    pairs: Int64Matrix
    starts: Int64Array
    rows: Int64Array
    firsts: Int64Array
    in_value: Float64Array
    in_pair: Float64Array

    @classmethod
    def of(cls, links: Links, records: TreeRecords, totals: Float64Array) -> Posteriors:
        """``totals``: (n,) Z of the records."""
        shares = np.where(totals > 0.0, records.weights / np.where(totals > 0.0, totals, 1.0), 0.0)
        pairs = np.zeros(records.indices.shape, np.int64)
        for node, table in enumerate(links.tables, start=1):
            above = records.indices[:, links.parents[node]].astype(np.int64)
            pairs[:, node] = np.searchsorted(table.keys, above * table.shape[1] + records.indices[:, node])
        first = links.tables[0]
        in_pair = np.bincount(pairs[:, 1], shares, minlength=first.rows.size).astype(np.float64)
        in_value = np.bincount(first.rows, in_pair, minlength=first.shape[0]).astype(np.float64)
        return cls(
            records.indices,
            shares,
            pairs,
            offsets_from_lengths(np.array([0, *(table.rows.size for table in links.tables)])),
            first.by_row.offsets,
            np.searchsorted(pairs[:, 1], np.arange(first.rows.size + 1)),
            in_value,
            in_pair,
        )


@part
def add_records(
    channel: FieldChannel,
    given: Posteriors,
    mask: Int32Array,
    e: int,
    of_both: float,
    of_values: Float64Array,
    of_pairs: Float64Array,
) -> float:
    """Add the posterior weights of the records of a pair e of the first link, and return their sum.

    ``of_both``: the kernels of both values of the pair. For the other arguments see ``best_guesses``.
    """
    layout, kernels = channel.layout, channel.weights.kernels
    total = 0.0
    for i in range(given.firsts[e], given.firsts[e + 1]):
        weight = given.shares[i] * of_both
        for node in range(2, mask.size):
            at = layout.kernels[node] + mask[node] * layout.sizes[node] + given.records[i, node]
            weight *= np.float64(kernels[at])
        for node in range(2, mask.size):
            of_values[layout.values[node] + given.records[i, node]] += weight
            of_pairs[given.starts[node] + given.pairs[i, node]] += weight
        total += weight
    return total


@part
def add_posterior(
    channel: FieldChannel, given: Posteriors, mask: Int32Array, of_values: Float64Array, of_pairs: Float64Array
) -> tuple[float, float]:
    """Add the posterior weights of all records given a mask; return their sum, and what was left out at most."""
    layout, kernels = channel.layout, channel.weights.kernels
    total, left_out = 0.0, 0.0
    order = channel.order[mask[0]]
    second = layout.kernels[1] + mask[1] * layout.sizes[1]
    for k in range(order.size):
        a = int64(order[k])
        nearness = np.float64(kernels[a * layout.sizes[0] + mask[0]])
        if not nearness * given.in_value[a] > NEGLIGIBLE * total:
            left_out += nearness * given.in_value[a]
            continue
        for e in range(given.rows[a], given.rows[a + 1]):
            if given.firsts[e] < given.firsts[e + 1]:
                value = given.records[given.firsts[e], 1]
                of_both = nearness * np.float64(kernels[second + value])
                if of_both * given.in_pair[e] > NEGLIGIBLE_PAIR * total:
                    here = add_records(channel, given, mask, e, of_both, of_values, of_pairs)
                    of_values[a] += here
                    of_values[layout.values[1] + value] += here
                    of_pairs[e] += here
                    total += here
                else:
                    left_out += of_both * given.in_pair[e]
    return total, left_out


@kernel
def best_guesses(channel: FieldChannel, given: Posteriors, masks: Int32Matrix) -> Float64Matrix:
    """Return (m, 2q − 1) float64: the chances of the best guess of each value, then of each pair, for m masked records.

    Upper bounds: what is left out counts as guessed right.
    """
    layout = channel.layout
    q = masks.shape[1]
    result = np.empty((len(masks), 2 * q - 1), np.float64)
    of_values = np.zeros(layout.values[-1], np.float64)
    of_pairs = np.zeros(given.starts[-1], np.float64)
    for m in range(len(masks)):
        of_values[:] = 0.0
        of_pairs[:] = 0.0
        total, left_out = add_posterior(channel, given, masks[m], of_values, of_pairs)
        for node in range(q):
            best = greatest(of_values[layout.values[node] : layout.values[node + 1]])
            result[m, node] = (best + left_out) / (total + left_out)
            if node > 0:
                best = greatest(of_pairs[given.starts[node] : given.starts[node + 1]])
                result[m, q - 1 + node] = (best + left_out) / (total + left_out)
    return result


@part
def greatest(numbers: Float64Array) -> float:
    """Return the greatest of some numbers from 0, 0 for none."""
    found = 0.0
    for x in numbers:
        found = max(found, x)
    return found


def repeated_guesses(
    channel: FieldChannel, given: Posteriors, weights: Float64Array, totals: Float64Array, masks: Int32Array
) -> Float64Matrix:
    """Return (m, 2q − 1) float64: as ``best_guesses``, for m records with n masks each, up to ``NEGLIGIBLE_LOG``.

    ``weights``, ``totals``: of the records P and Z. ``masks``: (n, m, q) int32. Takes O(m·q·(records + n·values)).
    """
    repeats, size, q = masks.shape
    layout, result = channel.layout, np.empty((size, 2 * q - 1))
    matrices = [
        channel.weights.kernels[layout.kernels[node] : layout.kernels[node + 1]].reshape(n, n)
        for node, n in enumerate(layout.sizes)
    ]
    matrices[0] = matrices[0].T
    with np.errstate(divide="ignore"):
        logs = np.where(totals > 0.0, np.log(weights) - repeats * np.log(totals), -np.inf)
        for m in range(size):
            scores = logs.copy()
            for node, matrix in enumerate(matrices):
                rows = matrix[masks[:, m, node]].astype(np.float64)
                scores += np.log(rows).sum(axis=0)[given.records[:, node]]
            likely = np.flatnonzero(scores > scores.max() - NEGLIGIBLE_LOG)
            posterior = np.exp(scores[likely] - scores.max())
            posterior /= posterior.sum()
            for node in range(q):
                result[m, node] = np.bincount(given.records[likely, node], posterior).max()
                if node > 0:
                    result[m, q - 1 + node] = np.bincount(given.pairs[likely, node], posterior).max()
    return result
