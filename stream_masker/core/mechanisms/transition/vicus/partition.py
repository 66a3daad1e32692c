"""Division of values into parts of similar values, by a genetic algorithm (2012: section 3.1, step 1).

The paper requires parts with high similarity within and low similarity between them, and a lower bound on their size,
found by a genetic algorithm. It specifies neither the number of parts nor fitness and operators. They are chosen here
as follows:

* The similarity between attributes is 0, so each attribute's values are divided separately, and the bound holds for the
  parts of each attribute: a part has at least that many values of its own attribute.
* If the number of parts is given, fitness is Σ Sij over the pairs within parts; this minimises the cut as the paper
  defines it. An attribute with too few values has as many parts as possible.
* If it is not given, the cut would be minimal for a single part. Fitness is then Σ (Sij − S̄) over the pairs within
  parts, with S̄ the mean of S over all pairs of distinct values. The pairs within and between parts sum to 0, so the
  largest similarity within parts is the smallest between them, and the number of parts follows.
* A child inherits each part of one parent as a whole with probability 1/2; the other values stay grouped as in the
  other parent. Mutation moves single values. Then parts that are too small or too many are dissolved, each value moving
  to the most similar part; if there are too few parts, the values that fit worst form new ones. Finally values move,
  parts merge, and values of parts at the bound are exchanged, as long as fitness increases.
* Each parent is the better of two random individuals. A child replaces the worst individual if it is better than it and
  differs from all others.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stream_masker.core.dtypes import Float64Array, Float64Matrix, Int64Array
from stream_masker.core.kernels.jit import int64, kernel, part

MIN_GAIN = 1e-9
"""The smallest gain for which a step is taken. Smaller gains can be rounding errors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSearch:
    """The parameters of the search. Immutable.

    * ``part_size``: the smallest size of a part. ``parts``: the number of parts, or None for any number.
    * ``population``: the number of individuals. ``generations``: how often that many children are created.
    * ``seed``: of the algorithm's random numbers, which protect nothing; equal seeds find equal parts.
    """

    part_size: int
    parts: int | None
    population: int
    generations: int
    seed: int

    def max_parts_of(self, values: int) -> int:
        """Return the largest number of parts that this number of values allows."""
        possible = max(1, values // self.part_size)
        return possible if self.parts is None else min(self.parts, possible)


def partition_values(similarity: Float64Array, search: PartitionSearch) -> Int64Array:
    """Return (v,) int64: the part of each value, numbered from 0 by their first values. ``similarity``: S, (v, v)
    float64.

    The latest divisions are remembered: mechanisms that differ in other parameters divide the values of a window alike.
    """
    v = len(similarity)
    if search.max_parts_of(v) == 1:
        return np.zeros(v, np.int64)
    key = (hashlib.blake2b(similarity.tobytes()).digest(), search)
    labels = _DIVIDED.pop(key, None)
    if labels is None:
        labels = _searched(similarity, search)
    _DIVIDED[key] = labels
    while len(_DIVIDED) > REMEMBERED:
        _DIVIDED.pop(next(iter(_DIVIDED)))
    return labels.copy()


REMEMBERED = 16
"""The number of divisions that are remembered, (v,) int64 each."""

_DIVIDED: dict[tuple[bytes, PartitionSearch], Int64Array] = {}


def _searched(similarity: Float64Array, search: PartitionSearch) -> Int64Array:
    rng = np.random.Generator(np.random.PCG64(search.seed))
    fixed = search.parts is not None
    rule = _Rule(
        similarity if fixed else excess(similarity), search.part_size, search.max_parts_of(len(similarity)), fixed
    )
    individuals = [_random_individual(rng, rule) for _ in range(search.population)]
    for _ in range(search.population * search.generations):
        _replace_worst(individuals, _offspring(rng, rule, individuals))
    return canonical_partition(max(individuals, key=lambda individual: individual.fitness).labels)


def excess(similarity: Float64Array) -> Float64Array:
    """Return S − S̄, with a diagonal of 0."""
    v = len(similarity)
    result: Float64Array = similarity - (similarity.sum() - similarity.trace()) / (v * (v - 1))
    np.fill_diagonal(result, 0.0)
    return result


def canonical_partition(labels: Int64Array) -> Int64Array:
    """Return the same parts, numbered in the order of their first values."""
    _, firsts, inverse = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(len(firsts), np.int64)
    rank[np.argsort(firsts)] = np.arange(len(firsts))
    return rank[inverse]


@dataclass(frozen=True, slots=True, eq=False)
class _Individual:
    """An individual of the population: the label of each value's part, and its fitness."""

    labels: Int64Array
    fitness: float


class _Rule(NamedTuple):
    """What parts are allowed, and what they gain.

    * ``weights``: (v, v) float64, the weight of each pair of values within a part.
    * ``min_size``: the smallest size of a part.
    * ``max_parts``: the largest number of parts; ``fixed``: whether their number must be exactly that.
    """

    weights: Float64Array
    min_size: int
    max_parts: int
    fixed: bool


def _random_individual(rng: np.random.Generator, rule: _Rule) -> _Individual:
    """Return a random number of random parts, improved."""
    parts = int(rng.integers(1, rule.max_parts + 1))
    return _improved_individual(rng, rule, rng.permutation(len(rule.weights)) % parts)


def _offspring(rng: np.random.Generator, rule: _Rule, individuals: list[_Individual]) -> _Individual:
    mother, father = (_tournament_winner(rng, individuals) for _ in range(2))
    inherited = rng.random(len(mother.labels)) < 0.5
    labels = np.where(inherited[mother.labels], mother.labels, len(mother.labels) + father.labels)
    moved = rng.random(len(labels)) < 1.0 / len(labels)
    labels[moved] = rng.choice(labels, int(moved.sum()))
    return _improved_individual(rng, rule, labels)


def _tournament_winner(rng: np.random.Generator, individuals: list[_Individual]) -> _Individual:
    i, j = (int(k) for k in rng.integers(0, len(individuals), 2))
    return individuals[j] if individuals[j].fitness > individuals[i].fitness else individuals[i]


def _improved_individual(rng: np.random.Generator, rule: _Rule, labels: Int64Array) -> _Individual:
    labels = canonical_partition(labels)
    fitness = improve(*rule, labels, rng.permutation(len(labels)))
    return _Individual(canonical_partition(labels), float(fitness))


def _replace_worst(individuals: list[_Individual], child: _Individual) -> None:
    worst = min(range(len(individuals)), key=lambda k: individuals[k].fitness)
    better = child.fitness > individuals[worst].fitness + MIN_GAIN
    if better and not any(np.array_equal(child.labels, other.labels) for other in individuals):
        individuals[worst] = child


class PartitionState(NamedTuple):
    """A partition while it changes. Kernels update it in place.

    * ``weights``: (v, v) float64, the weight of each pair of values within a part.
    * ``labels``: (v,) int64, the part of each value.
    * ``sizes``: (k,) int64, the size of each part; 0 for an unused label.
    * ``ties``: (k, v) float64, the sum of each value's weights to the values of each part, except itself.
    """

    weights: Float64Matrix
    labels: Int64Array
    sizes: Int64Array
    ties: Float64Matrix


@kernel
def fitness_of(weights: Float64Matrix, labels: Int64Array) -> float:
    """Return Σ ``weights`` over the pairs within parts."""
    total = 0.0
    for i in range(labels.size):
        for j in range(i):
            if labels[i] == labels[j]:
                total += weights[i, j]
    return total


@part
def most_similar_part(state: PartitionState, i: int, with_empty: bool) -> int:
    """Return the part, other than value i's own, that it is most similar to; −1 if there is none.

    Empty parts are only considered ``with_empty``.
    """
    best = int64(-1)
    for p in range(state.sizes.size):
        allowed = p != state.labels[i] and (state.sizes[p] > 0 or with_empty)
        if allowed and (best < 0 or state.ties[p, i] > state.ties[best, i]):
            best = int64(p)
    return best


@part
def move_value(state: PartitionState, i: int, new: int) -> float:
    """Move value i to another part, and return the gain."""
    old = state.labels[i]
    gain = state.ties[new, i] - state.ties[old, i]
    for j in range(state.labels.size):
        state.ties[old, j] -= state.weights[i, j]
        state.ties[new, j] += state.weights[i, j]
    state.labels[i] = new
    state.sizes[old] -= 1
    state.sizes[new] += 1
    return gain


@part
def dissolve(state: PartitionState, old: int) -> float:
    """Move each value of a part to the other part that it is most similar to, and return the gain."""
    gain_total = 0.0
    for i in range(state.labels.size):
        if state.labels[i] == old:
            gain_total += move_value(state, i, most_similar_part(state, i, False))
    return gain_total


@part
def form_part(state: PartitionState, new: int, min_size: int) -> None:
    """Fill the empty part ``new`` with the values that fit worst into parts above the bound."""
    while state.sizes[new] < min_size:
        worst = -1
        for i in range(state.labels.size):
            label = state.labels[i]
            spare = label != new and state.sizes[label] > min_size
            if spare and (worst < 0 or state.ties[label, i] < state.ties[state.labels[worst], worst]):
                worst = i
        move_value(state, worst, new)


@part
def repair(state: PartitionState, min_size: int, max_parts: int, fixed: bool) -> None:
    """Dissolve and form parts until none is below the bound and their number is allowed."""
    while True:
        smallest = int64(-1)
        empty = int64(-1)
        parts = 0
        for p in range(state.sizes.size):
            if state.sizes[p] == 0:
                empty = int64(p)
            else:
                parts += 1
                if smallest < 0 or state.sizes[p] < state.sizes[smallest]:
                    smallest = int64(p)
        if parts > 1 and (state.sizes[smallest] < min_size or parts > max_parts):
            dissolve(state, smallest)
        elif fixed and parts < max_parts:
            form_part(state, empty, min_size)
        else:
            return


@part
def move_values(state: PartitionState, min_size: int, allow_new: bool, order: Int64Array) -> float:
    """Move single values out of parts above the bound in one pass, and return the gain.

    ``allow_new``: whether parts can arise and vanish.
    """
    gain_total = 0.0
    for i in order:
        label = state.labels[i]
        if state.sizes[label] > min_size or allow_new:
            best = most_similar_part(state, i, allow_new)
            if best >= 0 and state.ties[best, i] > state.ties[label, i] + MIN_GAIN:
                gain_total += move_value(state, i, best)
    return gain_total


@part
def exchange_values(state: PartitionState, min_size: int, order: Int64Array) -> float:
    """Exchange values of parts at the bound, which cannot leave alone, in one pass; return the gain."""
    gain_total = 0.0
    for i in order:
        label = state.labels[i]
        if state.sizes[label] == min_size:
            best = MIN_GAIN
            partner = -1
            for j in range(state.labels.size):
                other = state.labels[j]
                gain = state.ties[other, i] - state.ties[label, i] + state.ties[label, j] - state.ties[other, j]
                gain -= 2.0 * state.weights[i, j]
                if other != label and gain > best:
                    best = gain
                    partner = j
            if partner >= 0:
                other = state.labels[partner]
                gain_total += move_value(state, i, other) + move_value(state, partner, label)
    return gain_total


@part
def merge_parts(state: PartitionState, part_ties: Float64Array) -> float:
    """Merge each part with the one that gains most, if any gains, in one pass; return the gain.

    ``part_ties``: (k,) float64 scratch.
    """
    gain_total = 0.0
    for old in range(state.sizes.size):
        part_ties[:] = 0.0
        for i in range(state.labels.size):
            if state.labels[i] == old:
                for p in range(state.sizes.size):
                    part_ties[p] += state.ties[p, i]
        best = old
        for p in range(state.sizes.size):
            if p != old and state.sizes[p] > 0 and part_ties[p] > (MIN_GAIN if best == old else part_ties[best]):
                best = p
        if best != old:
            gain_total += part_ties[best]
            for i in range(state.labels.size):
                if state.labels[i] == old:
                    move_value(state, i, best)
    return gain_total


@kernel
def improve(
    weights: Float64Matrix, min_size: int, max_parts: int, fixed: bool, labels: Int64Array, order: Int64Array
) -> float:
    """Repair a partition in place and improve it until nothing gains; return its fitness."""
    parts = max(max_parts, labels.max() + 1)
    ties = np.zeros((parts, labels.size), np.float64)
    sizes = np.zeros(parts, np.int64)
    for i in range(labels.size):
        sizes[labels[i]] += 1
        for j in range(labels.size):
            if i != j:
                ties[labels[j], i] += weights[i, j]
    state = PartitionState(weights, labels, sizes, ties)
    repair(state, min_size, max_parts, fixed)
    part_ties = np.empty(parts, np.float64)
    gain_total = 1.0
    while gain_total > 0.0:
        gain_total = move_values(state, min_size, min_size == 1 and not fixed, order)
        gain_total += exchange_values(state, min_size, order)
        if not fixed:
            gain_total += merge_parts(state, part_ties)
    return fitness_of(weights, labels)
