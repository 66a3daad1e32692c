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
from numpy.typing import NDArray

from stream_masker.core.dtypes import Float32Array, Float32Matrix, Float64Array, Float64Matrix, Int64Array
from stream_masker.core.kernels.transport import greatest_products
from stream_masker.core.mechanisms.transport.fit import DISTANCE_ERROR, Map

SLACK = 1e-5
"""By which share limits are lowered, so that what is published in float32 meets them."""
SETTLED, FIXED_POINT_ROUNDS = 1e-6, 40
"""The change of η that ends its iteration, and the greatest number of rounds."""
FLOORS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0)
"""The least η of all masks, tried in turn: it is 0 unless the masks above a limit are too few to be mixed."""
CHUNK = 4096
"""The number of masks whose posteriors are computed at once."""
MAX_SOLUTIONS = 4
"""How often a map is fitted, with another λ each time, to meet its distance."""
SPARED = 0.5
"""The relative excess of an RMSE that is not searched away, for each share of records that is redrawn: a sharper map
would need a greater redraw, and tell more."""


class Limits(NamedTuple):
    """What no posterior of the k values of one attribute may exceed.

    ``values``: (k,) float64 the limit of each value. ``groups``: (g, k) float32 the weight of each value in each group:
    0 or 1, or the chance of a value of another attribute given it. ``of_groups``: (g,) float64 their limits.
    """

    values: Float64Array
    groups: Float32Matrix
    of_groups: Float64Array

    @classmethod
    def of(cls, prior: Float64Array, certainty: float, groups: Sequence[tuple[Float32Array, float]]) -> Limits:
        """Return the limits max(β, P(x)) and max(β_G, P(G)); ``groups``: weights and β_G of each."""
        weights = np.array([each for each, _ in groups], np.float32).reshape(len(groups), prior.size)
        limits = np.array([limit for _, limit in groups], np.float64)
        return cls(np.maximum(certainty, prior), weights, np.maximum(limits, weights.astype(np.float64) @ prior))

    @property
    def all(self) -> Float64Array:
        """(k + g,) float64: the limits of values, then of groups."""
        return np.concatenate([self.values, self.of_groups])

    def masses(self, mean: Float64Array) -> Float64Array:
        """Return (k + g,) float64: the mass of each value and of each group; ``mean``: (k,) that of values."""
        return np.concatenate([mean, self.groups.astype(np.float64) @ mean])


class Excess(NamedTuple):
    """Posteriors above their limits, (e,) each: the mask (i, j), the value, or k + the group, and G.

    ``others``: what no posterior within its limit exceeds.
    """

    i: Int64Array
    j: Int64Array
    which: Int64Array
    posterior: Float64Array
    others: float


class Told(Protocol):
    """What masks t = (i, j) tell of the values of one attribute. ``chance``: (n, m), the law of masks."""

    @property
    def chance(self) -> NDArray[np.floating]: ...

    def mixed(self, weights: NDArray[np.floating]) -> Float64Array:
        """Return (k,) float64: Σ_t weights(t)·G(x, t); ``weights``: (n, m)."""

    def exceeding(self, limits: Limits) -> Excess:
        """Return the posteriors above their limits."""


class Posteriors(NamedTuple):
    """G(x, t) = first[i, x] · second[x, j] / total[i, j] of one attribute of a map, for masks that have a chance.

    ``first``: (n, k), ``second``: (k, m), ``total``: (n, m), their product, ``chance``: (n, m), float32 each.
    ``rows``: (m, k), the transpose of ``second``, in C order.
    """

    first: Float32Matrix
    second: Float32Matrix
    rows: Float32Matrix
    total: Float32Matrix
    chance: Float32Matrix

    @classmethod
    def of(cls, transport: Map) -> tuple[Posteriors, Posteriors]:
        """Return the posteriors of both attributes of a map."""
        (first, second), (front, back) = transport.matrices, transport.fronts
        total, chance = transport.chances, transport.chances * transport.psi
        rows = [np.ascontiguousarray(each.T) for each in (first, front, second)]
        return cls(rows[0], front, rows[1], total, chance), cls(back, second, rows[2], total, chance)

    def columns(self, i: Int64Array, j: Int64Array) -> Float64Matrix:
        """Return (k, c) float64: the posteriors of c masks."""
        products = self.first[i] * self.rows[j]
        return np.asarray(products.T / self.total[i, j].astype(np.float64))

    def mixed(self, weights: NDArray[np.floating]) -> Float64Array:
        return np.asarray((self.first.T * (self.second @ (weights / self.total).T)).sum(axis=1, dtype=np.float64))

    def exceeding(self, limits: Limits) -> Excess:
        parts = [(*(np.zeros(0, np.int64),) * 3, np.zeros(0))]
        surest = greatest_products((self.first / limits.values).astype(np.float32), self.second)
        above = surest > self.total * (1.0 - SLACK)
        within, (i, j) = (self.chance > 0.0) & ~above, np.nonzero((self.chance > 0.0) & above)
        lowest, others = float(limits.values.min()), [0.0]
        for part, limit in [
            (surest, lowest),
            *((np.outer(self.first[:, x], self.second[x]), 1.0) for x in np.flatnonzero(limits.values > lowest)),
        ]:
            others.append(limit * float((part[within] / self.total[within]).max(initial=0.0)))
        for start in range(0, i.size, CHUNK):
            own = i[start : start + CHUNK], j[start : start + CHUNK]
            products, total = self.first[own[0]] * self.rows[own[1]], self.total[own]
            t, x = np.nonzero(products > total[:, None] * (limits.values * (1.0 - SLACK)).astype(np.float32))
            parts.append((own[0][t], own[1][t], x, products[t, x].astype(np.float64) / total[t]))
        for group, (weights, limit) in enumerate(zip(limits.groups, limits.of_groups.tolist(), strict=True)):
            inside = np.flatnonzero(weights)
            mass = (self.first[:, inside] * weights[inside]) @ self.second[inside]
            i, j = np.nonzero((mass > self.total * (limit * (1.0 - SLACK))) & (self.chance > 0.0))
            posterior = mass[i, j].astype(np.float64) / self.total[i, j]
            parts.append((i, j, np.full(i.size, limits.values.size + group), posterior))
        return Excess(*(np.concatenate(each) for each in zip(*parts, strict=True)), max(others))


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
        weights = np.asarray(eta * sides[0].chance, np.float32)
        share = float(weights.sum(dtype=np.float64))
        return cls(eta, weights, tuple(side.mixed(weights) / max(share, 1e-300) for side in sides), share)

    @classmethod
    def least(
        cls, sides: Sequence[Told], limits: Sequence[Limits], floor: float = 0.0
    ) -> tuple[Redraw, tuple[float, ...]]:
        """Return the least redraw, nearly, by which no posterior exceeds its limit; and for each attribute, what no
        posterior of a value exceeds. ``floor``: η of all masks at least."""
        excess = [side.exceeding(limit) for side, limit in zip(sides, limits, strict=True)]
        for each in (floor, *(each for each in FLOORS if each > floor)):
            found = _fixed_point(sides, limits, excess, each)
            if _within(found, limits, excess):
                break
        return found, tuple(_greatest(found, *each) for each in zip(limits, excess, found.mean, strict=True))


