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
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.arrays import ratio
from stream_masker.core.dtypes import Float32Array, Float32Matrix, Float64Array, Float64Matrix, Int64Array
from stream_masker.core.kernels import exceeding_entries, exceeding_products, greatest_products
from stream_masker.core.mechanisms.transport.fit import DISTANCE_ERROR, Map

SLACK = 2e-4
"""By which share the limits that η aims at are lowered, so that few rounds, in float32, meet the limits themselves."""
ROUNDS = 40
"""The greatest number of rounds for η; where they do not suffice, all masks are drawn again."""
MAX_SOLUTIONS = 4
"""How often a map is fitted, with another λ each time, to meet its distance."""
SPARED = 0.5
"""The relative excess of an RMSE that is not searched away, for each share of records that is redrawn: a sharper map
would need a greater redraw, and tell more."""


class Limits(NamedTuple):
    """What no posterior of the k values of one attribute may exceed, and of g groups of them.

    ``prior``: (k + g,) float64, of values, then of groups. ``greatest``: (k + g,) float64 the limits, not below it.
    ``groups``: (g, k) float32 the weight of each value in each group: 0 or 1, or the chance of a value of another
    attribute given it.
    """

    prior: Float64Array
    greatest: Float64Array
    groups: Float32Matrix

    @classmethod
    def of(cls, prior: Float64Array, certainty: float, groups: Sequence[tuple[Float32Array, float]] = ()) -> Limits:
        """Return the limits max(β, P(x)) and max(β_G, P(G)).

        ``prior``: (k,). ``certainty``: β. ``groups``: the weights and β_G of each.
        """
        weights = np.array([each for each, _ in groups], np.float32).reshape(len(groups), prior.size)
        priors = np.concatenate([prior, weights.astype(np.float64) @ prior])
        asked = np.concatenate([np.full(prior.size, certainty), [limit for _, limit in groups]])
        return cls(priors, np.maximum(asked, priors), weights)

    @property
    def aims(self) -> Float64Array:
        """(k + g,) float64: the limits that η aims at."""
        return np.maximum(self.greatest * (1.0 - SLACK), self.prior)

    def masses(self, values: Float64Matrix) -> Float64Matrix:
        """Return the masses (k + g, …) of values and groups; ``values``: (k, …)."""
        return np.concatenate([values, self.groups.astype(np.float64) @ values])


class Excess(NamedTuple):
    """Posteriors above their limits, (e,) each: the index of the mask, the value, or k + the group, and G."""

    mask: Int64Array
    which: Int64Array
    posterior: Float64Array

    def joined(self, other: Excess) -> Excess:
        """Return both together."""
        mask, which, posterior = (np.concatenate(each) for each in zip(self, other, strict=True))
        return Excess(mask, which, posterior)


class Told(Protocol):
    """What n masks tell of the values of one attribute."""

    @property
    def limits(self) -> Limits: ...

    @property
    def chance(self) -> Float64Array:
        """(n,) the law of masks."""

    @property
    def excess(self) -> Excess: ...

    @property
    def others(self) -> float:
        """What no posterior of a value within its limit exceeds."""

    def mixed(self, weights: Float64Array) -> Float64Array:
        """Return (k,) float64: Σ_t weights(t)·G(x, t); ``weights``: (n,)."""


class Table(NamedTuple):
    """``Told`` of a joint law of values and masks, ``joint``: (k, n) float32.

    ``above``: (m,) the masks with a posterior above its limit, ascending. ``columns``: (k, m) float64, theirs.
    """

    joint: Float32Matrix
    chance: Float64Array
    limits: Limits
    excess: Excess
    others: float
    above: Int64Array
    columns: Float64Matrix

    @classmethod
    def of(cls, joint: Float32Matrix, chance: Float64Array, limits: Limits) -> Table:
        """Return what the masks tell; ``chance``: (n,) their law."""
        aims, prior, size = limits.aims * (1.0 + 1e-6), limits.prior, len(joint)
        mask, value, posterior, others = exceeding_entries(joint, prior[:size], chance, aims[:size])
        excess = Excess(mask, value, posterior)
        if len(limits.groups):
            mask, group, posterior, _ = exceeding_entries(limits.groups @ joint, prior[size:], chance, aims[size:])
            excess = excess.joined(Excess(mask, group + size, posterior))
        above = np.unique(excess.mask)
        return cls(joint, chance, limits, excess, others, above, joint[:, above].astype(np.float64))

    def mixed(self, weights: Float64Array) -> Float64Array:
        """See ``Told``. The least share of all masks is one of the prior."""
        shares = ratio(weights, self.chance)
        least = float(shares[self.chance > 0.0].min())
        more = np.flatnonzero(shares > least * (1.0 + 1e-6))
        known = np.isin(more, self.above).all()
        rest = self.columns @ (shares[self.above] - least) if known else self.joint[:, more] @ (shares[more] - least)
        return np.asarray(least * self.limits.prior[: len(self.joint)] + rest)


