"""MDAV, group means and Algorithm 1 of 2013, against literal implementations of their definitions."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import taxonomies

from stream_masker.core.batch import Batch, Column
from stream_masker.core.distance import LogTaxonomic
from stream_masker.core.mechanisms.grouped import GroupValues
from stream_masker.core.mechanisms.microaggregation import Microaggregation, mdav
from stream_masker.core.random import PositionKeys
from stream_masker.core.statistics import compute_statistics, count_batch


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


def mechanism(tau, **parameters):
    return Microaggregation({"a": tau, "b": tau}, seed=b"seed............", **{"k": 3} | parameters)


@given(taxonomies(), st.integers(0, 1000), st.booleans())
def test_values_are_group_means_or_within_the_radius(tau, seed, hybrid):
    """Algorithm 1, and equation 3, on the groups that the masked records reveal."""
    rng = np.random.default_rng(seed)
    n = 40
    codes = rng.integers(0, min(len(tau), 9), (n, 2)).astype(np.int32)
    made = mechanism(tau, hybrid=hybrid)
    batch = Batch(n, tuple(Column(codes[:, j].copy()) for j in range(2)))
    counts = count_batch(batch, [len(tau)] * 2)
    statistics = compute_statistics(counts, made.attributes, made.distances, version=1)
    made = made.with_statistics(replace(statistics, model=made._model(counts, statistics)), counts)
    keys = PositionKeys(b"seed", "t", 0, np.arange(n))
    masked = made.mask_batch(batch, keys)
    plain = mechanism(tau)
    plain.restore(made.snapshot())
    groups = _groups(plain, batch, keys)
    d = LogTaxonomic(tau)
    for j in range(2):
        _check_values(codes[:, j], masked.columns[j].codes, groups, d, hybrid)


def _groups(made, batch, keys):
    """The groups of equal masked records without the hybrid step; groups with equal masks are merged."""
    masked = made.mask_batch(batch, keys)
    rows = np.column_stack([column.codes for column in masked.columns])
    _, which = np.unique(rows, axis=0, return_inverse=True)
    return [np.flatnonzero(which.reshape(-1) == g) for g in range(which.max() + 1)]


def _check_values(before, after, groups, d, hybrid):
    matrix = d.matrix(np.arange(len(d.taxonomy)))
    for group in groups:
        values = before[group]
        if hybrid:
            for r in group:
                radius = max(matrix[before[r], v] for v in values)
                assert matrix[before[r], after[r]] <= radius
                assert after[r] in before
        elif len(group) < 6:
            totals = {v: sum(matrix[v, w] for w in values) for v in values.tolist()}
            assert totals[int(after[group[0]])] == pytest.approx(min(totals.values()))
