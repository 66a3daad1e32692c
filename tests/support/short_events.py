"""The exact channel of a scalar and its array by the number of elements of the event, by literal enumeration."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from support.enumeration import MAX_EXPONENT, Enumeration, field_weights

from stream_masker import SemanticTransport
from stream_masker.core.arrays import offsets_from_lengths
from stream_masker.core.batch import Batch, Column
from stream_masker.core.ontology import Ontology
from stream_masker.core.random.keys import PositionKeys
from stream_masker.core.statistics import count_batch

SEED = b"a seed of many bytes"
TAU = Ontology.from_edges([(f"c{k}", f"c{(k - 1) // 2}") for k in range(1, 31)]).taxonomy()
VALUES = TAU.encode(["c7", "c8", "c11", "c14", "c15"]).astype(np.int32)
LAW = [0.3, 0.25, 0.2, 0.15, 0.1]


class EventEnumeration:
    """The masks of events of a scalar A and its only array B, over windows of few values.

    ``scalar``, ``array``: the attributes A and B. ``sizes``: the numbers of their values. ``rows``: the window's rows
    of events with 0, 1 and 2 elements, and with more.
    """

    def __init__(self, made: SemanticTransport) -> None:
        self._prepared = made._prepared_statistics()
        self._longer = Enumeration(made)
        (self.short,) = self._prepared.short
        self.scalar, self.array = self.short.parent, self.short.child
        self.sizes = self._longer.sizes[self.scalar], self._longer.sizes[self.array]
        self.rows = self.short.rows

    def masks(self, a, elements):
        """(k_A + 1, k_B + 1, …): the probability of the masks of an event; an index k means absent."""
        if len(elements) in self.short.fields:
            return self._masks_together(self.short.fields[len(elements)], [a, *elements])
        if a == self.sizes[0]:
            result, given = np.array([0.0] * a + [1.0]), np.array([self._longer.alone(self.array)] * (a + 1))
        else:
            own = self._longer.alone(self.scalar) if elements else self.alone()
            result, edge = np.append(own[a], 0.0), (self.scalar, self.array)
            given = np.array([self._longer.given(edge, a, new) for new in [*range(self.sizes[0]), a]])
        for node, b in enumerate(elements, start=1):
            result = result[..., None] * given[:, b].reshape(self.sizes[0] + 1, *[1] * (node - 1), self.sizes[1])
        return np.pad(result, [(0, 0), *[(0, 1)] * len(elements)])

    def alone(self):
        """(k_A, k_A): M(a* | a) of events without elements."""
        fit = self.short.alone
        exponents = float(fit.sharpness[0]) * self._prepared.squares[self.scalar] ** (self._prepared.power / 2.0)
        weights = np.exp(-np.minimum(MAX_EXPONENT, exponents)) * np.where(
            fit.counts >= self._prepared.least, fit.phi, 0.0
        )
        return weights / weights.sum(axis=1, keepdims=True)

    def _masks_together(self, field, record):
        squares = [self._prepared.squares[j] for j in field.links.attributes]
        nothing = [None] * len(squares)
        weights = field_weights(field, squares, nothing, self._prepared.power, self._prepared.least, record)
        return weights / weights.sum()

    def pairs(self):
        """(k_A + 1, k_B): the law of a scalar and an element; the last row is that of absent scalars."""
        counts = self._longer.pair_counts((self.scalar, self.array))
        lacking = self._prepared.values[self.array].counts - counts.sum(axis=0)
        counts = np.vstack([counts, lacking])
        return counts / counts.sum()

    def law(self, elements):
        """(k_A + 1, k_B, …): P(a)·Π P(b_i | a), the law of events with one element or more."""
        pairs = self.pairs()
        result = own = pairs.sum(axis=1)
        given = pairs / np.where(own > 0.0, own, 1.0)[:, None]
        for node in range(1, elements + 1):
            result = result[..., None] * given.reshape(self.sizes[0] + 1, *[1] * (node - 1), self.sizes[1])
        return result

    def joint(self, elements):
        """(k_A + 1, k_B, …, k_A + 1, k_B, …): the law of events with one element or more, and of their masks."""
        law = self.law(elements)
        result = np.zeros(law.shape * 2)
        for record in zip(*np.nonzero(law), strict=True):
            masks = self.masks(record[0], record[1:])
            result[record] = law[record] * masks[(slice(None), *[slice(-1)] * elements)]
        return result

    def shares(self):
        """(3,): the shares of the window's rows with elements, of events with 1 and 2 elements, and with more."""
        return self.rows[1:] / self.rows[1:].sum()

    def mixed(self, node):
        """(k, k): the law of a value of A (``node`` 0) or B (1) and its mask, over the window's rows."""
        joints = [of_node(self.joint(elements), node) for elements in (1, 2, 3)]
        found = sum(share * joint for share, joint in zip(self.shares(), joints, strict=True))
        if node:
            return found
        without = self.without()
        return (1.0 - without.sum()) * found + without

    def without(self):
        """(k_A, k_A): the law of A and its mask in the rows without elements; the sum is their share."""
        counts = self._prepared.fits[self.scalar].counts
        without = counts - self._longer.pair_counts((self.scalar, self.array)).sum(axis=1)
        return without[:, None] * self.alone() / counts.sum()

    def given_record(self, node):
        """The chance of the best guess of A (``node`` 0) or B (1) from all masks of an event, over the window's rows,
        for an attacker who knows the laws of A in events with and without elements."""
        chances = [best_guess(self.joint(elements), node) for elements in (1, 2, 3)]
        found, without = float(self.shares() @ chances), self.without()
        return found if node else (1.0 - without.sum()) * found + without.max(axis=0).sum()


