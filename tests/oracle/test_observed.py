"""Replacements by concepts in use against their literal twin: the rule over every candidate, drawn by frequency.

The engine equals the twin draw by draw.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.data import discharges, icd9cm
from support.graphs import dags, trees

from stream_masker.core.distance import LogTaxonomic, WuPalmer
from stream_masker.core.ontology import ConceptMap
from stream_masker.core.replacement.rows.draw import ATTEMPTS
from stream_masker.core.replacement.rows.engine import MAX_FREQUENCY, ConceptFrequencies, RowReplacer
from stream_masker.core.replacement.rule import NO_REFERENCE, ROUNDINGS, SIGN_DROPPED, TRUNCATED, ReplacementTask
from stream_masker.errors import ParameterError

both = pytest.mark.parametrize("rounding", ROUNDINGS)


class Level(NamedTuple):
    """The level that a value takes: its candidates, those of them that may be drawn, and the flags."""

    distance: float
    candidates: list[int]
    admissible: list[int]
    flags: int


def level_of(sd, weights, a, r, noise, rounding, level_word) -> Level:
    """The level by the rule. ``sd``: the whole distance matrix; ``weights``: by candidate."""
    if a < 0 or noise == 0:
        return Level(0.0, [], [], 0)
    others = sorted((c for c in weights if c != a), key=lambda c: (sd[a, c], c))
    if not others:
        return Level(0.0, [], [], TRUNCATED)
    free = r < 0 or r == a
    weak = rounding == "calibrated"
    admissible = [c for c in others if free or meets_sign(sd, c, a, r, noise) or (weak and sd[c, r] == sd[a, r])]
    flags = 0 if admissible else SIGN_DROPPED
    admissible = admissible or others
    levels = sorted({sd[a, c] for c in admissible})
    above = [level for level in levels if level >= abs(noise)]
    below = [level for level in levels if level < abs(noise)]
    if not above:
        level, flags = below[-1], flags | TRUNCATED
    else:
        level = above[0]
        if rounding == "calibrated" and (below or a in weights):
            lo = below[-1] if below else 0.0
            p = (noise * noise - lo * lo) / (level * level - lo * lo)
            level = level if (int(level_word) >> 11) * 2.0**-53 < p else lo
    if level == 0.0:
        return Level(0.0, [], [], flags)
    level_candidates = [c for c in others if sd[a, c] == level]
    weakly = [c for c in level_candidates if c in admissible]
    strict = [c for c in weakly if free or meets_sign(sd, c, a, r, noise)]
    return Level(level, level_candidates, strict or weakly, flags)


def literal(sd, weights, a, r, noise, rounding, level_word, tie):
    """(code, distance, flags) by the rule, with the draws of the engine with rows."""
    level = level_of(sd, weights, a, r, noise, rounding, level_word)
    if not level.candidates:
        return a, 0.0, level.flags
    for _ in range(ATTEMPTS):
        chosen = drawn(level.candidates, weights, tie)
        if chosen in level.admissible:
            return chosen, level.distance, level.flags
        tie = splitmix(tie)
    return drawn(level.admissible, weights, tie), level.distance, level.flags


def drawn(candidates, weights, word):
    """The candidate in whose part of the sum of the weights the word lies."""
    rest = (int(word) >> 32) * sum(weights[c] for c in candidates) >> 32
    for c in candidates:
        rest -= weights[c]
        if rest < 0:
            return c
    raise AssertionError("the draw is below the sum of the weights")


def splitmix(word) -> int:
    """The next output of SplitMix64 (Steele, Lea and Flood 2014), with the word as its state."""
    z = (int(word) + 0x9E3779B97F4A7C15) % (1 << 64)
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % (1 << 64)
    z = (z ^ z >> 27) * 0x94D049BB133111EB % (1 << 64)
    return z ^ z >> 31


def meets_sign(sd, c, a, r, noise) -> bool:
    return sd[c, r] > sd[a, r] if noise > 0 else sd[c, r] < sd[a, r]


def random_task(generator, size, positions, sd) -> ReplacementTask:
    """Values and references among positions, some absent; noise that is often exactly a distance."""
    choice = generator.choice
    noise = np.where(generator.random(size) < 0.3, choice(sd.reshape(-1), size), generator.normal(0, 0.4, size))
    words = generator.integers(0, 1 << 64, (2, size), dtype=np.uint64)
    return ReplacementTask(
        choice(np.append(positions, -1), size).astype(np.int32),
        choice(np.append(positions, NO_REFERENCE), size).astype(np.int32),
        noise * choice([1, 1, -1], size),
        *words,
    )


def check(replacer, d, frequencies, task, sd, rounding):
    weights = dict(zip(frequencies.positions.tolist(), frequencies.weights.tolist(), strict=True))
    result = replacer.replace(task)
    for i, row in enumerate(zip(task.codes, task.references, task.noise, strict=True)):
        expected = literal(sd, weights, *row, rounding, task.rounding[i], task.ties[i])
        assert (result.codes[i], result.distances[i], result.flags[i]) == expected


@both
@pytest.mark.parametrize("graphs", [trees, dags])
@pytest.mark.parametrize("measure", [WuPalmer, LogTaxonomic])
@given(data=st.data())
def test_every_replacement(measure, graphs, rounding, data):
    d = measure(data.draw(graphs(least=2, most=14)))
    size = len(d.taxonomy)
    used = sorted(data.draw(st.sets(st.integers(0, size - 1), min_size=1)))
    counts = data.draw(st.lists(st.integers(1, 50), min_size=len(used), max_size=len(used)))
    frequencies = ConceptFrequencies(np.array(used, np.int32), np.array(counts, np.int64))
    sd = d.matrix(d.taxonomy.ids)
    generator = np.random.default_rng(data.draw(st.integers(0, 1 << 32)))
    few = data.draw(st.sampled_from([0, 1 << 20]))
    calibrated = rounding == "calibrated"
    replacer = RowReplacer(d, frequencies, calibrated=calibrated, weak=calibrated, rows_bytes=few)
    for _ in range(2):
        check(replacer, d, frequencies, random_task(generator, 60, np.arange(size), sd), sd, rounding)


@both
def test_replacements_of_real_codes(rounding):
    tau = icd9cm().taxonomy()
    d = WuPalmer(tau)
    find = ConceptMap(tau, unknown="ancestor", ontology=icd9cm()).resolve
    codes = np.array([find(row["diag_1"])[0] for row in discharges()[:20_000]], np.int32)
    positions, counts = np.unique(codes[codes >= 0], return_counts=True)
    frequencies = ConceptFrequencies(positions, counts)
    generator = np.random.default_rng(5)
    known = np.unique(np.concatenate([generator.choice(positions, 40), generator.choice(len(tau), 20)]))
    everything = np.unique(np.concatenate([known, positions]))
    matrix = d.matrix(everything.astype(np.int32))
    sd = _Matrix(matrix, {int(c): i for i, c in enumerate(everything)})
    replacer = RowReplacer(d, frequencies, calibrated=rounding == "calibrated", weak=rounding == "calibrated")
    check(replacer, d, frequencies, random_task(generator, 400, known, matrix), sd, rounding)


class _Matrix:
    """A distance matrix of some positions, by position."""

    def __init__(self, matrix, index):
        self.matrix, self.index = matrix, index

    def __getitem__(self, pair):
        return self.matrix[self.index[int(pair[0])], self.index[int(pair[1])]]


def test_rows_are_bounded_and_results_do_not_depend_on_the_bound():
    tau = icd9cm().taxonomy()
    d = WuPalmer(tau)
    generator = np.random.default_rng(6)
    positions = np.unique(generator.integers(0, len(tau), 300)).astype(np.int32)
    frequencies = ConceptFrequencies(positions, generator.integers(1, 90, positions.size))
    task = random_task(generator, 3_000, np.arange(len(tau)), d.matrix(positions))
    small, large = (RowReplacer(d, frequencies, calibrated=True, weak=True, rows_bytes=n) for n in (60_000, 1 << 27))
    few, many = small.replace(task), large.replace(task)
    tables = (small._rows.order, small._rows.cumulative, small._levels.members, small._levels.beyond)
    assert sum(table.nbytes for table in tables) <= 60_000
    assert len(small._rows.order) > 60_000 // (28 * positions.size)
    for name in ("codes", "distances", "flags"):
        np.testing.assert_array_equal(getattr(few, name), getattr(many, name))


def test_large_counts_are_scaled():
    frequencies = ConceptFrequencies(np.arange(3, dtype=np.int32), np.array([1, 10**12, 3 * 10**12]))
    assert frequencies.weights.sum() <= MAX_FREQUENCY
    np.testing.assert_allclose(frequencies.weights / MAX_FREQUENCY, [0, 0.25, 0.75], atol=1e-8)
    assert frequencies.weights[0] == 1


@pytest.mark.parametrize(
    ("positions", "counts"), [([], []), ([1, 1], [1, 1]), ([2, 1], [1, 1]), ([-1], [1]), ([1], [0]), ([1], [1, 2])]
)
def test_other_frequencies_are_rejected(positions, counts):
    with pytest.raises(ParameterError, match="frequenc"):
        ConceptFrequencies(np.array(positions, np.int32), np.array(counts, np.int64))


def test_concepts_outside_the_taxonomy_are_rejected():
    d = WuPalmer(icd9cm().taxonomy())
    with pytest.raises(ParameterError, match="outside the taxonomy"):
        RowReplacer(d, ConceptFrequencies(np.array([1 << 20], np.int32), np.array([1])), calibrated=True, weak=True)
