"""Replacements against the literal algorithms 1 to 3 of 2017, which examine every concept."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.data import icd9cm
from support.graphs import dags, trees
from support.large import phenotypes, snomed_shaped

from stream_masker.core.distance import Distance, LogTaxonomic, WuPalmer
from stream_masker.core.dtypes import UInt64Array
from stream_masker.core.ontology import Ontology, Taxonomy
from stream_masker.core.replacement.dag.engine import DagReplacer
from stream_masker.core.replacement.dag.index import MEMBER_BLOCK
from stream_masker.core.replacement.level_bitsets import MAX_HEIGHT
from stream_masker.core.replacement.rows.engine import RowReplacer, equal_frequencies
from stream_masker.core.replacement.rule import (
    CANDIDATES,
    NO_REFERENCE,
    ROUNDINGS,
    SIGN_DROPPED,
    TRUNCATED,
    Candidates,
    ReplacementTask,
)
from stream_masker.core.replacement.select import replacer
from stream_masker.core.replacement.tree_bitset import BitsetTreeReplacer

TOP = 1 << 64


class Outcome(NamedTuple):
    """The replacements that the rule allows: with probability ``p`` one of ``high``, otherwise one of ``low``."""

    high: frozenset[int]
    low: frozenset[int]
    p: float
    flags: int


def keep(a: int, flags: int = 0) -> Outcome:
    return Outcome(frozenset([a]), frozenset([a]), 1.0, flags)


def literal(sd, a, r, noise, eligible, rounding) -> Outcome:
    """``sd``: the whole distance matrix; ``eligible``: the candidates; ``r``: the reference, or None."""
    others = [c for c in eligible if c != a]
    if noise == 0:
        return keep(a)
    if not others:
        return keep(a, TRUNCATED)
    admissible = [c for c in others if meets_sign(sd, c, a, r, noise)]
    flags = 0 if admissible else SIGN_DROPPED
    admissible = admissible or others
    far = [c for c in admissible if sd[c, a] >= abs(noise)]
    near = [c for c in admissible if sd[c, a] < abs(noise)]
    if not far:
        most = max(sd[c, a] for c in near)
        farthest = frozenset(c for c in near if sd[c, a] == most)
        return Outcome(farthest, farthest, 1.0, flags | TRUNCATED)
    hi = min(sd[c, a] for c in far)
    high = frozenset(c for c in far if sd[c, a] == hi)
    if rounding == "ceil" or (not near and a not in eligible):
        return Outcome(high, high, 1.0, flags)
    lo = max((sd[c, a] for c in near), default=0.0)
    low = frozenset(c for c in near if sd[c, a] == lo) or frozenset([a])
    return Outcome(high, low, (noise**2 - lo**2) / (hi**2 - lo**2), flags)


def meets_sign(sd, c, a, r, noise) -> bool:
    if r is None or a == r:
        return True
    return sd[c, r] > sd[a, r] if noise > 0 else sd[c, r] < sd[a, r]


@cache
def ties_of(kind, size) -> UInt64Array:
    """Words that select every choice among up to ``size``: a whole range for some choosers, random words for others,
    which miss a choice with probability e^-40."""
    if issubclass(kind, DagReplacer | RowReplacer):
        return np.random.default_rng(size).integers(0, TOP, 40 * size, dtype=np.uint64)
    return np.array([k * TOP // (4 * size) for k in range(4 * size)], np.uint64)


def outcomes(chooser, a, r, noise, size, roundings) -> list[tuple[frozenset[int], set[int]]]:
    """The values and flags over all tie words, for each rounding word."""
    ties = ties_of(type(chooser), size)
    words = np.repeat(np.array(roundings, np.uint64), ties.size)
    codes, references = (np.full(words.size, code, np.int32) for code in (a, NO_REFERENCE if r is None else r))
    task = ReplacementTask(codes, references, np.full(words.size, noise), words, np.tile(ties, len(roundings)))
    result = chooser.replace(task)
    rows = (each.reshape(len(roundings), ties.size).tolist() for each in (result.codes, result.flags))
    return [(frozenset(values), set(flags)) for values, flags in zip(*rows, strict=True)]


def noises(sd) -> st.SearchStrategy[float]:
    """Any noise, often exactly a distance, where ≥ and > differ."""
    magnitude = st.floats(1e-6, 1.3) | st.sampled_from(sorted(set(sd.ravel().tolist()))) | st.just(0.0)
    return st.tuples(magnitude, st.sampled_from((1, -1))).map(lambda pair: pair[0] * pair[1])


def check_all_pairs(chooser, sd, eligible, noise, rounding):
    check_pairs(
        chooser, sd, eligible, noise, rounding, [(a, r) for a in range(len(sd)) for r in (None, *range(len(sd)))]
    )


def check_pairs(chooser, sd, eligible, noise, rounding, pairs):
    for a, r in pairs:
        expected = literal(sd, a, r, noise, eligible, rounding)
        (high, flags), (low, low_flags) = outcomes(chooser, a, r, noise, len(sd), (0, TOP - 1))
        assert high == expected.high
        assert low == (expected.low if expected.p < 1 else expected.high)
        assert flags == low_flags == {expected.flags}


def by_rows(distance, *, candidates, calibrated):
    """The engine for any distance, with equal frequencies."""
    frequencies = equal_frequencies(Candidates.of(distance.taxonomy, candidates))
    return RowReplacer(distance, frequencies, calibrated=calibrated, weak=False)


def eligible_of(tau, candidates):
    return [c for c in range(len(tau)) if candidates == "all" or tau.leaf[c]]


def low_trees(most) -> st.SearchStrategy[Taxonomy]:
    """Trees of few levels, up to as many as ``BitsetTreeReplacer`` takes."""
    return trees(least=2, most=most).filter(lambda tau: tau.depth.max() <= MAX_HEIGHT)


parameters = pytest.mark.parametrize("candidates", CANDIDATES)
both = pytest.mark.parametrize("rounding", ROUNDINGS)
measures = pytest.mark.parametrize("measure", [WuPalmer, LogTaxonomic])


@measures
@both
@parameters
@pytest.mark.parametrize("chooser", [BitsetTreeReplacer, by_rows])
@given(data=st.data())
def test_every_replacement_in_a_tree(measure, rounding, candidates, chooser, data):
    d = measure(data.draw(low_trees(14) if chooser is BitsetTreeReplacer else trees(least=2, most=14)))
    sd = d.matrix(d.taxonomy.ids)
    chosen = chooser(d, candidates=candidates, calibrated=rounding == "calibrated")
    check_all_pairs(chosen, sd, eligible_of(d.taxonomy, candidates), data.draw(noises(sd)), rounding)


@measures
@both
@parameters
@given(data=st.data())
def test_every_replacement_in_a_dag(measure, rounding, candidates, data):
    d = measure(data.draw(dags(least=2, most=14)))
    sd = d.matrix(d.taxonomy.ids)
    chosen = by_rows(d, candidates=candidates, calibrated=rounding == "calibrated")
    check_all_pairs(chosen, sd, eligible_of(d.taxonomy, candidates), data.draw(noises(sd)), rounding)


@both
@parameters
@given(data=st.data())
def test_replacements_that_examine_only_a_part_of_the_taxonomy(rounding, candidates, data):
    d = WuPalmer(data.draw(trees(least=2, most=20) | dags(least=2, most=30)))
    sd = d.matrix(d.taxonomy.ids)
    chosen = DagReplacer(d, candidates=candidates, calibrated=rounding == "calibrated")
    place = st.integers(0, len(sd) - 1)
    pairs = data.draw(st.lists(st.tuples(place, st.none() | place), min_size=5, max_size=5))
    check_pairs(chosen, sd, eligible_of(d.taxonomy, candidates), data.draw(noises(sd)), rounding, pairs)


def through_hubs(seed) -> Taxonomy:
    """A chain of hubs, each with shortcuts up to those above it and with a fan of children, most of which have several
    other hubs above them; and chains that lead from one fan back through hubs of another branch."""
    rng = np.random.default_rng(seed)
    parents: dict[str, list[str]] = {"root": [], "left 0": ["root"], "right 0": ["root"]}
    for i in range(1, 5):
        for side in ("left", "right"):
            above = [f"{side} {h}" for h in range(i)]
            parents[f"{side} {i}"] = [above[-1], *rng.choice(["root", *above[:-1]], 1).tolist()]
    hubs = [concept for concept in parents if concept != "root"]
    for i in range(90):
        parents[f"fan {i}"] = rng.choice(hubs, rng.choice([1, 1, 2, 3, 8]), replace=False).tolist()
    for i in range(8):
        above = f"fan {rng.integers(90)}"
        for link in range(rng.integers(1, 5)):
            parents[f"chain {i} {link}"] = [above, str(rng.choice(hubs))][: 1 + link % 2]
            above = f"chain {i} {link}"
    return Ontology.from_parents(parents).taxonomy()


@both
@parameters
@pytest.mark.parametrize("seed", range(2))
def test_replacements_below_many_hubs(rounding, candidates, seed):
    """Levels have more members than a block, and the sign condition admits few of them."""
    d = WuPalmer(through_hubs(seed))
    sd = d.matrix(d.taxonomy.ids)
    chosen = DagReplacer(d, candidates=candidates, calibrated=rounding == "calibrated")
    eligible = eligible_of(d.taxonomy, candidates)
    rng = np.random.default_rng(seed)
    for level in rng.choice(np.unique(sd)[1:], 12):
        pairs = rng.integers(0, len(sd), (3, 2)).tolist()
        check_pairs(chosen, sd, eligible, float(rng.choice([-1, 1]) * (level - rng.choice([0, 0.01]))), rounding, pairs)
    assert np.diff(chosen._dag.lists.starts).max() > MEMBER_BLOCK


@pytest.mark.parametrize("strategy", [trees(least=3, most=14), dags(least=3, most=14)], ids=["tree", "dag"])
@given(data=st.data())
def test_the_probability_of_the_upper_level(strategy, data):
    """The rounding word selects the upper level with probability p, to within 2⁻⁴⁰."""
    d = WuPalmer(data.draw(strategy))
    sd = d.matrix(d.taxonomy.ids)
    size = len(sd)
    noise = data.draw(noises(sd))
    a, r = data.draw(st.integers(0, size - 1)), data.draw(st.integers(0, size - 1))
    expected = literal(sd, a, r, noise, range(size), "calibrated")
    at = int(expected.p * TOP)
    words = (max(at - (1 << 24), 0), min(at + (1 << 24), TOP - 1))
    (under, _), (over, _) = outcomes(replacer(d), a, r, noise, size, words)
    assert under == expected.high
    if not 1 - 1e-9 < expected.p < 1:
        assert over == (expected.low if expected.p < 1 else expected.high)


@given(tau=trees(least=2, most=14) | dags(least=2, most=14), seed=st.integers(0, 2**32))
def test_a_value_does_not_depend_on_its_batch(tau, seed):
    rng = np.random.default_rng(seed)
    n = 40
    chosen = replacer(WuPalmer(tau))
    rows = [rng.integers(-1, len(tau), (2, n)).astype(np.int32), rng.normal(0, 0.4, n)]
    words = rng.integers(0, TOP, (2, n), dtype=np.uint64)
    task = ReplacementTask(rows[0][0], rows[0][1], rows[1], words[0], words[1])
    whole = chosen.replace(task)
    for i in range(n):
        one = slice(i, i + 1)
        alone = chosen.replace(
            ReplacementTask(task.codes[one], task.references[one], task.noise[one], task.rounding[one], task.ties[one])
        )
        assert (alone.codes[0], alone.distances[0], alone.flags[0]) == (
            whole.codes[i],
            whole.distances[i],
            whole.flags[i],
        )


@both
@parameters
@pytest.mark.parametrize("name", ["hpo", "made up"])
def test_levels_agree_in_graphs_of_thousands(rounding, candidates, name):
    """Distances and flags equal the literal ones; each value drawn has that distance and is admissible."""
    d = WuPalmer(phenotypes() if name == "hpo" else snomed_shaped(3_000))
    task = many_values(d, 1_000)
    kinds = (DagReplacer, by_rows)
    fast, literally = (
        kind(d, candidates=candidates, calibrated=rounding == "calibrated").replace(task) for kind in kinds
    )
    np.testing.assert_array_equal(fast.distances, literally.distances)
    np.testing.assert_array_equal(fast.flags, literally.flags)
    np.testing.assert_array_equal(fast.distances, d.pairs(task.codes, fast.codes))
    signed = (task.references != NO_REFERENCE) & (task.references != task.codes) & (fast.codes != task.codes)
    signed &= (fast.flags & SIGN_DROPPED) == 0
    own, new = (d.pairs(codes[signed], task.references[signed]) for codes in (task.codes, fast.codes))
    assert signed.sum() > 250
    assert np.where(task.noise[signed] > 0, new > own, new < own).all()
    if candidates == "leaves":
        assert d.taxonomy.leaf[fast.codes[fast.codes != task.codes]].all()


def many_values(d: Distance, size: int, *, seed: int = 11) -> ReplacementTask:
    """Frequent values, near and far references, and noise that is often exactly a distance."""
    rng = np.random.default_rng(seed)
    codes = rng.choice(rng.integers(0, len(d.taxonomy), size // 8), size).astype(np.int32)
    references = rng.choice(rng.integers(0, len(d.taxonomy), size // 8), size).astype(np.int32)
    references[::3] = np.clip(codes[::3] + rng.integers(-20, 20, codes[::3].size), -1, len(d.taxonomy) - 1)
    noise = rng.normal(0, 0.3, size)
    noise[::5] = np.sign(noise[::5]) * d.pairs(codes[::5], rng.permutation(codes)[::5])
    return ReplacementTask(codes, references, noise, *rng.integers(0, TOP, (2, size), dtype=np.uint64))


@measures
@both
@parameters
def test_trees_and_levels_agree_on_a_real_tree(measure, rounding, candidates):
    """Distances and flags are equal on ICD-9-CM for any choice among ties."""
    d = measure(icd9cm().taxonomy())
    rng = np.random.default_rng(7)
    n = 300
    codes, references = rng.choice(rng.integers(0, len(d.taxonomy), 40), (2, n)).astype(np.int32)
    words = rng.integers(0, TOP, (2, n), dtype=np.uint64)
    task = ReplacementTask(codes, references, rng.normal(0, 0.3, n), words[0], words[1])
    calibrated = rounding == "calibrated"
    fast, literally = (
        kind(d, candidates=candidates, calibrated=calibrated).replace(task) for kind in (BitsetTreeReplacer, by_rows)
    )
    np.testing.assert_array_equal(fast.distances, literally.distances)
    np.testing.assert_array_equal(fast.flags, literally.flags)
    np.testing.assert_array_equal(fast.distances, d.pairs(codes, fast.codes))
    np.testing.assert_array_equal(literally.distances, d.pairs(codes, literally.codes))
