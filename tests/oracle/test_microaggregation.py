"""MDAV, group means and Algorithm 1 of 2013, against literal implementations of their definitions."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import taxonomies

from stream_masker.core.batch import Batch, Column
from stream_masker.core.distance import LogTaxonomic
from stream_masker.core.mechanisms.microaggregation.groups import ComparableRecords, NominalValues, with_exact_sums
from stream_masker.core.mechanisms.microaggregation.mechanism import Microaggregation
from stream_masker.core.numeric import Numeric
from stream_masker.core.random import PositionKeys


class LiteralMdav:
    """MDAV record by record: distances from matrices of all records, without types or running totals.

    ``units``: the unit of each record; groups have records of k different units.
    """

    def __init__(self, codes, numbers, distances, weights, numeric_weights, words, units):
        self.units = units
        self.codes, self.numbers, self.words = codes, numbers, words
        self.distances, self.weights, self.numeric_weights = distances, weights, numeric_weights

    def squared(self, code, number, r):
        """The squared distance, summed in the compiled order so that equal distances are equal floats."""
        total = 0.0
        for w, d, a, b in zip(self.weights, self.distances, code, self.codes[r], strict=True):
            total += w * d(a, b)
        for w, x, y in zip(self.numeric_weights, number, self.numbers[r], strict=True):
            total += w / 2 * (x - y) ** 2
        return total

    def mean(self, left):
        code = []
        for j, d in enumerate(self.distances):
            totals = {v: sum(d(v, self.codes[r][j]) for r in left) for v in {self.codes[r][j] for r in left}}
            least = min(totals.values())
            code.append(min(v for v, total in totals.items() if total <= least + 1e-9 * len(left)))
        return code, [sum(self.numbers[r][i] for r in left) / len(left) for i in range(len(self.numeric_weights))]

    def farthest(self, left, code, number, own=None):
        def rank(r):
            if own is not None and self.same(r, own):
                return (1.0, self.words[r])
            return (-self.squared(code, number, r), self.words[r])

        return min(left, key=rank)

    def same(self, r, s):
        return list(self.codes[r]) == list(self.codes[s]) and list(self.numbers[r]) == list(self.numbers[s])

    def take(self, left, centre, k):
        def rank(r):
            if self.same(r, centre):
                return (-1.0, self.words[r])
            return (self.squared(self.codes[centre], self.numbers[centre], r), self.words[r])

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
            first = self.farthest(left, *self.mean(left))
            groups.append(self.take(left, first, k))
            second = self.farthest(left, self.codes[first], self.numbers[first], own=first)
            groups.append(self.take(left, second, k))
        if self.count(left) >= 2 * k:
            groups.append(self.take(left, self.farthest(left, *self.mean(left)), k))
        return {*groups, frozenset(left)}


@st.composite
def problems(draw):
    """Numbers repeat, at regular or irregular places, so that many distances are equal."""
    tau = draw(taxonomies())
    n, k = draw(st.integers(4, 40)), draw(st.integers(2, 4))
    p, q = draw(st.sampled_from([(1, 0), (2, 0), (1, 1), (0, 2), (2, 1)]))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    codes = rng.integers(0, min(len(tau), 12), (n, p)).astype(np.int32)
    places = draw(st.sampled_from([np.arange(9.0), np.arange(9.0) / 10, rng.normal(0, 5, 9)]))
    numbers = places[rng.integers(0, 9, (n, q))]
    words = rng.permutation(n).astype(np.uint64)
    return tau, k, codes, numbers, words, rng.random(p) + 0.5, rng.random(q) + 0.5


@given(problems(), st.booleans(), st.none() | st.integers(1, 30))
def test_groups_equal_those_of_literal_mdav(problem, semantic, people):
    """``people``: the number of different units, to which records belong at random; None: every record is a unit."""
    tau, k, codes, numbers, words, weights, numeric_weights = problem
    d = LogTaxonomic(tau)
    matrix = d.matrix(np.arange(len(tau), dtype=np.int32))

    def measure(a, b):
        return matrix[a, b] if semantic else float(a != b)

    values = [NominalValues(codes[:, j].copy(), d, semantic) for j in range(codes.shape[1])]
    units = None if people is None else np.random.default_rng(people).integers(0, people, len(codes))
    members, offsets = ComparableRecords(values, weights, numbers, numeric_weights, words, units).groups(k)
    units = list(range(len(codes))) if units is None else units.tolist()
    found = {frozenset(members[a:b].tolist()) for a, b in pairwise(offsets)}
    literal = LiteralMdav(
        codes.tolist(),
        with_exact_sums(numbers).tolist(),
        [measure] * codes.shape[1],
        weights,
        numeric_weights,
        words.tolist(),
        units,
    )
    assert found == literal.groups(k)
    sizes = np.array([len({units[r] for r in group}) for group in found])
    assert sum(map(len, found)) == len(codes)
    assert sizes.max() < 2 * k or people
    assert len(set(units)) < k or sizes.min() >= k


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32), min_size=1, max_size=30), st.randoms())
def test_sums_do_not_depend_on_their_order(numbers, random):
    column = with_exact_sums(np.array(numbers)[:, None])
    assert column[:, 0] == pytest.approx(np.array(numbers), rel=1e-6, abs=1e-9 * np.abs(numbers).max())
    exact = sum(map(Fraction, column[:, 0].tolist()))
    rows = column.tolist()
    random.shuffle(rows)
    assert sum(row[0] for row in rows) == exact


def mechanism(tau, **parameters):
    numeric = {"x": Numeric(minimum=0, maximum=60, integer=True), "y": Numeric()}
    return Microaggregation({"a": tau, "b": tau}, numeric=numeric, seed=b"seed............", **{"k": 3} | parameters)


@given(taxonomies(), st.integers(0, 1000), st.sampled_from(["semantic", "classic"]), st.booleans())
def test_values_are_group_means_or_within_the_radius(tau, seed, variant, hybrid):
    """Algorithm 1, and equation 3 or the mode, on the groups that the masked records reveal."""
    rng = np.random.default_rng(seed)
    n = 40
    codes = rng.integers(0, min(len(tau), 9), (n, 2)).astype(np.int32)
    numbers = np.column_stack((rng.integers(0, 61, n), rng.normal(0, 5, n)))
    made = mechanism(tau, variant=variant, hybrid=hybrid)
    batch = Batch(n, tuple(Column(codes[:, j].copy()) for j in range(2)), numeric=numbers)
    made._window.add(batch)
    made.calibrate()
    keys = PositionKeys(b"seed", "t", 0, np.arange(n))
    masked = made.mask_batch(batch, keys)
    plain = mechanism(tau, variant=variant)
    plain.restore(made.snapshot())
    groups = _groups(plain, batch, keys)
    d = LogTaxonomic(tau)
    for j in range(2):
        _check_values(codes[:, j], masked.columns[j].codes, groups, d if variant == "semantic" else None, hybrid)
    for i, integer in enumerate((True, False)):
        _check_numbers(numbers[:, i], masked.numeric[:, i], groups, hybrid, integer)


def _groups(made, batch, keys):
    """The groups of equal masked records without the hybrid step; groups with equal masks are merged."""
    masked = made.mask_batch(batch, keys)
    rows = np.column_stack([column.codes for column in masked.columns] + [masked.numeric])
    _, which = np.unique(rows, axis=0, return_inverse=True)
    return [np.flatnonzero(which.reshape(-1) == g) for g in range(which.max() + 1)]


def _distance(d, a, b):
    return float(a != b) if d is None else d.pairs(np.array([a]), np.array([b]))[0]


def _check_values(before, after, groups, d, hybrid):
    for group in groups:
        values = before[group]
        if hybrid:
            for r in group:
                radius = max(_distance(d, before[r], v) for v in values)
                assert _distance(d, before[r], after[r]) <= radius
                assert after[r] in before
        elif len(group) < 6:
            totals = {v: sum(_distance(d, v, w) for w in values) for v in values.tolist()}
            assert totals[int(after[group[0]])] == pytest.approx(min(totals.values()))


def _check_numbers(before, after, groups, hybrid, integer):
    for group in groups:
        if hybrid:
            radius = max(before[group].max() - before[group].min(), 0)
            assert (abs(after[group] - before[group]) <= radius + 1e-9).all()
            assert not integer or (after[group] == np.rint(after[group])).all()
        elif len(group) < 6:
            assert abs(after[group[0]] - before[group].mean()) <= (0.5 if integer else 1e-9)
