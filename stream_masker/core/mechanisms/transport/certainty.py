"""The promise: masks that tell too much are drawn again, so that no posterior exceeds its limit.

To an attacker who knows all but the secret (``SemanticTransport``), the map alone gives the posterior G(x, t) of x
given t. A record that was masked to t is, with probability η(t), masked again by a draw from R(t) ∝ η(t)·T(t),
independent of the original. The law T of masks stays the same, and the posterior becomes (1 − η(t))·G(x, t) +
η(t)·R̄(x), where R̄(x) = Σ_t η·T·G / Σ_t η·T is the mean of G under R. Given R̄, the least η is explicit; it is iterated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from stream_masker.core.arrays import Float32Array, Float64Array, Int64Array, ratio
from stream_masker.core.mechanisms.transport.fit import DISTANCE_ERROR, Map

SLACK = 2e-4
"""By which share the limits that η aims at are lowered, so that few rounds, in float32, meet the limits themselves."""
ROUNDS = 40
"""The greatest number of rounds for η; where they do not suffice, all masks are drawn again."""
MAX_SOLUTIONS = 4
"""How often a map is fitted, with another λ each time, to meet its distance."""
COLUMNS = 512
"""The number of columns of posteriors that are computed at once."""
CACHED = 256
"""The number of columns of products that are computed at once, so that they stay in a processor's cache."""

Exceeding: TypeAlias = tuple[Int64Array, Int64Array, Float64Array]


class Limits(NamedTuple):
    """What no posterior of the k values of one attribute may exceed, and of g groups of them.

    ``prior``: (k + g,) float64, of values, then of groups. ``greatest``: (k + g,) float64 the limits, not below it.
    ``groups``: (g, k) float64 the weight of each value in each group: 0 or 1, or the chance of a value of another
    attribute given it.
    """

    prior: Float64Array
    greatest: Float64Array
    groups: Float64Array

    @classmethod
    def of(cls, prior: Float64Array, asked: Float64Array | float = 1.0, groups: Float64Array | None = None) -> Limits:
        """Return the limits, not below the prior.

        ``prior``: (k,). ``asked``: (k + g,) β of values, then of groups. ``groups``: (g, k), none by default.
        """
        weights = np.zeros((0, prior.size)) if groups is None else groups
        priors = np.concatenate([prior, weights @ prior])
        return cls(priors, np.maximum(asked, priors), weights)

    @property
    def aims(self) -> Float64Array:
        """(k + g,) float64: the limits that η aims at."""
        return np.maximum(self.greatest * (1.0 - SLACK), self.prior)


