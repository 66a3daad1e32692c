"""The promise: masks that tell too much are drawn again, so that no posterior exceeds its limit.

To an attacker who knows all but the secret (``SemanticTransport``), the map alone gives the posterior G(x, t) of x
given t. A record that was masked to t is, with probability η(t), masked again by a draw from R(t) ∝ η(t)·T(t),
independent of the original. The law T of masks stays the same, and the posterior becomes (1 − η(t))·G(x, t) +
η(t)·R̄(x), where R̄(x) = Σ_t η·T·G / Σ_t η·T is the mean of G under R. Given R̄, the least η is explicit; it is iterated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from stream_masker.core.arrays import Float32Array, Float64Array, Int64Array
from stream_masker.core.mechanisms.transport.fit import DISTANCE_ERROR, SHARPENED_ROUNDS, Kernel, Law, Map, levelled

SLACK = 2e-4
"""By which share the limits that η aims at are lowered, so that few rounds, in float32, meet the limits themselves."""
ROUNDS = 40
"""The greatest number of rounds for η; where they do not suffice, all masks are drawn again."""
MAX_SOLUTIONS = 4
"""How often a map is fitted, with another λ each time, to meet its distance."""
CACHED = 256
"""The number of columns of products that are computed at once, so that they stay in a processor's cache."""


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
    def of(cls, prior: Float64Array, certainty: float, groups: Sequence[tuple[Float64Array, float]]) -> Limits:
        """Return the limits of values with a (k,) prior, and of groups: the weights and the limit of each."""
        weights = np.array([each for each, _ in groups]).reshape(len(groups), prior.size)
        asked = np.append(np.full(prior.size, certainty), [limit for _, limit in groups])
        priors = np.append(prior, weights @ prior)
        return cls(priors, np.maximum(asked, priors), weights)

    def with_groups(self, chances: Float64Array) -> Float64Array:
        """Return (k + g,): the (k,) chances of values, and those of groups."""
        return np.append(chances, self.groups @ chances)

    @property
    def aims(self) -> Float64Array:
        """(k + g,) float64: the limits that η aims at."""
        return np.maximum(self.greatest * (1.0 - SLACK), self.prior)


def needed_redraw(posterior: Float64Array, aim: Float64Array, redrawn: Float64Array) -> Float64Array:
    """Return the least η by which a posterior does not exceed its aim; ``redrawn``: R̄, the posterior after a redraw."""
    return np.clip((posterior - aim) / np.maximum(posterior - redrawn, 1e-12), 0.0, 1.0)


def above(found: Map, which: int, limits: Limits) -> tuple[Int64Array, Int64Array, Float64Array]:
    """Return the e posteriors of an attribute above what is aimed at: (e,) each, the mask, the value or k + the group,
    and G. Only masks whose surest posterior exceeds an aim are looked at closely."""
    (first, second), (_, size), (_, k), parts = found.factors[which], found.chances.shape, limits.groups.shape, []
    groups, aims = limits.groups.astype(np.float32), limits.aims[:, None]
    scaled = (first / limits.aims[:k]).astype(np.float32)
    totals = np.where(found.law_of_masks > 0.0, found.chances.ravel().astype(np.float64), np.inf).reshape(-1, size)
    for start in range(0, size, CACHED):
        some = np.ascontiguousarray(second[:, start : start + CACHED])
        for i, total in enumerate(totals[:, start : start + CACHED]):
            inside = (groups * first[i]) @ some
            over = ((scaled[i][:, None] * some).max(axis=0) > total) | (inside > aims[k:] * total).any(axis=0)
            told = np.concatenate([first[i][:, None] * some[:, over], inside[:, over]]) / total[over]
            statement, mask = np.nonzero(told > aims)
            parts.append((i * size + start + np.flatnonzero(over)[mask], statement, told[statement, mask]))
    masks, statements, posteriors = (np.concatenate(each) for each in zip(*parts, strict=True))
    return masks, statements, posteriors


def least_redraw(found: Map, limits: Sequence[Limits]) -> Float32Array:
    """Return (n,) nearly the least η by which no posterior exceeds its limit; ``limits``: of each attribute.

    Given R̄, the least η of each mask is explicit. Where the masks above a limit are too few to be mixed, so that R̄
    exceeds it, all masks are redrawn so often that R̄ gets halfway from its limit to the prior. If the limit is the
    prior, they always are, because posteriors have the prior as their mean.
    """
    bounds = ((each.prior, each.greatest, each.aims) for each in limits)
    prior, greatest, aims = (np.concatenate(each) for each in zip(*bounds, strict=True))
    parts = [above(found, j, each) for j, each in enumerate(limits)]
    mask, which, posterior = (np.concatenate(each) for each in zip(*parts, strict=True))
    which[parts[0][0].size :] += limits[0].prior.size
    chance, mean, floor = found.law_of_masks, prior, 0.0
    for _ in range(ROUNDS):
        least = np.full(chance.size, floor)
        np.maximum.at(least, mask, needed_redraw(posterior, aims[which], mean[which]))
        redraw_chance: Float32Array = least.astype(np.float32)
        mean = np.concatenate([own.with_groups(found.mean(j, redraw_chance)) for j, own in enumerate(limits)])
        final, over = posterior + redraw_chance[mask] * (mean[which] - posterior), mean > greatest
        if (final <= greatest[which]).all() and (mean <= greatest * (1.0 + SLACK)).all():
            return redraw_chance
        goal = (aims + prior)[over] / 2.0
        excess = (mean[over] - goal) / np.maximum(goal - prior[over], 1e-12)
        floor = max(floor, min(1.0, float(redraw_chance @ chance) * float(excess.max(initial=0.0))))
    return np.ones(chance.size, np.float32)


def certain(law: Law, limits: Sequence[Limits], wanted: Sequence[float]) -> tuple[Map, Float32Array]:
    """Return a map whose attributes move by E[d²] as far as the limits allow, and its η, (k_A, k_B).

    ``limits``, ``wanted``: of each attribute, one or both.
    """
    kernels = [Kernel.started(law.values[j], law.marginal(j), 0.5 / goal) for j, goal in enumerate((*wanted, 1.0)[:2])]
    for j, goal in enumerate(wanted):
        kernels[j] = levelled(kernels[j], law, j, goal)
    first, second = (np.exp(kernel.weights) / law.marginal(j) for j, kernel in enumerate(kernels))
    independent = law.share * (first[law.tuples[0]] * second[law.tuples[1]])  # Φ, if the attributes were
    found = Map(law, tuple(kernels), independent.astype(np.float32))
    for solution in range(MAX_SOLUTIONS):
        found = found.scaled()
        redraw_chance = least_redraw(found, limits).reshape(law.target.shape)
        joints = [found.joint(j, redraw_chance) for j in range(len(wanted))]
        excesses = [
            float((joint * v.squares).sum()) / goal for joint, v, goal in zip(joints, law.values, wanted, strict=False)
        ]
        settled = all(abs(each**0.5 - 1.0) <= DISTANCE_ERROR for each in excesses)
        if settled or (redraw_chance.any() and solution > 0) or solution + 1 == MAX_SOLUTIONS:
            break
        for j, excess in enumerate(excesses):
            kernels[j] = levelled(kernels[j].sharper(excess), law, j, None, SHARPENED_ROUNDS)
        found = Map(law, tuple(kernels), found.tuple_weights)
    return found, redraw_chance