@dataclass(frozen=True, eq=False)
class Posteriors:
    """``Told`` of one attribute of a map of pairs: G(x, t) = first[i, x]·second[x, j] / total[i, j] for t = (i, j).

    ``first``: (a, k), ``second``: (k, b), ``total``: (a, b), their product, and ``law``: (a, b), float32 each.
    """

    first: Float32Matrix
    second: Float32Matrix
    total: Float32Matrix
    law: Float32Matrix
    limits: Limits

    @classmethod
    def of(cls, transport: Map, limits: Sequence[Limits]) -> tuple[Posteriors, Posteriors]:
        """Return the posteriors of both attributes of a map."""
        (first, second), (front, back), total = transport.matrices, transport.fronts, transport.chances
        law = total * transport.psi
        return (
            cls(np.ascontiguousarray(first.T), front, total, law, limits[0]),
            cls(back, second, total, law, limits[1]),
        )

    @cached_property
    def chance(self) -> Float64Array:
        return self.law.astype(np.float64).ravel()

    @cached_property
    def excess(self) -> Excess:
        return self._searched[0]

    @cached_property
    def others(self) -> float:
        return self._searched[1]

    @cached_property
    def _searched(self) -> tuple[Excess, float]:
        """Look closely at the masks whose surest posterior, relative to its limit, is above it."""
        size, aims = self.first.shape[1], self.limits.aims
        surest = greatest_products((self.first / aims[:size]).astype(np.float32), self.second)
        shares = np.where(self.law > 0.0, ratio(surest, self.total), np.float32(0.0))
        i, j = np.nonzero(shares > 1.0)
        others = float(shares[shares <= 1.0].max(initial=0.0)) * float(aims[:size].max())
        rows, total = np.ascontiguousarray(self.second.T), self.total
        t, x, product = exceeding_products(self.first, rows, total, aims[:size], i, j)
        found = Excess(i[t] * total.shape[1] + j[t], x, product / total[i[t], j[t]])
        for group, (weights, aim) in enumerate(zip(self.limits.groups, aims[size:].tolist(), strict=True)):
            inside = np.flatnonzero(weights)
            mass = (self.first[:, inside] * weights[inside]) @ self.second[inside]
            i, j = np.nonzero((mass > total * aim) & (self.law > 0.0))
            posterior = mass[i, j].astype(np.float64) / total[i, j]
            found = found.joined(Excess(i * total.shape[1] + j, np.full(i.size, size + group), posterior))
        return found, others

    def mixed(self, weights: Float64Array) -> Float64Array:
        shares = ratio(weights.astype(np.float32).reshape(self.total.shape), self.total)
        return np.asarray((self.first.T * (self.second @ shares.T)).sum(axis=1, dtype=np.float64))

    def columns(self, i: Int64Array, j: Int64Array) -> Float64Matrix:
        """Return (k, c) float64: the posteriors of c masks."""
        return np.asarray((self.first[i] * self.second.T[j]).T / self.total[i, j].astype(np.float64))


