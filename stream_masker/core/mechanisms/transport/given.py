"""Attributes that are masked given the root: further scalars, and the elements of arrays.

A value b of a record with the root a, whose mask is a*, moves by a coupling from P(b | a) to P(b* | a*), and is redrawn
from P(b* | a*) where its mask would tell too much. Given a*, the mask b* is independent of a, so that what a record's
masks tell about a, a* tells already. Each attribute keeps its law with the root, and its relation to others as far as
the root explains it. Elements are drawn independently of each other given the root, but differ where the originals do.

The coupling goes level by level, the nearest first: a value stays itself as far as both laws have it, then becomes
another one of its block, of its chapter, or any. On a tree no coupling of these laws moves values between fewer blocks
and chapters. A redraw of all values alike adds distance where the laws force less of it than is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from stream_masker.core.distance import Distance
from stream_masker.core.dtypes import (
    Float32Array,
    Float32Matrix,
    Float64Array,
    Float64Matrix,
    Int32Array,
    Int64Array,
    UInt64Array,
)
from stream_masker.core.mechanisms.transition.serialization import pack_array, read_float, read_model_field
from stream_masker.core.mechanisms.transport.certainty import SLACK, Excess, Limits, Redraw, redraw
from stream_masker.core.mechanisms.transport.fit import ancestors_at
from stream_masker.core.mechanisms.transport.kernels import Couplings, draw_given, draw_pairs, mixed_couplings
from stream_masker.core.mechanisms.transport.model import (
    FIGURES,
    Transport,
    Tuples,
    Values,
    pack_sparse,
    pack_tuples,
    read_index,
    read_sparse,
    read_tuples,
    read_values,
)
from stream_masker.core.random.draws import salts_of

SAMPLE = 20_000
"""The number of values that are drawn to measure how far an attribute moves; its relative error is about 1 %."""
BLOCK_DEPTHS = (3, 2, 1)
"""The depths of blocks, of chapters, and of everything."""


@dataclass(frozen=True, eq=False)
class Given:
    """An attribute that is masked given the root, in use.

    * ``attribute``: its index. ``root``: the transport of the root.
    * ``tuples``: the window's pairs of the root (rows) and the attribute. ``couplings``: of both, with η.
    * ``values``, ``wanted``, ``moved``, ``surest``: as those of a ``Transport`` of this attribute alone.
    """

    attribute: int
    root: Transport
    values: tuple[Values]
    tuples: Tuples
    couplings: Couplings
    wanted: tuple[float]
    moved: tuple[float]
    surest: tuple[float]

    def draw(
        self, root: Int32Array, root_new: Int32Array, codes: Int32Array, words: UInt64Array, offsets: Int64Array
    ) -> Int32Array:
        """Return the masks of values, as positions; all arguments are positions; see ``kernels.draw_given``."""
        own, values = self.root.values[0], self.values[0]
        drawn = draw_given(
            self.couplings, own.indices(root), own.indices(root_new), values.indices(codes), words, offsets
        )
        return values.positions[drawn]

    def prior(self, which: int = 0) -> Float64Array:
        """Return (k_B,) float64 P(b)."""
        return np.asarray(self.root.prior(0) @ self.couplings.source)

    def joint(self, which: int = 0) -> Float64Matrix:
        """Return (k_B, k_B) float64 P(b, b*)."""
        return self._joint

    @cached_property
    def _joint(self) -> Float64Matrix:
        return np.asarray(sum(self.blocks()))

    def blocks(self, which: int = 0, size: int = 0) -> Iterator[Float64Matrix]:
        """Yield the joint law of the attribute's value and its record's masks: for each a* the (k_B, k_B) P(b, b*)."""
        for new, chances in _root_masks(self.root):
            told = Coupled.of(self.couplings, chances, new)
            found = Redraw.of((told,), self.couplings.eta[new : new + 1])
            kept = told.joint * (1.0 - found.eta[0].astype(np.float64))
            yield (kept + np.outer(found.mean[0], found.weights[0])) * chances.sum()


def _root_masks(root: Transport) -> Iterator[tuple[int, Float64Array]]:
    """Yield every mask a* of the root that is written, with (k_A,) float64 P(a, a*)."""
    joint = root.joint(0)
    for new in np.flatnonzero(joint.sum(axis=0) > 0.0).tolist():
        yield new, joint[:, new]


@dataclass(frozen=True, slots=True, eq=False)
class Coupled:
    """What the masks of an attribute tell given one mask a* of the root (``certainty.Told``).

    ``joint``: (k_B, k_B) float32 P(b, b* | a*) before the redraw. ``chance``: (1, k_B) float32 P(b* | a*).
    """

    joint: Float32Matrix
    chance: Float32Matrix

    @classmethod
    def of(cls, couplings: Couplings, chances: Float64Array, new: int) -> Coupled:
        """Return what masks tell given a*, whose index is ``new``; ``chances``: (k_A,) P(a | a*), up to a factor."""
        joint = mixed_couplings(couplings, chances / chances.sum(), new)
        return cls(joint, joint.sum(axis=0, dtype=np.float64).astype(np.float32)[None])

    def mixed(self, weights: Float32Matrix) -> Float64Array:
        """Return (k_B,) float64: Σ weights(b*)·G(b, b*)."""
        shares = np.divide(weights[0], self.chance[0], out=np.zeros_like(weights[0]), where=self.chance[0] > 0.0)
        return np.asarray(self.joint @ shares, np.float64)

    def exceeding(self, limits: Limits) -> Excess:
        """Return the posteriors above their limits."""
        joint = np.concatenate([self.joint, limits.groups @ self.joint]) if limits.of_groups.size else self.joint
        every = limits.all
        x, j = np.nonzero(joint > (every * (1.0 - SLACK)).astype(np.float32)[:, None] * self.chance)
        posterior = joint[x, j].astype(np.float64) / self.chance[0, j]
        return Excess(np.zeros(j.size, np.int64), j, x, posterior, every[x])


def couplings_of(root: Transport, values: Values, tuples: Tuples, eta: Float32Matrix | None = None) -> Couplings:
    """Return the couplings of an attribute given the root; without ``eta`` nothing is redrawn."""
    law = tuples.law((root.values[0], values))
    blocks = [ancestors_at(values.distance.taxonomy, values.positions, depth) for depth in BLOCK_DEPTHS]
    heads, block = np.unique(blocks[0], return_inverse=True)
    first = np.unique(block, return_index=True)[1]
    nodes = [np.unique(each[first], return_inverse=True)[1] for each in blocks]
    return Couplings(
        _conditional(law.dense),
        _conditional(law.target),
        block.astype(np.int32),
        np.array(nodes, np.int32).reshape(len(BLOCK_DEPTHS), heads.size),
        np.zeros(law.target.shape, np.float32) if eta is None else eta,
        salts_of(values.positions),
    )


def conditional_law(tuples: Tuples, values: tuple[Values, Values]) -> Float32Matrix:
    """Return (k_A, k_B) float32 P(b | a) of the window's pairs."""
    counts = np.zeros((len(values[0]), len(values[1])), np.float32)
    counts[tuples.rows, tuples.columns] = tuples.counts
    return _conditional(counts)