def _fixed_point(sides: Sequence[Told], limits: Sequence[Limits], excess: Sequence[Excess], floor: float) -> Redraw:
    least = np.where(sides[0].chance > 0.0, np.float32(floor), np.float32(0.0))
    eta, means = least, [side.mixed(side.chance) for side in sides]
    for _ in range(FIXED_POINT_ROUNDS):
        before, eta = eta, least.copy()
        for limit, each, mean in zip(limits, excess, means, strict=True):
            over = each.posterior - limit.all[each.which] * (1.0 - 2.0 * SLACK)
            need = over / np.maximum(each.posterior - limit.masses(np.asarray(mean))[each.which], 1e-12)
            np.maximum.at(eta, (each.i, each.j), np.clip(need, 0.0, 1.0).astype(np.float32))
        found = Redraw.of(sides, eta)
        means = list(found.mean)
        if float(np.abs(eta - before).max()) < SETTLED:
            break
    return found


def _greatest(found: Redraw, limits: Limits, excess: Excess, mean: Float64Array) -> float:
    """Return what no posterior of a value exceeds."""
    values = excess.which < mean.size
    eta = found.eta[excess.i, excess.j][values].astype(np.float64)
    final = (1.0 - eta) * excess.posterior[values] + eta * mean[excess.which[values]]
    return max(excess.others, float(final.max(initial=0.0)), float(mean.max()) if found.share else 0.0)


def _within(found: Redraw, limits: Sequence[Limits], excess: Sequence[Excess]) -> bool:
    """Return whether no posterior exceeds its limit: none of those that did, and none of R̄, so that no other does."""
    for limit, each, mean in zip(limits, excess, found.mean, strict=True):
        masses, eta = limit.masses(mean), found.eta[each.i, each.j].astype(np.float64)
        final = (1.0 - eta) * each.posterior + eta * masses[each.which]
        if (final > limit.all[each.which]).any() or (found.share and (masses > limit.all * (1.0 + SLACK)).any()):
            return False
    return True


def redrawn_joint(transport: Map, again: Redraw, which: int) -> Float64Matrix:
    """Return (k, k) float64 P(x, x*) of an attribute of a map with a redraw; it sums to 1."""
    kept = transport.joint(which, transport.psi * (1.0 - again.eta)).astype(np.float64)
    joint = kept + np.outer(again.mean[which], again.weights.sum(axis=1 - which, dtype=np.float64))
    return np.asarray(joint / joint.sum())


def certain(
    start: Map, limits: Sequence[Limits], wanted: Sequence[float], floor: float = 0.0
) -> tuple[Map, Redraw, tuple[float, ...], tuple[float, ...]]:
    """Return a map whose attributes move by E[d²] as far as the limits allow, its redraw, E[d²], and for each attribute
    what no posterior exceeds.

    ``start``: to search from. ``limits``, ``wanted``: of each attribute. ``floor``: η of all masks at least.
    """
    found = start
    for solution in range(MAX_SOLUTIONS):
        found = found.scaled()
        again, greatest = Redraw.least(Posteriors.of(found)[: len(limits)], limits, floor)
        squares = [found.kernels[j].squares for j in range(len(limits))]
        moved = tuple(float((redrawn_joint(found, again, j) * each).sum()) for j, each in enumerate(squares))
        ratios = [each / goal for each, goal in zip(moved, wanted, strict=True)]
        most = 1.0 + DISTANCE_ERROR + SPARED * again.share
        if all(1.0 - DISTANCE_ERROR <= ratio**0.5 <= most for ratio in ratios) or (again.share > 0.0 and solution > 0):
            break
        if solution + 1 < MAX_SOLUTIONS:
            found = found.sharper(ratios)
    return found, again, moved, greatest
