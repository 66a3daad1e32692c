"""Replacements: uniform ties, E[sd²] = ε², boundary cases."""

from __future__ import annotations

import numpy as np
import pytest
from support.graphs import FIGURE_1

from stream_masker.core.distance import Distance, LogTaxonomic, WuPalmer
from stream_masker.core.ontology import Ontology
from stream_masker.core.replacement.dag.engine import DagReplacer
from stream_masker.core.replacement.level_bitsets import MAX_HEIGHT
from stream_masker.core.replacement.rows.engine import RowReplacer, equal_frequencies
from stream_masker.core.replacement.rule import NO_REFERENCE, TRUNCATED, Candidates, ReplacementTask
from stream_masker.core.replacement.select import replacer
from stream_masker.core.replacement.tree_bitset import BitsetTreeReplacer
from stream_masker.errors import ParameterError

WIDE = Ontology.from_edges(
    [(f"b{i}", "root") for i in range(3)] + [(f"l{i}{j}", f"b{i}") for i in range(3) for j in range(4)]
).taxonomy()
TWO_PARENTS = Ontology.from_edges([("a", "root"), ("b", "root"), ("c", "a"), ("c", "b"), ("d", "b")]).taxonomy()


def by_rows(distance, *, candidates, calibrated):
    """The engine for any distance, with equal frequencies."""
    frequencies = equal_frequencies(Candidates.of(distance.taxonomy, candidates))
    return RowReplacer(distance, frequencies, calibrated=calibrated, weak=False)


KINDS = pytest.mark.parametrize("kind", [BitsetTreeReplacer, DagReplacer, by_rows])


def chain(height):
    """A tree that is a single path."""
    return Ontology.from_edges([(f"c{k + 1}", f"c{k}") for k in range(height - 1)]).taxonomy()


def task(tau, value, reference, noise, seed=0) -> ReplacementTask:
    """A task with one row for each noise, all of the same value."""
    rng = np.random.default_rng(seed)
    size = len(noise)
    r = NO_REFERENCE if reference is None else tau.position(reference)
    words = rng.integers(0, 1 << 64, (2, size), dtype=np.uint64)
    codes = np.full(size, tau.position(value), np.int32)
    return ReplacementTask(codes, np.full(size, r, np.int32), np.asarray(noise, np.float64), words[0], words[1])


def named(tau, result):
    return {tau.ids[c] for c in result.codes}


@KINDS
def test_ties_are_drawn_uniformly(kind):
    """Chi-square of 20,000 draws among the eight leaves of the other branches; 99.99% quantile of 7 degrees."""
    n = 20_000
    result = kind(WuPalmer(WIDE), candidates="leaves", calibrated=False).replace(task(WIDE, "l00", None, [0.6] * n))
    found, counts = np.unique(result.codes, return_counts=True)
    assert {WIDE.ids[c] for c in found} == {f"l{i}{j}" for i in (1, 2) for j in range(4)}
    assert ((counts - n / 8) ** 2 / (n / 8)).sum() < 29.9


@pytest.mark.parametrize(
    ("kind", "measure"),
    [(kind, measure) for kind in (BitsetTreeReplacer, by_rows) for measure in (WuPalmer, LogTaxonomic)]
    + [(DagReplacer, WuPalmer)],
)
@pytest.mark.parametrize("candidates", ["all", "leaves"])
@pytest.mark.parametrize("reference", [None, "root", "b0", "l21"])
@pytest.mark.parametrize("magnitude", [0.05, 0.3, 0.45])
def test_calibrated_rounding_matches_the_noise_on_average(kind, measure, candidates, reference, magnitude):
    n = 40_000
    signs = np.where(np.arange(n) % 2, 1, -1)
    chosen = kind(measure(WIDE), candidates=candidates, calibrated=True)
    result = chosen.replace(task(WIDE, "l00", reference, magnitude * signs))
    for sign in (1, -1):
        rows = (signs == sign) & ~(result.flags & TRUNCATED).astype(bool)
        if rows.any():
            squared = result.distances[rows] ** 2
            assert abs(squared.mean() - magnitude**2) <= 5 * squared.std() / np.sqrt(rows.sum()) + 1e-12


@KINDS
@pytest.mark.parametrize("calibrated", [True, False])
def test_values_without_noise_and_absent_values_stay(kind, calibrated):
    chosen = kind(WuPalmer(WIDE), candidates="leaves", calibrated=calibrated)
    kept = chosen.replace(task(WIDE, "b1", "root", [0.0, -0.0]))
    assert named(WIDE, kept) == {"b1"}
    assert not kept.flags.any()
    absent = task(WIDE, "b1", "root", [0.5, -0.5])
    absent.codes[:] = -1
    assert chosen.replace(absent).codes.tolist() == [-1, -1]
    assert chosen.replace(absent).distortion(absent).values == 0


def test_gingivitis_becomes_gastritis_in_figure_1_of_2017():
    """The distance of gingivitis and gastritis is 1/7 (2017: section 4.2), the least among the leaves."""
    tau = Ontology.from_edges(FIGURE_1).taxonomy()
    result = replacer(WuPalmer(tau), rounding="ceil", candidates="leaves").replace(task(tau, "gingivitis", None, [0.1]))
    assert named(tau, result) == {"gastritis"}
    assert result.distances[0] == pytest.approx(1 - 12 / 14)


def test_distortion_sums_the_replacements():
    given = task(WIDE, "l00", "root", [0.3, -0.1, 0.99, 0.0])
    given.codes[1] = -1
    result = replacer(WuPalmer(WIDE)).replace(given)
    distortion = result.distortion(given)
    assert (distortion.values, distortion.truncated, distortion.unsigned) == (3, 1, 2)
    assert distortion.squared_noise == pytest.approx(0.3**2 + 0.99**2)
    assert distortion.squared_distance == pytest.approx((result.distances**2).sum())


class Halved(WuPalmer):
    """A user-defined distance, which ``tree_distance`` does not support."""

    name = "halved"

    def to_all(self, position):
        return super().to_all(position) / 2


@pytest.mark.parametrize(
    ("distance", "expected"),
    [
        (WuPalmer(WIDE), BitsetTreeReplacer),
        (LogTaxonomic(chain(MAX_HEIGHT)), BitsetTreeReplacer),
        (WuPalmer(chain(MAX_HEIGHT + 1)), DagReplacer),
        (LogTaxonomic(chain(MAX_HEIGHT + 1)), RowReplacer),
        (WuPalmer(TWO_PARENTS), DagReplacer),
        (LogTaxonomic(TWO_PARENTS), RowReplacer),
        (Halved(WIDE), RowReplacer),
    ],
    ids=["tree", "levels enough", "high tree", "high tree, logarithmic", "dag", "logarithmic", "own"],
)
def test_the_replacer_suits_the_distance(distance: Distance, expected):
    assert type(replacer(distance)) is expected


@pytest.mark.parametrize(("name", "given"), [("rounding", "floor"), ("candidates", "inner")])
def test_errors_of_unknown_options_name_the_allowed_ones(name, given):
    with pytest.raises(ParameterError, match=rf"{name}='{given}'.*use .* or"):
        replacer(WuPalmer(WIDE), **{name: given})
