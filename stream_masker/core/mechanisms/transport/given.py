"""Attributes that are masked given the root: further scalars, and the elements of arrays.

A value b of a record with the root a, whose mask is a*, moves by a coupling from P(b | a) to P(b* | a*), and is redrawn
from P(b* | a*) where its mask would tell too much. Given a*, the mask b* is independent of a, so that what a record's
masks tell about a, a* tells already. Each attribute keeps its law with the root, and its relation to others as far as
the root explains it. Elements are drawn independently of each other given the root, but differ where the originals do.

The coupling goes level by level, the nearest first: a value stays itself as far as both laws have it, then becomes
another one of its block, of its chapter, or any. A redraw of all values alike adds distance where the laws force less
of it than is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from stream_masker.core.arrays import offsets_from_lengths
from stream_masker.core.dtypes import Float32Array, Float32Matrix, Float64Array, Float64Matrix, Int32Array, UInt64Array
from stream_masker.core.kernels.draws import salts_of
from stream_masker.core.kernels.transport import Couplings, draw_given, mixed_couplings
from stream_masker.core.mechanisms.transport.certainty import SLACK, Excess, Limits, Redraw
from stream_masker.core.mechanisms.transport.fit import BLOCK_DEPTHS, Tuples, Values

SAMPLE = 20_000
"""The number of values that are drawn to measure how far an attribute moves; its relative error is about 1 %."""


@dataclass(frozen=True, eq=False)
class Given:
    """An attribute that is masked given the root.

    * ``attribute``: its index. ``root``, ``values``: those of the root and of the attribute. ``tuples``: the window's
      pairs of both. ``couplings``: with η. ``joint``: (k_A, k_A) float64 P(a, a*) of the root.
    * ``wanted``, ``moved``: E[d²] that is asked for, and what it is, because a and a* force it.
    """

    attribute: int
    root: Values
    values: Values
    tuples: Tuples
    couplings: Couplings
    joint: Float64Matrix
    wanted: float
    moved: float

    @classmethod
    def of(
        cls,
        attribute: int,
        values: tuple[Values, Values],
        tuples: Tuples,
        joint: Float64Matrix,
        wanted: float,
        moved: float = 0.0,
        eta: Float32Matrix | None = None,
    ) -> Given:
        """Create the masking of an attribute given the root; without ``eta`` nothing is redrawn."""
        law, lines = tuples.law(values), [values[1].ancestors(depth) for depth in BLOCK_DEPTHS]
        _, first, block = np.unique(lines[0], return_index=True, return_inverse=True)
        nodes = np.array([np.unique(each[first], return_inverse=True)[1] for each in lines], np.int32)
        couplings = Couplings(
            conditional(law.dense(law.share)),
            conditional(law.target),
            block.astype(np.int32),
            nodes,
            np.zeros(law.target.shape, np.float32) if eta is None else eta,
            salts_of(values[1].positions),
        )
        return cls(attribute, *values, tuples, couplings, joint, wanted, moved)

    def draw(
        self, root: Int32Array, root_new: Int32Array, codes: Int32Array, words: UInt64Array, lengths: Int32Array
    ) -> Int32Array:
        """Return the masks of values; all are positions. ``lengths``: (n,) the numbers of values of n records."""
        offsets = offsets_from_lengths(lengths)
        indices = (self.root.indices(root), self.root.indices(root_new), self.values.indices(codes))
        return self.values.positions[draw_given(self.couplings, *indices, words, offsets)]

    @property
    def prior(self) -> Float64Array:
        """(k_B,) float64 P(b)."""
        return np.asarray(self.joint.sum(axis=1) @ self.couplings.source)

    def told(self) -> Iterator[tuple[int, float, Coupled]]:
        """Yield every mask a* of the root that is written, its chance, and what masks tell given it."""
        for new in np.flatnonzero(self.joint.sum(axis=0) > 0.0).tolist():
            chance = float(self.joint[:, new].sum())
            coupled = mixed_couplings(self.couplings, self.joint[:, new] / chance, new)
            yield new, chance, Coupled(coupled, coupled.sum(axis=0, keepdims=True))

    def blocks(self) -> Iterator[Float64Matrix]:
        """Yield the joint law of the attribute's value and its record's masks: for each a* the (k_B, k_B) P(b, b*)."""
        for new, chance, told in self.told():
            found = Redraw.of((told,), self.couplings.eta[new : new + 1])
            kept = told.joint * (1.0 - found.eta[0].astype(np.float64))
            yield (kept + np.outer(found.mean[0], found.weights[0])) * chance

    def fitted(self, limits: Limits) -> Given:
        """Return the masking with the redraw that the limits, and the distance that is asked for, need."""
        near, far = (self._sampled(np.full_like(self.couplings.eta, each)) for each in (0.0, 1.0))
        floor = float(np.clip((self.wanted - near) / max(far - near, 1e-12), 0.0, 1.0))
        eta = np.zeros_like(self.couplings.eta)
        for new, _, told in self.told():
            prior = told.joint.sum(axis=1, dtype=np.float64)
            own = limits._replace(values=np.maximum(limits.values, prior * (1.0 + SLACK)))
            own = own._replace(of_groups=np.maximum(own.of_groups, limits.masses(prior)[prior.size :] * (1.0 + SLACK)))
            eta[new] = Redraw.least((told,), (own,), floor).eta[0]
        return replace(self, couplings=self.couplings._replace(eta=eta), moved=self._sampled(eta))

    def _sampled(self, eta: Float32Matrix) -> float:
        """Return an estimate of E[d²] with these chances of a redraw."""
        rng, rows, columns = np.random.default_rng(0), self.tuples.rows, self.tuples.columns
        chances = self.joint.sum(axis=1)[rows] * self.couplings.source[rows, columns]
        picked = np.sort(rng.choice(rows.size, SAMPLE, p=chances / chances.sum()))
        a, b, new = rows[picked], columns[picked], np.empty(SAMPLE, np.int32)
        for value in np.unique(a).tolist():
            own = self.joint[value] / self.joint[value].sum()
            new[a == value] = rng.choice(own.size, np.count_nonzero(a == value), p=own)
        words = rng.integers(0, 2**63, SAMPLE).astype(np.uint64)
        masks = draw_given(self.couplings._replace(eta=eta), a, new, b, words, np.arange(SAMPLE + 1))
        return float(self.values.squares[b, masks].mean(dtype=np.float64))


@dataclass(frozen=True, slots=True, eq=False)
class Coupled:
    """What the masks of an attribute tell given one mask a* of the root (``certainty.Told``).

    ``joint``: (k_B, k_B) float32 P(b, b* | a*) before the redraw. ``chance``: (1, k_B) float32 P(b* | a*).
    """

    joint: Float32Matrix
    chance: Float32Matrix

    def mixed(self, weights: Float32Matrix) -> Float64Array:
        shares = np.divide(weights[0], self.chance[0], out=np.zeros_like(weights[0]), where=self.chance[0] > 0.0)
        return np.asarray(self.joint @ shares, np.float64)

    def exceeding(self, limits: Limits) -> Excess:
        joint = np.concatenate([self.joint, limits.groups @ self.joint]) if limits.of_groups.size else self.joint
        bounds = (limits.all * (1.0 - SLACK)).astype(np.float32)
        x, j = np.nonzero(joint > bounds[:, None] * self.chance)
        return Excess(np.zeros(j.size, np.int64), j, x, joint[x, j].astype(np.float64) / self.chance[0, j])


def conditional(law: Float32Matrix) -> Float32Matrix:
    """Return (k_A, k_B) float32: the law of each row; that of all rows for a row without any."""
    sums = law.sum(axis=1, keepdims=True)
    return np.where(sums > 0.0, law / np.where(sums > 0.0, sums, np.float32(1.0)), law.sum(axis=0) / law.sum())


def given_groups(source: Float32Matrix, limits: Limits) -> list[tuple[Float32Array, float]]:
    """Return the groups by which the root's mask tells of an attribute: the chance of each value given the root.

    ``source``: (k_A, k_B) P(b | a). ``limits``: of the attribute. What cannot exceed its limit is left out.
    """
    weights = np.concatenate([source.T, limits.groups @ source.T])
    over = weights.max(axis=1) > limits.all
    return list(zip(weights[over], limits.all[over].tolist(), strict=True))
