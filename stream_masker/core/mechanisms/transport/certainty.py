"""The promise: a redraw of masks that tell too much, by which no posterior exceeds its limit.

The attacker knows the mechanism, its parameters, the published version, how often every code and every linked pair of
codes occurs in the window, and every masked record with its context; not the secret. A record that was masked to t is,
with probability η(t), masked again by a draw from R(t) ∝ η(t)·T(t), independent of the original. The law of masks stays
the same, and the posterior of x given t becomes (1 − η(t))·G(x, t) + η(t)·R̄(x), with G that of the map and
R̄(x) = Σ_t η·T·G / Σ_t η·T. The least η is explicit given R̄, and iterated.

The promise is about codes and sensitive groups. The chapter of a code is not hidden: a map that keeps meaning moves
most codes within their chapter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from stream_masker.core.dtypes import Float32Array, Float32Matrix, Float64Array, Float64Matrix, Int64Array
from stream_masker.core.mechanisms.transport.fit import Map
from stream_masker.core.mechanisms.transport.kernels import greatest_products, surest_guesses

SLACK = 1e-5
"""By which share limits are lowered, so that what is published in float32 meets them."""
SETTLED = 1e-6
"""The change of η at which its iteration ends."""
FIXED_POINT_ROUNDS = 40
FLOORS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0)
"""The least η of all masks, tried in turn: it is 0 unless the masks above a limit are too few to be mixed."""
CHUNK = 4096
"""The number of masks whose posteriors are computed at once."""


class Limits(NamedTuple):
    """What no posterior of the k values of one attribute may exceed.

    * ``values``: (k,) float64 the limit of each value. ``groups``: (g, k) float32 the weight of each value in each
      group: 0 or 1, or the chance of a value of another attribute given it. ``of_groups``: (g,) float64 their limits.
    """

    values: Float64Array
    groups: Float32Matrix
    of_groups: Float64Array

    @classmethod
    def of(cls, prior: Float64Array, certainty: float, groups: Sequence[tuple[Float32Array, float]] = ()) -> Limits:
        """Return the limits max(β, P(x)) and max(β_G, P(G)); ``groups``: weights and β_G of each."""
        weights = np.array([each for each, _ in groups], np.float32).reshape(len(groups), prior.size)
        of_groups = np.maximum([limit for _, limit in groups], weights.astype(np.float64) @ prior)
        return cls(np.maximum(certainty, prior), weights, np.asarray(of_groups, np.float64))

    def with_groups(self, groups: Sequence[tuple[Float32Array, float]]) -> Limits:
        """Return these limits, and those of more groups: weights and limit of each."""
        if not groups:
            return self
        weights = np.concatenate([self.groups, np.array([each for each, _ in groups], np.float32)])
        return Limits(self.values, weights, np.append(self.of_groups, [limit for _, limit in groups]))

    @property
    def all(self) -> Float64Array:
        """(k + g,) float64: the limits of values, then of groups."""
        return np.concatenate([self.values, self.of_groups])

    def masses(self, mean: Float64Array) -> Float64Array:
        """Return (k + g,) float64: the mass of each value and of each group; ``mean``: (k,) that of values."""
        return np.concatenate([mean, self.groups.astype(np.float64) @ mean])


class Excess(NamedTuple):
    """Posteriors above their limits, (e,) each: the mask (i, j), the value, or k + the group, G, and the limit."""

    i: Int64Array
    j: Int64Array
    which: Int64Array
    posterior: Float64Array
    limit: Float64Array

    @classmethod
    def joined(cls, parts: Sequence[tuple[Int64Array | Float64Array, ...]]) -> Excess:
        """Return the entries of several parts."""
        return cls(*(np.concatenate(each) for each in zip(*parts, strict=True)))


class Told(Protocol):
    """What masks t = (i, j) tell of the values of one attribute."""

    @property
    def chance(self) -> Float32Matrix:
        """(n, m) float32: the law of masks."""

    def mixed(self, weights: Float32Matrix) -> Float64Array:
        """Return (k,) float64: Σ_t weights(t)·G(x, t); ``weights``: (n, m)."""

    def exceeding(self, limits: Limits) -> Excess:
        """Return the posteriors above their limits."""


class Posteriors(NamedTuple):
    """G(x, t) = first[i, x] · second[x, j] / total[i, j] of one attribute of a map, for masks that have a chance.

    * ``first``: (n, k) float32. ``second``: (k, m) float32. ``total``: (n, m) float32, their product.
    * ``chance``: (n, m) float32, the law of masks.
    """

    first: Float32Matrix
    second: Float32Matrix
    total: Float32Matrix
    chance: Float32Matrix

    def columns(self, i: Int64Array, j: Int64Array) -> Float64Matrix:
        """Return (k, c) float64: the posteriors of c masks."""
        products = self.first[i].astype(np.float64) * self.second.T[j]
        return np.asarray((products / self.total[i, j][:, None]).T)

    def mixed(self, weights: Float32Matrix) -> Float64Array:
        """Return (k,) float64: Σ_t weights(t)·G(x, t); ``weights``: (n, m)."""
        return np.asarray((self.first.T * (self.second @ (weights / self.total).T)).sum(axis=1, dtype=np.float64))

    def exceeding(self, limits: Limits) -> Excess:
        """Return the posteriors above their limits."""
        parts: list[tuple[Int64Array | Float64Array, ...]] = [(*(np.zeros(0, np.int64),) * 3, *(np.zeros(0),) * 2)]
        surest = greatest_products(self.first / limits.values.astype(np.float32), self.second)
        i, j = np.nonzero((surest > self.total * (1.0 - SLACK)) & (self.chance > 0.0))
        for start in range(0, i.size, CHUNK):
            own = slice(start, start + CHUNK)
            columns = self.columns(i[own], j[own])
            x, t = np.nonzero(columns > limits.values[:, None] * (1.0 - SLACK))
            parts.append((i[own][t], j[own][t], x, columns[x, t], limits.values[x]))
        for group, (weights, limit) in enumerate(zip(limits.groups, limits.of_groups.tolist(), strict=True)):
            inside = np.flatnonzero(weights)
            mass = (self.first[:, inside] * weights[inside]) @ self.second[inside]
            i, j = np.nonzero((mass > self.total * (limit * (1.0 - SLACK))) & (self.chance > 0.0))
            which, posterior = np.full(i.size, limits.values.size + group), mass[i, j] / self.total[i, j]
            parts.append((i, j, which, posterior.astype(np.float64), np.full(i.size, limit)))
        return Excess.joined(parts)

    def surest(self, found: Redraw, mean: Float64Array) -> Float32Matrix:
        """Return (n, m) float32: the greatest posterior given each mask after a redraw; ``mean``: R̄."""
        surest = greatest_products(self.first, self.second) / self.total
        i, j = np.nonzero(found.eta)
        surest[i, j] = surest_guesses(self.first, self.second, self.total, i, j, found.eta[i, j], mean)
        return np.where(self.chance > 0.0, surest, np.float32(0.0))


@dataclass(frozen=True, slots=True, eq=False)
class Redraw:
    """``eta``: (n, m) float32 η of each mask. ``weights``: (n, m) float32 η times the chance of the mask.
    ``mean``: for each attribute (k,) float64 R̄. ``share``: the share of records that are redrawn."""

    eta: Float32Matrix
    weights: Float32Matrix
    mean: tuple[Float64Array, ...]
    share: float

    @classmethod
    def of(cls, sides: Sequence[Told], eta: Float32Matrix) -> Redraw:
        """Return the redraw of these chances η."""
        weights = eta * sides[0].chance
        share = float(weights.sum(dtype=np.float64))
        mean = tuple(side.mixed(weights) / max(share, np.finfo(np.float64).tiny) for side in sides)
        return cls(eta, weights, mean, share)


def redraw(sides: Sequence[Told], limits: Sequence[Limits], least: float = 0.0) -> Redraw:
    """Return the least redraw, nearly, by which no posterior of any attribute exceeds its limit.

    ``least``: η of all masks at least.
    """
    excess = [side.exceeding(limit) for side, limit in zip(sides, limits, strict=True)]
    for floor in (least, *(floor for floor in FLOORS if floor > least)):
        found = _iterated(sides, limits, excess, np.float32(floor))
        if _within(found, limits, excess):
            return found
    return found


def _iterated(sides: Sequence[Told], limits: Sequence[Limits], excess: Sequence[Excess], floor: np.float32) -> Redraw:
    """Return the fixed point of η, at least ``floor``."""
    least = np.where(sides[0].chance > 0.0, floor, np.float32(0.0))
    current = Redraw.of(sides, least)
    if not any(each.i.size for each in excess):
        return current
    if not floor > 0.0:
        current = Redraw.of(sides, _least(limits, excess, least, [side.mixed(side.chance) for side in sides]))
    for _ in range(FIXED_POINT_ROUNDS):
        eta = _least(limits, excess, least, current.mean)
        change = float(np.abs(eta - current.eta).max())
        current = Redraw.of(sides, eta)
        if change < SETTLED:
            break
    return current


def _least(
    limits: Sequence[Limits], excess: Sequence[Excess], least: Float32Matrix, means: Sequence[Float64Array]
) -> Float32Matrix:
    """Return the least η given R̄ of each attribute."""
    eta = least.copy()
    for limit, each, mean in zip(limits, excess, means, strict=True):
        over = each.posterior - each.limit * (1.0 - 2.0 * SLACK)
        need = np.clip(over / np.maximum(each.posterior - limit.masses(mean)[each.which], 1e-12), 0.0, 1.0)
        np.maximum.at(eta, (each.i, each.j), need.astype(np.float32))
    return eta


def _within(found: Redraw, limits: Sequence[Limits], excess: Sequence[Excess]) -> bool:
    """Return whether no posterior exceeds its limit: none of those that did, and none of R̄, so that no other does."""
    for limit, each, mean in zip(limits, excess, found.mean, strict=True):
        masses, eta = limit.masses(mean), found.eta[each.i, each.j].astype(np.float64)
        final = (1.0 - eta) * each.posterior + eta * masses[each.which]
        if (final > each.limit).any() or (found.share > 0.0 and (masses > limit.all * (1.0 + SLACK)).any()):
            return False
    return True


def posteriors_of(transport: Map) -> tuple[Posteriors, Posteriors]:
    """Return the posteriors of both attributes of a map."""
    (first, second), (front, back) = transport.matrices, transport.fronts
    total, chance = transport.chances, transport.written
    return Posteriors(np.ascontiguousarray(first.T), front, total, chance), Posteriors(back, second, total, chance)
