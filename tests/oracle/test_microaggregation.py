"""MDAV, group means and Algorithm 1 of 2013, against literal implementations of their definitions."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.core_parts import GroupValues, group_means, mdav, near_values
from support.graphs import taxonomies

from stream_masker import LogTaxonomic


class LiteralMdav:
    """MDAV record by record, with distances of single pairs.

    ``units``: the unit of each record; groups have records of k different units.
    """

    def __init__(self, codes, distances, weights, words, units):
        self.units = units
        self.codes, self.words, self.distances, self.weights = codes, words, distances, weights

    def squared(self, code, r):
        """The squared distance, rounded so that rounding errors make no difference."""
        terms = zip(self.weights, self.distances, code, self.codes[r], strict=True)
        return round(sum(w * d(a, b) for w, d, a, b in terms), 9)

    def mean(self, left):
        code = []
        for j, d in enumerate(self.distances):
            totals = {v: sum(d(v, self.codes[r][j]) for r in left) for v in {self.codes[r][j] for r in left}}
            code.append(min(totals, key=lambda v: (round(totals[v] / len(left), 9), v)))
        return code

    def farthest(self, left, code):
        return min(left, key=lambda r: (-self.squared(code, r), self.words[r]))

    def take(self, left, centre, k):
        def rank(r):
            return (self.squared(self.codes[centre], r), self.words[r])

        group = []
        for r in sorted(left, key=rank):
            if self.count(group) < k:
                group.append(r)
                left.remove(r)
        return frozenset(group)

    def count(self, records):
        return len({self.units[r] for r in records})

    def groups(self, k):
        left, groups = list(range(len(self.codes))), []
        while self.count(left) >= 3 * k:
            first = self.farthest(left, self.mean(left))
            groups.append(self.take(left, first, k))
            second = self.farthest(left, self.codes[first])
            groups.append(self.take(left, second, k))
        if self.count(left) >= 2 * k:
            groups.append(self.take(left, self.farthest(left, self.mean(left)), k))
        return {*groups, frozenset(left)}


@st.composite
def problems(draw):
    tau = draw(taxonomies())
    n, k, p = draw(st.integers(4, 40)), draw(st.integers(2, 4)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    codes = rng.integers(0, min(len(tau), 12), (n, p)).astype(np.int32)
    return tau, k, codes, rng.permutation(n).astype(np.uint64), rng.random(p) + 0.5


@given(problems(), st.none() | st.integers(1, 30))
def test_groups_equal_those_of_literal_mdav(problem, people):
    """``people``: the number of different units, to which records belong at random; None: every record is a unit."""
    tau, k, codes, words, weights = problem
    d = LogTaxonomic(tau)
    matrix = d.matrix(np.arange(len(tau), dtype=np.int32))
    values = [GroupValues.of(codes[:, j].copy(), d) for j in range(codes.shape[1])]
    units = np.arange(len(codes)) if people is None else np.random.default_rng(people).integers(0, people, len(codes))
    found = {frozenset(g.tolist()) for g in mdav(values, weights, words, units, k)}
    units = units.tolist()
    literal = LiteralMdav(codes.tolist(), [lambda a, b: matrix[a, b]] * codes.shape[1], weights, words.tolist(), units)
    assert found == literal.groups(k)
    sizes = np.array([len({units[r] for r in group}) for group in found])
    assert sum(map(len, found)) == len(codes)
    assert sizes.max() < 2 * k or people
    assert len(set(units)) < k or sizes.min() >= k


@given(taxonomies(), st.integers(0, 1000))
def test_the_values_of_a_group_become_the_least_marginal_one(tau, seed):
    """Equation 3, and among equally marginal values that of the record with the smallest word."""
    rng, d = np.random.default_rng(seed), LogTaxonomic(tau)
    codes, words = rng.integers(0, min(len(tau), 9), 40).astype(np.int32), rng.permutation(40).astype(np.uint64)
    groups = np.array_split(rng.permutation(40), 9)
    masks = group_means(GroupValues.of(codes, d), groups, words)
    for group in groups:
        totals = {r: sum(d.between(codes[[r]], codes[group])[0]) for r in group.tolist()}
        least = min(totals, key=lambda r: (round(totals[r], 8), words[r]))
        assert set(masks[group].tolist()) == {int(codes[least])}


@given(taxonomies(), st.integers(0, 1000))
def test_hybrid_values_are_random_ones_within_the_radius_of_the_group(tau, seed):
    """Algorithm 1: as many different values as are within the radius, for as many equidistant random numbers."""
    rng, d = np.random.default_rng(seed), LogTaxonomic(tau)
    codes = rng.integers(0, min(len(tau), 8), 12).astype(np.int32)
    values, (group, others) = GroupValues.of(codes, d), np.split(rng.permutation(12), [4])
    drawn = [near_values(values, [group, others], np.full(12, u))[group] for u in (np.arange(840) + 0.5) / 840]
    for place, record in enumerate(group):
        radius = d.between(codes[[record]], codes[group]).max()
        near = [code for code in np.unique(codes) if d.between(codes[[record]], np.array([code]))[0, 0] <= radius]
        found, times = np.unique([masks[place] for masks in drawn], return_counts=True)
        assert found.tolist() == near
        assert set(times) == {840 // len(near)}