class Told(NamedTuple):
    """What n masks t tell of the k values x of one attribute: the posteriors G(x, t) before a redraw.

    * ``chance``: (n,) float64, the law of masks. ``limits``: of the posteriors.
    * ``exceeding``: given (k,) numbers, the e posteriors above them: (e,) each, the mask, the value, and G.
    * ``posteriors``: given m masks, (k, m) float64 G. ``sums``: given (n,) weights w, (k,) Σ_t w(t)·G(x, t).
    * ``members``: given (k,) weights w, (n,) Σ_x w(x)·G(x, t).
    """

    chance: Float64Array
    limits: Limits
    exceeding: Callable[[Float64Array], Exceeding]
    posteriors: Callable[[Int64Array], Float64Array]
    sums: Callable[[Float64Array], Float64Array]
    members: Callable[[Float64Array], Float64Array]

    @classmethod
    def of(cls, transport: Map, which: int, limits: Limits | None = None) -> Told:
        """Return what the masks t = (i, j) of a map tell of an attribute of it; ``limits``: 1 without them.

        G(x, t) = first(i, x)·second(x, j) / total(t). Only masks whose surest posterior exceeds a limit are looked at
        closely.
        """
        (near, far), (front, back), total = transport.matrices, transport.fronts, transport.chances
        first, second = (np.ascontiguousarray(near.T), front) if which == 0 else (back, far)
        chance, back_rows = (total * transport.mask_weights).astype(np.float64).ravel(), np.ascontiguousarray(second.T)

        def exceeding(aims: Float64Array) -> Exceeding:
            surest, found = greatest_products((first / aims).astype(np.float32), second), []
            over = np.flatnonzero((surest > total).ravel() & (chance > 0.0))
            for masks in np.array_split(over, over.size // COLUMNS + 1):
                told = posteriors(masks).T
                t, x = np.nonzero(told > aims)
                found.append((masks[t], x, told[t, x]))
            return joined(found)

        def posteriors(masks: Int64Array) -> Float64Array:
            i, j = np.divmod(masks, total.shape[1])
            return np.asarray((first[i] * back_rows[j]).T / total[i, j].astype(np.float64))

        def sums(weights: Float64Array) -> Float64Array:
            shares = ratio(weights.astype(np.float32).reshape(total.shape), total)
            return np.asarray((first.T * (second @ shares.T)).sum(axis=1, dtype=np.float64))

        def members(weights: Float64Array) -> Float64Array:
            mass = np.asarray((first * weights.astype(np.float32)) @ second, np.float32)
            return ratio(mass, total).ravel().astype(np.float64)

        return cls(chance, limits or Limits.of(transport.law.marginal(which)), exceeding, posteriors, sums, members)

    def above(self) -> Exceeding:
        """Return the posteriors above what is aimed at, those of groups after those of the k values."""
        size, aims, groups = self.limits.groups.shape[1], self.limits.aims, self.limits.groups
        found = [self.exceeding(aims[:size])]
        for group, (weights, aim) in enumerate(zip(groups, aims[size:], strict=True), size):
            inside = self.members(weights)
            over = np.flatnonzero((inside > aim) & (self.chance > 0.0))
            found.append((over, np.full(over.size, group), inside[over]))
        return joined(found)

    def mean(self, redraw_chance: Float32Array) -> Float64Array:
        """Return (k + g,) float64 R̄ of values and groups; ``redraw_chance``: (n,) η."""
        weights = redraw_chance * self.chance
        own = self.sums(weights) / max(float(weights.sum()), 1e-300)
        return np.concatenate([own, self.limits.groups @ own])

    def redrawn(self, redraw_chance: Float32Array, mean: Float64Array, masks: Int64Array) -> Float64Array:
        """Return (k, m) float64: the posteriors of the values given some masks, with a redraw by η and its R̄."""
        told = self.posteriors(masks)
        return told + redraw_chance[masks] * (mean[: len(told), None] - told)


def joined(parts: Sequence[Exceeding]) -> Exceeding:
    """Return the posteriors of all parts."""
    mask, value, posterior = (np.concatenate(each) for each in zip(*parts, strict=True))
    return mask, value, posterior


def greatest_products(first: Float32Array, second: Float32Array) -> Float32Array:
    """Return (n, m) float32: max over x of first[i, x] · second[x, j], of (n, k) and (k, m) numbers."""
    result = np.empty((first.shape[0], second.shape[1]), np.float32)
    for start in range(0, second.shape[1], CACHED):
        part = np.ascontiguousarray(second[:, start : start + CACHED])
        for i, row in enumerate(first):
            result[i, start : start + CACHED] = (row[:, None] * part).max(axis=0)
    return result


def least_redraw(told: Sequence[Told], floor: float = 0.0) -> Float32Array:
    """Return (n,) nearly the least η by which no posterior exceeds its limit; ``floor``: η of all masks at least.

    Given R̄, the least η of each mask is explicit. Where the masks above a limit are too few to be mixed, so that R̄
    exceeds it, all masks are redrawn so often that R̄ gets halfway from its limit to the prior. If the limit is the
    prior, they always are, because posteriors have the prior as their mean.
    """
    chance, sizes = told[0].chance, [each.limits.prior.size for each in told]
    prior, greatest, aims = (
        np.concatenate(each)
        for each in zip(*((x.limits.prior, x.limits.greatest, x.limits.aims) for x in told), strict=True)
    )
    found = [each.above() for each in told]
    mask, which, posterior = joined(found)
    which = which + np.repeat(np.cumsum(sizes) - sizes, [each[0].size for each in found])
    mean = prior
    for _ in range(ROUNDS):
        need = (posterior - aims[which]) / np.maximum(posterior - mean[which], 1e-12)
        least = np.full(chance.size, floor)
        np.maximum.at(least, mask, np.clip(need, 0.0, 1.0))
        redraw_chance: Float32Array = least.astype(np.float32)
        mean = np.concatenate([each.mean(redraw_chance) for each in told])
        final, over = posterior + redraw_chance[mask] * (mean[which] - posterior), mean > greatest
        if (final <= greatest[which]).all() and (mean <= greatest * (1.0 + SLACK)).all():
            return redraw_chance
        goal = (aims + prior)[over] / 2.0
        excess = (mean[over] - goal) / np.maximum(goal - prior[over], 1e-12)
        floor = max(floor, min(1.0, float(redraw_chance @ chance) * float(excess.max(initial=0.0))))
    return np.ones(chance.size, np.float32)


def certain(start: Map, limits: Sequence[Limits], wanted: Sequence[float]) -> tuple[Map, Float32Array]:
    """Return a map whose attributes move by E[d²] as far as the limits allow, and its η, (k_A, k_B).

    ``start``: to search from. ``limits``, ``wanted``: of each attribute, one or both.
    """
    found = start
    for solution in range(MAX_SOLUTIONS):
        found = found.scaled()
        told = [Told.of(found, j, each) for j, each in enumerate(limits)]
        redraw_chance = least_redraw(told)
        share = float(redraw_chance @ told[0].chance)
        redraw_chance = redraw_chance.reshape(found.law.target.shape)
        excesses = [
            float((found.joint(j, redraw_chance) * found.law.values[j].squares).sum()) / goal
            for j, goal in enumerate(wanted)
        ]
        settled = all(abs(each**0.5 - 1.0) <= DISTANCE_ERROR for each in excesses)
        if settled or (share > 0.0 and solution > 0):
            break
        if solution + 1 < MAX_SOLUTIONS:
            found = found.sharper(excesses)
    return found, redraw_chance