def _conditional(law: Float32Matrix) -> Float32Matrix:
    """Return (k_A, k_B) float32: the law of each row; that of all rows for a row without any."""
    sums = law.sum(axis=1, keepdims=True)
    return np.where(sums > 0.0, law / np.where(sums > 0.0, sums, 1.0), law.sum(axis=0) / law.sum())


def given_groups(source: Float32Matrix, prior: Float64Array, limits: Limits) -> list[tuple[Float32Array, float]]:
    """Return the groups by which the root's mask tells of an attribute: the chance of each value given the root.

    ``source``: (k_A, k_B) P(b | a). ``prior``: (k_A,) P(a). ``limits``: of the attribute. What cannot exceed its limit
    is left out.
    """
    weights = np.concatenate([source.T, limits.groups @ source.T])
    over = weights.max(axis=1) > limits.all
    return [
        (w, max(limit, float(w @ prior))) for w, limit in zip(weights[over], limits.all[over].tolist(), strict=True)
    ]


def fit_given(attribute: int, root: Transport, values: Values, tuples: Tuples, limits: Limits, wanted: float) -> Given:
    """Return an attribute's masking given the root: as near to E[d²] = ``wanted`` as the laws and limits allow."""
    couplings = couplings_of(root, values, tuples)
    made = Given(attribute, root, (values,), tuples, couplings, (wanted,), (0.0,), (0.0,))
    near, far = (_sampled(made, np.full_like(couplings.eta, each)) for each in (0.0, 1.0))
    least = float(np.clip((wanted - near) / max(far - near, 1e-12), 0.0, 1.0))
    eta, surest = np.zeros_like(couplings.eta), 0.0
    for new, chances in _root_masks(root):
        told = Coupled.of(couplings, chances, new)
        found = redraw((told,), (_reachable(limits, chances, couplings.source),), least)
        eta[new] = found.eta[0]
        kept = told.joint / np.maximum(told.chance, np.finfo(np.float32).tiny) * (1.0 - found.eta)
        surest = max(surest, float((kept + found.eta * found.mean[0][:, None]).max()))
    moved = _sampled(made, eta)
    return replace(made, couplings=couplings._replace(eta=eta), moved=(moved,), surest=(surest,))