def of_node(joint, node):
    """(k, k): the law of a value that is present and its mask."""
    q = joint.ndim // 2
    found = joint.sum(axis=tuple(axis for axis in range(2 * q) if axis not in (node, q + node)))
    found = found if node else found[:-1, :-1]
    return found / found.sum()


def best_guess(joint, node):
    """The chance that the best guess of a value that is present is right, given all masks of the event."""
    q = joint.ndim // 2
    found = joint.sum(axis=tuple(axis for axis in range(q) if axis != node))
    found = found if node else found[:-1]
    return float(found.max(axis=0).sum() / found.sum())


def window_of(seed, lengths=(0, 1, 2, 3), *, size=2500, absent=0.0, array_first=False, dependent=0.0):
    """A window of a scalar and an array, each element of which is equal to the scalar in about 0.6 of the cases.

    * ``lengths``: the numbers of elements, equally probable; with the probability ``dependent`` a function of the
      scalar. ``absent``: the share of absent scalars.
    """
    rng = np.random.default_rng(seed)
    scalar = rng.choice(5, size, p=LAW)
    numbers = rng.choice(lengths, size)
    numbers = np.where(rng.random(size) < dependent, np.array(lengths)[scalar % len(lengths)], numbers)
    owners = np.repeat(scalar, numbers)
    elements = np.where(rng.random(owners.size) < 0.5, owners, rng.choice(5, owners.size, p=LAW))
    codes = np.where(rng.random(size) < absent, -1, VALUES[scalar])
    return batch_of(codes, VALUES[elements], numbers, array_first=array_first)


def batch_of(scalar, elements, lengths, *, array_first=False):
    """A batch of events; ``scalar``: (n,) codes. ``elements``: the codes of all elements. ``lengths``: (n,)."""
    columns = (
        Column(np.asarray(scalar, np.int32)),
        Column(np.asarray(elements, np.int32), offsets_from_lengths(lengths)),
    )
    return Batch(len(lengths), columns[::-1] if array_first else columns)


def repeated(codes, times):
    """A batch of equal events; ``codes``: of the scalar and of its elements."""
    return batch_of(np.full(times, codes[0]), np.tile(codes[1:], times), np.full(times, len(codes) - 1))


def transport(**parameters):
    """Transport of the attributes A and B without statistics; the default target is an RMSE of 0.3."""
    return SemanticTransport({"A": TAU, "B": TAU}, seed=SEED, **({"target": {"rmse": 0.3}} | parameters))


def counts_of(batch):
    return count_batch(batch, [len(TAU)] * len(batch.columns))


def calibrated(batch, *, lengths=True, **parameters):
    """Transport with the statistics of a window; ``lengths``: whether its counts have those of arrays."""
    made, counts = transport(**parameters), counts_of(batch)
    counts = counts if lengths else replace(counts, lengths={})
    made.restore(made.snapshot_of(made.compute(counts, version=1)))
    return made.with_statistics(made.statistics, counts)


def masked(made, batch, first=0):
    """The masked columns; ``first``: the number of the first record."""
    return made.mask_batch(batch, PositionKeys(b"sixteen bytes, more", "t", 0, first + np.arange(batch.size))).columns


def bound_of(made):
    """The bound of the figures of records."""
    return max(risk.bound for risk in made._prepared_statistics().record_risks.values())


def concept_of(position):
    """The concept at a position of the taxonomy."""
    return TAU.decode(np.array([position]))[0]
