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

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stream_masker.core.dtypes import Float64Array, Float64Matrix, Int64Array
from stream_masker.core.kernels.jit import int64, kernel, part

GAIN = 1e-9
"""The smallest gain for which a step is taken, so that rounding alone moves nothing."""


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
    """(v,) int64: the part of each value, numbered from 0 by their first values. ``similarity``: S, (v, v) float64."""
    v = len(similarity)
    max_parts = search.max_parts_of(v)
    if max_parts == 1:
        return np.zeros(v, np.int64)
    rng = np.random.Generator(np.random.PCG64(search.seed))
    fixed = search.parts is not None
    rule = _Rule(similarity if fixed else excess(similarity), search.part_size, max_parts, fixed)
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
    better = child.fitness > individuals[worst].fitness + GAIN
    if better and not any(np.array_equal(child.labels, other.labels) for other in individuals):
        individuals[worst] = child


class PartitionState(NamedTuple):
    """Parts while they change. weights: (v, v) of pairs; labels: (v,) parts; sizes: (k,), 0 for a label without values;
    ties: (k, v) float64, the sums of each value's weights to each part, itself left out."""

    weights: Float64Matrix
    labels: Int64Array
    sizes: Int64Array
    ties: Float64Matrix


@kernel
def fitness_of(weights: Float64Matrix, labels: Int64Array) -> float:
    """Σ of ``weights`` over the pairs within parts."""
    total = 0.0
    for i in range(labels.size):
        for j in range(i):
            if labels[i] == labels[j]:
                total += weights[i, j]
    return total


@part
def best_other(state: PartitionState, i: int, with_empty: bool) -> int:
    """The part, other than value i's, that it is most similar to; empty ones only ``with_empty``; -1 for none."""
    best = int64(-1)
    for p in range(state.sizes.size):
        allowed = p != state.labels[i] and (state.sizes[p] > 0 or with_empty)
        if allowed and (best < 0 or state.ties[p, i] > state.ties[best, i]):
            best = int64(p)
    return best


@part
def shift(state: PartitionState, i: int, new: int) -> float:
    """Moves value i into another part; the gain."""
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
    """Moves each value of a part into the other part that it is most similar to; the gain."""
    gained = 0.0
    for i in range(state.labels.size):
        if state.labels[i] == old:
            gained += shift(state, i, best_other(state, i, False))
    return gained


@part
def found(state: PartitionState, new: int, least: int) -> None:
    """Makes a new part of the values that fit worst into parts above the bound."""
    while state.sizes[new] < least:
        worst = -1
        for i in range(state.labels.size):
            own = state.labels[i]
            spare = own != new and state.sizes[own] > least
            if spare and (worst < 0 or state.ties[own, i] < state.ties[state.labels[worst], worst]):
                worst = i
        shift(state, worst, new)


@part
def repair(state: PartitionState, least: int, most: int, fixed: bool) -> None:
    """Dissolves and makes parts until none is below the bound, and their number is allowed."""
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
        if parts > 1 and (state.sizes[smallest] < least or parts > most):
            dissolve(state, smallest)
        elif fixed and parts < most:
            found(state, empty, least)
        else:
            return


@part
def move_values(state: PartitionState, least: int, free: bool, order: Int64Array) -> float:
    """One pass of moves of single values out of parts above the bound; free: parts may arise and vanish. The gain."""
    gained = 0.0
    for i in order:
        own = state.labels[i]
        if state.sizes[own] > least or free:
            best = best_other(state, i, free)
            if best >= 0 and state.ties[best, i] > state.ties[own, i] + GAIN:
                gained += shift(state, i, best)
    return gained


@part
def swap_part_values(state: PartitionState, least: int, order: Int64Array) -> float:
    """One pass of exchanges for values of parts at the bound, which cannot leave alone; the gain."""
    gained = 0.0
    for i in order:
        own = state.labels[i]
        if state.sizes[own] == least:
            best = GAIN
            chosen = -1
            for j in range(state.labels.size):
                other = state.labels[j]
                gain = state.ties[other, i] - state.ties[own, i] + state.ties[own, j] - state.ties[other, j]
                gain -= 2.0 * state.weights[i, j]
                if other != own and gain > best:
                    best = gain
                    chosen = j
            if chosen >= 0:
                other = state.labels[chosen]
                gained += shift(state, i, other) + shift(state, chosen, own)
    return gained


@part
def merge_parts(state: PartitionState, room: Float64Array) -> float:
    """One pass that merges each part with the one that it gains most with, if it does; the gain. room: (k,) float64."""
    gained = 0.0
    for old in range(state.sizes.size):
        room[:] = 0.0
        for i in range(state.labels.size):
            if state.labels[i] == old:
                for p in range(state.sizes.size):
                    room[p] += state.ties[p, i]
        best = old
        for p in range(state.sizes.size):
            if p != old and state.sizes[p] > 0 and room[p] > (GAIN if best == old else room[best]):
                best = p
        if best != old:
            gained += room[best]
            for i in range(state.labels.size):
                if state.labels[i] == old:
                    shift(state, i, best)
    return gained


@kernel
def improve(weights: Float64Matrix, least: int, most: int, fixed: bool, labels: Int64Array, order: Int64Array) -> float:
    """Makes parts allowed, in place, and better while something gains; the fitness that is reached."""
    parts = max(most, labels.max() + 1)
    ties = np.zeros((parts, labels.size), np.float64)
    sizes = np.zeros(parts, np.int64)
    for i in range(labels.size):
        sizes[labels[i]] += 1
        for j in range(labels.size):
            if i != j:
                ties[labels[j], i] += weights[i, j]
    state = PartitionState(weights, labels, sizes, ties)
    repair(state, least, most, fixed)
    room = np.empty(parts, np.float64)
    gained = 1.0
    while gained > 0.0:
        gained = move_values(state, least, least == 1 and not fixed, order)
        gained += swap_part_values(state, least, order)
        if not fixed:
            gained += merge_parts(state, room)
    return fitness_of(weights, labels)
