"""Parts of similar values, by a genetic algorithm (2012: section 3.1, step 1).

The paper asks for parts that are similar within and dissimilar between, with a lower bound on their size, found by a
genetic algorithm; it tells neither fitness nor operators. Chosen here:

* Similarity between attributes is 0, so each attribute's values are parted by themselves, and the bound holds for the
  parts of each attribute: a value has at least so many values of its own attribute in its part.
* Fitness: Σ (Sij − S̄) over the pairs within parts, with S̄ the mean of S over all pairs of different values. The cut
  alone (the paper's first definition) is least for one part; over S − S̄ what is kept within and what is cut sum to 0,
  so that the greatest similarity within is the least between. The number of parts follows from it, up to a bound.
* A child takes each part of one parent as a whole, or not, with equal chance; the other values stay grouped as in the
  other parent. Mutation moves single values. Parts below the bound are dissolved, each value into the part that it is
  most similar to; then values move and parts dissolve while that
  gains.
* Parents are the better of two individuals each, drawn at random; a child replaces the worst individual if it is
  better than that and unlike all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_masker.core.compiling import kernel, part

Floats = NDArray[np.float64]
Int64 = NDArray[np.int64]

GAIN = 1e-9
"""What a step must gain at least, so that rounding alone moves nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """How parts are sought. part_size: the fewest values of a part; parts: the most parts, None for any number.

    population, generations: individuals, and how often as many children are made. seed: of the algorithm's own random
    numbers, which protect nothing: equal seeds find equal parts.
    """

    part_size: int
    parts: int | None
    population: int
    generations: int
    seed: int

    def most_parts(self, values: int) -> int:
        """The most parts of so many values; one where they are too few for two."""
        possible = max(1, values // self.part_size)
        return possible if self.parts is None else min(self.parts, possible)


def partition(similarity: Floats, search: Search) -> Int64:
    """(v,) int64: the part of each value, 0 … k − 1 in the order of their first values. ``similarity``: S, (v, v)."""
    v = len(similarity)
    most = search.most_parts(v)
    if most == 1:
        return np.zeros(v, np.int64)
    rng = np.random.Generator(np.random.PCG64(search.seed))
    rule = (excess(similarity), search.part_size, most)
    people = [_stranger(rng, rule) for _ in range(search.population)]
    for _ in range(search.population * search.generations):
        _succeed(people, _child(rng, rule, people))
    return canonical(max(people, key=lambda person: person.fitness).labels)


def excess(similarity: Floats) -> Floats:
    """S − S̄, 0 on the diagonal."""
    v = len(similarity)
    result: Floats = similarity - (similarity.sum() - similarity.trace()) / (v * (v - 1))
    np.fill_diagonal(result, 0.0)
    return result


def canonical(labels: Int64) -> Int64:
    """The same parts numbered in the order of their first values."""
    _, firsts, inverse = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(len(firsts), np.int64)
    rank[np.argsort(firsts)] = np.arange(len(firsts))
    return rank[inverse]


@dataclass(frozen=True, slots=True, eq=False)
class _Person:
    """An individual: the label of each value's part, and its fitness."""

    labels: Int64
    fitness: float


_Rule = tuple[Floats, int, int]
"""S − S̄, the fewest values of a part, the most parts."""


def _stranger(rng: np.random.Generator, rule: _Rule) -> _Person:
    """A random number of random parts, improved."""
    weights, _, most = rule
    parts = int(rng.integers(1, most + 1))
    return _grown(rng, rule, rng.permutation(len(weights)) % parts)


def _child(rng: np.random.Generator, rule: _Rule, people: list[_Person]) -> _Person:
    mother, father = (_winner(rng, people) for _ in range(2))
    inherited = rng.random(len(mother.labels)) < 0.5
    labels = np.where(inherited[mother.labels], mother.labels, len(mother.labels) + father.labels)
    moved = rng.random(len(labels)) < 1.0 / len(labels)
    labels[moved] = rng.choice(labels, int(moved.sum()))
    return _grown(rng, rule, labels)


def _winner(rng: np.random.Generator, people: list[_Person]) -> _Person:
    i, j = (int(k) for k in rng.integers(0, len(people), 2))
    return people[j] if people[j].fitness > people[i].fitness else people[i]


def _grown(rng: np.random.Generator, rule: _Rule, labels: Int64) -> _Person:
    labels = canonical(labels)
    order = rng.permutation(len(labels))
    repair(*rule, labels)
    labels = canonical(labels)
    fitness = improve(*rule, labels, order)
    return _Person(canonical(labels), float(fitness))


def _succeed(people: list[_Person], child: _Person) -> None:
    worst = min(range(len(people)), key=lambda k: people[k].fitness)
    better = child.fitness > people[worst].fitness + GAIN
    if better and not any(np.array_equal(child.labels, person.labels) for person in people):
        people[worst] = child


@part
def fitness_of(weights, labels):  # type: ignore[no-untyped-def]
    """Σ of ``weights`` over the pairs within parts."""
    total = 0.0
    for i in range(labels.size):
        for j in range(i):
            if labels[i] == labels[j]:
                total += weights[i, j]
    return total


@part
def ties_of(weights, labels, i, room):  # type: ignore[no-untyped-def]
    """Fills ``room`` with the sums of value i's weights to each part."""
    room[:] = 0.0
    for j in range(labels.size):
        room[labels[j]] += weights[i, j]


@part
def best_other(room, sizes, own, emptied):  # type: ignore[no-untyped-def]
    """The part of greatest sum but ``own``, of those with values, or also of those without; -1 for none."""
    best = -1
    for p in range(room.size):
        if p != own and (sizes[p] > 0 or emptied) and (best < 0 or room[p] > room[best]):
            best = p
    return best


@part
def dissolve(weights, labels, sizes, old, room):  # type: ignore[no-untyped-def]
    """Moves each value of a part into the other part that it is most similar to, in place; the gain."""
    gained = 0.0
    for i in range(labels.size):
        if labels[i] == old:
            ties_of(weights, labels, i, room)
            best = best_other(room, sizes, old, False)
            gained += room[best] - room[old]
            labels[i] = best
            sizes[best] += 1
    sizes[old] = 0
    return gained


@kernel
def repair(weights, least, most, labels):  # type: ignore[no-untyped-def]
    """Dissolves the smallest parts, in place, until none is below the bound and there are no more than allowed."""
    sizes = np.bincount(labels)
    room = np.empty(sizes.size, np.float64)
    while True:
        smallest = -1
        parts = 0
        for p in range(sizes.size):
            if sizes[p] > 0:
                parts += 1
                if smallest < 0 or sizes[p] < sizes[smallest]:
                    smallest = p
        if parts == 1 or (sizes[smallest] >= least and parts <= most):
            return
        dissolve(weights, labels, sizes, smallest, room)


@part
def move_values(weights, least, labels, sizes, order, room):  # type: ignore[no-untyped-def]
    """One pass of moves of single values out of parts above the bound; the gain."""
    gained = 0.0
    for i in order:
        own = labels[i]
        if sizes[own] > least or least == 1:
            ties_of(weights, labels, i, room)
            best = best_other(room, sizes, own, least == 1)
            if best >= 0 and room[best] > room[own] + GAIN:
                gained += room[best] - room[own]
                labels[i] = best
                sizes[own] -= 1
                sizes[best] += 1
    return gained


@kernel
def dissolve_parts(weights, labels, sizes, room):  # type: ignore[no-untyped-def]
    """One pass that dissolves each part whose values are better elsewhere; the gain."""
    gained = 0.0
    for old in range(sizes.size):
        if 0 < sizes[old] < labels.size:
            tried = labels.copy()
            left = sizes.copy()
            gain = dissolve(weights, tried, left, old, room)
            if gain > GAIN:
                gained += gain
                labels[:] = tried
                sizes[:] = left
    return gained


@kernel
def improve(weights, least, most, labels, order):  # type: ignore[no-untyped-def]
    """Moves values and dissolves parts, in place, while that gains; the fitness that is reached."""
    sizes = np.zeros(most, np.int64)
    for label in labels:
        sizes[label] += 1
    room = np.empty(most, np.float64)
    gained = 1.0
    while gained > 0.0:
        gained = move_values(weights, least, labels, sizes, order, room)
        gained += dissolve_parts(weights, labels, sizes, room)
    return fitness_of(weights, labels)