@dataclass(frozen=True, slots=True, eq=False)
class Redraw:
    """A redraw of n masks.

    ``eta``: (n,) float32 η. ``weights``: (n,) float64 η·T. ``share``: their sum, the share of records that is redrawn.
    ``means``: for each attribute (k,) float64 R̄. ``greatest``: for each what no posterior of a value exceeds.
    """

    eta: Float32Array
    weights: Float64Array
    share: float
    means: tuple[Float64Array, ...]
    greatest: tuple[float, ...] = ()

    @classmethod
    def of(cls, sides: Sequence[Told], eta: NDArray[np.floating]) -> Redraw:
        """Return the redraw with these chances."""
        eta = eta.astype(np.float32)
        weights = eta * sides[0].chance
        share = float(weights.sum())
        return cls(eta, weights, share, tuple(side.mixed(weights) / max(share, 1e-300) for side in sides))

    @classmethod
    def least(cls, sides: Sequence[Told], floor: float = 0.0) -> Redraw:
        """Return nearly the least redraw by which no posterior exceeds its limit; ``floor``: η of all masks at least.

        Where the masks above a limit are too few to be mixed, so that R̄ exceeds it, all masks are redrawn more often;
        where the limit is the prior, always, because posteriors have the prior as their mean.
        """
        if any((side.limits.prior >= side.limits.aims)[side.excess.which].any() for side in sides):
            floor = 1.0
        found = cls.of(sides, np.full(sides[0].chance.size, floor))
        means = [side.limits.prior for side in sides]
        for _ in range(ROUNDS):
            eta = np.full(found.eta.size, floor)
            for side, mean in zip(sides, means, strict=True):
                mask, which, posterior = side.excess
                need = (posterior - side.limits.aims[which]) / np.maximum(posterior - mean[which], 1e-12)
                np.maximum.at(eta, mask, np.clip(need, 0.0, 1.0))
            found = cls.of(sides, eta)
            means = [side.limits.masses(mean) for side, mean in zip(sides, found.means, strict=True)]
            if found.holds(sides, means):
                break
            floor = max(
                floor, *(_mixing(found.share, side.limits, mean) for side, mean in zip(sides, means, strict=True))
            )
        else:
            found = cls.of(sides, np.ones(found.eta.size))
        greatest = tuple(found.surest(side, mean) for side, mean in zip(sides, found.means, strict=True))
        return cls(found.eta, found.weights, found.share, found.means, greatest)

    def holds(self, sides: Sequence[Told], means: Sequence[Float64Array]) -> bool:
        """Return whether no posterior exceeds its limit; ``means``: R̄ of values and groups of each attribute."""
        for side, mean in zip(sides, means, strict=True):
            mask, which, posterior = side.excess
            final, greatest = posterior + self.eta[mask] * (mean[which] - posterior), side.limits.greatest
            if (final > greatest[which]).any() or (self.share > 0.0 and (mean > greatest * (1.0 + SLACK)).any()):
                return False
        return True

    def surest(self, side: Told, mean: Float64Array) -> float:
        """Return what no posterior of a value exceeds; ``mean``: (k,) R̄."""
        mask, which, posterior = (each[side.excess.which < mean.size] for each in side.excess)
        final = posterior + self.eta[mask] * (mean[which] - posterior)
        return max(side.others, float(final.max(initial=0.0)), float(mean.max()) if self.share else 0.0)


def _mixing(share: float, limits: Limits, mean: Float64Array) -> float:
    """Return the η of all masks by which R̄ gets halfway from its limit to the prior; 0 if it is within its limit."""
    over = np.flatnonzero(mean > limits.greatest)
    goal, prior = ((limits.aims + limits.prior) / 2.0)[over], limits.prior[over]
    return float(np.clip(share * (mean[over] - goal) / np.maximum(goal - prior, 1e-12), 0.0, 1.0).max(initial=0.0))


def redrawn_joint(transport: Map, again: Redraw, which: int) -> Float64Matrix:
    """Return (k, k) float64 P(x, x*) of an attribute of a map with a redraw; it sums to 1."""
    shape = transport.psi.shape
    kept = transport.joint(which, transport.psi * (1.0 - again.eta.reshape(shape))).astype(np.float64)
    joint = kept + np.outer(again.means[which], again.weights.reshape(shape).sum(axis=1 - which))
    return np.asarray(joint / joint.sum())


def told_by(transport: Map, limits: Sequence[Limits]) -> Sequence[Told]:
    """Return what the masks of a map of one or two attributes tell."""
    if len(limits) == 2:
        return Posteriors.of(transport, limits)
    joint = transport.joint(0, transport.psi)
    return (Table.of(joint, joint.sum(axis=0, dtype=np.float64), limits[0]),)


def certain(start: Map, limits: Sequence[Limits], wanted: Sequence[float]) -> tuple[Map, Redraw, tuple[float, ...]]:
    """Return a map whose attributes move by E[d²] as far as the limits allow, its redraw, and E[d²].

    ``start``: to search from. ``limits``, ``wanted``: of each attribute.
    """
    found = start
    for solution in range(MAX_SOLUTIONS):
        found = found.scaled()
        again = Redraw.least(told_by(found, limits))
        squares = [found.kernels[j].squares for j in range(len(limits))]
        moved = tuple(float((redrawn_joint(found, again, j) * each).sum()) for j, each in enumerate(squares))
        ratios = [each / goal for each, goal in zip(moved, wanted, strict=True)]
        most = 1.0 + DISTANCE_ERROR + SPARED * again.share
        if all(1.0 - DISTANCE_ERROR <= ratio**0.5 <= most for ratio in ratios) or (again.share > 0.0 and solution > 0):
            break
        if solution + 1 < MAX_SOLUTIONS:
            found = found.sharper(ratios)
    return found, again, moved
