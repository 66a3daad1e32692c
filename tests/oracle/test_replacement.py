"""Replacements against the literal algorithms 1 to 3 of 2017, which examine every concept."""

from __future__ import annotations

from collections import Counter
from functools import cache, partial
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare
from support.core_parts import SIGN_DROPPED, TRUNCATED, Candidates, DistanceTable, Replacer
from support.data import icd9cm
from support.graphs import dags, to_all, trees
from support.large import TAXONOMIES, snomed_shaped

from stream_masker import LogTaxonomic, WuPalmer

TOP = 1 << 64
RULES = [
    (rounding, some)
    for some in ("all", "leaves", "observed")
    for rounding in ("ceil", "calibrated")
    if (rounding, some) != ("ceil", "observed")
]
rules = pytest.mark.parametrize(("rounding", "candidates"), RULES)
measures = pytest.mark.parametrize("measure", [WuPalmer, LogTaxonomic])


class Outcome(NamedTuple):
    """The replacements that the rule allows: with probability ``p`` one of ``high``, otherwise one of ``low``."""

    high: tuple[float, frozenset[int]]
    low: tuple[float, frozenset[int]]
    p: float
    flags: int


class Values(NamedTuple):
    """Values to replace, as the arguments of ``Replacer.replace``."""

    codes: np.ndarray
    references: np.ndarray
    noise: np.ndarray
    rounding: np.ndarray
    ties: np.ndarray

    def part(self, some):
        return Values(*(each[some] for each in self))


def literal(row, beside, a, r, noise, weights, rounding, *, weak) -> Outcome:
    """``row``, ``beside``: the distances of every concept from the value a and from its reference r; ``weights``: (m,),
    0 for no candidate; ``weak``: whether candidates as far from the reference as the value are admissible."""
    kept = 0.0, frozenset([a])
    others = [c for c in np.flatnonzero(weights).tolist() if c != a]
    if noise == 0 or not others:
        return Outcome(kept, kept, 1.0, 0 if noise == 0 else TRUNCATED)
    free = r < 0 or r == a
    admissible = [c for c in others if free or meets(beside, c, a, noise) or (weak and beside[c] == beside[a])]
    flags = 0 if admissible else SIGN_DROPPED
    free, admissible = free or not admissible, admissible or others

    def level(distance):
        """The candidates that are drawn at an admissible distance."""
        there = [c for c in admissible if row[c] == distance]
        return distance, frozenset([c for c in there if free or meets(beside, c, a, noise)] or there)

    far = [row[c] for c in admissible if row[c] >= abs(noise)]
    near = [row[c] for c in admissible if row[c] < abs(noise)]
    if not far:
        return Outcome(level(max(near)), level(max(near)), 1.0, flags | TRUNCATED)
    hi, lo = min(far), max(near, default=0.0)
    if rounding == "ceil" or not (near or weights[a]):
        return Outcome(level(hi), level(hi), 1.0, flags)
    return Outcome(level(hi), level(lo) if near else kept, (noise**2 - lo**2) / (hi**2 - lo**2), flags)


def meets(beside, c, a, noise) -> bool:
    return beside[c] > beside[a] if noise > 0 else beside[c] < beside[a]


def made(d, anchors, rounding, candidates, rng) -> Replacer:
    """A replacer on a table with these anchors, which are the observed candidates, too."""
    table = DistanceTable.build(d, anchors)
    observed = np.unique(anchors).astype(np.int32)
    some = (
        Candidates.of_window(len(d.taxonomy), observed, rng.integers(1, 50, observed.size))
        if candidates == "observed"
        else Candidates.of(d.taxonomy, candidates)
    )
    return Replacer(table, some, calibrated=rounding == "calibrated")


def some_values(d, positions, rng, size) -> Values:
    """Values and references among positions, some of them absent, near and far; noise that is often a distance."""
    pool = np.append(positions, -1)
    codes, references = rng.choice(pool, (2, size)).astype(np.int32)
    there = np.flatnonzero((codes >= 0) & (references >= 0))[::3]
    noise = rng.normal(0, 0.35, size)
    noise[there] = d.pairs(codes[there], rng.permutation(codes[there])) * rng.choice([-1, 1], there.size)
    return Values(codes, references, noise, *rng.integers(0, TOP, (2, size), dtype=np.uint64))


def check(replacer, values, rounding):
    """Every draw is in the set of the literal rule."""
    d, result = replacer.table.distance, replacer.replace(*values)
    of = cache(partial(to_all, d))
    for i, (a, r, noise, word, _) in enumerate(zip(*(each.tolist() for each in values), strict=True)):
        if a < 0:
            assert (result.codes[i], result.distances[i], result.flags[i]) == (a, 0.0, 0)
            continue
        weights = replacer.candidates.weights
        outcome = literal(of(a), of(max(r, 0)), a, r, noise, weights, rounding, weak=replacer.weak)
        distance, candidates = outcome.high if (word >> 11) * 2.0**-53 < outcome.p else outcome.low
        assert (result.distances[i], result.flags[i]) == (distance, outcome.flags)
        assert result.codes[i] in candidates