def _reachable(limits: Limits, chances: Float64Array, source: Float32Matrix) -> Limits:
    """Return the limits, raised to what the root's mask tells already, by rounding."""
    told = np.asarray(chances @ source / chances.sum())
    masses = limits.masses(told)
    size = told.size
    return Limits(np.maximum(limits.values, told), limits.groups, np.maximum(limits.of_groups, masses[size:]))


def _sampled(made: Given, eta: Float32Matrix) -> float:
    """Return an estimate of E[d²] with these chances of a redraw."""
    rng, tuples, root = np.random.default_rng(0), made.tuples, made.root
    chances = root.prior(0)[tuples.rows] * made.couplings.source[tuples.rows, tuples.columns]
    picked = rng.choice(tuples.rows.size, SAMPLE, p=chances / chances.sum())
    words = rng.integers(0, 2**63, (2, SAMPLE)).astype(np.uint64)
    a, b = tuples.rows[picked], tuples.columns[picked]
    new = draw_pairs(root.draws, a, np.zeros_like(a), words[0], words[0])[0]
    masks = draw_given(made.couplings._replace(eta=eta), a, new, b, words[1], np.arange(SAMPLE + 1))
    return float(made.values[0].squares[b, masks].mean(dtype=np.float64))


def pack_given(made: Given) -> dict[str, Any]:
    """Return what ``read_given`` reads."""
    return {
        "attribute": made.attribute,
        "values": pack_array(made.values[0].positions),
        **pack_tuples(made.tuples),
        "eta": pack_sparse(made.couplings.eta),
        **{name: getattr(made, name)[0] for name in FIGURES},
    }


def read_given(model: object, root: Transport, distances: Sequence[Distance]) -> Given:
    """Return an attribute's masking given the root. Raises StatisticsError if the model is not valid."""
    attribute = read_index(model, "attribute", len(distances))
    values = read_values(read_model_field(model, "values"), distances[attribute])
    tuples = read_tuples(model, (len(root.values[0]), len(values)))
    eta = read_sparse(read_model_field(model, "eta"), (len(root.values[0]), len(values)))
    figures = [(read_float(model, name, 0.0, np.inf),) for name in FIGURES]
    return Given(attribute, root, (values,), tuples, couplings_of(root, values, tuples, eta), *figures)