@measures
@rules
@given(data=st.data())
def test_every_replacement_in_small_taxonomies(measure, rounding, candidates, data):
    d = measure(data.draw(trees(least=2, most=14) | dags(least=2, most=14)))
    anchors = data.draw(st.sets(st.integers(0, len(d.taxonomy) - 1), min_size=1))
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 32)))
    replacer = made(d, np.array(sorted(anchors)), rounding, candidates, rng)
    check(replacer, some_values(d, replacer.table.anchors, rng, 60), rounding)


@rules
@pytest.mark.parametrize("name", TAXONOMIES)
def test_replacements_in_large_taxonomies(rounding, candidates, name):
    d, rng = WuPalmer(TAXONOMIES[name]()), np.random.default_rng(7)
    anchors = rng.choice(len(d.taxonomy), 400, replace=False)
    replacer = made(d, anchors, rounding, candidates, rng)
    check(replacer, some_values(d, replacer.table.anchors, rng, 70), rounding)


@rules
def test_candidates_of_a_level_are_drawn_by_their_weight(rounding, candidates):
    """χ² of 20,000 draws for each of some values, in a tree and in a graph."""
    rng = np.random.default_rng(11)
    for tau in (icd9cm().taxonomy(), snomed_shaped(3_000)):
        d = WuPalmer(tau)
        replacer = made(d, rng.choice(len(tau), 300, replace=False), rounding, candidates, rng)
        several = some_values(d, replacer.table.anchors[5:], rng, 60)
        tested = 0
        for one in np.flatnonzero(replacer.replace(*several).distances)[:12].tolist():
            values = several.part(np.array([one]))
            repeated = values.part(np.zeros(20_000, np.int64))._replace(
                ties=rng.integers(0, TOP, 20_000, dtype=np.uint64)
            )
            result = replacer.replace(*repeated)
            a, r = int(values.codes[0]), int(values.references[0])
            outcome = literal(
                to_all(d, a),
                to_all(d, max(r, 0)),
                a,
                r,
                values.noise[0],
                replacer.candidates.weights,
                rounding,
                weak=replacer.weak,
            )
            (some,) = {level[1] for level in outcome[:2] if level[0] == result.distances[0]}
            tested += len(some) > 1
            expected = replacer.candidates.weights[sorted(some)].astype(float)
            counted = Counter(result.codes.tolist())
            drawn = np.array([counted[c] for c in sorted(some)])
            groups = np.minimum(np.cumsum(expected / expected.sum() * 40).astype(int), 39)
            drawn, expected = (np.bincount(groups, each)[np.unique(groups)] for each in (drawn, expected))
            assert drawn.sum() == 20_000
            assert drawn.size == 1 or chisquare(drawn, expected / expected.sum() * 20_000).pvalue > 1e-5, one
        assert tested >= 3


@rules
def test_a_value_does_not_depend_on_its_batch_nor_on_the_memory(rounding, candidates, monkeypatch):
    """Neither do values and references that are no anchors."""
    d, rng = WuPalmer(snomed_shaped(3_000)), np.random.default_rng(3)
    anchors = rng.choice(3_000, 150, replace=False)
    replacer = made(d, anchors, rounding, candidates, np.random.default_rng(4))
    monkeypatch.setattr("stream_masker.core.table.UNSEEN_BYTES", 1)
    small = made(d, anchors, rounding, candidates, np.random.default_rng(4))
    values = some_values(d, np.arange(3_000), rng, 6_000)
    whole = replacer.replace(*values)
    parts = np.array_split(np.arange(6_000), [1, 2, 50, 3_000])
    for other in (small, replacer):
        pieces = [other.replace(*values.part(part)) for part in parts]
        for k in range(3):
            np.testing.assert_array_equal(whole[k], np.concatenate([piece[k] for piece in pieces]))


def test_a_value_that_is_no_anchor_is_replaced_by_observed_concepts_by_the_rule():
    d, rng = WuPalmer(snomed_shaped(3_000)), np.random.default_rng(6)
    replacer = made(d, rng.choice(3_000, 300, replace=False), "calibrated", "observed", rng)
    values, table = some_values(d, np.arange(3_000), rng, 300), replacer.table
    last_of_class = table.members[table.starts[table.class_of[values.codes] + 1] - 1]
    for references in (values.references, last_of_class):
        check(replacer, values._replace(references=references), "calibrated")
